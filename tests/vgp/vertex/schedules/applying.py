"""A process that applies a schedule, to be killed: see tests/killing.py."""

import json
from pathlib import Path

from google.cloud.aiplatform_v1.services.schedule_service import ScheduleServiceClient
from killing import serve

from vgp.settings import Schedule, load
from vgp.vertex.schedules.declared_schedule import declaration
from vgp.vertex.schedules.reconcile import apply

assert ScheduleServiceClient, "imported once, before the forks"


def run(declared: dict[str, object], spec: str) -> None:
    schedule = Schedule.model_validate(declared)
    settings = load().model_copy(update={"schedules": {"nightly": schedule}})
    apply(settings, declaration(settings, "nightly", json.loads(Path(spec).read_text()), schedule.parameters))


if __name__ == "__main__":
    serve(run)
