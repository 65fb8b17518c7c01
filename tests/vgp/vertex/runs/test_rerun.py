"""A rerun is the old run again, from what Google keeps; repeated or interrupted, it is one run."""

import json
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from google.protobuf import json_format

from tools.emulator.cloud import Cloud, lose_response, reset, status
from vgp.base.errors import RequestError
from vgp.check.spec.pipeline_spec import PipelineSpec, switch_cache
from vgp.settings import Settings
from vgp.vertex.runs import attempts
from vgp.vertex.runs.remote_run import Run, read
from vgp.vertex.runs.rerun import build_body, rerun

TRAINING = json.loads((Path(__file__).parents[3] / "golden/training.json").read_text())
CREATE = "aiplatform.projects.locations.pipelineJobs.create"
FULL = {
    "service_account": "runner@test-project.iam.gserviceaccount.com",
    "network": "projects/123456789012/global/networks/main",
    "encryption_key": "projects/test-project/locations/us-central1/keyRings/r/cryptoKeys/k",
    "failure_policy": "slow",
}


@pytest.fixture
def failed(cloud: Cloud, start: Callable[..., str], look: Callable[[str], Run]) -> Run:
    """A run with every setting, of which the last step but one failed."""
    cloud.script(seconds=60)
    cloud.script("evaluate", fail="no memory")
    values = {"epochs": 2.5, "seed": 7, "task_options": {"layers": [1, 2]}}
    name = start(values=values, labels={"team": "red"}, id="training-old", **FULL)
    cloud.clock.advance(3600)
    return look(name)


def inputs(job: Any) -> dict[str, Any]:
    """What the run does, without what became of it; in a rerun every step runs."""
    data = json_format.MessageToDict(type(job).pb(job))
    data["pipelineSpec"] = switch_cache(PipelineSpec(data["pipelineSpec"]), False).content
    names = ("pipelineSpec", "runtimeConfig", "serviceAccount", "network", "encryptionSpec", "templateUri")
    return {name: data.get(name) for name in names}


def test_the_same_again(cloud: Cloud, settings: Settings, failed: Run) -> None:
    job, started = attempts.start(settings, build_body(failed))
    assert started and job.name != failed.name
    assert inputs(job) == inputs(failed.job)
    assert "vertex-ai-pipelines-run-billing-id" not in build_body(failed)["labels"], "Google gives each run another"
    assert job.labels["rerun-of"] == "training-old" and job.labels["team"] == "red"


def test_it_is_made_of_what_google_keeps_and_not_of_these_settings(settings: Settings, failed: Run) -> None:
    others = settings.model_copy(update={"service_account": None, "failure_policy": "fast", "bucket": "gs://elsewhere"})
    assert inputs(attempts.start(others, build_body(failed))[0]) == inputs(failed.job)


def test_later_it_can_be_had_again(cloud: Cloud, settings: Settings, failed: Run) -> None:
    first, _ = attempts.start(settings, build_body(failed))
    cloud.clock.advance(3 * 3600)
    again, started = attempts.start(settings, build_body(failed))
    assert started and again.name == f"{first.name}-a2"


def test_repeated_it_starts_one_run(cloud: Cloud, settings: Settings, failed: Run) -> None:
    cloud.fail(CREATE, lose_response(), status(503), reset())
    with ThreadPoolExecutor(8) as pool:
        found = list(pool.map(lambda _: attempts.start(settings, build_body(failed))[0].name, range(20)))
    assert len(set(found)) == 1 and len(cloud.jobs) == 2


def test_what_is_changed_is_another_run(settings: Settings, failed: Run) -> None:
    made = [build_body(failed), build_body(failed, ["epochs=3"]), build_body(failed, from_failed=True)]
    assert len({each["labels"]["request"] for each in made}) == len(made)


def test_a_rerun_can_be_run_again(settings: Settings, failed: Run) -> None:
    once = read(attempts.start(settings, build_body(failed))[0])
    twice = read(attempts.start(settings, build_body(once))[0])
    assert len({failed.id, once.id, twice.id}) == 3
    assert twice.labels["rerun-of"] == once.id and len(twice.id) == len(once.id)


def states(run: Run) -> dict[str, str]:
    return {step.name: step.state for step in run.steps}


def test_from_the_failed_step_takes_finished_ones_from_the_cache(
    cloud: Cloud, settings: Settings, failed: Run, look: Callable[[str], Run]
) -> None:
    cloud.script("evaluate", seconds=60)
    job, _ = attempts.start(settings, build_body(failed, from_failed=True))
    cloud.clock.advance(3600)
    steps = states(look(job.name))
    assert {name for name, state in steps.items() if state == "cached"} == {"prepare", "train"}
    assert set(steps.values()) == {"cached", "succeeded"}


def test_else_every_step_runs_although_the_pipeline_was_compiled_with_the_cache_on(
    cloud: Cloud, settings: Settings, start: Callable[..., str], look: Callable[[str], Run]
) -> None:
    name = start(switch_cache(PipelineSpec(TRAINING), True).content)
    cloud.clock.advance(3600)
    job, _ = attempts.start(settings, build_body(look(name)))
    cloud.clock.advance(3600)
    assert set(states(look(job.name)).values()) == {"succeeded"}


def test_other_values_are_checked_against_the_pipeline(settings: Settings, failed: Run) -> None:
    job, _ = attempts.start(settings, build_body(failed, ["epochs=4", 'data=it\'s "x" [red]']))
    assert read(job).arguments == {**failed.arguments, "epochs": 4, "data": 'it\'s "x" [red]'}
    with pytest.raises(RequestError, match="Did you mean epochs"):
        build_body(failed, ["epoch=4"])
    with pytest.raises(RequestError, match="seed takes an integer"):
        build_body(failed, ["seed=many"])


def test_a_display_name_of_ones_own_is_kept(failed: Run) -> None:
    assert "displayName" not in build_body(failed)
    failed.job.display_name = 'Night "run" [red]'
    assert build_body(read(failed.job))["displayName"] == 'Night "run" [red]'


def test_an_id_too_long_for_a_label_is_no_label(failed: Run) -> None:
    failed.job.name = failed.job.name.replace("training-old", "x" * 128)
    assert "rerun-of" not in build_body(read(failed.job))["labels"]


@pytest.mark.parametrize("from_failed", [False, True])
def test_a_rerun_has_a_ceiling_too(cloud: Cloud, settings: Settings, failed: Run, from_failed: bool) -> None:
    before = len(cloud.jobs)
    with pytest.raises(RequestError, match=r"a run can cost \$.*, more than --max-usd 1\."):
        rerun(settings, failed.id, from_failed=from_failed, max_usd=1)
    assert len(cloud.jobs) == before
    assert rerun(settings, failed.id, from_failed=from_failed, max_usd=1000).fresh
