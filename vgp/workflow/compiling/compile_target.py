"""The targets of a compiled pipeline: `Local` is this machine, `vgp.workflow.compiling.vertex.Vertex` is Vertex AI."""

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
    """A target, which turns components into steps. A pipeline function calls the steps that `step` and `job` return.

    `pinned` marks a step whose result depends on its inputs alone. Only such a step may reuse the cached result of an
    earlier run; a step with side effects must not be pinned.
    """

    #: Whether steps reuse cached results in a workflow without any pinned step: vgp/check/spec/pipeline_spec.py.
    caching: bool
    #: The scheduled time of a run, as an input of a step; "" without schedules.
    scheduled: str
    #: The run's resource name on Vertex AI, as an input of a step; "" for a local run.
    run: str

    @property
    def models(self) -> JsonObject:
        """Returns encryption key and labels for Vertex AI's Model Registry, as an input of a step."""

    @property
    def webhook(self) -> str:
        """Returns the URL that receives the summary of a run, as an input of a step; "" for none."""

    @property
    def experiment(self) -> str:
        """Returns the Vertex AI experiment that records the run at its end, as an input of a step; "" for none."""

    @property
    def email(self) -> Sequence[str]:
        """Returns the addresses to which Vertex AI sends mail when a run ends."""

    @property
    def places(self) -> Places:
        """Returns the folder of the runs and the registry of their models, which become defaults of the spec."""

    def step(
        self, component: "BaseComponent", pinned: bool = False, bigquery_of: str = "", tracked: bool = False
    ) -> "BaseComponent":
        """Returns a plain step; on Vertex AI, a step whose settings ask for a disk becomes a custom job.

        `bigquery_of`: the step whose BigQuery settings apply if this step has none.
        `tracked`: the step logs to the MLflow server of the settings, as every job does. On this machine, the shell's
        variables name the server.
        """

    def job(
        self,
        component: "BaseComponent",
        pinned: bool = False,
        collect: "BaseComponent | None" = None,
        form: "BaseComponent | None" = None,
    ) -> "BaseComponent":
        """Returns a training step, which may use several GPUs and several machines.

        `collect`: a plain step that reads the outputs of the job if the settings replace the component's Python by a
        command; without a command the pipeline omits it. Its inputs `left_X` are the outputs `X` of the job, its other
        inputs are those of the job. The workflow gets the outputs of `collect`.
        `form`: an earlier step; the command may name its inputs in addition to those of the component.
        """

    def prices(self) -> dict[str, list[float | str]]:
        """Returns USD per hour and price date of each placed step with a known price, for all its machines."""


def mark_pinned(component: "BaseComponent", pinned: bool) -> "BaseComponent":
    """Returns the component; if `pinned`, its tasks get the mark that vgp/check/spec/pipeline_spec.py reads."""
    return change_tasks(component, lambda task: task.set_caching_options(True, PINNED)) if pinned else component


def change_tasks(component: "BaseComponent", change: "Callable[[PipelineTask], object]") -> "BaseComponent":
    """Returns the component, with `change` applied to each new task before the workflow itself can change the task."""
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
    """The target for this machine. Components stay unchanged, and only a resumed run reuses results: its own."""

    caching = True
    scheduled = ""
    run = ""
    models: JsonObject = {}
    webhook = ""
    experiment = ""
    email: Sequence[str] = ()
    places = Places()

    def __init__(self, settings: "Settings | None" = None) -> None:
        """Stores the settings, which may give steps a command and an image; None without settings."""
        self.settings = settings

    def step(
        self, component: "BaseComponent", pinned: bool = False, bigquery_of: str = "", tracked: bool = False
    ) -> "BaseComponent":
        request = self._request(component.name)
        variables = (
            choose_local_engines(self.settings, component.name, bigquery_of).environment() if self.settings else {}
        )
        if not request.image and not variables:
            return mark_pinned(component, pinned)
        ready = script_step.set_image(component, request, IMAGE)
        container = ready.component_spec.implementation.container
        container.env = {**(container.env or {}), **variables} or None
        return mark_pinned(ready, pinned)

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
        ready = script_step.set_command(script_step.set_image(component, request, IMAGE), request, form)
        return script_step.append_collect(
            self.step(collect, pinned) if collect else None, mark_pinned(ready, pinned), form
        )

    def prices(self) -> dict[str, list[float | str]]:
        return {}

    def _request(self, step: str) -> Request:
        return self.settings.request(step) if self.settings else Request()


def choose_vertex_engines(settings: Settings, step: str, bigquery_of: str, image: str) -> Engines:
    """Returns the engines of a step that runs on Vertex AI in `image`.

    Raises:
        RequestError: the subnetwork for Dataflow is in another region than the job.
    """
    request = settings.request(step)
    return Engines(
        memory_gb=request.memory_gb or 0,
        bigquery=_choose_bigquery(settings, step, bigquery_of),
        dataflow=_build_dataflow_job(settings, step, request.dataflow, image) if request.dataflow else None,
    )


def choose_local_engines(settings: Settings, step: str, bigquery_of: str) -> Engines:
    """Returns the engines of a step on this machine.

    Memory does not apply, because the settings describe another machine; nor does Dataflow, whose workers cannot read
    local files.
    """
    return Engines(bigquery=_choose_bigquery(settings, step, bigquery_of))


def _choose_bigquery(settings: Settings, step: str, other_step: str) -> BigQuery | None:
    bigquery = settings.request(step).bigquery or (settings.request(other_step).bigquery if other_step else None)
    return bigquery and bigquery.model_copy(update={"project": bigquery.project or settings.project or ""})


def _build_dataflow_job(settings: Settings, step: str, request: Dataflow, image: str) -> Job:
    region = request.region or settings.region
    if request.subnetwork and (subnet_region := google_names.subnetwork_region(request.subnetwork)) != region:
        raise RequestError(
            f"steps.{step}.dataflow.subnetwork is in {subnet_region}, and the job is in {region}, the region of the "
            f"settings: name a subnetwork of {region}, or set region under [steps.{step}.dataflow]."
        )
    fields = {
        **request.model_dump(),
        "region": region,
        "service_account": request.service_account or settings.service_account or "",
    }
    temp = google_names.join_uri(*google_names.split_uri(settings.bucket), "dataflow") if settings.bucket else ""
    return Job(**fields, project=settings.project or "", temp=temp, image=image)
