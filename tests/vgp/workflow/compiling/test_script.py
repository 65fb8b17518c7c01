"""A command of the user's own in place of a step's Python: its words and parameters reach the job as they are."""

import ast
import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from google.cloud.aiplatform_v1 import CustomJob
from google.protobuf import json_format
from kfp import dsl
from kfp.dsl import Artifact, Dataset, Input, Metrics, Model, Output

from components import step
from vgp.base.documents.document import Document
from vgp.base.errors import RequestError
from vgp.check import task_inputs
from vgp.check.checker import check
from vgp.check.spec.container_settings import OF_THE_RUN, START, read, refuse_arguments, scripts
from vgp.check.spec.pipeline_spec import PipelineSpec
from vgp.machines.placement.step_request import Request
from vgp.protocol import launching
from vgp.protocol.placeholders import IMAGE
from vgp.settings import Settings, load
from vgp.workflow.compiling import compile, script_step
from vgp.workflow.compiling.compile_target import Local
from vgp.workflow.compiling.script_step import compact_source, join_package
from vgp.workflow.compiling.vertex import Vertex

OURS, MINE = "us-docker.pkg.dev/p/r/ours:1", "us-docker.pkg.dev/p/r/mine@sha256:" + "0" * 64
#: What a shell, JSON, YAML, kfp or an editor could make something else of.
NASTY = (
    'a "b" \\ \\" c', "$HOME `x` $(y) '", "line\nbreak\ttab\r", "", " ", "äöü 🎉", "%s {rank} {} {{x}} {$}", "--", "#",
    '{"json": [1]}', "python3 -m pip install", "a: b\n- c", "\x07\x85\u2028", "~", "null",
)  # fmt: skip


@step
def train(
    dataset: Input[Dataset], model: Output[Model], checkpoints: Output[Artifact], pins: str, epochs: float,
    size: int, word: str, on: bool, options: dict = {},  # noqa: B006
) -> None:  # fmt: skip
    raise SystemExit("ours")


@step
def collect(
    left_model: Input[Model], left_checkpoints: Input[Artifact], pins: str, model: Output[Model],
    metrics: Output[Metrics], size: int = 0,
) -> None:  # fmt: skip
    model.uri = left_model.uri


@step
def show(model: Input[Model]) -> None:
    print(model.path)


@step
def prepare(dataset: Output[Dataset]) -> str:
    return dataset.uri


def pipeline(target: Any, **options: Any) -> Any:
    ready = [target.step(prepare), target.job(train, **{"collect": collect, **options}), target.step(show)]

    @dsl.pipeline(name="one")
    def one(epochs: float = 3.0, size: int = 7, word: str = "w", on: bool = True, options: dict = {}) -> None:  # noqa: B006
        prepared = ready[0]()
        left = ready[1](
            dataset=prepared.outputs["dataset"], pins=prepared.outputs["Output"], epochs=epochs, size=size, word=word,
            on=on, options=options,
        )  # fmt: skip
        ready[2](model=left.outputs["model"])

    return one


def settings(*command: str, **asked: Any) -> Settings:
    request = {"machine": "g2-standard-24", "command": command or ("python", "train.py"), **asked}
    return Settings(project="my-project", image=OURS, steps={"train": Request(**request)})


def job_of(spec: PipelineSpec, inputs: dict[str, Any]) -> Any:
    """The CustomJob that GCPC's launcher would send: its payload, all placeholders replaced as text, then parsed."""
    component = spec.content["components"]["comp-train"]
    parameters = component["inputDefinitions"]["parameters"]
    defaults = {name: part["defaultValue"] for name, part in parameters.items() if "defaultValue" in part}
    values = {**defaults, "project": "p", "location": "l", **inputs}
    container = spec.content["deploymentSpec"]["executors"][component["executorLabel"]]["container"]
    (payload,) = [word for word in container["args"] if "worker_pool_specs" in word]
    text = task_inputs._join_parts(payload, None)

    def value(match: re.Match[str]) -> str:
        found = values.get(match[1], {})
        return found if isinstance(found, str) else json.dumps(found)

    for _ in range(2):  # the pools bring placeholders of their own
        text = re.sub(r"\{\{\$\.inputs\.parameters\['(\w+)'\]\}\}", value, text)
    text = re.sub(r"\{\{\$\.(?:in|out)puts\.artifacts\['(\w+)'\]\.uri\}\}", r"gs://b/\1", text)
    pools = json.loads(text, strict=False)["job_spec"]["worker_pool_specs"]
    return json_format.ParseDict({"job_spec": {"worker_pool_specs": pools}}, CustomJob.pb(CustomJob()))


def test_every_word_reaches_the_custom_job_as_it_is(compiled: Callable[[Any], dict[str, Any]]) -> None:
    asked = settings("python", "train.py", *NASTY, "--epochs={epochs}", "{size}/{word}/{on}/{nodes}", nodes=2)
    spec = PipelineSpec(compiled(pipeline(Vertex(asked))))
    compile.verify(spec)
    job = job_of(spec, {"epochs": 3.0, "size": 7, "word": "w = '1'", "on": True, "pins": "gs://b/pins/1"})
    chief, workers = job.job_spec.worker_pool_specs
    assert workers.replica_count == 1 and workers.container_spec == chief.container_spec
    assert tuple(chief.container_spec.command[:3]) == START
    words = list(chief.container_spec.args)
    assert words[words.index("--", words.index("--key")) + 1 :] == [*(asked.steps["train"].command or ())]
    options = words[: words.index("--key")]
    assert options == [
        "--launch", "plain", "--data", "gs://b/dataset", "--model", "gs://b/model", "--checkpoints", "gs://b/checkpoints",
        "--pins", "gs://b/pins/1", "--number", "epochs=3.0", "--text", "on=true", "--number", "size=7",
        "--text", "word=w = '1'",
    ]  # fmt: skip


def test_the_workflow_sees_the_step_that_takes_up_what_the_command_left(
    compiled: Callable[[Any], dict[str, Any]],
) -> None:
    for target in (Vertex(settings()), Local(settings())):
        spec = PipelineSpec(compiled(pipeline(target)))
        tasks = {task.name: task.producers for _, task in spec.walk()}
        assert tasks == {
            "prepare": set(), "train": {"prepare"}, "collect": {"train", "prepare"}, "show": {"collect"},
        }  # fmt: skip
        assert scripts(spec)["train"].command == ("python", "train.py")
        outputs = spec.content["components"]["comp-train"]["outputDefinitions"]["artifacts"]
        assert set(outputs) == {"model", "checkpoints"}
    without = PipelineSpec(compiled(pipeline(Vertex(Settings(image=OURS)))))
    assert "collect" not in {task.name for _, task in without.walk()} and not scripts(without)


def test_a_step_has_its_own_image_with_a_command_and_without(compiled: Callable[[Any], dict[str, Any]]) -> None:
    steps = {"train": Request(command=("t",), image=MINE), "show": Request(image=MINE)}
    spec = PipelineSpec(compiled(pipeline(Vertex(Settings(image=OURS, steps=steps)))))
    assert scripts(spec)["train"].image == spec.containers["show"]["image"] == MINE
    assert spec.containers["prepare"]["image"] == spec.containers["collect"]["image"] == OURS
    here = PipelineSpec(compiled(pipeline(Local(Settings(image=OURS, steps=steps)))))
    assert [here.containers[name]["image"] for name in ("train", "show", "prepare")] == [MINE, MINE, IMAGE]


def test_an_image_that_the_code_names_is_never_replaced(compiled: Callable[[Any], dict[str, Any]]) -> None:
    @dsl.component(base_image="python:3.12", install_kfp_package=False)
    def own() -> None:
        pass

    asked = Settings(steps={"own": Request(image=MINE)})
    for target in (Vertex(asked), Local(asked)):
        with pytest.raises(RequestError, match="the step's code names another image, python:3.12"):
            target.step(own)


@pytest.mark.parametrize(
    ("words", "options", "message"),
    [
        (("t",), {"collect": None}, r"\[steps.train\] command: .* target.job\(train, collect=collect\)"),
        (("t", "{epoch}"), {}, r"{epoch} is no input of the step. Did you mean {epochs}\?"),
        (("t", "{options}"), {}, "{options} is a table or a list"),
        (("t", "{{$.pipeline_job_uuid}}"), {}, "holds a placeholder"),
        (("t", '{"Concat": ["a"]}'), {}, "holds a placeholder"),
    ],
)  # fmt: skip
def test_a_command_that_cannot_be_is_refused(words: tuple[str, ...], options: dict[str, Any], message: str) -> None:
    for target in (Vertex(settings(*words)), Local(settings(*words))):
        with pytest.raises(RequestError, match=message):
            pipeline(target, **options)


def test_a_step_without_the_outputs_of_a_command_and_a_plain_step_take_none() -> None:
    asked = Settings(image=OURS, steps={"show": Request(command=("t",))})
    with pytest.raises(RequestError, match="no output model and no output checkpoints"):
        Local(asked).job(show, collect=collect)
    with pytest.raises(RequestError, match="command is not possible for a plain step"):
        Vertex(asked).step(show)


def test_a_collect_of_files_that_the_job_does_not_write_is_reported(compiled: Callable[[Any], dict[str, Any]]) -> None:
    @step
    def other(left_report: Input[Artifact]) -> None:
        pass

    with pytest.raises(
        RequestError, match="other has an input left_report, which is neither an input nor an output of train"
    ):
        compiled(pipeline(Local(settings()), collect=other))


def test_another_command_launch_or_image_has_other_checkpoints() -> None:
    asked: list[dict[str, Any]] = [{}, {"launch": "jax"}, {"image": MINE}, {"command": ("python", "train.py", "-v")}]
    keys = set()
    for fields in asked:
        request = settings(*fields.pop("command", ()), **fields).steps["train"]
        component = script_step.set_command(script_step.set_image(train, request, OURS), request)
        container = component.component_spec.implementation.container
        keys.add(container.args[container.args.index("--key") + 1])
    assert len(keys) == len(asked)


def test_parameter_servers_run_the_command_in_pool_two_and_are_paid(compiled: Callable[[Any], dict[str, Any]]) -> None:
    asked = settings(nodes=3, launch="tensorflow", parameter_server={"count": 2, "machine": "n1-highmem-8"})
    target = Vertex(asked)
    spec = compiled(pipeline(target))
    job = job_of(PipelineSpec(spec), {"pins": "gs://b/p"})
    chief, workers, servers = job.job_spec.worker_pool_specs
    assert (chief.replica_count, workers.replica_count, servers.replica_count) == (1, 2, 2)
    assert servers.container_spec == chief.container_spec and not servers.machine_spec.accelerator_count
    alone = Vertex(settings(nodes=3, launch="tensorflow"))
    compiled(pipeline(alone))
    more = (target.placements["train"].hourly_usd or 0) - (alone.placements["train"].hourly_usd or 0)
    report = check([Document("p.json", spec, json.dumps(spec))], regions=["us-central1"])
    (row,) = [row for row in report.steps if row.step == "train" and row.machine_type == "n1-highmem-8"]
    assert row.replicas == 2 and row.usd_per_hour and more == pytest.approx(2 * row.usd_per_hour)
    here = Local(asked).job(train, collect=collect).component_spec.implementation.container
    assert here.env == {"TRAINING_PARAMETER_SERVERS": "2"}
    # What starts the job gets its pools in one argument, of which Linux takes 128 KiB.
    pools = spec["components"]["comp-train"]["inputDefinitions"]["parameters"]["worker_pool_specs"]["defaultValue"]
    assert len(pools) == 3 and len(json.dumps(pools)) < 110_000


def test_the_launching_text_without_comments_is_the_same_program() -> None:
    text = join_package(launching)

    def parsed(source: str) -> str:
        tree = ast.parse(source)
        for node in ast.walk(tree):
            if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef) and ast.get_docstring(node) is not None:
                node.body[0] = ast.Expr(ast.Constant(""))
            elif isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef):
                node.body.insert(0, ast.Expr(ast.Constant("")))
            if isinstance(node, ast.arg):
                node.annotation = None
            elif isinstance(node, ast.FunctionDef):
                node.returns = None
        return ast.dump(tree)

    short = compact_source(text)
    assert parsed(short) == parsed(text) and len(short) < len(text)
    assert all(f"{{{name}}}" in str(launching.__doc__) for name in OF_THE_RUN)  # it names what it replaces
    assert (
        compact_source("def f(a: int = 1, *b: 'é') -> dict[str, int]:\n    c: int = a\n")
        == "def f(a = 1, *b):\n c: int = a\n"
    )
    assert compact_source('a = """\n# no comment\n"""  # one\n') == 'a = """\n# no comment\n"""\n'


def test_any_other_container_is_no_command() -> None:
    assert read({"image": "i", "command": ["sh", "-c", "x"], "args": ["--"]}) is None
    assert read({"image": "i"}) is None
    for hostile in (
        {"command": "sh"},
        {"command": {"a": 1}, "args": ["--"]},
        {"command": [*START, "x"], "args": ["--"]},
    ):
        assert read(hostile) is None


@pytest.mark.parametrize("target", [Vertex, Local])
def test_a_parameter_that_the_command_does_not_take_is_refused_unless_it_has_its_default(
    target: Any, compiled: Callable[[Any], dict[str, Any]]
) -> None:
    spec = PipelineSpec(compiled(pipeline(target(settings("t", "{epochs}", "{word}")))))
    refuse_arguments(spec, {"epochs": 5.0, "on": True, "size": 9, "word": "x"}, remote=True)  # size: collect's
    with pytest.raises(
        RequestError, match=r"does not use on. Write {on} into the command, or leave on at its default, True"
    ):
        refuse_arguments(spec, {"on": False}, remote=False)
    with pytest.raises(RequestError, match="does not use options. It is a setting of the step's own Python"):
        refuse_arguments(spec, {"options": {"a": 1}}, remote=False)
    with pytest.raises(RequestError, match="no quotation mark, backslash or line break"):
        refuse_arguments(spec, {"word": 'a "b"'}, remote=True)
    refuse_arguments(spec, {"word": 'a "b"'}, remote=False)


def test_settings_of_collect_are_placed_or_reported_without_effect(tmp_path: Path) -> None:
    (tmp_path / "pipelines").mkdir()
    made = compile.CompiledPipeline("one", PipelineSpec({}), check([]), without_command={"collect"})
    (tmp_path / "pipelines" / "one.py").write_text("def build(target): ...\n")
    file = tmp_path / "pipelines.toml"
    file.write_text(f'[steps.collect]\nmachine = "e2-standard-4"\nimage = "{OURS}"\n')
    (line,) = compile.list_unknown_steps(load(file), [made])
    assert line.startswith("note: [steps.collect] of the settings has no effect")
    (warning,) = compile.list_tagged_images(load(file))
    assert "[steps.collect]" in warning and "digest" in warning
    placed = Vertex(Settings(image=OURS, steps={"train": Request(command=("t",)), "collect": Request(min_vcpu=8)}))
    pipeline(placed)
    assert placed.placements["collect"].combination.vcpu == 8 and not placed.without_command


def test_the_checker_judges_the_command_and_not_the_text_that_starts_it(
    compiled: Callable[[Any], dict[str, Any]],
) -> None:
    text = json.dumps(compiled(pipeline(Vertex(settings("python", "t.py", launch="plain")))))
    for launch, notes in (("plain", 1), ("torchrun", 0), ("jax", 0)):
        spec = json.loads(text.replace('"--launch", "plain"', f'"--launch", "{launch}"'))
        report = check([Document("p.json", spec, json.dumps(spec))], regions=["us-central1"])
        assert not [finding for finding in report.findings if finding.severity == "error"]
        assert len([finding for finding in report.findings if "one process for 2 GPUs" in finding.message]) == notes
