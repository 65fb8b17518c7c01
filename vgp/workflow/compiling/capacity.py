"""A step with a ladder: a small plain step that climbs it, with the inputs and outputs of the step itself.

What Google's wrapper does for one custom job, `python3 -m vgp.launch.capacity` does for one rung after the other. Its
plan holds the body of each rung's job, as Google's REST API takes it. What Vertex AI fills in stands in the text of the
plan, as it stands in the text that Google's wrapper sends: the placeholders of the run, and of the step's inputs.
"""

import copy
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
from vgp.settings.value_rules import key_location
from vgp.workflow.compiling import entrypoint, script_step
from vgp.workflow.compiling.entrypoint import passing_on

if TYPE_CHECKING:
    from kfp.dsl.base_component import BaseComponent
import re

from vgp.settings.repository import DOCKERFILES

#: Linux takes 128 KiB in one argument (MAX_ARG_STRLEN); what Vertex AI fills in is longer than its placeholder.
_MOST_BYTES = 120_000
#: Starts of the launcher after the first: its machine may be lost like any other. It goes on with the same ladder.
RETRIES = 2
#: What training reads of its rung: vgp/protocol/capacity.
_WORLDS, _STEP_IMAGE = variables.WORLD_SIZES, variables.STEP_IMAGE
#: Tells a step which image it runs in: what it writes for later tries of itself is for the same code only.
IMAGE_VARIABLE = variables.IMAGE


def planned(
    component: "BaseComponent", ready: "BaseComponent", ladder: Ladder, settings: Settings
) -> tuple[PlannedRung, ...]:
    """The rungs with the bodies of their jobs.

    Args:
        component: The step's own, as the workflow has it.
        ready: The same in the step's image, with the command that starts it.
        ladder: Where its jobs may run.
        settings: For the labels, the key and the image.

    Raises:
        PlacementError: an image has no kernels for the GPU of its rung, or the key is not in its region.
        RequestError: a rung names an image, and the step's code another one.
    """
    container, worlds = _container(ready), ",".join(str(max(1, rung.gpus)) for rung in ladder.rungs)
    return tuple(_planned(component, container, rung, worlds, settings) for rung in ladder.rungs)


def launcher(ready: "BaseComponent", plan: Plan, image: str) -> "BaseComponent":
    """The step that climbs the ladder: inputs and outputs of the step, and `gcp_resources`, which the console reads.

    Raises:
        RequestError: the plan is longer than an argument may be, or the step has an output of that name.
    """
    from kfp.dsl.structures import OutputSpec

    text, step = plan.to_json(), plan.step
    if len(text.encode()) > _MOST_BYTES:
        raise RequestError(
            f"[steps.{step}] capacity: its {len(plan.rungs)} rungs make a plan of {len(text.encode()):,} bytes; a "
            f"container takes {_MOST_BYTES:,} in one argument. Take fewer rungs or regions, or a shorter command."
        )
    climbing = copy.deepcopy(ready)
    spec = climbing.component_spec
    if "gcp_resources" in (spec.outputs or {}):
        raise RequestError(f"{step} has an output gcp_resources, which is that of its jobs. Give it another name.")
    spec.outputs = {**(spec.outputs or {}), "gcp_resources": OutputSpec(type="String")}
    container = spec.implementation.container
    container.image, container.resources = image, None
    container.command = [*passing_on(step, "deadline", kill=False), "python3", "-m", PROGRAM]
    container.args = ["--plan", text, "--executor_input", "{{$}}"]
    container.env = {plain.TIMEOUT_VARIABLE: str(climber_s(plan.deadline_s))}
    return climbing


def _planned(
    component: "BaseComponent", container: JsonView, rung: PlacedRung, worlds: str, settings: Settings
) -> PlannedRung:
    placement, own = rung.placement, rung.request.image
    image = script_step.in_image(component, rung.request, settings.image).component_spec.implementation.container.image
    label = f"{component.name}, rung {rung.number} ({rung.provisioning})"
    refuse(_problems(rung, image, settings), f"{label} asks for {placement.combination} in {placement.region}")
    told = {
        IMAGE_VARIABLE: image,
        **({_STEP_IMAGE: container["image"]} if own and image != container["image"] else {}),
        _WORLDS: worlds,
        **entrypoint.spec_environment(container.get("command", ())),
    }
    pools = placement.worker_pool_specs(image, container.get("command", ()), _open(container.get("args", ())), env=told)
    return PlannedRung(
        name=rung.name,
        region=placement.region,
        strategy="reservation" if rung.provisioning == "persistent" else rung.provisioning,
        timeout_s=placement.timeout_s,
        job=_body(component.name, rung, pools, settings),
        usd_per_hour=placement.hourly_usd,
        price_date=placement.price_date or "",
        max_wait_s=placement.max_wait_s,
        speed=rung.speed,
    )


def _body(step: str, rung: PlacedRung, pools: list[JsonObject], settings: Settings) -> JsonObject:
    """What projects.locations.customJobs.create takes. Account, network and key are those of the run; the launcher
    leaves out what the run leaves empty."""
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
            **_camel({**fields, "worker_pool_specs": pools, "scheduling": scheduling}),
            "serviceAccount": "{{$.pipeline_service_account}}",
            **network,
        },
    }


def _container(ready: "BaseComponent") -> JsonObject:
    """The step's container as kfp writes it: its placeholders are texts there."""
    from google.protobuf import json_format

    spec = json_format.MessageToDict(ready.pipeline_spec)
    container: JsonObject = next(iter(spec["deploymentSpec"]["executors"].values()))["container"]
    return container


def _open(words: Sequence[str]) -> list[str]:
    """The arguments with the executor input left open: the launcher knows it when it begins."""
    return [EXECUTOR_INPUT if word == "{{$}}" else word for word in words]


def _problems(rung: PlacedRung, image: str, settings: Settings) -> Iterator[Problem]:
    """What speaks against the image on this GPU, against the key in this region, and against the job's other fields."""
    gpu, region, options = rung.placement.combination.accelerator_type, rung.placement.region, rung.placement.options
    for problem in container_facts.kernels(_with_base(image, settings), gpu) if gpu else ():
        yield replace(problem, suggestion=f"{problem.suggestion} A rung has its own: image = '...'.", severity="error")
    key = settings.encryption_key
    if key and key_location(key) != region:
        text = f"The encryption key is in {key_location(key)}; Vertex AI takes one of the job's region, {region}."
        yield Problem("GPU010", "regions", text, f"Drop {region} from the rung, or run without encryption_key.")
    if options.restart_job_on_worker_restart:
        text = "restart_job_on_worker_restart has no effect on a rung: there Vertex AI restarts nothing."
        yield Problem("GPU035", "restart_job_on_worker_restart", text, "Drop it.")
    yield from entrypoint.wrapper_problems(options, settings)


def _with_base(image: str, settings: Settings) -> str:
    """The image's name; where it is built here, with the base that the Dockerfile names."""
    base = base_image(settings) if image == settings.image else ""
    return f"{image}, built on {base}," if base else image


def _camel(value: Any) -> Any:
    """Keys in camelCase, as REST has them."""
    if isinstance(value, dict):
        return {_camel_key(key): _camel(inner) for key, inner in value.items()}
    return [_camel(inner) for inner in value] if isinstance(value, list) else value


def _camel_key(key: str) -> str:
    first, *rest = key.split("_")
    return first + "".join(map(str.capitalize, rest))


_ARGUMENT = re.compile(r"(?mi)^\s*ARG\s+(\w+)=[\"']?([^\s\"']+)")
_FROM = re.compile(r"(?mi)^\s*FROM\s+(?:--\S+\s+)*(\S+)")
_NAMED = re.compile(r"\$\{?(\w+)\}?")


def base_image(settings: Settings) -> str:
    """The image of the last FROM, with the defaults of its ARGs; "" where there is no Dockerfile that can be read.

    `vgp image build --base` takes another one: then the Dockerfile does not tell it.
    """
    if settings.file is None:
        return ""
    names = [settings.dockerfile] if settings.dockerfile else DOCKERFILES
    path = next((path for name in names if (path := settings.repository.root / name).is_file()), None)
    try:
        text = path.read_text(encoding="utf-8") if path else ""
    except (OSError, UnicodeDecodeError):
        return ""
    defaults, stages = dict(_ARGUMENT.findall(text)), _FROM.findall(text)
    return _NAMED.sub(lambda match: defaults.get(match[1], ""), stages[-1]) if stages else ""
