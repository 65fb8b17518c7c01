import pytest

from vgp.check.spec.pipeline_spec import PipelineSpec
from vgp.settings import Schedule
from vgp.vertex.schedules import declared_schedule


def spec(*names: str) -> PipelineSpec:
    parameters = {name: {"parameterType": "STRING"} for name in names}
    return PipelineSpec({"root": {"inputDefinitions": {"parameters": parameters}}})


@pytest.mark.parametrize(
    ("cron", "nights"),
    [("30 2 * * *", 365), ("30 2 * * 1-5", 261), ("0 4 * * 1", 52), ("0 0 1 * *", 12), ("0 0 29 2 *", 1),
     ("0 */6 * * *", 1460)],
)  # fmt: skip
def test_a_year_has_as_many_nights_as_the_schedule_falls_due(cron: str, nights: int) -> None:
    assert declared_schedule.nights(Schedule(pipeline="training", cron=cron, time_zone="Europe/Berlin")) == nights


def test_what_was_given_counts_and_a_workflow_without_the_parameter_gets_none() -> None:
    schedule = Schedule(pipeline="training", cron="0 4 * * 1")
    assert declared_schedule.filled(spec("champion", "nights"), schedule, {}) == {"champion": "auto", "nights": 52}
    given = {"champion": "", "nights": 10}
    assert declared_schedule.filled(spec("champion", "nights"), schedule, given) == given
    assert declared_schedule.filled(spec("data"), schedule, {"data": "x"}) == {"data": "x"}
