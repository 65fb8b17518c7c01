"""Only pinned steps take the result of an earlier run, unless somebody asks for more or less."""

import json
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from loopback.cloud import Cloud
from rich.console import Console

from vgp.check.spec.pipeline_spec import PipelineSpec, as_pinned, cached, pins_first, switched
from vgp.settings import Settings, load, repository_of
from vgp.vertex.runs.run_submission import Options, submit
from vgp.workflow.compiling import workflow_files
from vgp.workflow.compiling.compile_target import Local, Target
from vgp.workflow.compiling.vertex import Vertex

TESTS = Path(__file__).parents[2]
PINNED = ["decide", "evaluate", "prepare", "train"]


@pytest.mark.parametrize("target", [Vertex(Settings()), Local()])
def test_pinned_steps_are_cached_and_no_other(target: Target) -> None:
    nightly = workflow_files.compiled("nightly", target, repository_of(TESTS / "nightly" / "pipelines.toml"))
    assert cached(nightly) == ["work"]
    assert "cacheKey" not in json.dumps(nightly.content), "a key of our own would hold for all inputs"


def test_the_training_pipeline_pins_first_and_caches_what_follows() -> None:
    file = TESTS.parents[1] / "pipelines.toml"
    spec = workflow_files.compiled("training", Vertex(Settings()), repository_of(file))
    assert cached(spec) == PINNED and pins_first(spec)
    (resolve,) = (step.task for step in spec.steps if step.name == "resolve")
    assert resolve.inputs({}, {})["run"] == "{{$.pipeline_job_name}}", "a hit in no run, even with --cache"


def test_a_workflow_that_pins_nothing_has_no_cache_on_vertex_and_its_own_results_here() -> None:
    repository = repository_of(TESTS / "small" / "pipelines.toml")
    assert cached(workflow_files.compiled("small", Vertex(Settings()), repository)) == []
    assert set(cached(workflow_files.compiled("small", Local(), repository))) >= {"own", "show"}


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
    assert {"flip", "flip-2", "say-2", "say-4"} <= set(cached(spec)), "as kfp compiles them"
    assert cached(switched(spec, False)) == cached(as_pinned(spec, otherwise=False)) == []
    assert set(cached(spec)) <= set(cached(switched(spec, True)))
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
        name for name in cached(PipelineSpec(body["pipelineSpec"])) if name.startswith(("exit-handler", "condition"))
    }
    assert sorted(set(cached(PipelineSpec(body["pipelineSpec"]))) - groups) == sorted(steps)
