"""Judges what holds for all pools of a job: regions, strategy, price, and how long it may wait and run."""

from dataclasses import dataclass, replace

from vgp.base.documents.node import Node
from vgp.base.text.nearest import nearest
from vgp.check.judgement import Judgement, Reader
from vgp.check.machine_spec import MachineSpec
from vgp.machines.catalog import catalog, tpu_machines
from vgp.machines.catalog.prices import Price
from vgp.machines.placement import job_fields, provisioning, tpu_rules
from vgp.machines.placement.machine_rules import Problem, first_error

#: The default of Google's component: the persistent resource of the run, which is none unless the run names one. From
#: google_cloud_pipeline_components/v1/custom_job/component.py.
_OF_THE_RUN = "{{$.pipeline_persistent_resource_id}}"


@dataclass(frozen=True)
class Terms:
    """Where and how a job gets its machines."""

    #: The job's own region, where its file or its step names one.
    location: Node | None
    regions: list[str]
    scheduling: Node
    strategy: str
    #: False where the file does not say, or names none that there is.
    strategy_known: bool
    #: The machines are those of a persistent resource: there already, wherever and however they were got.
    is_persistent: bool = False


def terms(reader: Reader, spec: Node, location: Node | None) -> Terms:
    """The terms of a CustomJobSpec. A location that is no text counts as none."""
    scheduling = reader.object(spec.get("scheduling"), "scheduling") or Node(None, (*spec.path, "scheduling"))
    region = location.text() if location is not None else None
    regions = [region] if region else list(reader.judgement.regions)
    persistent = persistent_resource(spec)
    is_of_run = reader.judgement.on_resource and spec.get("persistentResourceId").value == _OF_THE_RUN
    is_persistent = bool(persistent.value) or not persistent.known or is_of_run
    strategy = _strategy(reader, scheduling.get("strategy"))
    return Terms(location if region else None, regions, scheduling, *strategy, is_persistent)


def persistent_resource(spec: Node) -> Node:
    """What the job itself names; nothing where the run may name one."""
    node = spec.get("persistentResourceId")
    return replace(node, value=None, runtime="", dangling="") if node.value == _OF_THE_RUN else node


def _strategy(reader: Reader, node: Node) -> tuple[str, bool]:
    """The strategy's name, and whether it is known."""
    judgement = reader.judgement
    if not node.known:
        judgement.unknown(reader.step, node, "strategy")
        return "STANDARD", False
    if node.value in (None, "", 0, "STRATEGY_UNSPECIFIED"):
        return judgement.strategy or "STANDARD", True
    if not isinstance(node.value, str | int) or isinstance(node.value, bool):
        judgement.malformed(reader.step, node, "strategy", "a text")
        return "STANDARD", False
    name = provisioning.strategy_name(node.value)
    judgement.report(reader.step, node, *provisioning.strategy_known(name))
    return name, name in provisioning.STRATEGIES


def judge_durations(reader: Reader, terms: Terms, spec: Node, has_gpu: bool) -> float | None:
    """Judges timeout and wait; returns the timeout in seconds, the API's default if there is none."""
    reader.keys(terms.scheduling, "scheduling")
    timeout, wait = terms.scheduling.get("timeout"), terms.scheduling.get("maxWaitDuration")
    timeout_s, wait_s = _seconds(reader, timeout, "timeout"), _seconds(reader, wait, "maxWaitDuration")
    for problem in job_fields.scheduling(terms.strategy, timeout_s, wait_s):
        reader.judgement.report(reader.step, timeout if problem.field == "timeout" else wait, problem)
    if not timeout.known:
        return None
    fix = "Set scheduling.timeout, like 86400s."
    if has_gpu and timeout.value in (None, ""):
        at = timeout if timeout.value is not None else spec
        text = "No timeout is set: the job may run, and cost, for 7 days."
        reader.judgement.add(reader.step, at, "GPU021", text, fix)
    elif has_gpu and timeout_s is not None and timeout_s >= job_fields.MAX_TIMEOUT_S:
        text = "The timeout is 7 days or more: as long the job may run, and cost."
        reader.judgement.add(reader.step, timeout, "GPU021", text, fix)
    return timeout_s or job_fields.MAX_TIMEOUT_S


def _seconds(reader: Reader, node: Node, name: str) -> float | None:
    if not node.known:
        reader.judgement.unknown(reader.step, node, name)
        return None
    if node.value in (None, ""):
        return None
    seconds = job_fields.duration_s(
        _as_text(node.value) if reader.judgement.document.places is not None else node.value
    )
    if seconds is None:
        reader.judgement.malformed(reader.step, node, name, "a duration in seconds like '3600s'")
    return seconds


def _as_text(value: object) -> object:
    """The Duration of a program as text: Google's Python clients take {"seconds": 3600}, which no file may say."""
    if not isinstance(value, dict) or not value or not set(value) <= {"seconds", "nanos"}:
        return value
    seconds = value.get("seconds", 0)
    return f"{seconds}s" if isinstance(seconds, int) else value


def judge_region(
    judgement: Judgement, step: str, at: Node, spec: MachineSpec, regions: list[str], serving: bool
) -> None:
    """Region rules for every region in question; without any, the accelerator must exist somewhere."""
    for region in regions:
        problems = provisioning.region_known(region)
        if problems:
            problems = [_offering(problem, region, spec, serving) for problem in problems]
        else:
            problems = _in_region(spec, region, serving)
        judgement.report(step, at, *problems, parts={"region": at} if at.text() == region else None)


def _in_region(spec: MachineSpec, region: str, serving: bool) -> list[Problem]:
    """Whether the region has the machine's GPUs or TPUs."""
    if spec.is_tpu:
        return tpu_rules.region(*spec.names, where=region, serving=serving)
    row = catalog.accelerators().get(spec.gpu or "")
    return provisioning.region(spec.machine, row, region, serving=serving) if row is not None else []


def _offering(problem: Problem, region: str, spec: MachineSpec, serving: bool) -> Problem:
    """The problem of a wrong region, proposing one that has the machine."""
    meant = dict(problem.nearest).get("region")
    if meant is None or first_error(_in_region(spec, str(meant), serving)) is None:
        return problem
    having = [each for each in sorted(catalog.regions()) if not first_error(_in_region(spec, each, serving))]
    near = nearest(region, having, 0.5)
    text = f"Did you mean {meant}, which has no {spec.gpu or spec.machine_type}?"
    fix = f"{text} Nearest that has it: {near}." if near else text
    return replace(problem, suggestion=fix, nearest=(("region", near),) if near else ())


def tpu_price(spec: MachineSpec, regions: list[str], way: str) -> Price | None:
    """$/hour of a TPU slice for training in the first region in question, else in the default region."""
    return tpu_machines.slice_price(*spec.names, spec.topology, regions[0] if regions else catalog.DEFAULT_REGION, way)


def price_of(spec: MachineSpec, regions: list[str], way: str) -> tuple[float | None, str | None]:
    """$/hour of one machine in the first region in question, else in the default region or where it is lowest."""
    region = regions[0] if regions else None
    price = spec.combination.price(way, region) if spec.combination else None
    return (price.usd_per_hour, price.region) if price else (None, region)
