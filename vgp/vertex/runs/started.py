"""What a command that starts a run tells: that it was started, or that nothing was, and why."""

from dataclasses import dataclass
from typing import Any

from vgp.settings import Settings
from vgp.text.times import rfc3339
from vgp.vertex import names
from vgp.vertex.runs.attempts import WINDOW
from vgp.vertex.runs.state import Run

#: Exit code of a command that started nothing, because a run of the same request goes on or has just ended.
NOTHING_STARTED = 4
#: What --from-failed cannot know: Vertex AI looks a finished step up by its inputs, not by its run.
_OF_ANOTHER_NIGHT = (
    "Finished steps come from the cache, by their inputs: where the data behind the same names has changed since, "
    "the result may be that of another run. `pipelines show` tells its folder."
)


@dataclass(frozen=True)
class Started:
    """The run that was started, or that stands for the request."""

    settings: Settings
    run: Run
    #: Whether this command started it.
    fresh: bool
    #: The id of the run that it repeats.
    of: str = ""
    #: Whether its steps take results of earlier runs.
    cached: bool = False
    #: Whether the caller chose the id, which is one run for ever.
    by_id: bool = False

    def as_json(self) -> dict[str, Any]:
        return {
            "id": self.run.id,
            "started": self.fresh,
            "state": self.run.state,
            "over": self.run.over,
            "ended": rfc3339(self.run.ended),
            "name": self.run.name,
            "url": names.run_link(self.settings, self.run.id),
            "exit_code": 0 if self.fresh else NOTHING_STARTED,
            **({"of": self.of} if self.of else {}),
        }

    def lines(self) -> list[str]:
        """For a person; the first words tell whether something was started."""
        run, link = self.run, names.run_link(self.settings, self.run.id)
        if self.fresh:
            repeated = f", a rerun of {self.of}" if self.of else ""
            return [f"started {run.id}{repeated}", link, *([_OF_ANOTHER_NIGHT] if self.cached else [])]
        lines = [f"nothing was started: {run.id}, of the same request, {self._state()}", link]
        if not run.over:
            lines.append(f"  Follow it:         pipelines wait {run.id}")
        elif run.state != "succeeded":
            lines.append(f"  Go on from there:  pipelines rerun {run.id} --from-failed")
        flag = "another --id" if self.by_id else "--new"
        return [*lines, f"  Start another one: the same command with {flag}"]

    def _state(self) -> str:
        run = self.run
        if not run.over:
            return f"is {run.state}"
        when = f"{run.state} at {run.ended:%Y-%m-%d %H:%M} UTC" if run.ended else run.state
        hours = WINDOW.total_seconds() / 3600
        return when if self.by_id else f"{when}; {hours:g} h after its end the same command starts the next one"
