"""Chooses the machine for a step's request in pipelines.toml, with the reason.

place(Request(accelerator="L4", count=4)).combination    # 4 x NVIDIA_L4 on g2-standard-48, the cheapest
"""

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import date
from typing import Literal

from vgp.machines.catalog import catalog
from vgp.machines.catalog.prices import Price
from vgp.machines.placement import compatibility, job_fields, plain, provisioning
from vgp.machines.placement.combination import Combination
from vgp.machines.placement.job_options import JobOptions
from vgp.machines.placement.machine_rules import PlacementError, Problem, first_error, refuse
from vgp.machines.placement.placement import Placement
from vgp.machines.placement.refusal import impossible, not_offered, too_large
from vgp.machines.placement.request_parts import ParameterServer
from vgp.machines.placement.search import Need, search
from vgp.machines.placement.step_request import ReductionServer, Request

DEFAULT_TIMEOUT_S = 86_400
#: Keys for training steps only, and keys for plain steps that a disk turns into custom jobs.
_OF_TRAINING = ("nodes", "reduction_server", "command", "launch", "parameter_server")
_OF_JOBS = ("strategy", "max_wait", "reservation", *JobOptions.model_fields)
_DISK = "boot_disk_gb = 100 turns a plain step into a custom job, which accepts it."


def place(
    request: Request,
    *,
    region: str | None = None,
    kind: Literal["custom_job", "step"] = "custom_job",
    as_of: date | None = None,
    name: str = "the step",
) -> Placement:
    """Returns the cheapest machine that meets the request, checked by the rules of `vgp check`.

    Args:
        request: Request of the step.
        region: Region of the run; the request's own region overrides it.
        kind: A custom job takes everything; a step neither nodes nor servers, and becomes a custom job if it asks for
            a disk. Without one it has no strategy, reservation or region of its own.
        as_of: Day on which retirements are judged; today by default.
        name: Name of the step, for messages.

    Raises:
        PlacementError: no machine meets the request; the message has the request, the rule and the nearest working one.
    """
    day = as_of or date.today()
    where = request.region or region or catalog.DEFAULT_REGION
    if kind == "step":
        refuse(_check_step_limits(request, region), f"{name} is a plain pipeline step")
    is_job = kind == "custom_job" or request.has_disk
    choice = choose(request, where, plain_step=not is_job, as_of=day, name=name)
    placement = Placement(
        combination=choice.combination,
        nodes=request.nodes,
        region=where,
        strategy=request.strategy,
        max_wait_s=seconds_of(request.max_wait),
        reservation=request.reservation,
        boot_disk_type=request.boot_disk_type or choice.combination.machine.default_boot_disk,
        boot_disk_gb=request.boot_disk_gb or job_fields.DEFAULT_DISK_GB,
        timeout_s=_choose_timeout_s(request, kind),
        retries=(plain.DEFAULT_RETRIES if kind == "step" else 0) if request.retries is None else request.retries,
        env=dict(request.env),
        reduction_server=request.reduction_server,
        parameter_server=request.parameter_server,
        options=JobOptions.copy_from(request),
        is_job=is_job,
        price=choice.price,
        reason=choice.reason,
    )
    refuse(_problems(placement, day, kind), f"{name} asks for {placement.combination.machine_type}")
    if not is_job:
        placement.resources()
    return placement


def _choose_timeout_s(request: Request, kind: str) -> int:
    seconds = seconds_of(request.timeout)
    if seconds is not None:
        return seconds
    return plain.DEFAULT_TIMEOUT_S if kind == "step" else DEFAULT_TIMEOUT_S


def seconds_of(value: str | int | None) -> int | None:
    """Returns the seconds of a duration of pipelines.toml, such as 24h; None for None."""
    seconds = job_fields.duration_s(value, units="smhd")
    return None if seconds is None else int(seconds)


def _check_step_limits(request: Request, region: str | None) -> Iterator[Problem]:
    if request.region and region and request.region != region and not request.has_disk:
        text = f"It requests {request.region}, but the pipeline runs in {region}."
        fix = f"A plain step runs where the pipeline does; only custom jobs have a region. {_DISK}"
        yield Problem("GPU014", "region", text, fix)
    defaults = Request()
    if request.sizes:
        text = "sizes is not possible for a plain step: only custom jobs have sizes."
        yield Problem("GPU014", "sizes", text, "Only a training step has sizes. Remove it.")
    if request.capacity:
        text = "capacity is not possible for a plain step: the rungs of a ladder are custom jobs."
        fix = "Only a training step has one. Use retries = 5; a step that prepares data can use Spot"
        yield Problem("GPU014", "capacity", text, f"{fix}: boot_disk_gb = 100, strategy = 'spot'.")
    for name in (*_OF_TRAINING, *([] if request.has_disk else _OF_JOBS)):
        if getattr(request, name) != getattr(defaults, name):
            fix = (
                _DISK
                if name in _OF_JOBS
                else f"Only the custom job of a training step takes {', '.join(_OF_TRAINING)}."
            )
            yield Problem("GPU014", name, f"{name} is not possible for a plain step.", fix)


def _problems(placement: Placement, as_of: date, kind: str) -> Iterator[Problem]:
    """Yields the problems of the fields around the machine."""
    strategy = placement.strategy.upper()
    yield from _option_problems(placement)
    yield from job_fields.disk(placement.combination.machine, placement.boot_disk_type, placement.boot_disk_gb)
    yield from job_fields.scheduling(strategy, placement.timeout_s, placement.max_wait_s)
    if kind == "step" and placement.timeout_s > plain.MAX_TIMEOUT_S:
        text = f"Vertex AI ends a pipeline task after 7 days; the timeout is {placement.timeout_s} s."
        yield Problem("GPU028", "timeout", text, "Set 7d or less.")
    if placement.reservation:
        affinity = placement.reservation_affinity()
        kind, key, values = affinity["reservation_affinity_type"], affinity.get("key"), affinity.get("values")
        yield from job_fields.reservation(kind, key, values, strategy, [placement.region])
    if placement.servers:
        yield from _check_servers(placement, placement.servers, as_of)


def _option_problems(placement: Placement) -> Iterator[Problem]:
    """Yields the problems of a job's options with its machine and its region."""
    options, strategy = placement.options, placement.strategy
    for name, region in options.places():
        if region != placement.region:
            text = f"{name} is in {region}, but the job is in {placement.region}."
            yield Problem("GPU035", name, text, f"Use one in {placement.region}.")
    if options.protected_artifact_location_id == placement.region:
        text = f"protected_artifact_location_id is for another region than the job's, {placement.region}."
        yield Problem("GPU035", "protected_artifact_location_id", text, "Drop it.")
    if options.persistent_resource:
        option = "reservation" if placement.reservation else "" if strategy == "standard" else "strategy"
        if option:
            text = f"persistent_resource and {option} exclude each other, because its machines exist already."
            yield Problem(
                "GPU035", "persistent_resource", text, f"Remove {option}, or run without persistent_resource."
            )


def _check_servers(placement: Placement, servers: ReductionServer | ParameterServer, as_of: date) -> Iterator[Problem]:
    field = "reduction_server" if placement.reduction_server else "parameter_server"
    yield from compatibility.problems(servers.machine, None, 0, as_of=as_of)
    if placement.strategy == "flex_start":
        text = f"Flex-start needs the same machine in every pool: it cannot have {field.replace('_', ' ')}s."
        yield Problem("GPU008", field, text, f"Remove {field}, or use Spot.")
    if placement.reduction_server and (placement.combination.accelerator is None or placement.nodes < 2):
        text = "Reduction servers sum gradients of several GPU nodes; this step has one node or no GPU."
        yield Problem("GPU007", field, text, "Remove reduction_server, or set nodes.")


@dataclass(frozen=True)
class Choice:
    """The machine for a request, with its price and the reason."""

    combination: Combination
    price: Price | None
    reason: str


def choose(request: Request, region: str, *, plain_step: bool, as_of: date, name: str) -> Choice:
    """Returns the machine for a request.

    Raises:
        PlacementError: there is none; the message has the request of `name`, the rule and the nearest working one.
    """
    names = " on ".join(filter(None, (request.accelerator, request.machine)))
    refuse(_check_names(request, as_of), f"{name} asks for {names or f'{request.count} GPUs'}")
    refuse(provisioning.region_known(region), f"{name} runs in {region}")
    if request.machine:
        return _choose_named(
            request, _combine_names(request, request.machine), "named in the request", region, as_of, name
        )
    if request.accelerator or request.min_gpu_memory_gb or request.min_memory_gb or request.min_vcpu:
        return _choose_cheapest(request, region, plain_step, as_of, name)
    why = "the default for a step without GPU"
    return _choose_named(request, plain.default(), why, region, as_of, name)


def _check_names(request: Request, as_of: date) -> Iterator[Problem]:
    if request.accelerator and catalog.accelerator(request.accelerator) is None:
        yield compatibility.unknown_accelerator(request.accelerator, as_of)
    if request.machine and request.machine not in catalog.machines():
        yield compatibility.unknown_machine(request.machine, bool(request.accelerator))
    if request.count and not request.machine and not request.accelerator:
        yield Problem("GPU005", "accelerator", "count is given without accelerator.", "Name one: L4.")


def _combine_names(request: Request, machine_type: str) -> Combination:
    """Returns the named machine with the requested accelerator, or else its own."""
    machine = catalog.machines()[machine_type]
    accelerator = catalog.accelerator(request.accelerator or machine.accelerator or "")
    return Combination(machine, accelerator, request.count or machine.gpus or (1 if accelerator else 0))


def _choose_named(request: Request, combination: Combination, why: str, region: str, as_of: date, name: str) -> Choice:
    provisioning_name, reserved = request.provisioning, bool(request.reservation)
    problems = compatibility.problems_of(combination, as_of=as_of, region=region)
    problems += provisioning.strategy(combination, request.strategy.upper(), reserved)
    if combination.accelerator:
        problems += provisioning.region(combination.machine, combination.accelerator, region)
    refuse([*problems, *_check_minimum_sizes(combination, request)], f"{name} asks for {combination} in {region}")
    price = combination.price(provisioning_name, region)
    return Choice(combination, price, f"{combination.machine_type}: {why}{_format_price(price, region)}")


def _check_minimum_sizes(combination: Combination, request: Request) -> Iterator[Problem]:
    has, fix = f"{combination.machine_type} has", "Leave out machine to get the cheapest that fits."
    if combination.memory_gb < (request.min_memory_gb or 0):
        text = f"{has} {combination.memory_gb:g} GB, less than min_memory_gb = {request.min_memory_gb:g}."
        yield Problem("GPU001", "min_memory_gb", text, fix)
    if combination.vcpu < (request.min_vcpu or 0):
        text = f"{has} {combination.vcpu} vCPU, less than min_vcpu = {request.min_vcpu}."
        yield Problem("GPU001", "min_vcpu", text, fix)
    if combination.gpu_memory_gb < (request.min_gpu_memory_gb or 0):
        text = f"{combination} has {combination.gpu_memory_gb} GB of GPU memory"
        text = f"{text}, less than min_gpu_memory_gb = {request.min_gpu_memory_gb:g}."
        yield Problem("GPU001", "min_gpu_memory_gb", text, fix)


def _choose_cheapest(request: Request, region: str, plain_step: bool, as_of: date, name: str) -> Choice:
    need = need_of(request, region, as_of)
    offers = [offer for offer in search(need) if not plain_step or plain.can_get(offer.combination)]
    if not offers:
        problem = (
            impossible(need) or not_offered(need) or _check_plain_step(request, need, plain_step) or too_large(need)
        )
        raise PlacementError(problem, f"{name} asks for {_describe_need(need)} in {region}")
    combination, price = offers[0].combination, offers[0].price
    priced = sum(offer.price is not None for offer in offers)
    why = f"the cheapest of {priced} that fit" if price else f"the smallest of {len(offers)} that fit"
    why = "the only machine that fits" if len(offers) == 1 else why
    size = f"{combination.vcpu} vCPU and {combination.memory_gb:g} GB"
    content = f"{combination.count} x {combination.accelerator_type}" if combination.accelerator else size
    return Choice(combination, price, f"{combination.machine_type}: {why}, {content}{_format_price(price, region)}")


def need_of(request: Request, region: str, as_of: date) -> Need:
    """Returns the request as a need. Without a count it means one GPU, or the fewest with the requested memory."""
    accelerator = catalog.accelerator(request.accelerator) if request.accelerator else None
    return Need(
        as_of=as_of,
        gpus=bool(accelerator or request.min_gpu_memory_gb),
        accelerator=accelerator,
        count=request.count or (1 if accelerator and not request.min_gpu_memory_gb else None),
        min_vcpu=request.min_vcpu or 0,
        min_memory_gb=request.min_memory_gb or 0,
        min_gpu_memory_gb=request.min_gpu_memory_gb or 0,
        regions=(region,),
        provisioning=request.provisioning,
    )


def _check_plain_step(request: Request, need: Need, plain_step: bool) -> Problem | None:
    if not plain_step:
        return None
    accelerator = need.accelerator.name if need.accelerator else None
    limits = request.min_vcpu, request.min_memory_gb, accelerator, need.count or 0
    problems = plain.problems(*limits, as_of=need.as_of)
    # Steps of this library request nothing above the limits of a plain step.
    return first_error(problems) or next((each for each in problems if each.rule == "GPU014"), None)


def _describe_need(need: Need) -> str:
    parts = [f"{need.count or 1} x {need.accelerator.name}"] if need.accelerator else []
    parts += [f"{need.min_gpu_memory_gb:g} GB of GPU memory"] if need.min_gpu_memory_gb else []
    parts += [f"{need.min_memory_gb:g} GB of memory"] if need.min_memory_gb else []
    parts += [f"{need.min_vcpu} vCPU"] if need.min_vcpu else []
    return f"{', '.join(parts)} with {need.provisioning}"


def _format_price(price: Price | None, region: str) -> str:
    return f" ({price} in {region})" if price else f" (no price known in {region})"
