"""A run on a persistent resource is created once, through v1beta1, whose published definition checks it."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from google.api_core import exceptions

from tools.emulator.cloud import Cloud, lose_response, reset, status
from vgp.base.errors import WorkFailed
from vgp.settings import Settings
from vgp.vertex import clients, resource_names, rest
from vgp.vertex.runs import pipeline_job
from vgp.vertex.runs.remote_run import Run
from vgp.vertex.runs.rerun import rerun

SPEC = json.loads((Path(__file__).parents[3] / "golden/training.json").read_text())
CREATE = "aiplatform.projects.locations.pipelineJobs.create"
NAME = "projects/test-project/locations/us-central1/persistentResources/dev-box"
DETAIL = {
    "persistentResourceName": NAME,
    "taskResourceUnavailableWaitTimeMs": "600000",
    "taskResourceUnavailableTimeoutBehavior": "FALL_BACK_TO_ON_DEMAND",
}


@pytest.fixture
def boxed(settings: Settings) -> Settings:
    return settings.model_copy(update={"persistent_resource": "dev-box"})


def creates(cloud: Cloud) -> list[Any]:
    return [call for call in cloud.requests if call.method == CREATE]


@pytest.mark.parametrize("fault", [status(429), status(503), reset(), lose_response()], ids=str)
def test_the_run_is_created_once_with_the_resource_through_v1beta1(cloud: Cloud, boxed: Settings, fault: Any) -> None:
    cloud.fail(CREATE, fault)
    body = pipeline_job.build_body(boxed, SPEC, {"epochs": 2})
    job, fresh = pipeline_job.create(boxed, body, pipeline_job.job_id(body))
    again, repeated = pipeline_job.create(boxed, body, pipeline_job.job_id(body))
    assert list(cloud.jobs) == [job.name] == [again.name] and (fresh, repeated) == (True, False)
    assert job.state.name == "PIPELINE_STATE_PENDING" and job.labels["request"] == body["labels"]["request"]
    sent = creates(cloud)[-1]
    assert sent.definition.document.name == "aiplatform.v1beta1"
    assert sent.body["runtimeConfig"]["defaultRuntime"] == {"persistentResourceRuntimeDetail": DETAIL}


def test_without_the_setting_the_run_is_created_through_v1(cloud: Cloud, settings: Settings) -> None:
    body = pipeline_job.build_body(settings, SPEC, {})
    pipeline_job.create(settings, body, pipeline_job.job_id(body))
    assert creates(cloud)[0].definition.document.name == "aiplatform.v1"


@pytest.mark.parametrize(
    ("version", "detail", "message"),
    [
        ("v1", DETAIL, "defaultRuntime"),
        ("v1beta1", {**DETAIL, "taskResourceUnavailableTimeoutBehavior": "WAIT"}, "timeout_behavior"),
        ("v1beta1", {**DETAIL, "waitTime": "1"}, "waitTime"),
    ],
)
def test_the_loopback_cloud_refuses_what_the_definition_of_the_version_lacks(
    cloud: Cloud, boxed: Settings, version: str, detail: dict[str, str], message: str
) -> None:
    body = pipeline_job.build_body(boxed, SPEC, {})
    config = {**body["runtimeConfig"], "defaultRuntime": {"persistentResourceRuntimeDetail": detail}}
    path = f"{version}/{resource_names.location(boxed)}/pipelineJobs"
    cloud.called_by_test.add(CREATE)
    with pytest.raises(exceptions.BadRequest, match=message):
        rest.call(boxed, "aiplatform", path, body={**body, "runtimeConfig": config}, **clients.once())


@pytest.mark.parametrize(("resource", "id_"), [("dev-box", "dev-box"), (None, "")])
def test_a_step_reads_the_resource_of_its_run(cloud: Cloud, settings: Settings, resource: str | None, id_: str) -> None:
    spec, seen = json.loads(json.dumps(SPEC)), []
    text = {"runtimeValue": {"constant": "<{{$.pipeline_persistent_resource_id}}>"}}
    dags = [component["dag"]["tasks"] for component in spec["components"].values() if "dag" in component]
    [task] = [tasks["resolve"] for tasks in dags if "resolve" in tasks]
    task["inputs"]["parameters"]["model_name"] = text
    cloud.script("resolve", outputs=lambda task: seen.append(task.inputs["model_name"]) or {})
    own = settings.model_copy(update={"persistent_resource": resource})
    pipeline_job.create(own, pipeline_job.build_body(own, spec, {}), "mine")
    assert seen == [f"<{id_}>"]


def test_a_rerun_takes_the_resource_of_its_environment_and_is_refused_without_it(
    cloud: Cloud, boxed: Settings, settings: Settings, start: Callable[..., str], look: Callable[[str], Run]
) -> None:
    old = look(start(id="old"))
    with pytest.raises(WorkFailed, match=f"{NAME} is not there"):
        rerun(boxed, old.id)
    assert len(cloud.jobs) == 1
    cloud.persistent_resources.add("dev-box", state=3)
    on_box, elsewhere = rerun(boxed, old.id), rerun(settings, old.id)
    sent = [call.body["runtimeConfig"].get("defaultRuntime") for call in creates(cloud)]
    assert sent == [None, {"persistentResourceRuntimeDetail": DETAIL}, None]
    assert on_box.fresh and elsewhere.fresh and on_box.run.id != elsewhere.run.id


def test_google_validates_components_first_only_if_asked(cloud: Cloud, settings: Settings) -> None:
    asked = settings.model_copy(update={"preflight_validations": True})
    bodies = [pipeline_job.build_body(own, SPEC, {}) for own in (settings, asked)]
    assert pipeline_job.job_id(bodies[0]) == pipeline_job.job_id(bodies[1]), "the run does the work of the other one"
    job, _ = pipeline_job.create(asked, bodies[1], "asked")
    assert job.preflight_validations and "preflightValidations" not in bodies[0]
