"""What a command that starts a run tells: that it was started, or that nothing was, and why."""

from dataclasses import dataclass, field
from typing import Any

from vgp.base.text.times import rfc3339
from vgp.check.spec.pipeline_spec import cached
from vgp.settings import Settings
from vgp.vertex import resource_names
from vgp.vertex.runs.attempts import PARAMETER
from vgp.vertex.runs.pipeline_job import ATTEMPT, KEY, PINNED_BY
from vgp.vertex.runs.remote_run import Run
from vgp.vertex.runs.start_policy import Policy

#: Exit code of a command that started nothing, because a run of the same request goes on or has just ended.
NOTHING_STARTED = 4
#: What --from-failed cannot know of a run without pins: Vertex AI looks a finished step up by its inputs, not its run.
_OF_ANOTHER_NIGHT = (
    "Finished steps come from the cache, by their inputs: where the data behind the same names has changed since, "
    "the result may be that of another run. `vgp show` tells its folder."
)


@dataclass(frozen=True)
class Started:
    """The run that was started, or that stands for the request."""

    settings: Settings
    run: Run
    #: Whether this command started it.
    fresh: bool
    policy: Policy = field(default_factory=Policy)
    #: The id of the run that it repeats.
    of: str = ""
    #: Whether it takes finished steps of that run.
    from_failed: bool = False
    #: Whether the caller chose the id, which is one run for ever.
    by_id: bool = False

    @property
    def attempt(self) -> int | None:
        number = self.run.labels.get(ATTEMPT, "")
        return int(number) if number.isdigit() else None

    def as_json(self) -> dict[str, Any]:
        labels = self.run.labels
        return {
            "id": self.run.id,
            "started": self.fresh,
            "attempt": self.attempt,
            "key": labels.get(KEY),
            "pinned_by": labels.get(PINNED_BY),
            "state": self.run.state,
            "over": self.run.over,
            "ended": rfc3339(self.run.ended),
            "name": self.run.name,
            "url": resource_names.run_link(self.settings, self.run.id),
            "exit_code": 0 if self.fresh else NOTHING_STARTED,
            **({"of": self.of} if self.of else {}),
        }

    def lines(self) -> list[str]:
        """For a person; the first words tell whether something was started."""
        run, link = self.run, resource_names.run_link(self.settings, self.run.id)
        if self.fresh:
            repeated = f", a rerun of {self.of}" if self.of else ""
            return [f"started {run.id}{repeated}", link, *self._pins()]
        lines = [f"nothing was started: {run.id}, of the same {self._identity()}, {self._state()}", link]
        if not run.over:
            lines.append(f"  Follow it:         vgp wait {run.id}")
        elif run.state != "succeeded":
            again = f"vgp rerun {run.id} --from-failed"
            lines.append(f"  Go on from there:  {again if self.of or self.by_id else 'the same command with --retry'}")
        return [*lines, f"  Start another one: the same command with {self._other()}"]

    def _pins(self) -> list[str]:
        """What the run goes on with, where one might expect something else."""
        by = self.run.labels.get(PINNED_BY)
        attempt = f"attempt {self.attempt}" if (self.attempt or 0) > 1 else "it"
        if by is not None:
            steps = "; finished steps come from the cache" if cached(self.run.spec) else ""
            return [f"{attempt} goes on with what {by or 'the failed run'} had pinned{steps}"]
        if self.from_failed:
            return [_OF_ANOTHER_NIGHT]
        if attempt != "it" and PARAMETER in self.run.spec.parameters and PARAMETER not in self.run.arguments:
            return [f"{attempt} pins anew what there is now"]
        return []

    def _identity(self) -> str:
        key = self.run.labels.get(KEY)
        return f"request and key {key}" if key else "request"

    def _other(self) -> str:
        if self.by_id:
            return "another --id"
        return "another --key" if self.policy.window is None else "--new"

    def _state(self) -> str:
        run, window = self.run, self.policy.window
        if not run.over:
            return f"is {run.state}"
        if not run.ended:
            return run.state
        when = f"{run.state} at {run.ended:%Y-%m-%d %H:%M} UTC"
        if self.policy.retry and run.state == "succeeded":
            when += ", and --retry is for runs that did not"
        if self.by_id or window is None:
            return when
        return f"{when}; from {run.ended + window:%Y-%m-%d %H:%M} UTC on the same command starts the next one"
