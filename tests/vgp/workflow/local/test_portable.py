"""What a compiled pipeline means on this machine."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from kfp import dsl

from components import step
from vgp.base.errors import RequestError
from vgp.check.spec.pipeline_spec import PipelineSpec
from vgp.workflow.local import portable

REPOSITORY = Path(__file__).parents[4]
OWN = "example.com/own:1"


@step
def ours():
    pass


@dsl.component(base_image=OWN, install_kfp_package=False)
def python_of_its_own():
    pass


@dsl.component(base_image="python:3.12", target_image=OWN, install_kfp_package=False)
def built_in():
    pass


@dsl.container_component
def serving():
    return dsl.ContainerSpec(image=OWN, command=["/bin/serve"])


@dsl.container_component
def bare():
    return dsl.ContainerSpec(image=OWN)


def pipeline(*components: Any) -> Any:
    @dsl.pipeline(name="one")
    def one():
        for component in components:
            component()

    return one


def test_a_step_with_an_image_of_its_own_is_reported(compiled: Callable[[Any], dict[str, Any]], tmp_path: Path) -> None:
    spec = PipelineSpec(compiled(pipeline(ours, python_of_its_own)))
    portable.refuse_unsupported(spec, tmp_path, tmp_path)
    assert portable.list_notes(spec) == [
        f"note: python-of-its-own runs in this environment, not in its own image {OWN}."
    ]  # fmt: skip


@pytest.mark.parametrize("component", [built_in, serving, bare], ids=lambda component: component.name)
def test_a_container_without_a_python_function_is_refused_before_any_work(
    compiled: Callable[[Any], dict[str, Any]], component: Any, tmp_path: Path
) -> None:
    with pytest.raises(RequestError, match=f"{component.name} is a container, {OWN}, .* vgp submit"):
        portable.refuse_unsupported(PipelineSpec(compiled(pipeline(ours, component))), tmp_path, tmp_path)


def test_the_shipped_pipeline_runs_here_as_it_is(tmp_path: Path) -> None:
    from vgp.settings import find_repository
    from vgp.workflow.compiling import workflow_files
    from vgp.workflow.compiling.compile_target import Local

    made = workflow_files.compile_workflow("training", Local(), find_repository(REPOSITORY / "pipelines.toml"))
    portable.refuse_unsupported(made, tmp_path, REPOSITORY)
    assert portable.list_notes(made) == []
