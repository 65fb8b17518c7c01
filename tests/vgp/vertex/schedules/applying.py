"""A process that applies a schedule, to be killed: one import of Google's clients, then a fork for every line it reads.

A line is JSON: the variables of the loopback cloud, and what is declared. The fork prints its process id, and applies.
"""

import json
import os
import sys
from pathlib import Path

from google.cloud.aiplatform_v1.services.schedule_service import ScheduleServiceClient

from vgp.settings import Schedule, load
from vgp.vertex.schedules.apply import apply
from vgp.vertex.schedules.declaration import declaration

assert ScheduleServiceClient, "imported once, before the forks"


def main() -> None:
    for line in sys.stdin:
        given = json.loads(line)
        process = os.fork()
        if not process:
            code = 1
            try:
                run(given["environment"], given["declared"], given["spec"])
                code = 0
            finally:
                os._exit(code)
        print(process, flush=True)
        _, status = os.waitpid(process, 0)
        print(os.waitstatus_to_exitcode(status), flush=True)


def run(environment: dict[str, str], declared: dict[str, object], spec: str) -> None:
    os.environ.update(environment)
    schedule = Schedule.model_validate(declared)
    settings = load().model_copy(update={"schedules": {"nightly": schedule}})
    apply(settings, declaration(settings, "nightly", json.loads(Path(spec).read_text()), schedule.parameters))


if __name__ == "__main__":
    main()
