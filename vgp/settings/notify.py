"""Who is told of runs, as pipelines.toml declares it: people at a run's end, an MLflow server of its trainings.

[notify]
email = ["ml-team@example.com"]
webhook = "projects/my-project/secrets/runs-webhook"

[mlflow]
tracking_uri = "https://mlflow.example.com"
experiment = "delays"
token = "projects/my-project/secrets/mlflow-token"
"""

import re
from typing import Annotated
from urllib.parse import urlsplit

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, model_validator

from vgp.base import webhook as sending
from vgp.settings.value_rules import optional

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


def tracking_uri(value: str) -> str:
    try:
        parts = urlsplit(value)
        host, _ = parts.hostname, parts.port
    except ValueError:
        host = None
    if not host or parts.scheme not in ("https", "http") or not value.isprintable() or " " in value:
        raise ValueError("no address of a server. Write https://HOST, or http://HOST:PORT where no token is needed.")
    if parts.username or parts.password:
        raise ValueError("the address must not hold a user or password. Keep a token in Secret Manager: mlflow.token.")
    return value.rstrip("/")


def mlflow_experiment(value: str) -> str:
    if not value.isprintable() or len(value) > 250:
        raise ValueError("no experiment's name: at most 250 characters that can be printed.")
    return value


def token(value: str) -> str:
    if not sending.is_secret_name(value):
        raise ValueError(
            "no secret's name, and a token must not stand here. Write projects/PROJECT/secrets/NAME, with /versions/N "
            "or without."
        )
    return value


TrackingUri = Annotated[str | None, *optional(tracking_uri)]
Experiment = Annotated[str | None, *optional(mlflow_experiment)]
Token = Annotated[str | None, *optional(token)]


class Mlflow(BaseModel):
    """Which server is told; by default none."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    #: https://HOST, or http://HOST:PORT where no token is needed.
    tracking_uri: TrackingUri = None
    #: The experiment that runs are listed under.
    experiment: Experiment = None
    #: projects/PROJECT/secrets/NAME, with /versions/N or without.
    token: Token = None

    @model_validator(mode="after")
    def _fits(self) -> "Mlflow":
        if not self.tracking_uri and (self.token or self.experiment):
            raise ValueError("without tracking_uri nothing is told. Add it, or take the others away.")
        if self.token and (self.tracking_uri or "").startswith("http://"):
            raise ValueError("http:// would send the token for everybody to read. Write https://HOST.")
        return self

    def environment(self) -> dict[str, str]:
        """What the steps that tell it find: vgp/train/mlflow_server.py, and MLflow's own clients."""
        values = {
            "MLFLOW_TRACKING_URI": self.tracking_uri, "MLFLOW_EXPERIMENT_NAME": self.experiment,
            "MLFLOW_TRACKING_TOKEN_SECRET": self.token,
        }  # fmt: skip
        return {name: value for name, value in values.items() if value}
