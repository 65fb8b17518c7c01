"""Where a pipeline is compiled for: `Local` is this machine, `vgp.workflow.compiling.vertex.Vertex` is Vertex AI."""

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Protocol

from vgp.base.documents.json_text import JsonObject
from vgp.check.spec.pipeline_spec import PINNED, Places
from vgp.machines.placement.step_request import Request
from vgp.protocol.placeholders import IMAGE
from vgp.workflow.compiling import script_step

if TYPE_CHECKING:
    from kfp.dsl.base_component import BaseComponent
    from kfp.dsl.pipeline_task import PipelineTask

    from vgp.settings import Settings
from vgp.base.errors import RequestError
from vgp.base.text import google_names
from vgp.machines.placement.request_parts import BigQuery, Dataflow, Engines, Job
from vgp.settings import Settings


class Target(Protocol):
    """Turns components into steps. `step` and `job` return what a pipeline function calls with the step's inputs.

    `pinned`: the step is a function of its inputs, and nothing moves underneath them: it may take the result of an
    earlier run's step with the same inputs. No other step does; one with effects never may.
    """

    #: Whether the steps of a workflow that pins nothing take results all the same: vgp/check/spec/pipeline_spec.py.
    caching: bool
    #: The time for which a schedule started the run, as an input of a step; "" where there are no schedules.
    scheduled: str
    #: The run's resource name, as an input of a step; "" where Vertex AI knows nothing of the run.
    run: str

    @property
    def models(self) -> JsonObject:
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
    """The component, with the mark of vgp/check/spec/pipeline_spec.py on its tasks if they are pinned."""
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
    models: JsonObject = {}
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
        variables = engines_here(self.settings, component.name, bigquery_of).environment() if self.settings else {}
        if not request.image and not variables:
            return marked(component, pinned)
        ready = script_step.in_image(component, request, IMAGE)
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
        ready = script_step.with_command(script_step.in_image(component, request, IMAGE), request, form)
        return script_step.followed_by(self.step(collect, pinned) if collect else None, marked(ready, pinned), form)

    def prices(self) -> dict[str, list[float | str]]:
        return {}

    def _request(self, step: str) -> Request:
        return self.settings.request(step) if self.settings else Request()


def engines_on_vertex(settings: Settings, step: str, bigquery_of: str, image: str) -> Engines:
    """Of a step on Vertex AI, in that image. Raises RequestError for a subnetwork of another region."""
    request = settings.request(step)
    return Engines(
        memory_gb=request.memory_gb or 0,
        bigquery=_bigquery(settings, step, bigquery_of),
        dataflow=_dataflow_job(settings, step, request.dataflow, image) if request.dataflow else None,
    )


def engines_here(settings: Settings, step: str, bigquery_of: str) -> Engines:
    """Of a step on this machine: it has another memory than the one of the settings, and no machine of Dataflow's
    could read its files."""
    return Engines(bigquery=_bigquery(settings, step, bigquery_of))


def _bigquery(settings: Settings, step: str, of: str) -> BigQuery | None:
    asked = settings.request(step).bigquery or (settings.request(of).bigquery if of else None)
    return asked and asked.model_copy(update={"project": asked.project or settings.project or ""})


def _dataflow_job(settings: Settings, step: str, asked: Dataflow, image: str) -> Job:
    region = asked.region or settings.region
    if asked.subnetwork and (its := google_names.subnetwork_region(asked.subnetwork)) != region:
        raise RequestError(
            f"steps.{step}.dataflow.subnetwork is in {its}, and the job is in {region}, the region of the settings: "
            f"name a subnetwork of {region}, or set region under [steps.{step}.dataflow]."
        )
    given = {
        **asked.model_dump(),
        "region": region,
        "service_account": asked.service_account or settings.service_account or "",
    }
    temp = google_names.join_uri(*google_names.split_uri(settings.bucket), "dataflow") if settings.bucket else ""
    return Job(**given, project=settings.project or "", temp=temp, image=image)
