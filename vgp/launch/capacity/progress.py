"""`progress.json`: how far the work is, as the first machine of the job tells it. A script of one's own tells none."""

from dataclasses import dataclass
from typing import Any

from vgp.protocol.capacity.folder import Json

NAME = "progress.json"
#: What a job measures of itself, in seconds; 0 says that it does not know yet.
FIGURES = ("seconds_per_step", "start_s", "checkpoint_every_s", "save_s")


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
    #: The step of the checkpoint that the job began with, whichever run wrote it; an older image does not tell.
    from_step: int | None = None
    seconds_per_step: float | None = None
    #: From the first line of the program to its first step.
    start_s: float | None = None
    #: How far apart saves are, and how long one takes until it can be read.
    checkpoint_every_s: float | None = None
    save_s: float | None = None

    @property
    def steps_unsaved(self) -> int:
        return max(0, self.step - self.saved_step)


def progress_of(content: Json) -> Progress | None:
    """The progress that a document tells; None for one that does not, whoever wrote it."""
    step, steps, saved = (content.get(key) for key in ("step", "steps", "saved_step"))
    if not all(isinstance(each, int) and not isinstance(each, bool) for each in (step, steps)):
        return None
    began = content.get("from_step")
    figures = {name: _seconds(content.get(name)) for name in FIGURES}
    return Progress(
        str(content.get("attempt", "")), int(step or 0), int(steps or 0), int(saved or 0),
        began if isinstance(began, int) and not isinstance(began, bool) else None, **figures,
    )  # fmt: skip


def _seconds(value: Any) -> float | None:
    return float(value) if isinstance(value, int | float) and 0 < value < 1e9 else None
