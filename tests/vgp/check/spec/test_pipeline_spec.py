"""A spec is read once, whatever it holds."""

import json
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import example, given
from hypothesis import strategies as st
from rich.console import Console

from tools.emulator.cloud import Cloud
from vgp.base.documents.document import Document
from vgp.check.checker import check
from vgp.check.spec.pipeline_spec import PipelineSpec, as_pinned, as_text, list_cached_tasks, pins_first, switch_cache
from vgp.settings import Settings, find_repository, load
from vgp.vertex.runs.run_submission import Options, submit
from vgp.workflow.compiling import workflow_files
from vgp.workflow.compiling.compile_target import Local, Target
from vgp.workflow.compiling.vertex import Vertex

GOLDEN = Path(__file__).parents[3] / "golden" / "training.json"


@pytest.fixture(scope="module")
def training() -> PipelineSpec:
    return PipelineSpec.read(GOLDEN)


def test_a_spec_has_its_name_parameters_and_steps_in_order(training: PipelineSpec) -> None:
    assert (training.name, training.description[:8]) == ("training", "Prepares")
    names = ["resolve", "prepare", "train", "evaluate", "decide", "register", "notify"]
    assert [step.name for step in training.steps] == [step.path for step in training.steps] == names
    assert training.parameters["global_batch_size"].type_text.startswith("an integer")
    assert training.defaults["precision"] == "auto"


def test_a_whole_number_stays_one_and_a_fraction_too(training: PipelineSpec) -> None:
    shown = {name: repr(training.parameters[name].default) for name in ("global_batch_size", "epochs", "margin")}
    assert shown == {"global_batch_size": "1024", "epochs": "3.0", "margin": "0.0"}


def test_an_executor_is_that_of_the_steps_component(training: PipelineSpec) -> None:
    decide = training.steps[-3].task
    assert "def decide(" in training.executor(decide)["container"]["command"][-1]
    assert training.executor(training.root) == {}, "a group has none"


def test_groups_come_before_what_is_in_them_and_producers_before_consumers(branching: dict[str, Any]) -> None:
    spec = PipelineSpec(branching)
    ways = [way for way, _ in spec.walk()]
    (loop,) = [task for _, task in spec.walk() if task.is_loop]
    assert loop.loop and loop.loop.items({}) == [1, 2]
    assert all(way.rpartition("/")[0] in ("", *ways[:number]) for number, way in enumerate(ways))
    assert len({task.name for _, task in spec.walk() if task.condition}) == 3


def test_an_exit_handler_is_no_part_of_the_way_to_its_steps_and_other_groups_are(branching: dict[str, Any]) -> None:
    spec = PipelineSpec(branching)
    ways = {step.task.name: step.path for step in spec.steps}
    assert ways["flip"] == "flip" and ways["say"] == "say" and ways["flip-2"] == "for-loop-7/flip-2"
    assert ways["say-2"].startswith("condition-branches-"), "within the exit handler"
    checked = check([Document("p.json", branching, "")]).steps
    assert {row.step for row in checked} == {step.name for step in spec.steps}


def test_text_and_digest_are_of_the_content_alone(training: PipelineSpec) -> None:
    again = PipelineSpec(json.loads(json.dumps(training.content)))
    assert training.text == GOLDEN.read_text() == again.text
    assert training.digest == again.digest != training.with_defaults({"epochs": 9.0}).digest


@pytest.mark.parametrize(
    "content",
    [
        {},
        {"root": [], "components": 3, "deploymentSpec": {"executors": []}, "pipelineInfo": None},
        {"root": {"dag": {"tasks": {"a": None, "b": {"dependentTasks": "a", "triggerPolicy": 3}}}}},
        {"root": {"dag": {"tasks": {"a": {"dependentTasks": ["b"]}, "b": {"dependentTasks": ["a"]}}}}},
        {"root": {"inputDefinitions": {"parameters": {"p": None}}}},
    ],
)
def test_what_does_not_fit_reads_as_if_it_were_not_there(content: Any) -> None:
    spec = PipelineSpec(content)
    assert spec.name == "" and spec.executors == {}
    assert {step.name for step in spec.steps} <= {"a", "b"} and set(spec.parameters) <= {"p"}


def test_components_that_contain_each_other_have_an_end() -> None:
    inner = {"dag": {"tasks": {"again": {"componentRef": {"name": "comp-a"}}}}}
    spec = PipelineSpec({"root": inner, "components": {"comp-a": inner}})
    assert len(list(spec.walk())) < 100 and spec.steps == []


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(st.characters(exclude_categories=["Cs"])),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text("ab\"\\", max_size=3), inner, max_size=3),
)  # fmt: skip


@given(st.fixed_dictionaries({"value": VALUES}))
@example({"value": [1e-05, -1e22, 1.5e-07, "1e-05", ' "1e-05: \\', "\U0001f600", "\\ud83d\\ude00", "\x7f\u2028\x85"]})
def test_a_spec_reads_the_same_as_json_and_as_yaml(value: Any) -> None:
    text = as_text(value)
    assert json.loads(text) == value
    assert json.loads(text.encode()) == value
    assert repr(yaml.safe_load(text)) == repr(json.loads(text))
    assert as_text(json.loads(text)) == text


TESTS = Path(__file__).parents[2]
PINNED = ["decide", "evaluate", "prepare", "train"]


@pytest.mark.parametrize("target", [Vertex(Settings()), Local()])
def test_pinned_steps_are_cached_and_no_other(target: Target) -> None:
    nightly = workflow_files.compile_workflow("nightly", target, find_repository(TESTS / "nightly" / "pipelines.toml"))
    assert list_cached_tasks(nightly) == ["work"]
    assert "cacheKey" not in json.dumps(nightly.content), "a key of our own would hold for all inputs"


def test_the_training_pipeline_pins_first_and_caches_what_follows() -> None:
    file = TESTS.parents[1] / "pipelines.toml"
    spec = workflow_files.compile_workflow("training", Vertex(Settings()), find_repository(file))
    assert list_cached_tasks(spec) == PINNED and pins_first(spec)
    (resolve,) = (step.task for step in spec.steps if step.name == "resolve")
    assert resolve.inputs({}, {})["run"] == "{{$.pipeline_job_name}}", "a hit in no run, even with --cache"


def test_a_workflow_that_pins_nothing_has_no_cache_on_vertex_and_its_own_results_here() -> None:
    repository = find_repository(TESTS / "small" / "pipelines.toml")
    assert list_cached_tasks(workflow_files.compile_workflow("small", Vertex(Settings()), repository)) == []
    assert set(list_cached_tasks(workflow_files.compile_workflow("small", Local(), repository))) >= {"own", "show"}


def test_each_task_counts_for_itself_and_the_workflow_has_the_last_word(
    compiled: Callable[[Any], dict[str, Any]],
) -> None:
    from kfp import dsl

    @dsl.component(base_image="python", install_kfp_package=False)
    def work() -> str:
        return ""

    target = Local()
    plain, pinned = target.step(work), target.job(work, pinned=True)

    @dsl.pipeline(name="inner")
    def inner():
        pinned()
        plain()

    @dsl.pipeline(name="outer")
    def outer():
        plain().set_caching_options(True)
        pinned()
        pinned().set_caching_options(False)
        with dsl.ParallelFor([1, 2]):
            pinned()
        inner()

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        spec = as_pinned(PipelineSpec(compiled(outer)), otherwise=True)
    assert {step.path: step.task.is_cached for step in spec.steps} == {
        "work": False, "work-2": True, "work-3": False, "for-loop-2/work-4": True,
        "inner/work": True, "inner/work-2": False,
    }  # fmt: skip


def test_steps_in_groups_and_loops_are_switched_too(branching: dict[str, Any]) -> None:
    spec = PipelineSpec(branching)
    assert {"flip", "flip-2", "say-2", "say-4"} <= set(list_cached_tasks(spec)), "as kfp compiles them"
    assert list_cached_tasks(switch_cache(spec, False)) == list_cached_tasks(as_pinned(spec, otherwise=False)) == []
    assert set(list_cached_tasks(spec)) <= set(list_cached_tasks(switch_cache(spec, True)))
    assert spec.content == branching, "the spec itself stays"


@pytest.fixture
def settings(cloud: Cloud) -> Any:
    return load()


@pytest.mark.parametrize(
    ("flag", "setting", "new", "steps"),
    [
        (None, None, False, PINNED),
        (None, None, True, []),
        (None, False, False, []),
        (None, True, True, []),
        (False, True, False, []),
        (True, False, True, sorted([*PINNED, "notify", "register", "resolve"])),
    ],
)
def test_the_flag_is_stronger_than_new_that_than_the_settings_and_they_than_the_spec(
    settings: Settings, flag: bool | None, setting: bool | None, new: bool, steps: list[str]
) -> None:
    changed = settings.model_copy(update={"caching": setting})
    options = Options(caching=flag, new=new, dry_run=True)
    body = submit("training", (), settings=changed, options=options, console=Console(quiet=True))["job"]
    groups = {
        name
        for name in list_cached_tasks(PipelineSpec(body["pipelineSpec"]))
        if name.startswith(("exit-handler", "condition"))
    }
    assert sorted(set(list_cached_tasks(PipelineSpec(body["pipelineSpec"]))) - groups) == sorted(steps)
