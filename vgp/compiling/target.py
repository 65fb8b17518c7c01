"""Where a pipeline is compiled for. `Local` is this machine; `vgp.compiling.vertex.Vertex` is Vertex AI."""

from typing import TYPE_CHECKING, Any, Protocol

from vgp.spec.caching import PINNED

if TYPE_CHECKING:
    from kfp.dsl.base_component import BaseComponent


class Target(Protocol):
    """Turns components into steps. `step` and `job` return what a pipeline function calls with the step's inputs.

    `pinned`: the step is a function of its inputs, and nothing moves underneath them: it may take the result of an
    earlier run's step with the same inputs. No other step does; one with effects never may.
    """

    #: Whether the steps of a workflow that pins nothing take results all the same: vgp/spec/caching.py.
    caching: bool
    #: The time for which a schedule started the run, as an input of a step; "" where there are no schedules.
    scheduled: str
    #: Where the summary of a run is sent, as an input of a step; "" where nothing is sent.
    webhook: str

    def step(self, component: "BaseComponent", pinned: bool = False) -> "BaseComponent":
        """A plain step."""

    def job(self, component: "BaseComponent", pinned: bool = False) -> "BaseComponent":
        """A training step: may have several GPUs and several machines."""

    def prices(self) -> dict[str, float]:
        """What an hour of each step on all its machines costs in USD, as far as steps were placed and have a price."""


def marked(component: "BaseComponent", pinned: bool) -> "BaseComponent":
    """The component, with the mark of vgp/spec/caching.py on its tasks if they are pinned."""
    from kfp.dsl.base_component import BaseComponent

    class Pinned(BaseComponent):  # type: ignore[misc]
        def __call__(self, *args: Any, **inputs: Any) -> Any:
            return component(*args, **inputs).set_caching_options(True, PINNED)

        def execute(self, **inputs: Any) -> None:
            component.execute(**inputs)

    return Pinned(component.component_spec) if pinned else component


class Local:
    """This machine: every component as it is. A run that is resumed takes its own results, and no other's."""

    caching = True
    scheduled = ""
    webhook = ""

    def step(self, component: "BaseComponent", pinned: bool = False) -> "BaseComponent":
        return marked(component, pinned)

    def job(self, component: "BaseComponent", pinned: bool = False) -> "BaseComponent":
        return self.step(component, pinned)

    def prices(self) -> dict[str, float]:
        return {}
