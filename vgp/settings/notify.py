"""Who is told of a run's end, as pipelines.toml declares it.

[notify]
email = ["ml-team@example.com"]
webhook = "projects/my-project/secrets/runs-webhook"
"""

import re
from typing import Annotated

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict

from vgp.base import webhook as sending
from vgp.settings.rules import optional

#: "at most three": https://cloud.google.com/vertex-ai/docs/pipelines/email-notifications
MAX_EMAILS = 3
_EMAIL = re.compile(r"[a-z0-9.!#$%&'*+/=?^_`{|}~-]{1,64}@(?:[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?\.)+[a-z]{2,63}", re.I)


def email(value: str) -> str:
    if not value.isascii() or not _EMAIL.fullmatch(value):
        raise ValueError(f"'{value}' is no e-mail address. Write NAME@HOST.")
    return value


def emails(value: tuple[str, ...]) -> tuple[str, ...]:
    unique = tuple(dict.fromkeys(value))
    if len(unique) > MAX_EMAILS:
        raise ValueError(f"{len(unique)} addresses; Vertex AI takes at most {MAX_EMAILS}. Name a mailing list.")
    return unique


def webhook(value: str) -> str:
    """An address, which stands in the spec for everyone to read, or the name under which Secret Manager has it."""
    if value.startswith("projects/"):
        if not sending.is_secret_name(value):
            raise ValueError(
                f"'{value}' is no secret. Write projects/PROJECT/secrets/NAME, with /versions/N or without."
            )
        return value
    try:
        return sending.checked(value)
    except sending.Refused as error:
        raise ValueError(f"the address {error}") from None


def _parted(value: object) -> object:
    """A variable holds addresses separated by commas."""
    return [part.strip() for part in value.split(",") if part.strip()] if isinstance(value, str) else value


Emails = Annotated[tuple[Annotated[str, AfterValidator(email)], ...], AfterValidator(emails), BeforeValidator(_parted)]
Webhook = Annotated[str | None, *optional(webhook)]


class Notify(BaseModel):
    """Who is told; by default nobody, and every run writes its summary all the same."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    #: Addresses that Vertex AI writes to.
    email: Emails = ()
    #: https://HOST/PATH, or projects/PROJECT/secrets/NAME, with /versions/N or without.
    webhook: Webhook = None

    def warnings(self) -> list[str]:
        """A line if the address is likely to be as good as a password: it stands in specs and in the repository."""
        if not self.webhook or sending.is_secret_name(self.webhook) or not sending.may_hold_a_secret(self.webhook):
            return []
        fix = 'Keep it in Secret Manager: webhook = "projects/PROJECT/secrets/NAME"; docs/notifications.md.'
        return [f"warning: notify.webhook: who knows this address may post there, and it stands in every spec. {fix}"]
