"""An attempt after a failure goes on with what the failed run had pinned; after a success everything is pinned anew."""

import copy
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from tools.emulator.cloud import Cloud, slow
from vgp.protocol.moment import EPOCH_DAYS
from vgp.settings import Settings
from vgp.vertex import resource_names
from vgp.vertex.runs import pipeline_job, rerun
from vgp.vertex.runs.attempts import start
from vgp.vertex.runs.remote_run import read
from vgp.vertex.runs.start_policy import Policy

from .pinning import BUCKET, HOUR, SPEC, in_exit_handler, night, over, read_pins

RETRY = Policy(retry=True)
CREATE = "aiplatform.projects.locations.pipelineJobs.create"
FIRST, SECOND = f"{BUCKET}/1.json", f"{BUCKET}/2.json"


@pytest.fixture
def body(settings: Settings) -> dict[str, Any]:
    return pipeline_job.build_body(settings, SPEC, {})


def states(cloud: Cloud, job: Any) -> list[str]:
    return [step.state for step in read(type(job).wrap(cloud.jobs[job.name])).steps]


@pytest.mark.parametrize("spec", [SPEC, in_exit_handler(SPEC)], ids=["plain", "in an exit handler"])
@pytest.mark.parametrize("policy", [None, RETRY], ids=["after the window", "--retry"])
def test_an_attempt_after_a_failure_takes_its_pins_and_finished_steps(
    cloud: Cloud, settings: Settings, spec: dict[str, Any], policy: Policy | None
) -> None:
    body = pipeline_job.build_body(settings, spec, {})
    night(cloud, FIRST, train="no memory")
    first, _ = start(settings, body)
    assert read_pins(first) == ("1", None, None)
    over(cloud, first, "failed", 3 * HOUR if policy is None else 70)
    night(cloud, FIRST)
    second, started = start(settings, body, policy)
    assert started and read_pins(second) == ("2", resource_names.short(first.name), FIRST)
    assert second.labels["request"] == first.labels["request"]
    over(cloud, second, "succeeded")
    assert states(cloud, second) == ["succeeded", "cached", "succeeded"]
    cloud.clock.advance(2 * HOUR)
    assert read_pins(start(settings, body)[0]) == ("3", None, None), "after a success everything is pinned anew"


def test_the_pins_go_from_failure_to_failure(cloud: Cloud, settings: Settings, body: dict[str, Any]) -> None:
    night(cloud, FIRST, train="stockout")
    first, _ = start(settings, body)
    over(cloud, first, "failed")
    second, _ = start(settings, body, RETRY)
    over(cloud, second, "failed")
    third, _ = start(settings, body, RETRY)
    assert read_pins(third) == ("3", resource_names.short(second.name), FIRST)


def test_a_cancelled_run_has_what_it_was_to_go_on_with_though_it_resolved_nothing(
    cloud: Cloud, settings: Settings, body: dict[str, Any]
) -> None:
    night(cloud, FIRST, train="stockout")
    first, _ = start(settings, body)
    over(cloud, first, "failed")
    second, _ = start(settings, body, RETRY)
    over(cloud, second, "cancelled", 6)
    third, _ = start(settings, body, RETRY)
    assert read_pins(third) == ("3", resource_names.short(second.name), FIRST)
    over(cloud, third, "cancelled", 45)
    assert read_pins(start(settings, body, RETRY)[0])[2] == FIRST


@pytest.mark.parametrize("before", [0, 1], ids=["at the first attempt", "at pins that are gone"])
def test_what_never_resolved_is_pinned_anew(
    cloud: Cloud, settings: Settings, body: dict[str, Any], before: int
) -> None:
    for _ in range(before):
        night(cloud, FIRST, train="stockout")
        over(cloud, start(settings, body, RETRY)[0], "failed")
    night(cloud, FIRST, resolve="gs://raw/day.csv was replaced")
    over(cloud, start(settings, body, RETRY)[0], "failed")
    job, started = start(settings, body, RETRY)
    assert started and read_pins(job) == (str(before + 2), None, None)


def test_pins_with_which_nothing_was_done_are_not_taken_a_second_time(
    cloud: Cloud, settings: Settings, body: dict[str, Any]
) -> None:
    """A file was bad, and has been replaced: the first attempt cannot know it, the next one must not fail for it."""
    night(cloud, FIRST, prepare="row 7 is no number")
    over(cloud, start(settings, body)[0], "failed")
    second, _ = start(settings, body, RETRY)
    assert read_pins(second)[2] == FIRST
    over(cloud, second, "failed")
    third, _ = start(settings, body, RETRY)
    assert read_pins(third) == ("3", None, None)
    over(cloud, third, "failed")
    assert read_pins(start(settings, body, RETRY)[0])[2] == FIRST, "it has pins of its own"


def test_after_the_cache_epoch_there_is_nothing_to_go_on_with(
    cloud: Cloud, settings: Settings, body: dict[str, Any]
) -> None:
    night(cloud, FIRST, train="no memory")
    for days, expected in ((EPOCH_DAYS - 1, FIRST), (EPOCH_DAYS + 1, None)):
        over(cloud, start(settings, body)[0], "failed", days * 24 * HOUR)
        job, _ = start(settings, body)
        assert read_pins(job)[2] == expected


def test_pins_that_the_caller_gave_stay_an_empty_text_too(cloud: Cloud, settings: Settings) -> None:
    night(cloud, FIRST, train="no memory")
    for own in (SECOND, ""):
        body = pipeline_job.build_body(settings, SPEC, {"pins": own})
        over(cloud, start(settings, body)[0], "failed")
        assert read_pins(start(settings, body, RETRY)[0]) == ("2", None, own)


def test_a_pipeline_that_knows_no_pins_gets_none(cloud: Cloud, settings: Settings) -> None:
    spec = copy.deepcopy(SPEC)
    spec["root"]["inputDefinitions"]["parameters"]["pins"] = {"parameterType": "STRUCT", "isOptional": True}
    night(cloud, FIRST, train="no memory")
    body = pipeline_job.build_body(settings, spec, {})
    over(cloud, start(settings, body)[0], "failed")
    assert read_pins(start(settings, body, RETRY)[0]) == ("2", None, None)


@pytest.mark.parametrize("strange", [7, "", "/tmp/pins.json", 'gs://b/{{$.inputs.parameters["x"]}}'])
def test_what_is_no_uri_of_pins_is_not_taken(
    cloud: Cloud, settings: Settings, body: dict[str, Any], strange: Any
) -> None:
    night(cloud, strange, train="no memory")
    over(cloud, start(settings, body)[0], "failed")
    assert read_pins(start(settings, body, RETRY)[0]) == ("2", None, None)


def test_another_run_now_begins_anew_unless_it_is_a_retry(
    cloud: Cloud, settings: Settings, body: dict[str, Any]
) -> None:
    night(cloud, FIRST, train="no memory")
    over(cloud, start(settings, body)[0], "failed")
    new = start(settings, body, Policy(if_exists="new"))[0]
    assert read_pins(new) == ("2", None, None)
    over(cloud, new, "failed")
    assert read_pins(start(settings, body, Policy(if_exists="new", retry=True))[0])[2] == FIRST


def test_an_id_that_no_label_can_hold_is_left_out_and_the_pins_are_taken(
    cloud: Cloud, settings: Settings, body: dict[str, Any]
) -> None:
    night(cloud, FIRST, train="no memory")
    over(cloud, pipeline_job.create(settings, body, "x" * 128)[0], "failed")
    assert read_pins(start(settings, body, RETRY)[0]) == ("1", "", FIRST)


def test_fifty_at_once_send_the_same_job_and_one_starts_it(
    cloud: Cloud, settings: Settings, body: dict[str, Any]
) -> None:
    night(cloud, FIRST, train="stockout")
    first, _ = start(settings, body)
    over(cloud, first, "failed")
    cloud.requests.clear()
    cloud.fail(CREATE, slow(3.0), *[slow(0.3)] * 9)  # so long that others ask meanwhile, on a busy machine too
    with ThreadPoolExecutor(25) as pool:
        answers = list(pool.map(lambda _: start(settings, body, RETRY), range(50)))
    assert sum(started for _, started in answers) == 1 and len(cloud.jobs) == 2
    sent = [call.body for call in cloud.requests if call.method == CREATE]
    assert len(sent) > 1, "no attempts raced"
    assert len({job["labels"].pop("submission") for job in sent}) == len(sent)
    assert all(job == sent[0] for job in sent)
    assert {read_pins(job) for job, _ in answers} == {("2", resource_names.short(first.name), FIRST)}


def test_a_record_that_is_deleted_meanwhile_is_pinned_anew(
    cloud: Cloud, settings: Settings, body: dict[str, Any]
) -> None:
    night(cloud, FIRST, train="no memory")
    first, _ = start(settings, body)
    over(cloud, first, "failed")
    second, _ = start(settings, body, RETRY)
    over(cloud, second, "failed")
    del cloud.pipeline_jobs.jobs[first.name]
    lists = "aiplatform.projects.locations.pipelineJobs.list"
    cloud.on(lists, lambda _: cloud.pipeline_jobs.jobs.pop(second.name, None))
    job, started = start(settings, body, RETRY)
    assert started and read_pins(job) == ("3", None, None)


def test_a_rerun_from_the_failed_step_takes_the_pins_and_any_other_pins_anew(
    cloud: Cloud, settings: Settings, body: dict[str, Any]
) -> None:
    night(cloud, FIRST, train="no memory")
    first, _ = start(settings, body)
    over(cloud, first, "failed")
    on = rerun.rerun(settings, resource_names.short(first.name), from_failed=True)
    assert read_pins(on.run.job) == ("1", resource_names.short(first.name), FIRST)
    assert any("uses the pins of nightly-" in line for line in on.lines())
    assert not any("another run" in line for line in on.lines())
    over(cloud, on.run.job, "failed")
    again = rerun.rerun(settings, on.run.id)
    assert read_pins(again.run.job) == ("1", None, None) and again.run.id != on.run.id
    last = rerun.rerun(settings, on.run.id, [f"pins={SECOND}"], from_failed=True)
    assert read_pins(last.run.job) == ("1", None, SECOND)


def test_a_rerun_whose_pins_were_not_there_yet_is_the_same_rerun(
    cloud: Cloud, settings: Settings, body: dict[str, Any]
) -> None:
    night(cloud, FIRST)
    first = resource_names.short(start(settings, body)[0].name)
    early = rerun.rerun(settings, first, from_failed=True)
    cloud.clock.advance(30)
    late = rerun.rerun(settings, first, from_failed=True)
    assert (late.run.id, late.fresh) == (early.run.id, False)


def test_a_rerun_leaves_the_cache_to_the_steps_that_the_pipeline_gives_it_to(
    cloud: Cloud, settings: Settings, body: dict[str, Any]
) -> None:
    """A step with effects must not be skipped because something else failed."""
    night(cloud, FIRST, train="no memory")
    first, _ = start(settings, body)
    over(cloud, first, "failed")
    spec = rerun.build_body(read(first), from_failed=True)["pipelineSpec"]
    tasks = spec["root"]["dag"]["tasks"]
    assert {name: bool(task.get("cachingOptions")) for name, task in tasks.items()} == {
        "resolve": False, "prepare": True, "train": True,
    }  # fmt: skip
