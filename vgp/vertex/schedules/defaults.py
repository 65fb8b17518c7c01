"""What a schedule says of a workflow where pipelines.toml says nothing: its champion is the registry's, and the nights
that share a year's error are those of its cron expression."""

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

from vgp.check.spec.pipeline_spec import PipelineSpec
from vgp.settings import Schedule
from vgp.vertex.schedules.cron import Cron

CHAMPION, NIGHTS = "champion", "nights"
_AUTO = "auto"
#: Nights are counted over these, so that 29 February is a quarter; fixed, for tomorrow's plan is to be the same.
_YEARS = tuple(datetime(year, 1, 1, tzinfo=UTC) for year in range(2025, 2029))


def filled(spec: PipelineSpec, schedule: Schedule, values: Mapping[str, Any]) -> dict[str, Any]:
    """The values, with what follows from the schedule for parameters that the workflow has and nobody has given."""
    known = {CHAMPION: _AUTO, NIGHTS: nights(schedule)}
    missing = {name: value for name, value in known.items() if name in spec.parameters and name not in values}
    return {**missing, **values}


def nights(schedule: Schedule) -> int:
    """How often the schedule falls due in a year, at least once."""
    cron = Cron(schedule.cron, schedule.time_zone)
    months = sum(cron.per_month(first) for first in _YEARS) / len(_YEARS)
    return max(1, round(12 * months))
