"""Vertex AI as the target of a pipeline: every step gets the machine that pipelines.toml asks for."""

from dataclasses import replace
from typing import TYPE_CHECKING, Any, Literal

from vgp.base.documents.json_text import JsonObject
from vgp.check.spec.pipeline_spec import Places
from vgp.machines.placement import plain
from vgp.machines.placement.machine_rules import PlacementError, Problem, refuse
from vgp.machines.placement.placed_ladder import Ladder, ladder
from vgp.machines.placement.placement import Placement
from vgp.machines.placement.placing import place
from vgp.protocol.capacity.plan import Plan
from vgp.settings import Settings
from vgp.workflow.compiling import capacity, script_step, sizes
from vgp.workflow.compiling.capacity import IMAGE_VARIABLE
from vgp.workflow.compiling.compile_target import engines_on_vertex, marked, with_tasks
from vgp.workflow.compiling.entrypoint import (
    complete_job,
    entrypoint,
    is_python,
    spec_environment,
    wrapper_arguments,
    wrapper_problems,
)

if TYPE_CHECKING:
    from kfp.dsl.base_component import BaseComponent

#: What Vertex AI fills in from the PipelineJob, or leaves empty: google_cloud_pipeline_components/_placeholders.py.
_OF_THE_RUN = {
    "service_account": "{{$.pipeline_service_account}}",
    "network": "{{$.pipeline_network}}",
    "encryption_spec_key_name": "{{$.pipeline_encryption_key_name}}",
}


class Vertex:
    """Vertex AI: plain steps with their resources, training steps as custom jobs.

    `placements` holds, after a pipeline was built, the machine of every step by the step's name.
    """

    caching = False
    scheduled = "{{$.pipeline_job_schedule_time_utc}}"
    run = "{{$.pipeline_job_resource_name}}"

    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        self.placements: dict[str, Placement] = {}
        #: The ladders of those that have one.
        self.ladders: dict[str, Ladder] = {}
        #: Steps that take up what a command leaves, of jobs that have none: they are not in the pipeline.
        self.without_command: set[str] = set()
        #: Steps that may use services besides their machines: their time does not tell what they cost.
        self._metered: set[str] = set()

    def step(
        self, component: "BaseComponent", pinned: bool = False, bigquery_of: str = "", tracked: bool = False
    ) -> "BaseComponent":
        placement, ready = self._place(component.name, kind="step"), self._ready(component)
        image = ready.component_spec.implementation.container.image
        used = engines_on_vertex(self.settings, component.name, bigquery_of, image)
        told = self.settings.mlflow.environment() if tracked else {}
        placement = replace(placement, env={**told, **placement.env, **used.environment()})
        if used.bigquery or used.dataflow:
            self._metered.add(component.name)
        if placement.is_job:
            return marked(_retried(_custom_job(ready, placement, self.settings.region), placement.retries), pinned)
        if not _ends_in_time(component):
            placement = self.placements[component.name] = _without_timeout(self.settings, component.name, placement)
        return marked(_retried(_limited(ready, placement), placement.retries), pinned)

    def job(
        self,
        component: "BaseComponent",
        pinned: bool = False,
        collect: "BaseComponent | None" = None,
        form: "BaseComponent | None" = None,
    ) -> "BaseComponent":
        request = self.settings.request(component.name)
        if request.capacity or request.sizes:
            return self._followed(component, marked(self._climbing(component, form), pinned), pinned, collect, form)
        placement = self._place(component.name, kind="custom_job")
        placement = replace(placement, env={**self.settings.mlflow.environment(), **placement.env})
        ready = _custom_job(self._ready(component, form), placement, self.settings.region)
        return self._followed(component, marked(_retried(ready, placement.retries), pinned), pinned, collect, form)

    def _climbing(self, component: "BaseComponent", form: "BaseComponent | None") -> "BaseComponent":
        """The step that climbs a ladder. Its time does not tell what it costs: that goes by the rungs it was on."""
        step, request = component.name, self.settings.request(component.name)
        _refuse_final_status(component)
        self._metered.add(step)
        ready = self._ready(component, form)
        ladders = {size: self._ladder(step, size) for size in request.sizes or ("",)}
        self.ladders[step] = ladders[request.default_size]
        rungs = [
            replace(rung, size=size)
            for size, placed in ladders.items()
            for rung in capacity.planned(component, ready, placed, self.settings)
        ]
        plan = Plan(step=step, rungs=tuple(rungs), deadline_s=self.ladders[step].deadline_s)
        climbing = capacity.launcher(ready, plan, self.settings.image)
        if request.sizes:
            climbing = sizes.chosen_by_input(climbing, request.default_size)
        return _retried(climbing, capacity.RETRIES if request.retries is None else request.retries)

    def _ladder(self, step: str, size: str) -> Ladder:
        """The ladder of the step, or of one of its sizes."""
        request = self.settings.request(step)
        asked, label = (request.of_size(size), f"{step}, size {size}") if size else (request, step)
        placed, mlflow = ladder(asked, region=self.settings.region, name=label), self.settings.mlflow.environment()
        rungs = [
            replace(rung, placement=replace(rung.placement, env={**mlflow, **rung.placement.env}))
            for rung in placed.rungs
        ]
        return replace(placed, step=step, rungs=tuple(rungs))

    def _followed(
        self,
        component: "BaseComponent",
        job: "BaseComponent",
        pinned: bool,
        collect: "BaseComponent | None",
        form: "BaseComponent | None",
    ) -> "BaseComponent":
        """The job, followed by what takes up what a command leaves, where there is one."""
        if self.settings.request(component.name).command is not None:
            return script_step.followed_by(self.step(collect, pinned) if collect else None, job, form)
        self.without_command |= {collect.name} if collect else set()
        return job

    @property
    def models(self) -> JsonObject:
        key = {"encryption_key": self.settings.encryption_key} if self.settings.encryption_key else {}
        return {**key, **({"labels": dict(self.settings.labels)} if self.settings.labels else {})}

    @property
    def webhook(self) -> str:
        return self.settings.notify.webhook or ""

    @property
    def experiment(self) -> str:
        return self.settings.experiment or ""

    @property
    def email(self) -> tuple[str, ...]:
        return self.settings.notify.email

    @property
    def places(self) -> Places:
        bucket = self.settings.bucket
        return Places(f"{bucket}/runs" if bucket else "", self.settings.registry_root)

    def prices(self) -> dict[str, list[float | str]]:
        known = {step: placed for step, placed in self.placements.items() if step not in self._metered}
        return {
            step: [round(placed.hourly_usd, 4), placed.price_date or ""]
            for step, placed in known.items()
            if placed.hourly_usd is not None
        }

    def _place(self, step: str, kind: Literal["step", "custom_job"]) -> Placement:
        placement = place(self.settings.request(step), region=self.settings.region, kind=kind, name=step)
        refuse(wrapper_problems(placement.options, self.settings), f"{step} is a custom job")
        self.placements[step] = placement
        return placement

    def _ready(self, component: "BaseComponent", form: "BaseComponent | None" = None) -> "BaseComponent":
        """The component in its image, with the command of the settings, or its own, which SIGTERM reaches."""
        request = self.settings.request(component.name)
        ready = script_step.in_image(component, request, self.settings.image)
        container = ready.component_spec.implementation.container
        if request.command is not None:
            return script_step.with_command(ready, request, form)
        if container.command:
            container.command = entrypoint(container.command, component.name)
        return ready


def _ends_in_time(component: "BaseComponent") -> bool:
    return is_python(component.component_spec.implementation.container.command)


def _without_timeout(settings: Settings, step: str, placement: Placement) -> Placement:
    """The placement of a container with a command of its own, which nothing ends before Vertex AI does.

    Raises:
        PlacementError: a timeout is asked for.
    """
    if settings.request(step).timeout is not None:
        text = "Its command is its own, not that of a Python step: nothing would end it in time."
        fix = "Drop timeout, and end it in its command: timeout -k 60 4h PROGRAM. Vertex AI ends it after 7 days."
        raise PlacementError(Problem("GPU028", "timeout", text, fix), f"{step} asks for a timeout")
    return replace(placement, timeout_s=plain.MAX_TIMEOUT_S)


def _retried(component: "BaseComponent", retries: int) -> "BaseComponent":
    """The component, whose tasks are tried again after a failure; set_retry of the workflow itself has the last word.

    Of the time that a fault takes to pass: minutes for a machine that is lost, an hour for an API that is down.
    """
    if not retries:
        return component
    backoff = {"backoff_duration": "60s", "backoff_factor": 2.0, "backoff_max_duration": "3600s"}
    return with_tasks(component, lambda task: task.set_retry(retries, **backoff))


def _limited(component: "BaseComponent", placement: Placement) -> "BaseComponent":
    """A plain step: limits that leave exactly the placement's machine.

    They are set on the component: each setter of a kfp task looks at the whole stack, 15 ms and more a call.
    """
    from kfp.dsl.structures import ResourceSpec

    limits = placement.resources()
    container = component.component_spec.implementation.container
    container.resources = ResourceSpec(
        cpu_limit=limits["cpu_limit"],
        memory_limit=limits["memory_limit"],
        accelerator_type=limits["accelerator_type"],
        accelerator_count=str(limits["accelerator_count"]) if limits["accelerator_type"] else None,
    )
    limit = {plain.TIMEOUT_VARIABLE: str(placement.timeout_s)} if is_python(container.command) else {}
    limit |= spec_environment(container.command)
    container.env = {**(container.env or {}), **placement.env, **limit, IMAGE_VARIABLE: container.image}
    return component


def _custom_job(component: "BaseComponent", placement: Placement, home: str) -> "BaseComponent":
    """A custom job around the component, through Google's own wrapper.

    The wrapper knows how to hand the step's inputs to a job; worker pools it knows only in part (no reduction
    server), so its pools give way to the placement's. Account, network and key are those of the run: a custom job does
    not inherit them by itself, and would run as Vertex AI's own service agent.
    """
    from google_cloud_pipeline_components.v1.custom_job import (
        CustomTrainingJobOp,
        create_custom_training_job_from_component,
    )

    _refuse_names(component, CustomTrainingJobOp)
    job = create_custom_training_job_from_component(
        component, display_name=component.name, **{**_OF_THE_RUN, **wrapper_arguments(placement)}
    )
    complete_job(job, placement)
    pools = job.component_spec.inputs["worker_pool_specs"]
    container = pools.default[0]["container_spec"]
    if placement.region != home:
        job.component_spec.inputs["location"].default = placement.region
    image = container["image_uri"]
    # GCPC takes image, command and arguments of the component, and drops its environment.
    pools.default = placement.worker_pool_specs(
        image,
        container["command"],
        container["args"],
        env={IMAGE_VARIABLE: image, **spec_environment(container["command"])},
    )
    return job


def _refuse_names(component: "BaseComponent", wrapper: Any) -> None:
    """Raises PlacementError: an input of the step would silently take the place of one of the wrapper's own."""
    own, inputs = set(wrapper.component_spec.inputs), component.component_spec.inputs or {}
    names = sorted(own & set(inputs))
    if names:
        text = f"Its input {names[0]} is one that the custom job has itself, and would take its place."
        fix = "Give the input of the component another name."
        raise PlacementError(Problem("GPU014", names[0], text, fix), f"{component.name} is to be a custom job")
    _refuse_final_status(component)


def _refuse_final_status(component: "BaseComponent") -> None:
    """Raises PlacementError: what the step hears of its run, no job is told."""
    inputs = component.component_spec.inputs or {}
    finals = sorted(name for name, declared in inputs.items() if declared.type == "PipelineTaskFinalStatus")
    if finals:
        text = f"Its input {finals[0]} tells how the run ended, which Vertex AI hands to plain steps only."
        fix = "Drop boot_disk_gb and boot_disk_type of this step."
        raise PlacementError(Problem("GPU014", "boot_disk_gb", text, fix), f"{component.name} is to be a custom job")
