"""The variables of steps that prepare data, on Vertex AI and here, and steps that ask for a disk."""

import json
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from components import step
from vgp import settings
from vgp.base.documents.document import Document
from vgp.base.engine_settings import VARIABLE, engines
from vgp.base.errors import RequestError
from vgp.check import checker
from vgp.machines.catalog.prices import dataflow_usd
from vgp.machines.placement.machine_rules import PlacementError
from vgp.workflow.compiling import compile, workflow_files
from vgp.workflow.compiling.compile_target import Local, Target, choose_vertex_engines
from vgp.workflow.compiling.vertex import Vertex

REPOSITORY = Path(__file__).parents[4]
IMAGE = "us-docker.pkg.dev/p/r/training:1"
TOP = f"""
project = "my-project"
region = "us-central1"
bucket = "gs://my-bucket/below"
image = "{IMAGE}"
service_account = "runner@my-project.iam.gserviceaccount.com"
"""
ENGINES = """
[steps.prepare]
machine = "n2-highmem-16"
boot_disk_gb = 700
timeout = "90m"
memory_gb = 64
env = {A = "1"}
[steps.prepare.bigquery]
max_gb = 200
location = "EU"
[steps.prepare.dataflow]
max_workers = 3
max_hours = 2
"""


@pytest.fixture(scope="module")
def loaded(tmp_path_factory: pytest.TempPathFactory) -> settings.Settings:
    path = tmp_path_factory.mktemp("settings") / "pipelines.toml"
    path.write_text(f'workflows = "x"\n{TOP}{ENGINES}')
    return settings.load(path)


def compiled(target: Target) -> dict[str, Any]:
    spec = workflow_files.compile_workflow("training", target, settings.find_repository(REPOSITORY / "pipelines.toml"))
    return dict(spec.content)


@pytest.fixture(scope="module")
def vertex(loaded: settings.Settings) -> tuple[Vertex, dict[str, Any]]:
    target = Vertex(loaded)
    return target, compiled(target)


def container(spec: dict[str, Any], name: str) -> dict[str, Any]:
    return dict(spec["deploymentSpec"]["executors"][f"exec-{name}"]["container"])


def variables(env: list[dict[str, str]]) -> dict[str, str]:
    return {pair["name"]: pair["value"] for pair in env}


def chief(spec: dict[str, Any], name: str) -> dict[str, Any]:
    return dict(
        spec["components"][f"comp-{name}"]["inputDefinitions"]["parameters"]["worker_pool_specs"]["defaultValue"][0]
    )


def test_a_step_with_a_disk_is_a_custom_job_with_the_timeout_and_tries_of_a_plain_step(vertex) -> None:
    _, spec = vertex
    pool = chief(spec, "prepare")
    assert pool["disk_spec"] == {"boot_disk_type": "pd-ssd", "boot_disk_size_gb": 700}
    assert pool["machine_spec"] == {"machine_type": "n2-highmem-16"} and pool["container_spec"]["image_uri"] == IMAGE
    inputs = spec["components"]["comp-prepare"]["inputDefinitions"]["parameters"]
    assert inputs["timeout"]["defaultValue"] == "5400s" and {"pins", "task"} <= inputs.keys()
    assert spec["components"]["comp-prepare"]["outputDefinitions"]["artifacts"].keys() == {"dataset"}
    (task,) = (
        tasks["prepare"]
        for tasks in (part["dag"]["tasks"] for part in spec["components"].values() if "dag" in part)
        if "prepare" in tasks
    )
    assert task["retryPolicy"]["maxRetryCount"] == 2 and task["cachingOptions"] == {"enableCache": True}


def test_a_step_gets_the_settings_for_every_step(vertex) -> None:
    _, spec = vertex
    values = variables(chief(spec, "prepare")["container_spec"]["env"])
    assert values["A"] == "1" and values["TRAINING_IMAGE"] == IMAGE
    read = engines(values)
    assert (read.memory_gb, read.bigquery.max_gb, read.bigquery.project) == (64, 200, "my-project")
    job = read.dataflow
    assert job and (job.max_workers, job.max_hours, job.image) == (3, 2, IMAGE)
    assert (job.project, job.region, job.temp) == ("my-project", "us-central1", "gs://my-bucket/below/dataflow")
    assert job.service_account == "runner@my-project.iam.gserviceaccount.com"


def test_a_subnetwork_of_another_region_than_the_jobs_is_refused() -> None:
    asked = {"prepare": {"dataflow": {"subnetwork": "regions/europe-west4/subnetworks/s"}}}
    given = {"region": "us-central1", "image": IMAGE, "steps": asked}
    with pytest.raises(
        RequestError, match=r"prepare.dataflow.subnetwork is in europe-west4, .* name a subnetwork of us"
    ):
        choose_vertex_engines(settings.Settings.model_validate(given), "prepare", "", IMAGE)
    near = settings.Settings.model_validate(given | {"region": "europe-west4"})
    assert choose_vertex_engines(near, "prepare", "", IMAGE).dataflow


def test_workers_with_gpus_have_no_price_since_the_rates_are_without_them() -> None:
    assert dataflow_usd("n2-standard-8", 50, 2, 1, "us-central1") and not dataflow_usd(
        "g2-standard-8", 50, 2, 1, "us-central1"
    )


def test_the_step_that_resolves_asks_the_same_bigquery_and_nothing_else(vertex) -> None:
    _, spec = vertex
    read = engines(variables(container(spec, "resolve")["env"]))
    assert read.bigquery.location == "EU" and read.dataflow is None and read.memory_gb == 0
    assert VARIABLE not in variables(container(spec, "evaluate")["env"])


def test_here_only_bigquery_counts(loaded) -> None:
    spec = compiled(Local(loaded))
    for name in ("resolve", "prepare"):
        read = engines(variables(container(spec, name)["env"]))
        assert read.bigquery.max_gb == 200 and read.dataflow is None and read.memory_gb == 0
    assert "env" not in container(spec, "evaluate")


def test_what_a_step_uses_besides_its_machine_counts_in_every_try(vertex, loaded) -> None:
    target, spec = vertex
    report = checker.check([Document("p.json", spec, "")], regions=["us-central1"])
    rows = {row.step: row for row in report.steps}
    bigquery, dataflow = rows["prepare"].services
    assert bigquery.usd == pytest.approx(200 / 1024 * 6.25)
    assert dataflow.usd == pytest.approx(3 * 2 * (4 * 0.056 + 16 * 0.003557 + 50 * 0.000054))
    machine = rows["prepare"].held_usd_per_hour * 1.5
    assert rows["prepare"].max_usd == pytest.approx(
        3 * (machine + rows["prepare"].launcher_usd + bigquery.usd + dataflow.usd)
    )
    assert [used.name for used in rows["resolve"].services] == ["BigQuery"] and not rows["train"].services
    assert {"prepare", "resolve"}.isdisjoint(target.prices()) and "train" in target.prices()
    with pytest.raises(Exception, match=r"prepare, 1 x n2-highmem-16.* with BigQuery \(200 GB\), with Dataflow"):
        compile.compile_pipeline("training", _of_this_repository(loaded), max_usd=3)


def _of_this_repository(loaded: settings.Settings) -> settings.Settings:
    loaded._repository = settings.find_repository(REPOSITORY / "pipelines.toml")
    return loaded.model_copy(update={"steps": {"prepare": loaded.steps["prepare"]}})


@pytest.mark.parametrize("kind", ["step", "job"])
def test_an_input_that_would_take_the_place_of_the_jobs_own_is_refused(kind: str, one: Callable[..., Any]) -> None:
    @step
    def work(timeout: int):
        print(timeout)

    with pytest.raises(PlacementError, match="Its input timeout has the name of an input of Google's wrapper"):
        one(work, kind, timeout=1)


def test_a_step_that_hears_how_the_run_ended_stays_plain() -> None:
    from components.notify import notify

    loaded = settings.Settings.model_validate({"image": IMAGE, "steps": {"notify": {"boot_disk_gb": 200}}})
    with pytest.raises(PlacementError, match="is the run's final status"):
        Vertex(loaded).step(notify)


@pytest.fixture
def one(tmp_path: Path) -> Callable[..., Any]:
    def compile_(component: Any, kind: str, **inputs: Any) -> Any:
        from kfp import compiler, dsl

        asked = {"work": {"boot_disk_gb": 200}}
        ready = getattr(Vertex(settings.Settings.model_validate({"image": IMAGE, "steps": asked})), kind)(component)

        @dsl.pipeline(name="one")
        def pipeline():
            ready(**inputs)

        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            compiler.Compiler().compile(pipeline, str(tmp_path / "p.json"))
        return json.loads((tmp_path / "p.json").read_text())

    return compile_
