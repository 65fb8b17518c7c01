"""What a command that starts a run tells: that it was started, or that nothing was, and why."""

from typing import Any

from vgp.settings import Settings
from vgp.text.times import rfc3339
from vgp.vertex import names
from vgp.vertex.runs.attempts import WINDOW
from vgp.vertex.runs.state import Run

#: Exit code of a command that started nothing, because a run of the same request goes on or has just ended.
NOTHING_STARTED = 4


def as_json(settings: Settings, run: Run, fresh: bool) -> dict[str, Any]:
    """For --json: the run that was started, or that stands for the request."""
    return {
        "id": run.id, "started": fresh, "state": run.state, "over": run.over, "ended": rfc3339(run.ended),
        "name": run.name, "url": names.run_link(settings, run.id), "exit_code": 0 if fresh else NOTHING_STARTED,
    }  # fmt: skip


def text(settings: Settings, run: Run, fresh: bool, *, of: str = "", by_id: bool = False) -> str:
    """For a person; the first words tell whether something was started.

    `of` is the run that is repeated; `by_id`: the caller chose the id, which is one run for ever.
    """
    link = names.run_link(settings, run.id)
    if fresh:
        return f"started {run.id}" + (f", a rerun of {of}" if of else "") + f"\n{link}"
    lines = [f"nothing was started: {run.id}, of the same request, {_state(run, by_id)}", link]
    if not run.over:
        lines.append(f"  Follow it:         pipelines wait {run.id}")
    elif run.state != "succeeded":
        lines.append(f"  Go on from there:  pipelines rerun {run.id} --from-failed")
    flag = "another --id" if by_id else "--new"
    return "\n".join([*lines, f"  Start another one: the same command with {flag}"])


def _state(run: Run, by_id: bool) -> str:
    if not run.over:
        return f"is {run.state}"
    when = f"{run.state} at {run.ended:%Y-%m-%d %H:%M} UTC" if run.ended else run.state
    hours = WINDOW.total_seconds() / 3600
    return when if by_id else f"{when}; {hours:g} h after its end the same command starts the next one"
