"""A run is started exactly once, whatever happens to the requests, and carries everything that was asked for."""

import json
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from tools.emulator.cloud import Cloud, lose_response, reset, slow, status
from vgp.__main__ import main
from vgp.base.errors import RequestError, WorkFailed
from vgp.check.spec.pipeline_spec import PipelineSpec, list_cached_tasks
from vgp.machines.placement.step_request import Request
from vgp.settings import Settings
from vgp.settings.settings_model import Mlflow, Notify
from vgp.vertex import resource_names
from vgp.vertex.runs import pipeline_job
from vgp.vertex.runs.remote_run import read
from vgp.workflow.compiling.compile import compile_pipeline

GET = "aiplatform.projects.locations.pipelineJobs.get"
CREATE = "aiplatform.projects.locations.pipelineJobs.create"
SPEC = json.loads((Path(__file__).parents[3] / "golden/training.json").read_text())


def started(cloud: Cloud) -> list[Any]:
    return list(cloud.jobs.values())


def test_the_same_request_twice_starts_one_run(cloud: Cloud, settings: Settings) -> None:
    body = pipeline_job.build_body(settings, SPEC, {"epochs": 1.0})
    first, fresh = pipeline_job.create(settings, body, pipeline_job.job_id(body))
    again, repeated = pipeline_job.create(settings, body, pipeline_job.job_id(body))
    assert (fresh, repeated) == (True, False)
    assert first.name == again.name
    assert len(started(cloud)) == 1


def test_another_parameter_is_another_run(cloud: Cloud, settings: Settings) -> None:
    for epochs in (1.0, 2.0):
        body = pipeline_job.build_body(settings, SPEC, {"epochs": epochs})
        pipeline_job.create(settings, body, pipeline_job.job_id(body))
    assert len(started(cloud)) == 2


KEY_RING = "projects/test-project/locations/us-central1/keyRings"
#: Settings that decide what a run does, each with another value, and those that are compiled into the spec, which does.
DECIDE = {
    "project": "other-project", "region": "europe-west4", "bucket": "gs://other-bucket", "environment": "prod",
    "labels": {"team": "forecast"}, "experiment": "spring", "network": "projects/123/global/networks/default",
    "service_account": "other@test-project.iam.gserviceaccount.com", "encryption_key": f"{KEY_RING}/r/cryptoKeys/k",
    "failure_policy": "fast", "persistent_resource": "dev-box",
}  # fmt: skip
COMPILED = {
    "image": "r/i@sha256:" + "0" * 64, "light_image": "r/i@sha256:" + "1" * 64,
    "steps": {"train": Request(machine="n1-standard-4")},
    "notify": Notify(webhook="https://example.com/notices"),
    "mlflow": Mlflow(tracking_uri="https://mlflow.example.com"), "registry": "gs://test-bucket/registry-dev",
}  # fmt: skip
#: `caching` switches the spec; the other settings name places, or belong to other verbs.
ELSEWHERE = {
    "allow_code",
    "caching",
    "code",
    "workflows",
    "dockerfile",
    "torch_index",
    "template_repository",
    "endpoints",
    "schedules",
    "build_service_account",
    "preflight_validations",
}


def test_of_every_setting_it_is_known_whether_it_decides_what_a_run_does() -> None:
    assert set(Settings.model_fields) == {*DECIDE, *COMPILED, *ELSEWHERE}


def identity(settings: Settings, values: dict[str, Any] | None = None, **more: Any) -> str:
    return pipeline_job.job_id(pipeline_job.build_body(settings, SPEC, values or {}, **more))


@pytest.mark.parametrize("name", DECIDE)
def test_all_that_decides_what_a_run_does_is_part_of_its_id(settings: Settings, name: str) -> None:
    assert identity(settings.model_copy(update={name: DECIDE[name]})) != identity(settings)


def test_nothing_else_is(settings: Settings) -> None:
    others = {"endpoints": {"aiplatform": "https://x"}, "template_repository": "https://y", "dockerfile": "D"}
    assert identity(settings.model_copy(update=others)) == identity(settings)


@pytest.mark.parametrize("name", COMPILED)
def test_image_machines_and_notices_are_part_of_the_spec(settings: Settings, name: str) -> None:
    specs = [
        compile_pipeline("training", each).spec
        for each in (settings, settings.model_copy(update={name: COMPILED[name]}))
    ]
    assert len({spec.digest for spec in specs}) == 2


def test_a_value_that_is_the_default_is_the_same_request(settings: Settings) -> None:
    assert identity(settings, {"epochs": 3, "seed": 0, "task_options": {}}) == identity(settings)
    assert identity(settings, {"task_options": {"layers": 1.0}}) == identity(settings, {"task_options": {"layers": 1}})
    assert identity(settings, {"epochs": 2}) != identity(settings)


def test_a_key_is_part_of_the_request_of_the_id_and_of_the_labels(settings: Settings) -> None:
    body = pipeline_job.build_body(settings, SPEC, {}, key="2026-11-21")
    assert pipeline_job.job_id(body).startswith("training-2026-11-21-")
    assert body["labels"]["request-key"] == "2026-11-21"
    assert len({identity(settings), identity(settings, key="2026-11-21"), identity(settings, key="2026-11-22")}) == 3


@pytest.mark.parametrize("key", ["", "k", "x" * 63, "2026-11-21"])
@pytest.mark.parametrize("name", ["2nd_Model", "x" * 128, "a"])
def test_an_id_and_its_attempts_fit_into_a_label(settings: Settings, name: str, key: str) -> None:
    body = pipeline_job.build_body(settings, {**SPEC, "pipelineInfo": {"name": name}}, {}, key=key)
    resource_names.labels({"run": f"{resource_names.job_id(pipeline_job.job_id(body))}-a99999"})


@pytest.mark.parametrize("label", ["request", "attempt", "pinned-by", "request-key", "submission"])
def test_a_label_that_identifies_runs_cannot_be_set_by_others(settings: Settings, label: str) -> None:
    with pytest.raises(RequestError, match=f"labels.{label}: this label is reserved"):
        pipeline_job.build_body(settings, SPEC, {}, labels={label: "x"})


def test_labels_leave_room_for_those_of_a_later_attempt(settings: Settings) -> None:
    """Else the first night starts, and the second one does not."""
    with pytest.raises(RequestError, match="a resource can have at most 64"):
        pipeline_job.build_body(settings, SPEC, {}, labels={f"l{number}": "" for number in range(57)})


def test_a_label_of_one_run_and_a_template_are_part_of_its_id(settings: Settings) -> None:
    bodies = [
        pipeline_job.build_body(settings, SPEC, {}),
        pipeline_job.build_body(settings, SPEC, {}, labels={"x": "y"}),
        pipeline_job.build_body(settings, SPEC, {}, labels={"x": "z"}),
        pipeline_job.build_body(settings, SPEC, {}, template_uri="gs://test-bucket/templates/training@sha256:0"),
        pipeline_job.build_body(settings, SPEC, {}, caching=True),
    ]
    assert len({pipeline_job.job_id(body) for body in bodies}) == len(bodies)


@pytest.mark.parametrize("name", ["2nd_Model", "x" * 128])
def test_an_id_can_be_one_whatever_the_pipelines_name(cloud: Cloud, settings: Settings, name: str) -> None:
    body = pipeline_job.build_body(settings, {**SPEC, "pipelineInfo": {"name": name}}, {})
    job, started = pipeline_job.create(settings, body, pipeline_job.job_id(body))
    assert started and job.labels["pipeline"] == name.lower().replace("_", "-")[:63]


@pytest.mark.parametrize("method", [GET, CREATE])
@pytest.mark.parametrize("fault", [status(429), status(500), status(503), reset(), lose_response()], ids=str)
def test_a_fault_of_the_network_or_of_google_starts_one_run(
    cloud: Cloud, settings: Settings, method: str, fault: Any
) -> None:
    cloud.fail(method, fault)
    body = pipeline_job.build_body(settings, SPEC, {})
    job, fresh = pipeline_job.create(settings, body, pipeline_job.job_id(body))
    assert [each.name for each in started(cloud)] == [job.name]
    assert fresh, "also when the answer to the create was lost"


def test_a_hundred_submissions_of_an_id_at_once_start_one_run(cloud: Cloud, settings: Settings) -> None:
    body = pipeline_job.build_body(settings, SPEC, {})
    with ThreadPoolExecutor(32) as pool:
        done = list(pool.map(lambda _: pipeline_job.create(settings, body, "mine"), range(100)))
    assert len(started(cloud)) == sum(fresh for _, fresh in done) == 1


def test_an_id_that_belongs_to_another_request_is_refused(cloud: Cloud, settings: Settings) -> None:
    pipeline_job.create(settings, pipeline_job.build_body(settings, SPEC, {"epochs": 1.0}), "mine")
    with pytest.raises(RequestError, match="belongs to a run of another request"):
        pipeline_job.create(settings, pipeline_job.build_body(settings, SPEC, {"epochs": 2.0}), "mine")
    assert len(started(cloud)) == 1


def test_every_value_of_the_settings_reaches_the_run(cloud: Cloud, settings: Settings) -> None:
    full = settings.model_copy(
        update={
            "environment": "prod",
            "service_account": "runner@test-project.iam.gserviceaccount.com",
            "network": "projects/123/global/networks/default",
            "encryption_key": "projects/test-project/locations/us-central1/keyRings/r/cryptoKeys/k",
            "labels": {"team": "forecast"},
            "failure_policy": "fast",
        }
    )
    job, _ = pipeline_job.create(
        full, pipeline_job.build_body(full, SPEC, {"task": 'a "quoted" {{$.x}} `text`\n'}), "everything"
    )
    assert job.service_account == full.service_account
    assert job.network == full.network
    assert job.encryption_spec.kms_key_name == full.encryption_key
    assert job.runtime_config.gcs_output_directory == f"{settings.bucket}/runs"
    assert job.runtime_config.failure_policy.name == "PIPELINE_FAILURE_POLICY_FAIL_FAST"
    assert job.runtime_config.parameter_values["task"] == 'a "quoted" {{$.x}} `text`\n'
    labels = {"managed-by": "vertex-gpu-pipelines", "pipeline": "training", "environment": "prod", "team": "forecast"}
    assert labels.items() <= dict(job.labels).items()


@pytest.mark.parametrize("caching", [True, False])
def test_caching_is_switched_in_every_step(settings: Settings, caching: bool) -> None:
    before = json.dumps(SPEC)
    spec = PipelineSpec(pipeline_job.build_body(settings, SPEC, {}, caching=caching)["pipelineSpec"])
    assert set(list_cached_tasks(spec)) == ({task.name for _, task in spec.walk()} if caching else set())
    assert json.dumps(SPEC) == before, "the caller's stays as it is"


def test_a_permission_that_is_missing_is_named_with_its_role(cloud: Cloud, settings: Settings) -> None:
    cloud.fail(CREATE, status(403, message="Permission 'aiplatform.pipelineJobs.create' denied on resource '//x'."))
    with pytest.raises(WorkFailed, match=r"not allowed.*\n.*roles/aiplatform.user"):
        pipeline_job.create(settings, pipeline_job.build_body(settings, SPEC, {}), "x")


def test_the_whole_command_killed_and_repeated_starts_one_run(cloud: Cloud, capsys: pytest.CaptureFixture[str]) -> None:
    """After each single request: test_killed.py."""
    cloud.fail(CREATE, slow(1.5))
    command = [sys.executable, "-m", "vgp", "submit", "training", "--no-preflight"]
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as process:
        until = time.monotonic() + 120
        while CREATE not in [call.method for call in cloud.requests]:
            assert process.poll() is None and time.monotonic() < until, "the command never asked for a run"
            time.sleep(0.01)
        process.kill()
    with pytest.raises(SystemExit) as ended:
        main(["submit", "training", "--no-preflight"])
    assert (ended.value.code, capsys.readouterr().out.startswith("nothing was started: ")) in [(0, False), (4, True)]
    assert len(started(cloud)) == 1


def test_the_link_and_the_id_are_printed(cloud: Cloud, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["submit", "training", "--no-preflight", "--json"])
    out, err = capsys.readouterr()
    assert not ended.value.code, err
    result = json.loads(out)
    assert result["started"] and result["id"] in result["url"]
    assert "console.cloud.google.com" in err


def test_googles_sdk_reads_back_what_was_started(cloud: Cloud, settings: Settings) -> None:
    from google.cloud import aiplatform
    from google.cloud.aiplatform import initializer

    before = dict(vars(initializer.global_config))
    api = {"api_endpoint": cloud.endpoint("aiplatform"), "api_transport": "rest"}
    aiplatform.init(project=settings.project, location=settings.region, **api)
    try:
        started, _ = pipeline_job.create(
            settings, pipeline_job.build_body(settings, SPEC, {"epochs": 5.0}, labels={"team": "x"}), "mine"
        )
        job = aiplatform.PipelineJob.get(started.name)
        assert (job.name, job.labels["team"], job.display_name) == ("mine", "x", "mine")
        assert job.gca_resource.runtime_config.parameter_values["epochs"] == 5.0
        cloud.clock.advance(100_000)
        job.wait()
        assert job.state.name == "PIPELINE_STATE_SUCCEEDED"
        assert [task.task_name for task in job.task_details if task.task_name in ("train", "decide")]
    finally:
        vars(initializer.global_config).update(before)


def test_a_template_of_another_environment_or_version_uses_the_registry_of_the_settings(
    cloud: Cloud, settings: Settings
) -> None:
    """A template that dev has uploaded names dev's registry; one of an older version names none."""
    prod = settings.model_copy(update={"environment": "prod"})
    prod._registries = {"dev": "gs://test-bucket/registry-dev"}
    dev = settings.model_copy(update={"environment": "dev", "registry": "gs://test-bucket/registry-dev"})
    dev._registries = {"prod": prod.registry_root}

    def registry(of: Settings, spec: Any, **values: Any) -> str | None:
        body = pipeline_job.build_body(of, spec, values)
        given: str | None = body["runtimeConfig"]["parameterValues"].get("registry")
        return given

    templates = {of.environment: compile_pipeline("training", of).spec.content for of in (dev, prod)}
    assert registry(prod, templates["dev"]) == "gs://test-bucket/registry"
    assert registry(dev, templates["prod"]) == registry(dev, SPEC) == "gs://test-bucket/registry-dev"
    assert registry(dev, templates["dev"]) is registry(prod, templates["prod"]) is registry(prod, SPEC) is None
    own = PipelineSpec(templates["dev"]).with_defaults({"registry": "gs://mine/models"}).content
    assert registry(prod, own) is None
    assert registry(prod, templates["dev"], registry="gs://mine/models") == "gs://mine/models"


def test_a_run_without_a_schedule_has_no_placeholder_of_a_schedules_time(cloud: Cloud, settings: Settings) -> None:
    body = pipeline_job.build_body(settings, SPEC, {})
    job, _ = pipeline_job.create(settings, body, "training-1")
    sent = read(job).spec.text
    assert pipeline_job.SCHEDULE_TIME in json.dumps(body) and pipeline_job.SCHEDULE_TIME not in sent
    assert '"constant": ""' in sent
