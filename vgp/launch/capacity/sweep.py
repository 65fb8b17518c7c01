"""Jobs of the step that nobody follows: of launchers that were killed or replaced, or of a request handled twice."""

from collections.abc import Callable

from vgp.launch.capacity.jobs import Jobs, is_known
from vgp.launch.capacity.journal import Journal
from vgp.launch.capacity.patience import reason
from vgp.protocol.capacity.clock import Clock
from vgp.protocol.capacity.job_service import Json

#: How soon after a creation, and then how often, they are looked for.
FIRST_S, AGAIN_S = 30.0, 300.0


class Sweep:
    """Looks for them and cancels them: now (`sweep()`), or when it is time."""

    def __init__(self, jobs: Jobs, journal: Journal, clock: Clock, tell: Callable[[str], None]) -> None:
        self.jobs, self.journal, self.clock, self.tell = jobs, journal, clock, tell
        self._due_at = 0.0

    def soon(self) -> None:
        """A job was created."""
        self._due_at = self.clock.now() + FIRST_S

    def if_due(self) -> None:
        if self.clock.now() >= self._due_at:
            self()

    def unless_taken_up(self, job: Json) -> None:
        """A job that was created when a newer launcher had given its attempt up: it would wait for machines in vain."""
        ladder = self.journal.there()
        if ladder is None or not is_known(job, ladder):
            self.tell(f"{job['name']} came too late for its attempt and is cancelled")
            self.jobs.cancel(job["name"])

    def __call__(self) -> None:
        from google.api_core.exceptions import GoogleAPICallError

        self._due_at = self.clock.now() + AGAIN_S
        ladder = self.journal.ladder
        try:
            jobs = self.jobs.going_on(each.region for each in (*ladder.attempts, *ladder.probes))
        except GoogleAPICallError as error:
            return self.tell(f"jobs of the step cannot be looked for: {reason(error)}")
        # Read after the list: a job that a newer launcher created is then known to be its.
        ladder = self.journal.read()
        for job in jobs:
            if not is_known(job, ladder):
                self.tell(f"{job['name']} belongs to no attempt and is cancelled")
                self.jobs.cancel(job["name"])
