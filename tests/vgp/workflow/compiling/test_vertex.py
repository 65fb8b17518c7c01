"""For every placement: what the author wrote is in the compiled spec, in the right place."""

import json
import warnings
from pathlib import Path
from typing import Any

import pytest

from components import step
from components.decide import decide
from components.train import train
from vgp.base.documents.document import Document
from vgp.check.checker import check
from vgp.check.spec.pipeline_spec import PipelineSpec
from vgp.machines.placement import combination
from vgp.machines.placement.machine_rules import PlacementError
from vgp.machines.placement.placing import place
from vgp.machines.placement.step_request import Request
from vgp.protocol.spec_version import SPEC_VARIABLE, spec_version
from vgp.settings import Settings
from vgp.settings.settings_model import Mlflow
from vgp.workflow.compiling.vertex import Vertex

IMAGE = "us-docker.pkg.dev/p/r/training:1"

JOBS = {
    "by name": {"machine": "g2-standard-24"},
    "by need": {"accelerator": "L4", "count": 4, "min_memory_gb": 100},
    "attached": {"machine": "n1-highmem-16", "accelerator": "V100", "count": 2},
    "CPU": {"machine": "c2-standard-60"},
    "nodes": {"machine": "a2-highgpu-8g", "nodes": 4, "env": {"NCCL_DEBUG": "INFO", "QUOTED": 'a "b" c'}},
    "Spot": {"machine": "a3-highgpu-2g", "strategy": "spot", "timeout": "90m", "retries": 3},
    "Flex-start": {"machine": "a3-highgpu-8g", "strategy": "flex_start", "max_wait": "2h", "nodes": 2},
    "reservation": {"machine": "a4-highgpu-8g", "reservation": "projects/p/zones/us-central1-b/reservations/r"},
    "any reservation": {"machine": "a3-ultragpu-8g", "reservation": "any", "nodes": 2},
    "disk": {"machine": "g4-standard-96", "boot_disk_type": "hyperdisk-balanced", "boot_disk_gb": 500},
    "reduction server": {"machine": "a2-highgpu-4g", "nodes": 3, "reduction_server": {"count": 5}, "env": {"A": "1"}},
    "another region": {"accelerator": "L4", "region": "europe-west4"},
}
STEPS = {
    "default": {},
    "CPU": {"min_vcpu": 16, "min_memory_gb": 100, "env": {"A": "1"}},
    "attached": {"accelerator": "T4", "count": 2, "min_memory_gb": 50},
    "built in": {"machine": "g2-standard-48"},
    "largest": {"machine": "a2-ultragpu-8g"},
    "short, once": {"timeout": "90m", "retries": 0},
}


def compiled(
    asked: dict[str, Any], kind: str, folder: Path, component: Any = None, light: str | None = None
) -> dict[str, Any]:
    """A pipeline of one component, by default one of ours, placed and compiled as our pipelines are."""
    from kfp import compiler, dsl

    if component is None:

        @step
        def work(x: int):
            print(x)

        component = work
    target = Vertex(Settings(image=IMAGE, light_image=light, steps={"work": Request(**asked)}))
    ready = getattr(target, kind)(component)

    @dsl.pipeline(name="one")
    def one(x: int = 1):
        ready(x=x)

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        compiler.Compiler().compile(one, str(folder / "p.json"))
    return json.loads((folder / "p.json").read_text())


@pytest.mark.parametrize("name", JOBS)
def test_a_job_has_all_of_its_request(name, tmp_path):
    asked = JOBS[name]
    spec = compiled(asked, "job", tmp_path)
    expected = place(Request(**asked))
    inputs = spec["components"]["comp-work"]["inputDefinitions"]["parameters"]
    chief, *others = inputs["worker_pool_specs"]["defaultValue"]
    container = chief["container_spec"]
    assert chief["replica_count"] == 1 and container["image_uri"] == IMAGE
    machine = expected.combination
    variables = {
        "TRAINING_IMAGE": IMAGE,
        SPEC_VARIABLE: spec_version(),
        **combination.network_variables(machine.machine, machine.count),
    }
    if asked.get("strategy") == "spot":
        variables["TRAINING_PREEMPTIONS_PER_HOUR"] = "0.6"
    assert {pair["name"]: pair["value"] for pair in container["env"]} == {**asked.get("env", {}), **variables}
    assert chief["machine_spec"] == expected.machine_spec()
    assert chief["disk_spec"] == {"boot_disk_type": expected.boot_disk_type, "boot_disk_size_gb": expected.boot_disk_gb}
    assert inputs["strategy"]["defaultValue"] == asked.get("strategy", "standard").upper()
    assert inputs["timeout"]["defaultValue"] == f"{expected.timeout_s}s"
    if "max_wait" in asked:
        assert inputs["max_wait_duration"]["defaultValue"] == "7200s"
    location = inputs["location"]["defaultValue"]
    assert location == asked.get("region", "{{$.pipeline_google_cloud_location}}")
    if asked.get("nodes", 1) > 1:
        workers = others.pop(0)
        assert workers == {**chief, "replica_count": asked["nodes"] - 1}
    if "reduction_server" in asked:
        assert others.pop(0)["replica_count"] == asked["reduction_server"]["count"]
    assert others == []
    launcher = spec["deploymentSpec"]["executors"]["exec-work"]["container"]
    assert "env" not in launcher and "resources" not in launcher


LIGHT = f"{IMAGE.partition(':')[0]}@sha256:{'1' * 64}"


@pytest.mark.parametrize("kind", ["step", "job"])
@pytest.mark.parametrize(
    ("asked", "images"),
    [
        ({"machine": "e2-standard-8"}, (LIGHT, IMAGE)),
        ({"machine": "g2-standard-12"}, (IMAGE, None)),
        ({"machine": "e2-standard-8", "image": "r/own:1"}, ("r/own:1", None)),
    ],
)
def test_a_step_without_a_gpu_runs_in_the_light_image_and_knows_the_image_of_its_code(kind, asked, images, tmp_path):
    spec = compiled(asked, kind, tmp_path, light=LIGHT)
    inputs = spec["components"]["comp-work"].get("inputDefinitions", {}).get("parameters", {})
    container = spec["deploymentSpec"]["executors"]["exec-work"]["container"]
    if kind == "job":
        container = inputs["worker_pool_specs"]["defaultValue"][0]["container_spec"]
    variables = {pair["name"]: pair["value"] for pair in container["env"]}
    assert container.get("image", container.get("image_uri")) == variables["TRAINING_IMAGE"] == images[0]
    assert variables.get("TRAINING_STEP_IMAGE") == images[1]


@pytest.mark.parametrize("name", STEPS)
def test_a_plain_step_has_all_of_its_request(name, tmp_path):
    asked = STEPS[name]
    container = compiled(asked, "step", tmp_path)["deploymentSpec"]["executors"]["exec-work"]["container"]
    expected = place(Request(**asked), kind="step").combination
    resources = container["resources"]
    assert resources["resourceCpuLimit"] == str(expected.vcpu)
    assert resources["resourceMemoryLimit"] == f"{min(expected.memory_gb, 624):g}G"
    wanted = (expected.accelerator_type, str(expected.count)) if expected.accelerator_type else (None, None)
    accelerator = resources.get("accelerator", {})
    assert (accelerator.get("resourceType"), accelerator.get("resourceCount")) == wanted
    variables = {
        "STEP_TIMEOUT_S": "5400" if "timeout" in asked else "14400",
        "TRAINING_IMAGE": IMAGE,
        SPEC_VARIABLE: spec_version(),
    }
    assert {pair["name"]: pair["value"] for pair in container["env"]} == {**asked.get("env", {}), **variables}
    assert container["image"] == IMAGE


@pytest.mark.parametrize(("kind", "name"), [("job", name) for name in JOBS] + [("step", name) for name in STEPS])
def test_the_checker_sees_the_placement_in_the_compiled_spec(kind, name, tmp_path):
    asked = (JOBS if kind == "job" else STEPS)[name]
    spec = compiled(asked, kind, tmp_path)
    placed = place(Request(**asked), kind="custom_job" if kind == "job" else "step")
    report = check([Document("p.json", spec, json.dumps(spec))], regions=[placed.region])
    assert [finding for finding in report.findings if finding.severity == "error"] == []
    row = report.steps[0]
    assert (row.combination, row.replicas) == (placed.combination, placed.nodes)
    assert (row.timeout_s, row.tries) == (placed.timeout_s, 1 + placed.retries)
    assert row.usd_per_hour == pytest.approx(placed.usd_per_hour) if placed.usd_per_hour else row.usd_per_hour is None


def test_every_task_of_a_plain_step_is_tried_again_wherever_it_stands(tmp_path: Path) -> None:
    from kfp import compiler, dsl

    @step
    def work(x: int):
        print(x)

    @step
    def notify(status: dsl.PipelineTaskFinalStatus):
        print(status)

    target = Vertex(Settings(image=IMAGE, steps={"work": Request(retries=1)}))
    placed, last = target.step(work), target.step(notify)

    @dsl.pipeline(name="inner")
    def inner(x: int):
        placed(x=x)

    @dsl.pipeline(name="outer")
    def outer(x: int = 1):
        with dsl.ExitHandler(last()):
            placed(x=x)
            placed(x=2).set_retry(5)
            with dsl.ParallelFor([1, 2]) as item:
                placed(x=item)
            with dsl.If(x == 1):
                inner(x=x)

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        compiler.Compiler().compile(outer, str(tmp_path / "p.json"))
    spec = PipelineSpec.read(tmp_path / "p.json")
    policies = [step.task.content["retryPolicy"] for step in spec.steps]
    counts = {step.path: step.task.content["retryPolicy"]["maxRetryCount"] for step in spec.steps}
    assert sorted(counts.values()) == [1, 1, 1, 2, 5] and counts["notify"] == 2
    assert {
        "backoffDuration": "60s",
        "backoffFactor": 2.0,
        "backoffMaxDuration": "3600s",
        "maxRetryCount": 1,
    } in policies


def test_a_container_with_a_command_of_its_own_has_no_limit_and_takes_no_timeout() -> None:
    from kfp import dsl

    @dsl.container_component
    def serve():
        return dsl.ContainerSpec(image="r/i:1", command=["serve"])

    target = Vertex(Settings(image=IMAGE))
    assert target.step(serve).component_spec.implementation.container.env == {"TRAINING_IMAGE": "r/i:1"}
    assert target.placements["serve"].timeout_s == 604_800
    with pytest.raises(PlacementError, match=r"GPU028.*\n.*with another command.*\n.*timeout -k 60 4h"):
        Vertex(Settings(image=IMAGE, steps={"serve": Request(timeout="4h")})).step(serve)


def test_a_training_job_has_the_account_network_and_key_of_its_run(tmp_path: Path) -> None:
    """A custom job inherits none of them: without an account it would run as Vertex AI's own service agent."""
    spec = compiled({"machine": "g2-standard-24"}, "job", tmp_path)
    inputs = spec["components"]["comp-work"]["inputDefinitions"]["parameters"]
    assert inputs["service_account"]["defaultValue"] == "{{$.pipeline_service_account}}"
    assert inputs["network"]["defaultValue"] == "{{$.pipeline_network}}"
    assert inputs["encryption_spec_key_name"]["defaultValue"] == "{{$.pipeline_encryption_key_name}}"
    [executor] = spec["deploymentSpec"]["executors"].values()
    payload = next(word for word in executor["container"]["args"] if "service_account" in word)
    assert "inputs.parameters['service_account']" in payload and "inputs.parameters['network']" in payload


OWN = "europe-docker.pkg.dev/p/r/own"


def container(kind: str, spec: dict[str, Any]) -> dict[str, Any]:
    """What the step itself runs in, as a container of a pipeline names it."""
    if kind == "step":
        return spec["deploymentSpec"]["executors"]["exec-work"]["container"]
    parameters = spec["components"]["comp-work"]["inputDefinitions"]["parameters"]
    chosen = parameters["worker_pool_specs"]["defaultValue"][0]["container_spec"]
    return {"image": chosen["image_uri"], "command": chosen["command"], "args": chosen["args"]}


@pytest.mark.parametrize("kind", ["step", "job"])
@pytest.mark.parametrize("image", [f"{OWN}@sha256:{64 * '0'}", f"{OWN}:1", "python", "python:3.12"])
def test_a_component_keeps_an_image_of_its_own(kind: str, image: str, tmp_path: Path) -> None:
    from kfp import dsl

    @dsl.component(base_image=image, install_kfp_package=False)
    def work(x: int):
        print(x)

    assert container(kind, compiled({}, kind, tmp_path, work))["image"] == image


@pytest.mark.parametrize("kind", ["step", "job"])
def test_a_container_that_is_no_python_keeps_image_command_and_arguments(kind: str, tmp_path: Path) -> None:
    from kfp import dsl

    @dsl.container_component
    def work(x: int):
        return dsl.ContainerSpec(image=OWN, command=["/bin/serve", "--fast"], args=["--x", x])

    made = container(kind, compiled({}, kind, tmp_path, work))
    assert made["image"] == OWN
    assert made["command"] == ["/bin/serve", "--fast"]
    assert made["args"] == ["--x", "{{$.inputs.parameters['x']}}"]


def test_a_container_without_a_command_stays_without_one(tmp_path: Path) -> None:
    from kfp import dsl

    @dsl.container_component
    def work(x: int):
        return dsl.ContainerSpec(image=OWN)

    made = container("step", compiled({}, "step", tmp_path, work))
    assert (made["image"], made.get("command", [])) == (OWN, [])


def test_only_tracked_steps_find_the_mlflow_server_and_the_token_stays_a_secret() -> None:
    settings = Settings(
        image=IMAGE,
        mlflow=Mlflow(tracking_uri="https://mlflow.example.com/", experiment="delays", token="projects/p/secrets/t"),
        steps={"train": Request(env={"MLFLOW_EXPERIMENT_NAME": "mine"})},
    )
    variables = {
        "MLFLOW_TRACKING_URI": "https://mlflow.example.com", "MLFLOW_EXPERIMENT_NAME": "delays",
        "MLFLOW_TRACKING_TOKEN_SECRET": "projects/p/secrets/t",
    }  # fmt: skip
    target = Vertex(settings)
    for tracked in (False, True):
        env = target.step(decide, tracked=tracked).component_spec.implementation.container.env
        assert {name: value for name, value in env.items() if "MLFLOW" in name} == (variables if tracked else {})
    pool = target.job(train).component_spec.inputs["worker_pool_specs"].default[0]
    env = {pair["name"]: pair["value"] for pair in pool["container_spec"]["env"]}
    assert {**variables, "MLFLOW_EXPERIMENT_NAME": "mine"}.items() <= env.items()
