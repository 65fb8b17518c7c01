"""The custom jobs of one step in all regions of its ladder, by what the launcher does with them."""

import os
from collections.abc import Iterable
from typing import Any

from vgp.inside.capacity.job_service import ATTEMPT_LABEL, LADDER_LABEL, JobService, Json
from vgp.inside.capacity.journal import Attempt
from vgp.inside.capacity.outcome import ENDED, state
from vgp.inside.capacity.patience import Patience, is_passing
from vgp.inside.capacity.plan import PlannedRung, filled
from vgp.inside.capacity.step_run import digest

#: Labels of the run, by which Google bills: as gcp_labels_util.py of google-cloud-pipeline-components 2.22 has it.
SYSTEM_LABELS = "VERTEX_AI_PIPELINES_RUN_LABELS"
#: What the launcher tells every container of a job.
FOLDER_VARIABLE, ATTEMPT_VARIABLE = "TRAINING_CAPACITY", "TRAINING_ATTEMPT"


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

    def body(self, rung: PlannedRung, attempt: Attempt, executor_input: str, timeout_s: float) -> Json:
        """The job of an attempt: labelled, told its token, and with the time that is left."""
        body = filled(rung.job, executor_input)
        body["labels"] = {**_system_labels(), **body.get("labels", {})} | {
            ATTEMPT_LABEL: attempt.token,
            LADDER_LABEL: self.ladder,
        }
        body["jobSpec"].setdefault("scheduling", {})["timeout"] = f"{int(timeout_s)}s"
        variables = {FOLDER_VARIABLE: self.folder, ATTEMPT_VARIABLE: attempt.token}
        told = [{"name": name, "value": value} for name, value in variables.items()]
        for pool in body["jobSpec"]["workerPoolSpecs"]:
            container = next((pool[kind] for kind in ("containerSpec", "pythonPackageSpec") if kind in pool), None)
            if container is not None:
                kept = [each for each in container.get("env", []) if each.get("name") not in variables]
                container["env"] = [*kept, *told]
        return body

    def get(self, attempt: Attempt) -> Json | None:
        """The attempt's job; None where Google knows none of that name."""
        from google.api_core.exceptions import Forbidden, NotFound

        try:
            return self.patience(
                "look at the job",
                lambda: self.service(attempt.region).get(attempt.job or ""),
                lambda error: is_passing(error) or isinstance(error, Forbidden),
            )
        except NotFound:
            return None

    def of_attempt(self, attempt: Attempt) -> list[Json]:
        """The jobs with the attempt's token, the oldest first."""
        service = self.service(attempt.region)
        return self.patience("look for the job", lambda: service.labelled(ATTEMPT_LABEL, attempt.token))

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


def is_of(job: Json, attempt: Attempt | None) -> bool:
    """Whether it is the attempt's job; any with its token, as long as none is known."""
    if attempt is None:
        return False
    return bool(
        job["name"] == attempt.job if attempt.job else job.get("labels", {}).get(ATTEMPT_LABEL) == attempt.token
    )


def _system_labels() -> dict[str, str]:
    import json

    try:
        labels = json.loads(os.environ.get(SYSTEM_LABELS, "{}"))
    except ValueError:
        return {}
    return {str(key): str(value) for key, value in labels.items()} if isinstance(labels, dict) else {}
