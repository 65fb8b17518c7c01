"""How a custom job ended: by a lack of capacity, or by an error that another machine would not fix.

Only messages known to mean a lack of capacity count as one; everything else fails the step. Google's messages and
their sources:

- "Resources are insufficient in region: REGION_NAME. Try a different region or use a different accelerator.": a
  stockout; "The replica NAME exited with a non-zero status of CODE. Termination reason: REASON."; "The replica NAME ran
  out of memory and exited with a non-zero status of CODE."; "Internal error occurred for the current attempt"; the
  error is set about a minute after the end.
  https://docs.cloud.google.com/vertex-ai/docs/training/understanding-training-service
- A preempted Spot job fails with a STOCKOUT error; https://cloud.google.com/vertex-ai/docs/training/use-spot-vms
- "The following quota metrics exceed quota limits: aiplatform.googleapis.com/custom_model_training_nvidia_l4_gpus",
  with 429 (RESOURCE_EXHAUSTED) when a job is created, code 8 later;
  https://github.com/GoogleCloudPlatform/stable-diffusion-on-gcp/issues/12,
  https://github.com/GoogleCloudPlatform/vertex-ai-samples/issues/700
- ZONE_RESOURCE_POOL_EXHAUSTED, "does not have enough resources available": Compute Engine's words for a stockout;
  https://cloud.google.com/compute/docs/troubleshooting/troubleshooting-vm-creation
- Exit code 128 + n: ended by signal n. This product adds 75 (EX_TEMPFAIL: the job has saved a checkpoint and wants
  to be restarted) and 69 (EX_UNAVAILABLE: a store did not answer for as long as the job waits).

Neither documented nor verified on Vertex AI: the state of a job that reached its `timeout` or `maxWaitDuration` (both
are recognized by how long it ran or waited); "Replicas low on memory" with code 8, which counts as a lack of memory.
"""

import re
from dataclasses import dataclass

from vgp.base.clock import parse_time
from vgp.base.text.printable import one_line
from vgp.protocol.capacity.job_service import Json

#: Outcomes after which the launcher tries another job; all others except `succeeded` fail the step.
RETRIED = ("stockout", "preempted", "wait_expired", "quota", "timeout", "moved", "lost")
ENDED = ("SUCCEEDED", "FAILED", "CANCELLED", "EXPIRED", "PAUSED", "PARTIALLY_SUCCEEDED")
#: A job that ran for its timeout, less this, has reached it, seconds.
_SLACK_S = 90.0

_STOCKOUT = re.compile(
    r"resources are insufficient in|\bSTOCKOUT\b|ZONE_RESOURCE_POOL_EXHAUSTED|does not have enough resources available",
    re.IGNORECASE,
)
_QUOTA = re.compile(r"quota metrics? exceeds? quota|exceeds? (?:the )?quota|quota exceeded|insufficient quota", re.I)
_MEMORY = re.compile(r"low on memory|out of memory", re.IGNORECASE)
_INTERNAL = re.compile(r"internal error (?:occurred|encountered)", re.IGNORECASE)
_EXIT = re.compile(r"replica (\S+) (ran out of memory and )?exited with a non-zero status of (\d+)", re.IGNORECASE)
#: https://github.com/googleapis/googleapis/blob/master/google/rpc/code.proto
_DEADLINE_EXCEEDED, _INTERNAL_CODE, _UNAVAILABLE = 4, 13, 14
_SAVED, _TERMINATED, _KILLED, _STORE_DOWN = 75, 143, 137, 69


@dataclass(frozen=True)
class Outcome:
    """The end of a job: `kind`, an outcome of the journal, and `words`, a message of one line."""

    kind: str
    words: str


def state(job: Json) -> str:
    """Returns the state of a job without its prefix: PENDING, RUNNING, FAILED ..."""
    return str(job.get("state", "")).removeprefix("JOB_STATE_") or "UNSPECIFIED"


def describe_state(state: str) -> str:
    """Returns a state as a predicate, to follow "the job": is pending, has failed, was cancelled."""
    verb = {"SUCCEEDED": "has", "FAILED": "has", "EXPIRED": "has", "CANCELLED": "was", "PARTIALLY_SUCCEEDED": "has"}
    return f"{verb.get(state, 'is')} {state.lower().replace('_', ' ')}"


def runtime_s(job: Json) -> float:
    """Returns how long all machines of the job ran, in seconds; 0 if they never did."""
    began, ended = parse_time(job.get("startTime")), parse_time(job.get("endTime"))
    return max(0.0, ended - began) if began and ended else 0.0


def decide_outcome(job: Json, strategy: str, timeout_s: float, ending: str | None) -> Outcome:
    """Returns the outcome of a job that has ended.

    Args:
        strategy: The strategy of its rung.
        timeout_s: How long it was allowed to run.
        ending: The outcome for the journal if the launcher ended the job, else None.
    """
    name, message = state(job), one_line(job.get("error", {}).get("message", ""), 500)
    if name == "SUCCEEDED":
        return Outcome("succeeded", "the job succeeded")
    by_itself = _judge_outcome(job, name, message, strategy, timeout_s)
    if ending and by_itself.kind != "user_error":
        return Outcome(ending, f"ended by the launcher: {ending}")
    return by_itself


def refusal_outcome(code: int, message: str) -> Outcome:
    """Returns the outcome of a refused creation, from its HTTP status and message."""
    words = one_line(message, 500)
    if _QUOTA.search(words):
        return Outcome("quota", words)
    if _STOCKOUT.search(words):
        return Outcome("stockout", words)
    return Outcome("user_error", f"Google refused the job: {code} {words}")


def _judge_outcome(job: Json, name: str, message: str, strategy: str, timeout_s: float) -> Outcome:
    started = bool(job.get("startTime"))
    timed_out = started and runtime_s(job) >= timeout_s - _SLACK_S
    code = int(job.get("error", {}).get("code", 0))
    if name == "EXPIRED" or (name == "FAILED" and code == _DEADLINE_EXCEEDED):
        if started:
            return Outcome("timeout", message or "the job reached its timeout")
        return Outcome("wait_expired", message or "no machines within the wait limit")
    if name == "CANCELLED":
        if timed_out:
            return Outcome("timeout", message or "the job reached its timeout")
        return Outcome("cancelled", "the job was cancelled from outside the launcher")
    if name != "FAILED":
        return Outcome("failed", f"the job {describe_state(name)}: {message}".rstrip(": "))
    return _judge_failure(message, code, strategy, started, timed_out)


def _judge_failure(message: str, code: int, strategy: str, started: bool, timed_out: bool) -> Outcome:
    if match := _EXIT.search(message):
        return _exit_outcome(match, message, strategy)
    if _MEMORY.search(message):
        return Outcome("user_error", message)
    if _QUOTA.search(message):
        return Outcome("quota", message)
    if _STOCKOUT.search(message):
        return Outcome("preempted" if started and strategy != "standard" else "stockout", message)
    if timed_out:
        return Outcome("timeout", message or "the job reached its timeout")
    if _INTERNAL.search(message) or code in (_INTERNAL_CODE, _UNAVAILABLE):
        return Outcome("lost", message or "internal error of Vertex AI")
    return Outcome("user_error" if code in (3, 5, 7, 9, 11, 12) else "failed", message or "Vertex AI gives no reason")


def _exit_outcome(match: re.Match[str], message: str, strategy: str) -> Outcome:
    replica, memory, code = match[1], match[2], int(match[3])
    if code == _SAVED:
        return Outcome("preempted", f"{replica} saved a checkpoint and stopped (exit code 75)")
    if code == _STORE_DOWN:
        return Outcome("lost", f"a store did not answer {replica} (exit code 69)")
    if code == _TERMINATED:
        return Outcome("preempted", f"{replica} received SIGTERM (exit code 143)")
    if code == _KILLED and not memory and strategy == "spot":
        return Outcome("preempted", f"{replica} was killed (exit code 137)")
    return Outcome("user_error", message)
