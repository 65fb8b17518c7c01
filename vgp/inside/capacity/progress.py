"""`progress.json`: how far the work is, as the first machine of the job tells it. A script of one's own tells none."""

from dataclasses import dataclass
from typing import Any

from vgp.inside.capacity.folder import Json

NAME = "progress.json"


@dataclass(frozen=True)
class Progress:
    """The last that a job told."""

    #: The token of the attempt whose job it was.
    attempt: str
    step: int
    #: Of the whole work.
    steps: int
    #: The step of the newest checkpoint.
    saved_step: int
    seconds_per_step: float | None = None
    #: From the first line of the program to its first step.
    start_s: float = 0.0

    @property
    def steps_unsaved(self) -> int:
        return max(0, self.step - self.saved_step)


def progress_of(content: Json) -> Progress | None:
    """The progress that a document tells; None for one that does not, whoever wrote it."""
    step, steps, saved = (content.get(key) for key in ("step", "steps", "saved_step"))
    if not all(isinstance(each, int) and not isinstance(each, bool) for each in (step, steps)):
        return None
    pace, start_s = _seconds(content.get("seconds_per_step")), _seconds(content.get("start_s")) or 0.0
    token = str(content.get("attempt", ""))
    return Progress(token, int(step or 0), int(steps or 0), int(saved or 0), pace, start_s)


def _seconds(value: Any) -> float | None:
    return float(value) if isinstance(value, int | float) and 0 < value < 1e9 else None
