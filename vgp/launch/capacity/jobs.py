"""The custom jobs of one step in all regions of its ladder, by what the launcher does with them."""

import os
from collections.abc import Callable, Iterable
from typing import Any

from vgp.base.clock import Clock
from vgp.launch.capacity.journal import Journal
from vgp.launch.capacity.outcome import ENDED, Outcome, refusal, state
from vgp.launch.capacity.patience import Patience, is_passing, message, reason
from vgp.launch.capacity.step_run import digest
from vgp.protocol import environment as variables
from vgp.protocol.capacity.job_service import JobService, Json
from vgp.protocol.capacity.ladder import Creation, Ladder
from vgp.protocol.capacity.plan import PlannedRung, filled

#: Label of every job of a step: the digest of its control folder.
LADDER_LABEL = "training-ladder"
#: Labels of the run, by which Google bills: as gcp_labels_util.py of google-cloud-pipeline-components 2.22 has it.
SYSTEM_LABELS = "VERTEX_AI_PIPELINES_RUN_LABELS"


class Jobs:
    """Asks until Google answers, except where a job is created: that is sent once.

    Args:
        session: A `requests` session with credentials.
        folder: URI of the step's control folder.
    """

    def __init__(self, session: Any, project: str, folder: str, patience: Patience) -> None:
        self.session, self.project, self.folder, self.patience = session, project, folder, patience
        self.ladder = digest(folder)

    def service(self, region: str) -> JobService:
        return JobService(self.session, self.project, region)

    def create(self, rung: PlannedRung, new: Creation, executor_input: str, timeout_s: float) -> Json | Outcome | None:
        """The job; how Google refused it; None where no answer came, and nobody knows whether it was created."""
        from google.api_core.exceptions import GoogleAPICallError, ServerError
        from requests import RequestException

        body, service = self.body(rung, new, executor_input, timeout_s), self.service(rung.region)
        try:
            return self.patience("create the job", lambda: service.create(body), _was_not_handled)
        except (GoogleAPICallError, RequestException, ConnectionError) as error:
            if isinstance(error, GoogleAPICallError) and not isinstance(error, ServerError) and error.code != 408:
                return refusal(int(error.code or 0), message(error))
            self.patience.tell(f"creating a job: {reason(error)}; nobody knows whether it exists, so it is looked for")
            return None

    def body(self, rung: PlannedRung, new: Creation, executor_input: str, timeout_s: float) -> Json:
        """The job, told its token: labelled, and with the time that it may run."""
        body = self._working(filled(rung.job, executor_input), new)
        labels = {**_system_labels(), **body.get("labels", {})}
        body["labels"] = labels | {new.LABEL: new.token, LADDER_LABEL: self.ladder}
        body["jobSpec"].setdefault("scheduling", {})["timeout"] = f"{int(timeout_s)}s"
        return body

    def _working(self, body: Json, attempt: Creation) -> Json:
        values = {variables.CONTROL_FOLDER: self.folder, variables.ATTEMPT: attempt.token}
        told = [{"name": name, "value": value} for name, value in values.items()]
        for pool in body["jobSpec"]["workerPoolSpecs"]:
            container = next((pool[kind] for kind in ("containerSpec", "pythonPackageSpec") if kind in pool), None)
            if container is not None:
                kept = [each for each in container.get("env", []) if each.get("name") not in values]
                container["env"] = [*kept, *told]
        return body

    def get(self, of: Creation) -> Json | None:
        """Its job; None where Google knows none of that name."""
        from google.api_core.exceptions import Forbidden, NotFound

        try:
            return self.patience(
                "look at the job",
                lambda: self.service(of.region).get(of.job or ""),
                lambda error: is_passing(error) or isinstance(error, Forbidden),
            )
        except NotFound:
            return None

    def found(self, of: Creation) -> list[Json]:
        """The jobs with its token, the oldest first."""
        service = self.service(of.region)
        return self.patience("look for the job", lambda: service.labelled(of.LABEL, of.token))

    def cancel(self, job: str) -> None:
        """Asks that a job end."""
        self.patience("cancel the job", lambda: self.service(job.split("/")[3]).cancel(job))

    def going_on(self, regions: Iterable[str]) -> list[Json]:
        """The step's jobs, whoever created them, that have not ended and are not told to."""
        jobs = [job for region in dict.fromkeys(regions) for job in self._of_ladder(region)]
        return [job for job in jobs if state(job) not in (*ENDED, "CANCELLING")]

    def _of_ladder(self, region: str) -> list[Json]:
        service = self.service(region)
        return self.patience("look for jobs of the step", lambda: service.labelled(LADDER_LABEL, self.ladder))


def is_known(job: Json, ladder: Ladder) -> bool:
    """Whether it is the job that works or the one that waits; any with its token, as long as none is known."""
    return any(one is not None and is_of(job, one) for one in (ladder.open, ladder.next))


def is_of(job: Json, one: Creation) -> bool:
    """Whether it is the job of this attempt or waiting job."""
    return bool(job["name"] == one.job if one.job else job.get("labels", {}).get(one.LABEL) == one.token)


def _was_not_handled(error: Exception) -> bool:
    """Whether a request was certainly not done, so that it can be sent again: too many, or no valid token."""
    from google.api_core.exceptions import TooManyRequests, Unauthorized
    from google.auth.exceptions import TransportError

    if isinstance(error, TooManyRequests):
        return refusal(429, message(error)).kind == "user_error"
    return isinstance(error, Unauthorized | TransportError)


def _system_labels() -> dict[str, str]:
    import json

    try:
        labels = json.loads(os.environ.get(SYSTEM_LABELS, "{}"))
    except ValueError:
        return {}
    return {str(key): str(value) for key, value in labels.items()} if isinstance(labels, dict) else {}


# ---- jobs of the step that nobody follows: of launchers that were killed or replaced, or of a request handled twice


#: How soon after a creation, and then how often, they are looked for.
FIRST_SWEEP_S, SWEEP_AGAIN_S = 30.0, 300.0


class Sweep:
    """Looks for them and cancels them: now (`sweep()`), or when it is time."""

    def __init__(self, jobs: Jobs, journal: Journal, clock: Clock, tell: Callable[[str], None]) -> None:
        self.jobs, self.journal, self.clock, self.tell = jobs, journal, clock, tell
        self._due_at = 0.0

    def soon(self) -> None:
        """A job was created."""
        self._due_at = self.clock.now() + FIRST_SWEEP_S

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

        self._due_at = self.clock.now() + SWEEP_AGAIN_S
        ladder = self.journal.ladder
        try:
            jobs = self.jobs.going_on(each.region for each in (*ladder.attempts, *ladder.waiting))
        except GoogleAPICallError as error:
            return self.tell(f"jobs of the step cannot be looked for: {reason(error)}")
        # Read after the list: a job that a newer launcher created is then known to be its.
        ladder = self.journal.read()
        for job in jobs:
            if not is_known(job, ladder):
                self.tell(f"{job['name']} belongs to no attempt and is cancelled")
                self.jobs.cancel(job["name"])
