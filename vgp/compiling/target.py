"""Where a pipeline is compiled for. `Local` is this machine; `vgp.compiling.vertex.Vertex` is Vertex AI."""

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Protocol

from vgp.spec.caching import PINNED

if TYPE_CHECKING:
    from kfp.dsl.base_component import BaseComponent
    from kfp.dsl.pipeline_task import PipelineTask


class Target(Protocol):
    """Turns components into steps. `step` and `job` return what a pipeline function calls with the step's inputs.

    `pinned`: the step is a function of its inputs, and nothing moves underneath them: it may take the result of an
    earlier run's step with the same inputs. No other step does; one with effects never may.
    """

    #: Whether the steps of a workflow that pins nothing take results all the same: vgp/spec/caching.py.
    caching: bool
    #: The time for which a schedule started the run, as an input of a step; "" where there are no schedules.
    scheduled: str

    @property
    def webhook(self) -> str:
        """Where the summary of a run is sent, as an input of a step; "" where nothing is sent."""

    @property
    def email(self) -> Sequence[str]:
        """Who gets mail of Vertex AI's when a run ends."""

    def step(self, component: "BaseComponent", pinned: bool = False) -> "BaseComponent":
        """A plain step."""

    def job(self, component: "BaseComponent", pinned: bool = False) -> "BaseComponent":
        """A training step: may have several GPUs and several machines."""

    def prices(self) -> dict[str, float]:
        """What an hour of each step on all its machines costs in USD, as far as steps were placed and have a price."""


def marked(component: "BaseComponent", pinned: bool) -> "BaseComponent":
    """The component, with the mark of vgp/spec/caching.py on its tasks if they are pinned."""
    return with_tasks(component, lambda task: task.set_caching_options(True, PINNED)) if pinned else component


def with_tasks(component: "BaseComponent", change: "Callable[[PipelineTask], object]") -> "BaseComponent":
    """The component, each of its tasks changed as soon as a workflow has it; what the workflow then says counts."""
    from kfp.dsl.base_component import BaseComponent

    class Changed(BaseComponent):  # type: ignore[misc]
        def __call__(self, *args: Any, **inputs: Any) -> Any:
            task = component(*args, **inputs)
            change(task)
            return task

        def execute(self, **inputs: Any) -> None:
            component.execute(**inputs)

    return Changed(component.component_spec)


class Local:
    """This machine: every component as it is. A run that is resumed takes its own results, and no other's."""

    caching = True
    scheduled = ""
    webhook = ""
    email: Sequence[str] = ()

    def step(self, component: "BaseComponent", pinned: bool = False) -> "BaseComponent":
        return marked(component, pinned)

    def job(self, component: "BaseComponent", pinned: bool = False) -> "BaseComponent":
        return self.step(component, pinned)

    def prices(self) -> dict[str, float]:
        return {}
