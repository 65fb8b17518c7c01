"""Builds the launcher step of a capacity ladder: a small plain step with the inputs and outputs of the training step.

Google's wrapper starts one custom job; `python3 -m vgp.launch.capacity` starts a job for one rung after another. The
launcher's plan holds the body of each job in the form of Google's REST API, with the placeholders of the run and of the
step's inputs, which Vertex AI fills in when the step starts.
"""

import copy
import re
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from vgp.base.documents.json_text import JsonObject, JsonView
from vgp.base.errors import RequestError
from vgp.check import container_facts
from vgp.check.spec.spec_ladder import PROGRAM
from vgp.machines.placement import plain
from vgp.machines.placement.machine_rules import Problem, refuse
from vgp.machines.placement.placed_ladder import Ladder, PlacedRung, climber_s
from vgp.protocol import environment as variables
from vgp.protocol.capacity.plan import EXECUTOR_INPUT, Plan, PlannedRung
from vgp.settings import Settings
from vgp.settings.repository import DOCKERFILES
from vgp.settings.value_rules import read_key_location
from vgp.workflow.compiling import entrypoint, script_step
from vgp.workflow.compiling.entrypoint import build_signal_prefix

if TYPE_CHECKING:
    from kfp.dsl.base_component import BaseComponent

#: Linux limits one argument to 128 KiB (MAX_ARG_STRLEN); the values that Vertex AI fills in are longer than their
#: placeholders.
_MAX_PLAN_BYTES = 120_000
#: Retries of the launcher, whose own machine can be lost; a retry continues the same ladder.
RETRIES = 2
#: Names the image of a step, whose checkpoints may be resumed only by the same code.
IMAGE_VARIABLE = variables.IMAGE


def build_image_environment(image: str, step_image: str, settings: Settings) -> dict[str, str]:
    """Returns the variables that name a container's image and, where it differs, the image that stands for its code.

    The light image has the code of the image of the settings, which can also serve the model on a GPU.
    """
    code_image = settings.image if step_image == settings.light_image else step_image
    return {IMAGE_VARIABLE: image, **({variables.STEP_IMAGE: code_image} if code_image != image else {})}


def plan_rungs(
    component: "BaseComponent", ready: "BaseComponent", ladder: Ladder, settings: Settings
) -> tuple[PlannedRung, ...]:
    """Returns the rungs of a ladder with the bodies of their jobs.

    Args:
        component: The component that the workflow passed to `job`.
        ready: The component in the step's image, with the command that starts it.
        ladder: The machines on which the job may run.
        settings: The settings with labels, encryption key and image.

    Raises:
        PlacementError: an image has no kernels for the GPU of its rung, or the key is not in the rung's region.
        RequestError: a rung names another image than the step's code.
    """
    container, world_sizes = _read_container(ready), ",".join(str(max(1, rung.gpus)) for rung in ladder.rungs)
    return tuple(_plan_rung(component, container, rung, world_sizes, settings) for rung in ladder.rungs)


def build_launcher(ready: "BaseComponent", plan: Plan, image: str) -> "BaseComponent":
    """Returns the step that climbs the ladder, with one more output, `gcp_resources`, which the console reads.

    Raises:
        RequestError: the plan is too long for an argument, or the step already has an output `gcp_resources`.
    """
    from kfp.dsl.structures import OutputSpec

    text, step = plan.to_json(), plan.step
    if len(text.encode()) > _MAX_PLAN_BYTES:
        raise RequestError(
            f"[steps.{step}] capacity: the plan of {len(plan.rungs)} rungs has {len(text.encode()):,} bytes; an "
            f"argument of a container may have {_MAX_PLAN_BYTES:,}. Use fewer rungs or regions, or a shorter command."
        )
    launcher = copy.deepcopy(ready)
    spec = launcher.component_spec
    if "gcp_resources" in (spec.outputs or {}):
        raise RequestError(
            f"{step} has an output gcp_resources, a name that the step's custom jobs need. Rename the output."
        )
    spec.outputs = {**(spec.outputs or {}), "gcp_resources": OutputSpec(type="String")}
    container = spec.implementation.container
    container.image, container.resources = image, None
    container.command = [*build_signal_prefix(step, "deadline", kill=False), "python3", "-m", PROGRAM]
    container.args = ["--plan", text, "--executor_input", "{{$}}"]
    container.env = {plain.TIMEOUT_VARIABLE: str(climber_s(plan.deadline_s))}
    return launcher


def _plan_rung(
    component: "BaseComponent", container: JsonView, rung: PlacedRung, world_sizes: str, settings: Settings
) -> PlannedRung:
    placement, step_image = rung.placement, container["image"]
    image = script_step.set_image(component, rung.request, step_image).component_spec.implementation.container.image
    label = f"{component.name}, rung {rung.number} ({rung.provisioning})"
    refuse(_find_problems(rung, image, settings), f"{label} asks for {placement.combination} in {placement.region}")
    environment = {
        **build_image_environment(image, step_image, settings),
        variables.WORLD_SIZES: world_sizes,
        **entrypoint.build_spec_environment(container.get("command", ())),
    }
    pools = placement.worker_pool_specs(
        image, container.get("command", ()), _keep_executor_input(container.get("args", ())), env=environment
    )
    return PlannedRung(
        name=rung.name,
        region=placement.region,
        strategy="reservation" if rung.provisioning == "persistent" else rung.provisioning,
        timeout_s=placement.timeout_s,
        job=_build_job(component.name, rung, pools, settings),
        usd_per_hour=placement.hourly_usd,
        price_date=placement.price_date or "",
        max_wait_s=placement.max_wait_s,
        speed=rung.speed,
    )


def _build_job(step: str, rung: PlacedRung, pools: list[JsonObject], settings: Settings) -> JsonObject:
    """Returns the body of projects.locations.customJobs.create, with placeholders for the run's account, network and
    key; the launcher drops those that the run leaves empty."""
    fields = rung.placement.job_fields()
    scheduling = {**fields["scheduling"], "disable_retries": True}
    if rung.provisioning == "persistent":
        del scheduling["strategy"]
    network = {} if "psc_interface_config" in fields else {"network": "{{$.pipeline_network}}"}
    return {
        "displayName": step,
        "labels": dict(settings.labels),
        "encryptionSpec": {"kmsKeyName": "{{$.pipeline_encryption_key_name}}"},
        "jobSpec": {
            **_convert_to_camel({**fields, "worker_pool_specs": pools, "scheduling": scheduling}),
            "serviceAccount": "{{$.pipeline_service_account}}",
            **network,
        },
    }


def _read_container(ready: "BaseComponent") -> JsonObject:
    """Returns the step's container as kfp compiles it, with placeholders as text."""
    from google.protobuf import json_format

    spec = json_format.MessageToDict(ready.pipeline_spec)
    container: JsonObject = next(iter(spec["deploymentSpec"]["executors"].values()))["container"]
    return container


def _keep_executor_input(words: Sequence[str]) -> list[str]:
    """Returns the arguments with a placeholder for the executor input, which the launcher receives when it starts."""
    return [EXECUTOR_INPUT if word == "{{$}}" else word for word in words]


def _find_problems(rung: PlacedRung, image: str, settings: Settings) -> Iterator[Problem]:
    """Yields problems of the image on this GPU, of the key in this region, and of the job's other fields."""
    gpu, region, options = rung.placement.combination.accelerator_type, rung.placement.region, rung.placement.options
    if gpu and image == settings.light_image:
        text = f"{image} is the light image, which has PyTorch for CPUs: the {gpu} would stay idle."
        yield Problem("GPU016", "image", text, f"Drop image from the rung, or write {settings.image}.", "error")
    for problem in container_facts.kernels(_describe_image(image, settings), gpu) if gpu else ():
        fix = f"{problem.suggestion} A rung can name an image of its own: image = '...'."
        yield replace(problem, suggestion=fix, severity="error")
    key_region = read_key_location(settings.encryption_key) if settings.encryption_key else region
    if key_region != region:
        text = f"The encryption key is in {key_region}, but Vertex AI needs a key in the job's region, {region}."
        yield Problem("GPU010", "regions", text, f"Drop {region} from the rung, or run without encryption_key.")
    if options.restart_job_on_worker_restart:
        text = "restart_job_on_worker_restart has no effect on a rung, because Vertex AI restarts no job of a ladder."
        yield Problem("GPU035", "restart_job_on_worker_restart", text, "Drop it.")
    yield from entrypoint.find_wrapper_problems(options, settings)


def _describe_image(image: str, settings: Settings) -> str:
    """Returns the image's name, with the Dockerfile's base image if this repository builds the image."""
    base = read_base_image(settings) if image == settings.image else ""
    return f"{image}, built on {base}," if base else image


def _convert_to_camel(value: Any) -> Any:
    """Returns the value with all keys in camelCase, as the REST API spells them."""
    if isinstance(value, dict):
        return {_convert_key(key): _convert_to_camel(inner) for key, inner in value.items()}
    return [_convert_to_camel(inner) for inner in value] if isinstance(value, list) else value


def _convert_key(key: str) -> str:
    first, *rest = key.split("_")
    return first + "".join(map(str.capitalize, rest))


_ARGUMENT = re.compile(r"(?mi)^\s*ARG\s+(\w+)=[\"']?([^\s\"']+)")
_FROM = re.compile(r"(?mi)^\s*FROM\s+(?:--\S+\s+)*(\S+)(?:\s+AS\s+(\S+))?")
_REFERENCE = re.compile(r"\$\{?(\w+)\}?")


def read_base_image(settings: Settings) -> str:
    """Returns the image that the Dockerfile's last stage begins with, with the defaults of its ARGs; "" without one.

    `vgp image build --base` replaces this image without a trace in the Dockerfile.
    """
    if settings.file is None:
        return ""
    names = [settings.dockerfile] if settings.dockerfile else DOCKERFILES
    path = next((path for name in names if (path := settings.repository.root / name).is_file()), None)
    try:
        text = path.read_text(encoding="utf-8") if path else ""
    except (OSError, UnicodeDecodeError):
        return ""
    defaults, base = dict(_ARGUMENT.findall(text)), ""
    stages: dict[str, str] = {}
    for image, stage in _FROM.findall(text):
        base = _REFERENCE.sub(lambda match: defaults.get(match[1], ""), image)
        base = stages[stage.lower()] = stages.get(base.lower(), base)
    return base
