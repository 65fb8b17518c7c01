"""A component whose tasks are functions of their inputs: they may take the result of an earlier one."""

from typing import Any

from kfp.dsl.base_component import BaseComponent
from kfp.dsl.pipeline_task import PipelineTask

from vgp.spec.caching import PINNED


class Pinned(BaseComponent):
    """A component as it is, whose tasks are marked for vgp/spec/caching.py."""

    def __init__(self, component: BaseComponent) -> None:
        super().__init__(component.component_spec)

    def __call__(self, *args: Any, **inputs: Any) -> PipelineTask:
        return super().__call__(*args, **inputs).set_caching_options(True, PINNED)

    def execute(self, **inputs: Any) -> None:
        raise NotImplementedError("a step runs within a pipeline")
