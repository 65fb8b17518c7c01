"""The job of a probe: the machines of a rung got in the rung's way, and a program with nothing to do.

What it needs to get these machines is the rung's: pools, strategy, network, account, key, labels. What the training
works with is left out: token, folders, variables, arguments, TensorBoard, shells. The image is the step's own, because
it is there and may be pulled; so a probe takes as long as machines and image take, and no longer.
"""

from typing import Any

Json = dict[str, Any]

#: Ends at once. Every image of ours has a shell, and in one that has none the job fails with its machines, as well.
_COMMAND = ["sh", "-c", "exit 0"]
_POOL = ("machineSpec", "replicaCount", "diskSpec")
_JOB = ("network", "reservedIpRanges", "pscInterfaceConfig", "serviceAccount")


def probe_body(job: Json) -> Json:
    """What projects.locations.customJobs.create takes, made from the body of the rung's own job."""
    spec = job["jobSpec"]
    return {
        **{key: job[key] for key in ("labels", "encryptionSpec") if key in job},
        "displayName": f"{job.get('displayName', 'step')[:80]}: probe, is there capacity?",
        "jobSpec": {
            **{key: spec[key] for key in _JOB if key in spec},
            "workerPoolSpecs": [_pool(pool) for pool in spec["workerPoolSpecs"]],
            "scheduling": {"strategy": spec.get("scheduling", {}).get("strategy", "SPOT"), "disableRetries": True},
        },
    }


def _pool(pool: Json) -> Json:
    kept = {key: pool[key] for key in _POOL if key in pool}
    package = pool.get("pythonPackageSpec", {})
    image = pool.get("containerSpec", {}).get("imageUri") or package.get("executorImageUri", "")
    return {**kept, "containerSpec": {"imageUri": image, "command": _COMMAND}}
