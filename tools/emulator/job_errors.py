"""The errors of failed custom jobs: codes of `google.rpc.Status` and texts, with their sources.

Documented: https://cloud.google.com/vertex-ai/docs/training/understanding-training-service (exit codes, stockouts,
internal errors; now docs.cloud.google.com/gemini-enterprise-agent-platform/machine-learning/training/
understanding-training-service) and .../use-spot-vms ("fails with a STOCKOUT error"). Other texts are from issues: the
refused quota, HTTP 429 of `create`, in
https://github.com/GoogleCloudPlatform/stable-diffusion-on-gcp/issues/12, the same text as a job's error with code 8 in
https://github.com/GoogleCloudPlatform/vertex-ai-samples/issues/3479; the stockout in
https://github.com/openreview/openreview-expertise/issues/401; a job at the end of its time is cancelled by Vertex AI,
https://github.com/tensorflow/tfx/issues/6223. Not verified on Vertex AI: the code of a stockout (8 here), that the text
after a preemption is the stockout's, and the code of an expired time.
"""

from dataclasses import dataclass

CANCELLED, INVALID_ARGUMENT, DEADLINE_EXCEEDED, RESOURCE_EXHAUSTED, INTERNAL = 1, 3, 4, 8, 13
#: Exit codes of a program that was killed by SIGKILL or SIGABRT: 128 and the signal.
KILLED, ABORTED, SEGMENTATION = 137, 134, 139
#: "exit codes that could be transient": the job is retried.
TRANSIENT = (6, ABORTED, 11, SEGMENTATION)


@dataclass(frozen=True)
class JobError:
    code: int
    message: str


def stockout(region: str) -> JobError:
    text = f"Resources are insufficient in region: {region}. Try a different region or use a different accelerator."
    return JobError(RESOURCE_EXHAUSTED, text)


def quota(metrics: list[str]) -> JobError:
    """Returns the error of a used-up quota; HTTP 429 has the same message."""
    named = ", ".join(f"aiplatform.googleapis.com/{metric}" for metric in metrics)
    return JobError(RESOURCE_EXHAUSTED, f"The following quota metrics exceed quota limits: {named}")


def exit_error(replica: str, code: int, project_number: str, job_id: str) -> JobError:
    """Returns the error of a user's program that ended with `code`; out of memory has its own code."""
    if code == KILLED:
        pool = replica.rpartition("-")[0]
        text = f"Replicas low on memory: {pool}. Specify a machine with larger memory and try again."
        return JobError(RESOURCE_EXHAUSTED, text)
    logs = f"https://console.cloud.google.com/logs/viewer?project={project_number}&resource=ml_job%2Fjob_id%2F{job_id}"
    text = f"The replica {replica} exited with a non-zero status of {code}. Termination reason: Error. "
    return JobError(
        INVALID_ARGUMENT, text + f"To find out more about why your job exited please check the logs: {logs}"
    )


def internal() -> JobError:
    return JobError(INTERNAL, "Internal error occurred for the current attempt.")


def cancellation_error() -> JobError:
    return JobError(CANCELLED, "CANCELED")
