"""A process that submits, to be killed: one import of Google's clients, then a fork for every line that it reads.

A line is JSON: the variables of the loopback cloud, a pipeline, and options of `submit`. The fork's process id is
printed, and at its end the code with which it ended.
"""

import json
import os
import sys

from google.cloud.aiplatform_v1.services.pipeline_service import PipelineServiceClient

from vgp.settings import load
from vgp.vertex.runs import attempts, pipeline_job
from vgp.vertex.runs.policy import chosen

assert PipelineServiceClient, "imported once, before the forks"


def main() -> None:
    for line in sys.stdin:
        call = json.loads(line)
        process = os.fork()
        if not process:
            code = 1
            try:
                submit(**call)
                code = 0
            finally:
                os._exit(code)
        print(process, flush=True)
        _, status = os.waitpid(process, 0)
        print(os.waitstatus_to_exitcode(status), flush=True)


def submit(environment: dict[str, str], spec: dict[str, object], options: dict[str, object]) -> None:
    os.environ.update(environment)
    settings = load()
    body = pipeline_job.body(settings, spec, {}, key=str(options.get("key") or ""))
    attempts.start(settings, body, policy(**options))


def policy(**options: object) -> object:
    return chosen(
        **{"id": None, "key": None, "window": None, "retry": False, "if_exists": None, "new": False, **options}
    )


if __name__ == "__main__":
    main()
