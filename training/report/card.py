"""The card of a model's version: one page for whoever is to use it, or to answer for it."""

from dataclasses import dataclass
from pathlib import Path

from training.evaluation.decision import Decision

#: Its file in a version's folder.
FILE_NAME = "card.html"


@dataclass(frozen=True)
class Origin:
    """Where a version came from, as far as it is known; "" = it is not."""

    #: The name of the model in the registry.
    name: str = ""
    pipeline: str = ""
    run: str = ""
    #: URI of the pins.
    pins: str = ""
    commit: str = ""
    image: str = ""
    #: UTC, such as 2026-11-22T10:00:00Z.
    registered: str = ""
    #: Who, or what, let it become champion, and why; or for whom it waits.
    who: str = ""
    why: str = ""
    #: The version that it was compared with; None = there was no champion.
    champion: int | None = None
    #: URI of the run's report.
    report: str = ""
    #: What the run cost at most, in words.
    cost: str = ""


def write(
    path: str | Path,
    *,
    data: str | Path,
    model: str | Path,
    evaluation: str | Path,
    decision: Decision | None = None,
    origin: Origin | None = None,
) -> None:
    """Writes the card: one HTML file that loads nothing, the same bytes for the same inputs.

    Args:
        path: The file to write, `card.html` in the version's folder.
        data: Directory of the prepared dataset.
        model: Directory of the model.
        evaluation: Directory with `metrics.json`.
        decision: None leaves it out.

    Raises:
        UserError: a directory does not hold what it should.
    """
    raise NotImplementedError
