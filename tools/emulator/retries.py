"""The number and times of a task's tries, by its retryPolicy.

https://github.com/kubeflow/pipelines/blob/master/api/v2alpha1/pipeline_spec.proto
"""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .plan import Script


def waits(spec: dict[str, Any]) -> list[float]:
    """Returns the seconds before each allowed retry."""
    policy = spec.get("retryPolicy", {})
    first, longest = (
        float(policy.get(k, d).rstrip("s")) for k, d in (("backoffDuration", "0s"), ("backoffMaxDuration", "3600s"))
    )
    factor = float(policy.get("backoffFactor") or 2)
    return [min(first * factor**number, longest) for number in range(int(policy.get("maxRetryCount", 0)))]


def plan_tries(script: "Script", spec: dict[str, Any]) -> tuple[list[float], float, bool]:
    """Returns the seconds from the start to each retried failure, the seconds to the end, and whether the end fails."""
    pauses = waits(spec)
    failing = 0 if not script.fail else script.fails or len(pauses) + 1
    ends, start = [], 0.0
    for pause in pauses[:failing]:
        ends.append(start + script.seconds)
        start = ends[-1] + pause
    return ends, start + script.seconds, failing > len(pauses)
