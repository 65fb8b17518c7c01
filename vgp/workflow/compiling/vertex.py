"""The target Vertex AI, on which every step gets the machine that pipelines.toml requests."""

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
from vgp.workflow.compiling.capacity import build_image_environment
from vgp.workflow.compiling.compile_target import change_tasks, choose_vertex_engines, mark_pinned
from vgp.workflow.compiling.entrypoint import (
    build_command,
    build_spec_environment,
    build_wrapper_arguments,
    complete_job,
    find_wrapper_problems,
    is_python,
)

if TYPE_CHECKING:
    from kfp.dsl.base_component import BaseComponent

#: Placeholders that Vertex AI fills in from the PipelineJob: google_cloud_pipeline_components/_placeholders.py.
_RUN_PLACEHOLDERS = {
    "service_account": "{{$.pipeline_service_account}}",
    "network": "{{$.pipeline_network}}",
    "encryption_spec_key_name": "{{$.pipeline_encryption_key_name}}",
}


class Vertex:
    """The target Vertex AI: plain steps get resource limits, training steps become custom jobs.

    After a pipeline has been compiled, `placements` holds the machine of every step by the step's name.
    """

    caching = False
    scheduled = "{{$.pipeline_job_schedule_time_utc}}"
    run = "{{$.pipeline_job_resource_name}}"

    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        self.placements: dict[str, Placement] = {}
        #: The capacity ladders by step.
        self.ladders: dict[str, Ladder] = {}
        #: Collect steps that are not in the pipeline, because their jobs have no command.
        self.without_command: set[str] = set()
        #: Steps whose cost is not duration x price, because they use other services or other machines.
        self._metered: set[str] = set()

    def step(
        self, component: "BaseComponent", pinned: bool = False, bigquery_of: str = "", tracked: bool = False
    ) -> "BaseComponent":
        placement = self._place(component.name, kind="step")
        ready = self._prepare(component, placement.combination.accelerator is not None)
        image = ready.component_spec.implementation.container.image
        engines = choose_vertex_engines(self.settings, component.name, bigquery_of, image)
        mlflow = self.settings.mlflow.environment() if tracked else {}
        placement = replace(placement, env={**mlflow, **placement.env, **engines.environment()})
        if engines.bigquery or engines.dataflow:
            self._metered.add(component.name)
        if placement.is_job:
            return mark_pinned(
                _set_retries(_build_custom_job(ready, placement, self.settings), placement.retries), pinned
            )
        if not _has_python_command(component):
            placement = self.placements[component.name] = _drop_timeout(self.settings, component.name, placement)
        return mark_pinned(_set_retries(_set_limits(ready, placement, self.settings), placement.retries), pinned)

    def job(
        self,
        component: "BaseComponent",
        pinned: bool = False,
        collect: "BaseComponent | None" = None,
        form: "BaseComponent | None" = None,
    ) -> "BaseComponent":
        request = self.settings.request(component.name)
        if request.capacity or request.sizes:
            return self._append_collect(
                component, mark_pinned(self._build_ladder_step(component, form), pinned), pinned, collect, form
            )
        placement = self._place(component.name, kind="custom_job")
        placement = replace(placement, env={**self.settings.mlflow.environment(), **placement.env})
        prepared = self._prepare(component, placement.combination.accelerator is not None, form)
        ready = _build_custom_job(prepared, placement, self.settings)
        return self._append_collect(
            component, mark_pinned(_set_retries(ready, placement.retries), pinned), pinned, collect, form
        )

    def _build_ladder_step(self, component: "BaseComponent", form: "BaseComponent | None") -> "BaseComponent":
        """Returns the launcher step of a ladder. It counts as metered, because the rungs that ran decide its cost."""
        step, request = component.name, self.settings.request(component.name)
        _refuse_final_status(component)
        self._metered.add(step)
        ladders = {size: self._place_ladder(step, size) for size in request.sizes or ("",)}
        self.ladders[step] = ladders[request.default_size]
        # One image for all rungs, so that each continues the checkpoints of the others.
        ready = self._prepare(component, any(rung.gpus for placed in ladders.values() for rung in placed.rungs), form)
        rungs = [
            replace(rung, size=size)
            for size, placed in ladders.items()
            for rung in capacity.plan_rungs(component, ready, placed, self.settings)
        ]
        plan = Plan(step=step, rungs=tuple(rungs), deadline_s=self.ladders[step].deadline_s)
        launcher = capacity.build_launcher(ready, plan, self.settings.step_image(has_gpu=False))
        if request.sizes:
            launcher = sizes.add_size_input(launcher, request.default_size)
        return _set_retries(launcher, capacity.RETRIES if request.retries is None else request.retries)

    def _place_ladder(self, step: str, size: str) -> Ladder:
        """Returns the placed ladder of a step, or of one of its sizes."""
        request = self.settings.request(step)
        request, label = (request.of_size(size), f"{step}, size {size}") if size else (request, step)
        placed, mlflow = ladder(request, region=self.settings.region, name=label), self.settings.mlflow.environment()
        rungs = [
            replace(rung, placement=replace(rung.placement, env={**mlflow, **rung.placement.env}))
            for rung in placed.rungs
        ]
        return replace(placed, step=step, rungs=tuple(rungs))

    def _append_collect(
        self,
        component: "BaseComponent",
        job: "BaseComponent",
        pinned: bool,
        collect: "BaseComponent | None",
        form: "BaseComponent | None",
    ) -> "BaseComponent":
        """Returns the job, with the collect step appended if the settings have a command."""
        if self.settings.request(component.name).command is not None:
            return script_step.append_collect(self.step(collect, pinned) if collect else None, job, form)
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
        return {
            step: [round(placement.hourly_usd, 4), placement.price_date or ""]
            for step, placement in self.placements.items()
            if step not in self._metered and placement.hourly_usd is not None
        }

    def _place(self, step: str, kind: Literal["step", "custom_job"]) -> Placement:
        placement = place(self.settings.request(step), region=self.settings.region, kind=kind, name=step)
        refuse(find_wrapper_problems(placement.options, self.settings), f"{step} is a custom job")
        self.placements[step] = placement
        return placement

    def _prepare(
        self, component: "BaseComponent", has_gpu: bool, form: "BaseComponent | None" = None
    ) -> "BaseComponent":
        """Returns the component in its image, with the settings' command, or with its own and SIGTERM forwarded."""
        request = self.settings.request(component.name)
        ready = script_step.set_image(component, request, self.settings.step_image(has_gpu))
        container = ready.component_spec.implementation.container
        if request.command is not None:
            return script_step.set_command(ready, request, form)
        if container.command:
            container.command = build_command(container.command, component.name)
        return ready


def _has_python_command(component: "BaseComponent") -> bool:
    return is_python(component.component_spec.implementation.container.command)


def _drop_timeout(settings: Settings, step: str, placement: Placement) -> Placement:
    """Returns the placement of a container without a timeout, with Vertex AI's own limit.

    Raises:
        PlacementError: the settings ask for a timeout.
    """
    if settings.request(step).timeout is not None:
        text = "Only Python steps can have a timeout, and this step is a container with another command."
        fix = "Drop timeout, and limit the command: timeout -k 60 4h PROGRAM. Vertex AI stops it after 7 days."
        raise PlacementError(Problem("GPU028", "timeout", text, fix), f"{step} asks for a timeout")
    return replace(placement, timeout_s=plain.MAX_TIMEOUT_S)


def _set_retries(component: "BaseComponent", retries: int) -> "BaseComponent":
    """Returns the component with retries for its tasks; a workflow's own `set_retry` overrides them.

    The backoff starts at a minute, for a lost machine, and grows to an hour, for an API outage.
    """
    if not retries:
        return component
    backoff = {"backoff_duration": "60s", "backoff_factor": 2.0, "backoff_max_duration": "3600s"}
    return change_tasks(component, lambda task: task.set_retry(retries, **backoff))


def _set_limits(component: "BaseComponent", placement: Placement, settings: Settings) -> "BaseComponent":
    """Sets resource limits for which Vertex AI chooses exactly the placement's machine, and returns the component.

    The limits are set on the component, because each setter of a kfp task inspects the whole stack, which takes 15 ms.
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
    limit |= build_spec_environment(container.command)
    image = build_image_environment(container.image, container.image, settings)
    container.env = {**(container.env or {}), **placement.env, **limit, **image}
    return component


def _build_custom_job(component: "BaseComponent", placement: Placement, settings: Settings) -> "BaseComponent":
    """Returns a custom job around the component, built by Google's own wrapper.

    The wrapper passes the step's inputs to the job. Its worker pools are replaced by those of the placement, because it
    has no argument for a reduction server. Account, network and key are set from the run, because a custom job does not
    inherit them and would run as Vertex AI's service agent.
    """
    from google_cloud_pipeline_components.v1.custom_job import (
        CustomTrainingJobOp,
        create_custom_training_job_from_component,
    )

    _refuse_names(component, CustomTrainingJobOp)
    job = create_custom_training_job_from_component(
        component, display_name=component.name, **{**_RUN_PLACEHOLDERS, **build_wrapper_arguments(placement)}
    )
    complete_job(job, placement)
    pools = job.component_spec.inputs["worker_pool_specs"]
    container = pools.default[0]["container_spec"]
    if placement.region != settings.region:
        job.component_spec.inputs["location"].default = placement.region
    image = container["image_uri"]
    # GCPC drops the environment of the component.
    pools.default = placement.worker_pool_specs(
        image,
        container["command"],
        container["args"],
        env={**build_image_environment(image, image, settings), **build_spec_environment(container["command"])},
    )
    return job


def _refuse_names(component: "BaseComponent", wrapper: Any) -> None:
    """Raises PlacementError if an input of the step would silently replace an input of the wrapper."""
    names = sorted(set(wrapper.component_spec.inputs) & set(component.component_spec.inputs or {}))
    if names:
        text = f"Its input {names[0]} has the name of an input of Google's wrapper, and would replace it."
        fix = "Rename the input of the component."
        raise PlacementError(Problem("GPU014", names[0], text, fix), f"{component.name} cannot be a custom job")
    _refuse_final_status(component)


def _refuse_final_status(component: "BaseComponent") -> None:
    """Raises PlacementError if the step has an input for the run's final status, which no custom job receives."""
    inputs = component.component_spec.inputs or {}
    finals = sorted(name for name, declared in inputs.items() if declared.type == "PipelineTaskFinalStatus")
    if finals:
        text = f"Its input {finals[0]} is the run's final status, which only plain steps receive from Vertex AI."
        fix = "Drop boot_disk_gb and boot_disk_type of this step."
        raise PlacementError(Problem("GPU014", "boot_disk_gb", text, fix), f"{component.name} cannot be a custom job")
