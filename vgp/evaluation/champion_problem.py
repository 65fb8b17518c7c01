"""A champion that cannot be compared: an outcome of the run and no end of it, since the new model is trained by then.

Its files are not there any more: there is nothing to keep, and the baseline stands in, as before the first champion.
Anything else (another task, other classes, a column that the data lacks, files that are damaged or may not be read,
predictions of other rows): the champion is kept, since nothing shows which model is better, and a person decides.
What passes, such as a bucket that does not answer, still ends the run, which is then repeated.

Whether a champion has learned from days that it is now tested on: its figures are then better than it is.

That happens where a run looks back (`as_of`, a backfill), or where its windows are earlier than the champion's. Windows
that follow from new data never do it.
"""

import os
from dataclasses import dataclass

from vgp.base.exits import UserError
from vgp.base.storage import pinned, storage
from vgp.data.bundle import CARD, WEIGHTS
from vgp.data.periods import format_spans
from vgp.data.task import Options
from vgp.data.windows import dated_spans
from vgp.evaluation.collected import PREDICTIONS
from vgp.protocol import pins as store
from vgp.protocol.pins import ChampionPins


@dataclass(frozen=True)
class Problem:
    """The reason, as a sentence, why a champion was not scored, and whether its files are gone."""

    why: str
    gone: bool

    @property
    def note(self) -> str:
        """Returns a note for readers of the figures."""
        what = "The champion is gone, and the baseline stands in" if self.gone else "The champion was not compared"
        return f"{what}: {self.why}"


def found(champion: str) -> Problem | None:
    """Returns the problem that the champion's pins record; None if they list files, or for a folder."""
    if not pinned.digest(champion):
        return None
    problem = store.load(champion, ChampionPins).problem
    return Problem(problem, gone=True) if problem else None


def of(champion: str, error: UserError) -> Problem:
    """Returns the problem of a champion (a folder or the URI of pins) from the error that scoring raised."""
    missing = next((path for path in _paths(champion) if not _exists(path)), "")
    if missing:
        return Problem(f"{missing} is not there any more", gone=True)
    return Problem(str(error), gone=False)


def _paths(champion: str) -> list[str]:
    """Returns the files that a model needs."""
    if pinned.digest(champion):
        pins = store.load(champion, ChampionPins)
        return [item.name for item in pins.objects] + [file.path for file in pins.files]
    folder = storage.uri(champion).rstrip("/")
    if _exists(f"{folder}/{PREDICTIONS}"):
        return []
    return [f"{folder}/{name}" for name in (CARD, WEIGHTS)]


def _exists(path: str) -> bool:
    return storage.get_blob(path) is not None if storage.is_remote(path) else os.path.exists(path)


def learned_days_note(champion: Options, now: Options) -> tuple[str, ...]:
    """Returns a note if the champion was trained on days of the test window; nothing otherwise or without dates.

    Args:
        champion: Options of the task that the champion was trained with.
        now: Options of the test data.
    """
    trained, tested = dated_spans(champion, "train"), dated_spans(now, "test")
    both = tuple((max(a, c), min(b, d)) for a, b in trained for c, d in tested if max(a, c) < min(b, d))
    if not both:
        return ()
    lies = f"The champion was trained on {format_spans(trained)}, in which {format_spans(both)} of the test window lies"
    return (f"{lies}: rows that it knows already, so that it looks better here than it is.",)
