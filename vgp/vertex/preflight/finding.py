"""What preflight says of one thing, and the question whose answer it is."""

from collections.abc import Callable, Iterable
from dataclasses import asdict, dataclass
from typing import Literal

#: ok; warning: works, or may; error: would fail; unknown: could not be looked at; skipped: there is nothing to look at.
Level = Literal["ok", "warning", "error", "unknown", "skipped"]


@dataclass(frozen=True)
class Finding:
    """One thing that was looked at."""

    #: What was asked, like bucket.region: stable, for scripts.
    check: str
    #: The thing itself, like gs://my-bucket.
    subject: str
    level: Level
    #: What was seen.
    seen: str
    #: The command or the link that changes it.
    hint: str = ""

    def as_json(self) -> dict[str, str]:
        return asdict(self)


@dataclass(frozen=True)
class Question:
    """One call to Google, and what follows from its answer. `check` and `subject` name it when there is no answer."""

    check: str
    subject: str
    look: Callable[[], Iterable[Finding]]


def skipped(check: str, subject: str, why: str) -> Question:
    """A question that the settings leave nothing to ask about."""
    return Question(check, subject, lambda: [Finding(check, subject, "skipped", why)])
