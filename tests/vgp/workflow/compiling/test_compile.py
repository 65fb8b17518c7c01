"""The compiled specs: the same bytes always, strictly valid, and visible in tests/golden when they change."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from vgp import settings
from vgp.base.errors import RequestError
from vgp.check import cost_bound
from vgp.check.spec.pipeline_spec import PipelineSpec
from vgp.machines.placement.machine_rules import PlacementError
from vgp.machines.placement.step_request import Request
from vgp.workflow.compiling import compile, workflow_files
from vgp.workflow.compiling.compile import compare_specs
from vgp.workflow.compiling.vertex import Vertex

REPOSITORY = Path(__file__).parents[4]
FILE = REPOSITORY / "pipelines.toml"
GOLDEN = REPOSITORY / "tests" / "golden"
#: Where the steps stand in the spec, inside of the exit handler.
STEPS = ("components", "comp-condition-2", "dag", "tasks")


@pytest.fixture(scope="module")
def compiled() -> PipelineSpec:
    return workflow_files.compile_workflow("training", Vertex(settings.load(FILE)), settings.find_repository(FILE))


def compile_in(folder: Path, seed: str) -> bytes:
    out = folder / "out"
    command = [sys.executable, "-m", "vgp", "compile", "--out", str(out)]
    command += ["--settings", str(REPOSITORY / "pipelines.toml")]
    environment = {**os.environ, "PYTHONHASHSEED": seed, "PYTHONPATH": str(REPOSITORY)}
    subprocess.run(command, cwd=folder, env=environment, check=True, capture_output=True)
    return (out / "training.json").read_bytes()


def without_prices(text: str) -> str:
    """A spec with a mark for each price of an hour and its day: a refresh of the catalog changes them alone."""
    without, prices = re.subn(r'\[\s*[\d.]+,\s*"20\d\d-\d\d-\d\d"\s*\]', '["price", "day"]', text)
    assert prices, "the last step reports the cost of the run"
    return without


def test_specs_are_the_golden_ones(compiled: PipelineSpec) -> None:
    """After a wanted change: vgp compile --out tests/golden, and read the difference."""
    assert without_prices(compiled.text) == without_prices((GOLDEN / "training.json").read_text())


def test_the_bytes_do_not_depend_on_hash_seed_or_working_directory(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    (tmp_path / "b").mkdir()
    first = compile_in(tmp_path / "a", "1")
    assert first == compile_in(tmp_path / "b", "2")
    assert without_prices(first.decode()) == without_prices((GOLDEN / "training.json").read_text())


def test_the_spec_parses_strictly_and_the_sdk_takes_it(compiled: PipelineSpec, tmp_path: Path) -> None:
    compile.verify(compiled)
    from google.auth.credentials import AnonymousCredentials
    from google.cloud import aiplatform

    (tmp_path / "training.json").write_text(compiled.text)
    aiplatform.PipelineJob(
        display_name="training",
        template_path=str(tmp_path / "training.json"),
        pipeline_root="gs://bucket/root",
        project="project",
        location="us-central1",
        credentials=AnonymousCredentials(),
        parameter_values={"epochs": 2.0, "task_options": {"train": "1-3"}},
    )


@pytest.mark.parametrize(
    ("path", "value", "message"),
    [
        (("root", "dagg"), {}, "not a PipelineSpec"),
        (("components", "comp-train", "executorLabel"), "exec-none", "executor exec-none, which does not exist"),
        ((*STEPS, "decide", "dependentTasks"), ["gone"], "waits for task gone"),
        ((*STEPS, "decide", "componentRef", "name"), "comp-gone", "component comp-gone"),
    ],
)
def test_a_broken_spec_is_refused(compiled: PipelineSpec, path: tuple[str, ...], value: Any, message: str) -> None:
    broken = json.loads(json.dumps(compiled.content))
    place = broken
    for key in path[:-1]:
        place = place[key]
    place[path[-1]] = value
    with pytest.raises(RequestError, match=message):
        compile.verify(PipelineSpec(broken))


def test_every_parameter_has_a_description_and_a_default(compiled: PipelineSpec) -> None:
    for name, parameter in compiled.parameters.items():
        assert parameter.description, name
        assert parameter.has_default, name


def test_train_is_a_custom_job_on_the_machine_of_the_settings(compiled: PipelineSpec) -> None:
    inputs = compiled.content["components"]["comp-train"]["inputDefinitions"]["parameters"]
    (pool,) = inputs["worker_pool_specs"]["defaultValue"]
    assert pool["machine_spec"] == {
        "machine_type": "g2-standard-24",
        "accelerator_type": "NVIDIA_L4",
        "accelerator_count": 2,
    }
    assert pool["replica_count"] == 1
    assert pool["container_spec"]["image_uri"] == settings.load(FILE).image
    assert inputs["timeout"]["defaultValue"] == "21600s"


def test_the_environment_of_a_job_reaches_the_container_and_not_the_launcher() -> None:
    train = Request(machine="a2-highgpu-2g", nodes=3, strategy="spot", env={"NCCL_DEBUG": "INFO"})
    target = Vertex(settings.Settings(steps={"train": train}))
    compiled = workflow_files.compile_workflow("training", target, settings.find_repository(FILE)).content
    inputs = compiled["components"]["comp-train"]["inputDefinitions"]["parameters"]
    pools = inputs["worker_pool_specs"]["defaultValue"]
    assert [pool["replica_count"] for pool in pools] == [1, 2]
    for pool in pools:
        assert {"name": "NCCL_DEBUG", "value": "INFO"} in pool["container_spec"]["env"]
    assert inputs["strategy"]["defaultValue"] == "SPOT"
    launcher = compiled["deploymentSpec"]["executors"][compiled["components"]["comp-train"]["executorLabel"]]
    assert "NCCL_DEBUG" not in json.dumps(launcher)


def test_plain_steps_request_cpu_memory_and_gpu(compiled: PipelineSpec) -> None:
    executors = compiled.content["deploymentSpec"]["executors"]
    prepare, evaluate = (executors[f"exec-{name}"]["container"]["resources"] for name in ("prepare", "evaluate"))
    assert (prepare["resourceCpuLimit"], prepare["resourceMemoryLimit"]) == ("8", "32G")
    assert evaluate["accelerator"]["resourceType"] == "NVIDIA_TESLA_T4"
    assert evaluate["accelerator"]["resourceCount"] == "1"


def test_another_number_of_tries_is_a_difference_in_words(compiled: PipelineSpec) -> None:
    other = PipelineSpec(json.loads(compiled.text.replace('"maxRetryCount": 2', '"maxRetryCount": 4')))
    words = {change.field: (change.before, change.after) for change in compare_specs(compiled, other)}
    ((before, after),) = [both for field, both in words.items() if field.startswith("prepare")]
    assert "at most 2 h, 3 tries" in str(before) and "at most 2 h, 5 tries" in str(after)


def test_new_images_are_one_difference_of_each_step() -> None:
    def compile_with(number: int) -> PipelineSpec:
        name, digits = "r.pkg.dev/p/r/training@sha256:", str(number) * 64
        images = {"image": f"{name}{digits}", "light_image": f"{name}a{digits[1:]}"}
        return compile.compile_pipeline("training", settings.load(FILE).model_copy(update=images)).spec

    fields = [change.field for change in compare_specs(compile_with(1), compile_with(2))]
    assert "prepare: image" in fields and not [field for field in fields if "TRAINING_" in field]


def test_an_impossible_machine_is_refused_and_the_old_spec_stays(repository: Path) -> None:
    file, out = repository / "pipelines.toml", repository / "build"
    file.write_text('[steps.train]\nmachine = "n1-standard-4"\naccelerator = "T4"\ncount = 3\n')
    out.mkdir()
    (out / "training.json").write_text("old")
    with pytest.raises(PlacementError, match="training: train asks for") as refused:
        compile.compile_all([], settings.load(file), out=out)
    assert refused.value.problem.rule == "GPU003"
    assert (out / "training.json").read_text() == "old"
    assert [path.name for path in out.iterdir()] == ["training.json"]


def test_the_form_starts_from_the_trainers_own_defaults(compiled: PipelineSpec) -> None:
    from vgp.train.train_config import TrainConfig

    form = compiled.defaults
    shared = form.keys() & TrainConfig.model_fields.keys() - {"task"}
    assert len(shared) >= 8
    assert {name: form[name] for name in shared} == {name: getattr(TrainConfig(), name) for name in shared}


def test_a_misspelt_step_of_the_settings_is_reported_with_the_likely_name(repository: Path) -> None:
    file = repository / "pipelines.toml"
    file.write_text('[steps.trian]\nmachine = "a3-highgpu-8g"\n')
    compiled = compile.compile_all((), settings.load(file), out=repository)
    (warning,) = compile.list_unknown_steps(settings.load(file), compiled.values())
    assert "[steps.trian] of the settings: no pipeline has this step. Did you mean" in warning and "train" in warning


@pytest.mark.parametrize(
    ("text", "notes"),
    [
        ('region = "us-central1"\n', 1),
        ('image = "us-central1-docker.pkg.dev/mine/r/i:1"\n', 0),
        ('project = "my-project"\n', 0),
    ],
)
def test_an_image_that_was_never_built_is_reported(repository: Path, text: str, notes: int) -> None:
    file = repository / "pipelines.toml"
    file.write_text(text)
    lines = compile.note_placeholder_image(settings.load(file))
    assert len(lines) == notes and all("vgp image build" in line for line in lines)


def test_mail_adds_nothing_to_the_most_and_its_step_has_no_settings(tmp_path: Path) -> None:
    """Vertex AI sends the mail itself: the component's container only raises, and gets no machine."""
    (tmp_path / "pipelines").symlink_to(REPOSITORY / "pipelines")
    step = "vertex-pipelines-notification-email"
    text = f"[notify]\nemail = ['a@example.com']\n[steps.{step}]\ntimeout = '10m'\n"
    (tmp_path / "pipelines.toml").write_text((REPOSITORY / "pipelines.toml").read_text() + text)
    own, plain = settings.load(tmp_path / "pipelines.toml"), settings.load(FILE)
    with_mail, without = (
        compile.compile_pipeline("training", own, max_usd=22),
        compile.compile_pipeline("training", plain),
    )
    assert step in [each.name for each in with_mail.spec.steps]
    assert cost_bound.most_usd(with_mail.report.steps) == cost_bound.most_usd(
        without.report.steps
    ) and not cost_bound.find_unpriced_steps(with_mail.report.steps)
    every = [compile.compile_pipeline(name, own) for name in workflow_files.find_workflows(own.repository)]
    [line] = [line for line in compile.list_unknown_steps(own, every) if step in line]
    assert line.startswith(f"warning: [steps.{step}] of the settings has no effect")
