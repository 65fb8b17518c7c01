"""A run is put into its experiment, once, through faults; Google's SDK sees it there."""

import json
from pathlib import Path

import pytest

from tools.emulator.cloud import Cloud, lose_response, status
from vgp.base.errors import RequestError, WorkFailed
from vgp.settings import Settings
from vgp.vertex.runs import pipeline_job
from vgp.vertex.runs.run_submission import associate

SPEC = json.loads((Path(__file__).parents[3] / "golden/training.json").read_text())


@pytest.fixture
def run(cloud: Cloud, settings: Settings) -> str:
    job, _ = pipeline_job.create(settings, pipeline_job.build_body(settings, SPEC, {}), "run")
    cloud.clock.advance(60)
    return str(job.name)


def members(cloud: Cloud, experiment: str) -> list[str]:
    [name] = [name for name in cloud.contexts.created if name.endswith(f"/contexts/{experiment}")]
    return [child["name"].rsplit("/", 1)[1] for child in cloud.contexts.children(name)]


def test_the_experiment_is_made_and_the_run_is_in_it(cloud: Cloud, settings: Settings, run: str) -> None:
    associate(settings, run, "delays")
    associate(settings, run, "delays")
    assert members(cloud, "delays") == ["run"]
    [context] = [each for each in cloud.contexts.created.values() if each.display_name == "delays"]
    assert (context.schema_title, context.schema_version) == ("system.Experiment", "0.0.1")


@pytest.mark.parametrize("method", ["get", "create", "addContextChildren"])
@pytest.mark.parametrize("fault", [status(503), lose_response()], ids=["503", "lost"])
def test_a_fault_changes_nothing(cloud: Cloud, settings: Settings, run: str, method: str, fault: object) -> None:
    cloud.fail(f"aiplatform.projects.locations.metadataStores.contexts.{method}", fault)  # type: ignore[arg-type]
    associate(settings, run, "delays")
    assert members(cloud, "delays") == ["run"]


def test_a_name_that_is_none_is_refused_before_any_call(cloud: Cloud, settings: Settings, run: str) -> None:
    before = len(cloud.requests)
    with pytest.raises(RequestError, match="is no valid run id"):
        associate(settings, run, "../contexts/x")
    assert len(cloud.requests) == before


def test_a_refusal_of_google_is_reported(cloud: Cloud, settings: Settings, run: str) -> None:
    cloud.fail(
        "*.contexts.addContextChildren", status(403, "Permission 'aiplatform.contexts.addContextChildren' denied")
    )
    with pytest.raises(WorkFailed, match="add the run to the experiment delays: not allowed"):
        associate(settings, run, "delays")


def test_a_run_without_a_context_can_be_added_later_by_its_id(cloud: Cloud, settings: Settings) -> None:
    job, _ = pipeline_job.create(settings, pipeline_job.build_body(settings, SPEC, {}), "early")
    with pytest.raises(WorkFailed, match="--id early"):
        associate(settings, job.name, "delays", patience_s=0.0)
    cloud.clock.advance(60)
    associate(settings, job.name, "delays")
    assert members(cloud, "delays") == ["early"]
