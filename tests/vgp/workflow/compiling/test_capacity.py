"""A step with a ladder, compiled: it keeps its interface, and its plan holds all that a job of Google's wrapper has."""

import json
import warnings
from datetime import date
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from components.resolve import resolve
from components.train import collect, train
from vgp.base.documents.document import Document
from vgp.base.errors import RequestError
from vgp.check.checker import check
from vgp.check.container_facts import engines_of_steps
from vgp.check.spec.container_settings import scripts
from vgp.check.spec.pipeline_spec import PipelineSpec
from vgp.check.spec.spec_ladder import first_container, worlds
from vgp.machines.catalog import catalog
from vgp.machines.placement.ladder_proposal import propose_ladder
from vgp.machines.placement.machine_rules import PlacementError
from vgp.machines.placement.search import Need
from vgp.machines.placement.step_request import Request
from vgp.protocol.capacity.plan import Plan, fill_job
from vgp.settings import Settings
from vgp.workflow.compiling.capacity import read_base_image
from vgp.workflow.compiling.compile import list_world_sizes
from vgp.workflow.compiling.vertex import Vertex

IMAGE, OTHER = "us-docker.pkg.dev/p/r/training:1", "us-docker.pkg.dev/p/r/blackwell:cuda13.0"
KEY = "projects/my-project/locations/us-central1/keyRings/r/cryptoKeys/k"
L4 = {"machine": "g2-standard-24"}
RUNGS = [
    {"strategy": "spot"},
    {"strategy": "flex_start", "max_wait": "2h"},
    {"machine": "a3-highgpu-8g", "nodes": 2, "strategy": "spot", "regions": ["us-east4"], "image": OTHER},
]


def spec_of(settings: Settings, folder: Path) -> dict[str, Any]:
    from kfp import compiler, dsl

    target = Vertex(settings)
    first, ready = target.step(resolve), target.job(train, pinned=True, collect=collect, form=resolve)

    @dsl.pipeline(name="one")
    def one(epochs: float = 1.0):
        dataset = dsl.importer(artifact_uri="gs://b/d", artifact_class=dsl.Dataset)
        config = first(pipeline="one", run="", epochs=epochs).outputs["config"]
        ready(dataset=dataset.output, pins="", task="flights", config=config)

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        compiler.Compiler().compile(one, str(folder / "p.json"))
    content: dict[str, Any] = json.loads((folder / "p.json").read_text())
    return content


def laddered(folder: Path, *, rungs: list[dict[str, Any]] = RUNGS, step: dict[str, Any] = L4, **more: Any) -> Any:
    asked = Request.model_validate({"capacity": rungs, **step})
    return spec_of(Settings(image=IMAGE, steps={"train": asked}, **more), folder)


def container_of(spec: dict[str, Any]) -> dict[str, Any]:
    found: dict[str, Any] = spec["deploymentSpec"]["executors"]["exec-train"]["container"]
    return found


@pytest.fixture(scope="module")
def spec(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    step = {**L4, "deadline": "12h", "timeout": "6h", "env": {"NCCL_DEBUG": "INFO"}, "boot_disk_gb": 500}
    return laddered(tmp_path_factory.mktemp("ladder"), step=step, labels={"team": "ml"}, encryption_key=None)


@pytest.fixture(scope="module")
def plan(spec: dict[str, Any]) -> Plan:
    return Plan.from_json(container_of(spec)["args"][1])


def test_the_step_keeps_its_inputs_and_outputs_and_gets_what_the_console_reads(spec, tmp_path):
    plain = spec_of(Settings(image=IMAGE, steps={"train": Request.model_validate(L4)}), tmp_path)
    ours, theirs = (each["components"]["comp-train"] for each in (spec, plain))
    assert ours["outputDefinitions"]["parameters"] == theirs["outputDefinitions"]["parameters"]
    assert ours["outputDefinitions"]["artifacts"].keys() == theirs["outputDefinitions"]["artifacts"].keys()
    assert set(ours["inputDefinitions"]["parameters"]) < set(theirs["inputDefinitions"]["parameters"])
    assert ours["inputDefinitions"]["artifacts"].keys() == theirs["inputDefinitions"]["artifacts"].keys()


ON_DEMAND = [{"strategy": "spot"}, {"strategy": "standard"}]


def test_the_container_climbs_in_our_image_and_ends_after_its_ladder(spec):
    container = container_of(spec)
    assert container["image"] == IMAGE and container["command"][3:] == ["python3", "-m", "vgp.launch.capacity"]
    assert "trap" in container["command"][2], "SIGTERM is passed on"
    assert " -k " not in container["command"][2], "and no SIGKILL follows it: the launcher may go on"
    assert container["args"][2:] == ["--executor_input", "{{$}}"]
    assert container["env"] == [{"name": "STEP_TIMEOUT_S", "value": str(12 * 3600 + 1800)}]
    (task,) = (each for key, each in spec["root"]["dag"]["tasks"].items() if key == "train")
    assert task["retryPolicy"]["maxRetryCount"] == 2


def test_the_launcher_gets_project_and_region_as_texts_that_are_equal_in_every_run(spec):
    """With them it asks for the run's state; the name of the run would make every run's step another one."""
    arguments = json.loads(container_of(spec)["args"][1])
    assert (arguments["project"], arguments["location"]) == (
        "{{$.pipeline_google_cloud_project_id}}", "{{$.pipeline_google_cloud_location}}",
    )  # fmt: skip
    assert "{{$.pipeline_job_" not in json.dumps(container_of(spec))


def test_each_rung_has_the_body_of_a_job_of_googles_wrapper(plan):
    spot, flex, away = plan.rungs
    assert (plan.step, plan.deadline_s, spot.timeout_s, flex.max_wait_s) == ("train", 43200, 21600, 7200)
    assert all(date.fromisoformat(rung.price_date) for rung in plan.rungs)
    assert [rung.name for rung in plan.rungs] == ["1-spot-us-central1", "2-flex_start-us-central1", "3-spot-us-east4"]
    job = spot.job["jobSpec"]
    assert (spot.job["displayName"], spot.job["labels"]) == ("train", {"team": "ml"})
    assert spot.job["encryptionSpec"] == {"kmsKeyName": "{{$.pipeline_encryption_key_name}}"}
    assert (job["serviceAccount"], job["network"]) == ("{{$.pipeline_service_account}}", "{{$.pipeline_network}}")
    assert job["scheduling"] == {"strategy": "SPOT", "timeout": "21600s", "disableRetries": True}
    assert flex.job["jobSpec"]["scheduling"]["maxWaitDuration"] == "7200s"
    (pool,) = job["workerPoolSpecs"]
    assert pool["diskSpec"] == {"bootDiskType": "pd-ssd", "bootDiskSizeGb": 500}
    assert pool["containerSpec"]["args"][:2] == ["--executor_input", "@executor_input@"]
    chief, workers = away.job["jobSpec"]["workerPoolSpecs"]
    assert workers == {**chief, "replicaCount": 1} and chief["machineSpec"]["acceleratorCount"] == 8
    body = fill_job(spot.job, '{"a": "b"}')["jobSpec"]["workerPoolSpecs"][0]["containerSpec"]
    assert body["args"][1] == '{"a": "b"}'


def test_the_bodies_are_messages_of_googles(plan):
    from google.cloud.aiplatform_v1.types import CustomJob
    from google.protobuf import json_format

    for rung in plan.rungs:
        message = json_format.ParseDict(fill_job(rung.job, "{}"), CustomJob.pb(CustomJob()))
        assert message.job_spec.scheduling.disable_retries


def test_training_learns_of_the_rungs_and_finds_its_checkpoints_on_each(plan):
    def read_env(number: int) -> dict[str, str]:
        env = plan.rungs[number].job["jobSpec"]["workerPoolSpecs"][0]["containerSpec"]["env"]
        return {pair["name"]: pair["value"] for pair in env}

    assert {read_env(number)["TRAINING_WORLD_SIZES"] for number in range(3)} == {"2,2,16"}
    assert read_env(0)["TRAINING_IMAGE"] == IMAGE and "TRAINING_STEP_IMAGE" not in read_env(0)
    assert (read_env(2)["TRAINING_IMAGE"], read_env(2)["TRAINING_STEP_IMAGE"]) == (OTHER, IMAGE)
    assert "TRAINING_PREEMPTIONS_PER_HOUR" in read_env(0) and "TRAINING_PREEMPTIONS_PER_HOUR" not in read_env(1)
    assert read_env(1)["NCCL_DEBUG"] == "INFO"


def test_the_workflow_gets_the_gpus_of_each_rung(spec):
    assert worlds(PipelineSpec(spec)) == {"train": {"": (2, 2, 16)}}


def test_the_effect_of_other_numbers_of_gpus_is_reported(spec, tmp_path):
    (note,) = list_world_sizes([SimpleNamespace(spec=PipelineSpec(spec))])
    assert note.startswith("note: train: its rungs have 2 and 16 GPUs. Resuming on another number of GPUs ")
    sizes = {"small": {"machine": "g2-standard-4"}, "large": {"machine": "g2-standard-4", "nodes": 3}}
    sized = laddered(tmp_path, rungs=[], step={"timeout": "6h", "sizes": sizes})
    (note,) = list_world_sizes([SimpleNamespace(spec=PipelineSpec(sized))])
    assert note.startswith("note: train, size large: 3 GPUs is no power of two: the GPUs get shares")


def test_exact_is_not_recommended_where_it_would_be_refused(tmp_path):
    spec = laddered(tmp_path, step={"machine": "g2-standard-4"}, rungs=[{"strategy": "spot", "nodes": 3}, {}])
    first, second = list_world_sizes([SimpleNamespace(spec=PipelineSpec(spec))])
    assert "exact" not in first and second.endswith('training_options = {"exact": true} is refused.')


def test_a_script_runs_on_a_rung_with_one_key_for_all_its_images(tmp_path):
    step = {**L4, "command": ["python", "train.py", "--epochs", "{epochs}"], "launch": "torchrun"}
    spec = laddered(tmp_path, step=step)
    container = container_of(spec)
    plan = Plan.from_json(container["args"][1])
    keys = set()
    for rung in plan.rungs:
        words = rung.job["jobSpec"]["workerPoolSpecs"][0]["containerSpec"]["args"]
        keys.add(words[words.index("--key") + 1])
        assert "epochs={{$.inputs.parameters['epochs']}}" in words
    assert len(keys) == 1
    given = PipelineSpec(spec).root.tasks["train"].content["inputs"]["parameters"]
    assert given["epochs"] == {"componentInputParameter": "epochs"}, "as the step resolve is given it"
    assert "learning_rate" not in given, "only what the command names"
    assert len(container["args"][1]) < 60_000, "the launching text stands there once"
    script = scripts(PipelineSpec(spec))["train"]
    assert script.command[-1] == "{epochs}" and script.launch == "torchrun"
    assert engines_of_steps(PipelineSpec(spec)) == {}
    assert (first_container(container) or {})["imageUri"] == IMAGE


@pytest.mark.parametrize(
    ("rung", "more", "words"),
    [
        ({"machine": "a4-highgpu-8g", "strategy": "spot", "image": "x.dev/p/r/i:cuda12.6"}, {},
         r"rung 1 \(spot\)(?s:.)*CUDA 12.6; NVIDIA_B200 needs 12.8(?s:.)*image = "),
        ({"machine": "g2-standard-4", "regions": ["us-central1", "us-east4"]}, {"encryption_key": KEY},
         r"rung 1 \(standard\) asks for .* in us-east4(?s:.)*key is in us-central1"),
    ],
)  # fmt: skip
def test_what_image_or_key_cannot_do_is_refused_with_the_rung(tmp_path, rung, more, words):
    with pytest.raises(PlacementError, match=words):
        laddered(tmp_path, rungs=[rung], step={}, **more)


LIGHT = f"us-docker.pkg.dev/p/r/training@sha256:{'1' * 64}"


def test_the_launcher_is_light_and_the_rungs_have_the_image_for_gpus(tmp_path):
    container = container_of(laddered(tmp_path, light_image=LIGHT))
    assert container["image"] == LIGHT
    rungs = [
        rung.job["jobSpec"]["workerPoolSpecs"][0]["containerSpec"]
        for rung in Plan.from_json(container["args"][1]).rungs
    ]
    assert [rung["imageUri"] for rung in rungs] == [IMAGE, IMAGE, OTHER]


def test_a_ladder_without_gpus_is_light_and_its_checkpoints_are_those_of_the_image(tmp_path):
    container = container_of(laddered(tmp_path, rungs=RUNGS[:1], step={"machine": "n2-standard-8"}, light_image=LIGHT))
    (rung,) = Plan.from_json(container["args"][1]).rungs
    body = rung.job["jobSpec"]["workerPoolSpecs"][0]["containerSpec"]
    variables = {pair["name"]: pair["value"] for pair in body["env"]}
    assert (body["imageUri"], variables["TRAINING_IMAGE"], variables["TRAINING_STEP_IMAGE"]) == (LIGHT, LIGHT, IMAGE)


def test_the_light_image_on_a_gpu_is_refused(tmp_path):
    with pytest.raises(
        PlacementError, match="is the light image, which has PyTorch for CPUs: the NVIDIA_L4 would stay"
    ):
        laddered(tmp_path, rungs=[{"strategy": "spot", "image": LIGHT}], light_image=LIGHT)


def test_the_image_of_the_settings_is_known_by_its_dockerfile(tmp_path, monkeypatch):
    from vgp.settings import load

    (tmp_path / "pipelines").mkdir()
    (tmp_path / "Dockerfile").write_text("ARG BASE=pytorch/pytorch:2.8-cuda12.6-x@sha256:12\nFROM ${BASE} AS last\n")
    path = tmp_path / "pipelines.toml"
    path.write_text(
        f'image = "{IMAGE}"\n[steps.train]\ncapacity = [{{machine = "a4-highgpu-8g", strategy = "spot"}}]\n'
    )
    settings = load(path)
    assert read_base_image(settings) == "pytorch/pytorch:2.8-cuda12.6-x@sha256:12"
    with pytest.raises(PlacementError, match=r"built on pytorch/pytorch:2.8-cuda12.6(?s:.)*needs 12.8"):
        spec_of(settings, tmp_path)
    (tmp_path / "Dockerfile").write_text("FROM a:cuda12.8 AS first\nFROM --platform=linux/amd64 b:cuda13.0\n")
    spec_of(settings, tmp_path)
    (tmp_path / "Dockerfile").write_text(
        "ARG TARGET=gpu\nARG BASE=a:cuda12.6\nFROM ${BASE} AS gpu\nFROM python:3 AS light\nFROM ${TARGET}\n"
    )
    assert read_base_image(settings) == "a:cuda12.6"
    assert read_base_image(Settings()) == ""


def test_a_plan_that_no_argument_holds_is_refused(tmp_path):
    env = {f"A{number}": f"{number:04}" * 400 for number in range(80)}
    with pytest.raises(RequestError, match=r"capacity: the plan of 1 rungs has [0-9,]+ bytes"):
        laddered(tmp_path, rungs=[{"env": env}])


def test_what_the_job_of_a_rung_is_asked_besides_is_in_its_body_or_refused(tmp_path):
    spec = laddered(tmp_path, step={**L4, "web_access": True}, rungs=[{}, {"persistent_resource": "mine"}])
    first, second = Plan.from_json(container_of(spec)["args"][1]).rungs
    assert first.job["jobSpec"]["enableWebAccess"] is True
    assert second.job["jobSpec"]["persistentResourceId"] == "mine"
    assert "strategy" not in second.job["jobSpec"]["scheduling"] and second.strategy == "reservation"
    with pytest.raises(PlacementError, match="restart_job_on_worker_restart has no effect on a rung"):
        laddered(tmp_path, step={**L4, "restart_job_on_worker_restart": True})


def test_a_step_with_a_ladder_has_no_one_price(tmp_path):
    asked = Request.model_validate({"capacity": RUNGS, **L4})
    target = Vertex(Settings(image=IMAGE, steps={"train": asked}))
    target.job(train, collect=collect)
    assert target.prices() == {} and len(target.ladders["train"].rungs) == 3


def test_the_checker_counts_the_dearest_way_up_and_the_machine_that_climbs(spec):
    report = check([Document("p.json", spec, json.dumps(spec))], regions=["us-central1"])
    assert not report.errors
    (row,) = (each for each in report.steps if each.step == "train")
    hourly = [rung.held_usd_per_hour for rung in row.rungs]
    assert row.ladder_s == 43200 and all(hourly)
    dear = sorted(hourly, reverse=True)  # of twelve hours, six on each of the dearest two
    climbs = row.held_usd_per_hour * 12.5  # a further try goes on with the same ladder
    assert row.max_usd == pytest.approx(6 * dear[0] + 6 * dear[1] + climbs)


def test_a_proposed_ladder_costs_the_proposed_amount_when_compiled(tmp_path):
    need = Need(as_of=date(2026, 11, 20), accelerator=catalog.accelerator("L4"))
    made = propose_ladder(need, region="us-central1", gpus=16, max_usd=100)
    step = {"deadline": f"{made.deadline_s // 60}m"}
    spec = laddered(tmp_path, rungs=[rung.keys for rung in made.rungs], step=step)
    report = check([Document("p.json", spec, json.dumps(spec))], regions=["us-central1"])
    (row,) = (each for each in report.steps if each.step == "train")
    # A rung with several regions is proposed with the dearest disk of them.
    assert 0.999 * made.max_usd < row.max_usd <= made.max_usd + 1e-6 and 98 < row.max_usd <= 100
