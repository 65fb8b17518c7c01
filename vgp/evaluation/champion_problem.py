"""Problems with a champion: one that cannot be compared, and one that was trained on days of the test window.

A champion that cannot be compared does not fail the run, because the new model is trained by then. If its files are
gone, the new model is compared with the baseline, as before the first champion. For every other reason (another task or
classes, a missing column, damaged or unreadable files, predictions of other rows) the champion is kept, and a person
decides, because nothing shows which model is better. A transient error, such as an unreachable bucket, fails the run,
which can be repeated.

A champion that was trained on days of the test window has metrics that are too good. That happens in runs of the past
(`as_of`, a backfill) and with windows earlier than the champion's, but never with windows that follow the newest data.
"""

import os
from dataclasses import dataclass

from vgp.base.exits import UserError
from vgp.base.storage import pinned, storage
from vgp.data.bundle import CARD, WEIGHTS
from vgp.data.periods import format_spans
from vgp.data.task import Options
from vgp.data.windows import read_spans
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
        gone = "The champion's files are gone, so the new model is compared with the baseline"
        return f"{gone if self.gone else 'The champion was not compared'}: {self.why}"


def read_problem(champion: str) -> Problem | None:
    """Returns the problem that the champion's pins record; None if they list files, or for a folder."""
    if not pinned.read_digest(champion):
        return None
    problem = store.load(champion, ChampionPins).problem
    return Problem(problem, gone=True) if problem else None


def explain_error(champion: str, error: UserError) -> Problem:
    """Returns the problem of a champion (a folder or the URI of pins) from the error that scoring raised."""
    missing = next((path for path in _paths(champion) if not _exists(path)), "")
    if missing:
        return Problem(f"{missing} was deleted", gone=True)
    return Problem(str(error), gone=False)


def _paths(champion: str) -> list[str]:
    """Returns the files that a model needs."""
    if pinned.read_digest(champion):
        pins = store.load(champion, ChampionPins)
        return [item.name for item in pins.objects] + [file.path for file in pins.files]
    folder = storage.uri(champion).rstrip("/")
    if _exists(f"{folder}/{PREDICTIONS}"):
        return []
    return [f"{folder}/{name}" for name in (CARD, WEIGHTS)]


def _exists(path: str) -> bool:
    return storage.get_blob(path) is not None if storage.is_remote(path) else os.path.exists(path)


def note_learned_days(champion: Options, now: Options) -> tuple[str, ...]:
    """Returns a note if the champion was trained on days of the test window; nothing otherwise or without dates.

    Args:
        champion: Options of the task that the champion was trained with.
        now: Options of the test data.
    """
    trained, tested = read_spans(champion, "train"), read_spans(now, "test")
    shared = tuple((max(a, c), min(b, d)) for a, b in trained for c, d in tested if max(a, c) < min(b, d))
    if not shared:
        return ()
    overlap = f"The champion was trained on {format_spans(trained)}, which includes {format_spans(shared)} of the test"
    return (f"{overlap} window, so its metrics are too good.",)
