"""The web shells of a custom job: one URI for each machine, by the machine's name.

https://cloud.google.com/vertex-ai/docs/training/monitor-debug-interactive-shell
"""

from typing import Any

RUNNING = 3


def fill_web_access(job: Any) -> None:
    """Adds the output field webAccessUris to an active CustomJob."""
    if job.state != RUNNING or not job.job_spec.enable_web_access:
        return
    region, number = job.name.split("/")[3], job.name.rpartition("/")[2]
    for pool, spec in enumerate(job.job_spec.worker_pool_specs):
        for replica in range(spec.replica_count):
            machine = f"workerpool{pool}-{replica}"
            job.web_access_uris[machine] = (
                f"https://{number}-{machine}-dot-{region}.aiplatform-training.googleusercontent.com"
            )
