"""Where a pipeline is compiled for. `Local` is this machine; `vgp.workflow.compiling.vertex.Vertex` is Vertex AI."""

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Protocol

from vgp.check.spec.caching import PINNED
from vgp.check.spec.defaults import Places
from vgp.machines.placement.request import Request
from vgp.protocol.image import IMAGE
from vgp.workflow.compiling import engines, script

if TYPE_CHECKING:
    from kfp.dsl.base_component import BaseComponent
    from kfp.dsl.pipeline_task import PipelineTask

    from vgp.settings import Settings


class Target(Protocol):
    """Turns components into steps. `step` and `job` return what a pipeline function calls with the step's inputs.

    `pinned`: the step is a function of its inputs, and nothing moves underneath them: it may take the result of an
    earlier run's step with the same inputs. No other step does; one with effects never may.
    """

    #: Whether the steps of a workflow that pins nothing take results all the same: vgp/check/spec/caching.py.
    caching: bool
    #: The time for which a schedule started the run, as an input of a step; "" where there are no schedules.
    scheduled: str
    #: The run's resource name, as an input of a step; "" where Vertex AI knows nothing of the run.
    run: str

    @property
    def models(self) -> dict[str, Any]:
        """What the settings say of models in Vertex AI's Model Registry, as an input of a step: key and labels."""

    @property
    def webhook(self) -> str:
        """Where the summary of a run is sent, as an input of a step; "" where nothing is sent."""

    @property
    def experiment(self) -> str:
        """The Vertex AI experiment that a run becomes part of at its end, as an input of a step; "" for none."""

    @property
    def email(self) -> Sequence[str]:
        """Who gets mail of Vertex AI's when a run ends."""

    @property
    def places(self) -> Places:
        """Where runs write, and the registry of their models, which the spec has as its defaults."""

    def step(
        self, component: "BaseComponent", pinned: bool = False, bigquery_of: str = "", tracked: bool = False
    ) -> "BaseComponent":
        """A plain step; one that asks for a disk is a custom job on Vertex AI, with the same inputs and outputs.

        `bigquery_of`: the step whose settings for BigQuery it shares, as far as it has none of its own.
        `tracked`: it tells the MLflow server of the settings, as every job does; here, where the shell's variables
        name one.
        """

    def job(
        self,
        component: "BaseComponent",
        pinned: bool = False,
        collect: "BaseComponent | None" = None,
        form: "BaseComponent | None" = None,
    ) -> "BaseComponent":
        """A training step: may have several GPUs and several machines.

        `collect`: the plain step that takes up what a command of the settings leaves, which then runs in place of the
        component's Python. Its inputs left_X are the outputs X of the job, all others the job's own; the workflow sees
        its task. Without a command it is not in the pipeline.
        `form`: an earlier step, whose inputs such a command may name as well as those of the component.
        """

    def prices(self) -> dict[str, list[float | str]]:
        """What an hour of each step on all its machines costs in USD, and the day of that price.

        Only of steps that were placed and have a price.
        """


def marked(component: "BaseComponent", pinned: bool) -> "BaseComponent":
    """The component, with the mark of vgp/check/spec/caching.py on its tasks if they are pinned."""
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
    run = ""
    models: dict[str, Any] = {}
    webhook = ""
    experiment = ""
    email: Sequence[str] = ()
    places = Places()

    def __init__(self, settings: "Settings | None" = None) -> None:
        """Without settings no step has a command or an image of its own."""
        self.settings = settings

    def step(
        self, component: "BaseComponent", pinned: bool = False, bigquery_of: str = "", tracked: bool = False
    ) -> "BaseComponent":
        request = self._request(component.name)
        variables = engines.here(self.settings, component.name, bigquery_of).environment() if self.settings else {}
        if not request.image and not variables:
            return marked(component, pinned)
        ready = script.in_image(component, request, IMAGE)
        container = ready.component_spec.implementation.container
        container.env = {**(container.env or {}), **variables} or None
        return marked(ready, pinned)

    def job(
        self,
        component: "BaseComponent",
        pinned: bool = False,
        collect: "BaseComponent | None" = None,
        form: "BaseComponent | None" = None,
    ) -> "BaseComponent":
        request = self._request(component.name)
        if request.command is None:
            return self.step(component, pinned)
        ready = script.with_command(script.in_image(component, request, IMAGE), request, form)
        return script.followed_by(self.step(collect, pinned) if collect else None, marked(ready, pinned), form)

    def prices(self) -> dict[str, list[float | str]]:
        return {}

    def _request(self, step: str) -> Request:
        return self.settings.request(step) if self.settings else Request()
