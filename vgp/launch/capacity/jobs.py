"""The custom jobs of one step in all regions of its ladder: create, find, cancel, sweep."""

import os
from collections.abc import Callable, Iterable
from typing import Any

from vgp.base.clock import Clock
from vgp.launch.capacity.journal import Journal
from vgp.launch.capacity.outage_retry import Patience, is_transient, message, reason
from vgp.launch.capacity.outcome import ENDED, Outcome, refusal_outcome, state
from vgp.launch.capacity.step_run import digest
from vgp.protocol import environment as variables
from vgp.protocol.capacity.job_service import JobService, Json
from vgp.protocol.capacity.ladder import Creation, Ladder
from vgp.protocol.capacity.plan import PlannedRung, fill_job

#: Label of every job of a step: the digest of its control folder.
LADDER_LABEL = "training-ladder"
#: Environment variable with the run's labels for billing (gcp_labels_util.py, google-cloud-pipeline-components 2.22).
SYSTEM_LABELS = "VERTEX_AI_PIPELINES_RUN_LABELS"


class Jobs:
    """The custom jobs of one step. Requests are retried, except the creation of a job, which is sent once.

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
        """Creates a job. Returns it, or the refusal, or None if no answer came and the job may or may not exist."""
        from google.api_core.exceptions import GoogleAPICallError, ServerError
        from requests import RequestException

        body, service = self.body(rung, new, executor_input, timeout_s), self.service(rung.region)
        try:
            return self.patience("create the job", lambda: service.create(body), _was_not_handled)
        except (GoogleAPICallError, RequestException, ConnectionError) as error:
            if isinstance(error, GoogleAPICallError) and not isinstance(error, ServerError) and error.code != 408:
                return refusal_outcome(int(error.code or 0), message(error))
            self.patience.log(f"creating a job: {reason(error)}; searching for the job, because it may exist")
            return None

    def body(self, rung: PlannedRung, new: Creation, executor_input: str, timeout_s: float) -> Json:
        """Returns the request for a job, with its token, labels and timeout."""
        body = self._with_variables(fill_job(rung.job, executor_input), new)
        labels = {**_system_labels(), **body.get("labels", {})}
        body["labels"] = labels | {new.LABEL: new.token, LADDER_LABEL: self.ladder}
        body["jobSpec"].setdefault("scheduling", {})["timeout"] = f"{int(timeout_s)}s"
        return body

    def _with_variables(self, body: Json, attempt: Creation) -> Json:
        """Adds the environment variables with the control folder and the token."""
        values = {variables.CONTROL_FOLDER: self.folder, variables.ATTEMPT: attempt.token}
        entries = [{"name": name, "value": value} for name, value in values.items()]
        for pool in body["jobSpec"]["workerPoolSpecs"]:
            container = next((pool[kind] for kind in ("containerSpec", "pythonPackageSpec") if kind in pool), None)
            if container is not None:
                others = [entry for entry in container.get("env", []) if entry.get("name") not in values]
                container["env"] = [*others, *entries]
        return body

    def get(self, of: Creation) -> Json | None:
        """Returns the job of an attempt, or None if Google does not know its name."""
        from google.api_core.exceptions import Forbidden, NotFound

        try:
            return self.patience(
                "look at the job",
                lambda: self.service(of.region).get(of.job or ""),
                lambda error: is_transient(error) or isinstance(error, Forbidden),
            )
        except NotFound:
            return None

    def find(self, of: Creation) -> list[Json]:
        """Returns the jobs with the token of the attempt, the oldest first."""
        service = self.service(of.region)
        return self.patience("look for the job", lambda: service.labelled(of.LABEL, of.token))

    def cancel(self, job: str) -> None:
        """Cancels a job; does not wait for its end."""
        self.patience("cancel the job", lambda: self.service(job.split("/")[3]).cancel(job))

    def list_active(self, regions: Iterable[str]) -> list[Json]:
        """Returns the step's jobs of all launchers that have not ended and are not being cancelled."""
        jobs = [job for region in dict.fromkeys(regions) for job in self._list_jobs(region)]
        return [job for job in jobs if state(job) not in (*ENDED, "CANCELLING")]

    def _list_jobs(self, region: str) -> list[Json]:
        service = self.service(region)
        return self.patience("look for jobs of the step", lambda: service.labelled(LADDER_LABEL, self.ladder))


def is_known(job: Json, ladder: Ladder) -> bool:
    """Whether the job belongs to the open attempt or to the waiting job."""
    return any(entry is not None and is_of(job, entry) for entry in (ladder.open, ladder.next))


def is_of(job: Json, creation: Creation) -> bool:
    """Whether the job belongs to this attempt or waiting job: by its name, or by its token if no name is known."""
    if creation.job:
        return bool(job["name"] == creation.job)
    return bool(job.get("labels", {}).get(creation.LABEL) == creation.token)


def _was_not_handled(error: Exception) -> bool:
    """Whether Google certainly did not handle a request (rate limit, invalid token), so that it can be repeated."""
    from google.api_core.exceptions import TooManyRequests, Unauthorized
    from google.auth.exceptions import TransportError

    if isinstance(error, TooManyRequests):
        return refusal_outcome(429, message(error)).kind == "user_error"
    return isinstance(error, Unauthorized | TransportError)


def _system_labels() -> dict[str, str]:
    import json

    try:
        labels = json.loads(os.environ.get(SYSTEM_LABELS, "{}"))
    except ValueError:
        return {}
    return {str(key): str(value) for key, value in labels.items()} if isinstance(labels, dict) else {}


# ---- orphaned jobs: of launchers that were killed or replaced, or of a request that Google handled twice


#: How soon after a creation the first sweep runs, and the interval of further sweeps, seconds.
FIRST_SWEEP_S, SWEEP_AGAIN_S = 30.0, 300.0


class Sweep:
    """The search for orphaned jobs, which it cancels: at once by `sweep()`, or on schedule by `sweep_if_due`."""

    def __init__(self, jobs: Jobs, journal: Journal, clock: Clock, log: Callable[[str], None]) -> None:
        self.jobs, self.journal, self.clock, self.log = jobs, journal, clock, log
        self._due_at = 0.0

    def schedule(self) -> None:
        """Schedules a sweep soon after the creation of a job."""
        self._due_at = self.clock.now() + FIRST_SWEEP_S

    def sweep_if_due(self) -> None:
        if self.clock.now() >= self._due_at:
            self()

    def cancel_if_unknown(self, job: Json) -> None:
        """Cancels a new job, unless a newer launcher has entered it in the journal."""
        ladder = self.journal.read_any()
        if ladder is None or not is_known(job, ladder):
            self.log(f"{job['name']} came too late for its attempt; cancelling it")
            self.jobs.cancel(job["name"])

    def __call__(self) -> None:
        from google.api_core.exceptions import GoogleAPICallError

        self._due_at = self.clock.now() + SWEEP_AGAIN_S
        ladder = self.journal.ladder
        try:
            jobs = self.jobs.list_active(entry.region for entry in (*ladder.attempts, *ladder.waiting))
        except GoogleAPICallError as error:
            return self.log(f"the search for orphaned jobs was refused: {reason(error)}")
        # The journal is read after the list, so that it has the jobs of a newer launcher.
        ladder = self.journal.read()
        for job in jobs:
            if not is_known(job, ladder):
                self.log(f"{job['name']} belongs to no attempt; cancelling it")
                self.jobs.cancel(job["name"])
