"""Judges the fields that apply to all pools of a job: region, strategy, price, waiting time, timeout and others.

The other fields are the interactive shell, TensorBoard, private networks and the persistent resource.
"""

from dataclasses import dataclass, replace

from vgp.base.documents.node import Node
from vgp.base.text import google_names
from vgp.base.text.nearest import nearest
from vgp.check.judgement import KNOWN, Judgement, Reader
from vgp.check.machine_spec import MachineSpec, judge_machine
from vgp.machines.catalog import catalog, tpu_machines
from vgp.machines.catalog.prices import Price
from vgp.machines.placement import job_fields, provisioning, tpu_rules
from vgp.machines.placement.machine_rules import Problem, first_error

#: The default of Google's component: the persistent resource of the run, if the run names one. From
#: google_cloud_pipeline_components/v1/custom_job/component.py.
_RUN_RESOURCE = "{{$.pipeline_persistent_resource_id}}"


@dataclass(frozen=True)
class Terms:
    """Region, strategy and scheduling of a job."""

    #: The job's own region, if its file or its step names one.
    location: Node | None
    regions: list[str]
    scheduling: Node
    strategy: str
    #: False if the file names no strategy, or an unknown one.
    strategy_known: bool
    #: Whether the machines are those of a persistent resource, which exist regardless of region and strategy.
    is_persistent: bool = False


def terms(reader: Reader, spec: Node, location: Node | None) -> Terms:
    """Returns the terms of a CustomJobSpec. A location that is not a text is ignored."""
    scheduling = reader.object(spec.get("scheduling"), "scheduling") or Node(None, (*spec.path, "scheduling"))
    region = location.text() if location is not None else None
    regions = [region] if region else list(reader.judgement.regions)
    persistent = persistent_resource(spec)
    is_of_run = reader.judgement.on_resource and spec.get("persistentResourceId").value == _RUN_RESOURCE
    is_persistent = bool(persistent.value) or not persistent.known or is_of_run
    strategy = _read_strategy(reader, scheduling.get("strategy"))
    return Terms(location if region else None, regions, scheduling, *strategy, is_persistent)


def persistent_resource(spec: Node) -> Node:
    """Returns the persistent resource that the job names; an empty node if only the run may name one."""
    node = spec.get("persistentResourceId")
    return replace(node, value=None, runtime="", dangling="") if node.value == _RUN_RESOURCE else node


def _read_strategy(reader: Reader, node: Node) -> tuple[str, bool]:
    """Returns the name of the strategy, and whether it is known."""
    judgement = reader.judgement
    if not node.known:
        judgement.report_unknown(reader.step, node, "strategy")
        return "STANDARD", False
    if node.value in (None, "", 0, "STRATEGY_UNSPECIFIED"):
        return judgement.strategy or "STANDARD", True
    if not isinstance(node.value, str | int) or isinstance(node.value, bool):
        judgement.report_malformed(reader.step, node, "strategy", "a text")
        return "STANDARD", False
    name = provisioning.strategy_name(node.value)
    judgement.report(reader.step, node, *provisioning.strategy_known(name))
    return name, name in provisioning.STRATEGIES


def judge_durations(reader: Reader, terms: Terms, spec: Node, has_gpu: bool) -> float | None:
    """Judges timeout and waiting time; returns the timeout in seconds, by default the API's."""
    reader.keys(terms.scheduling, "scheduling")
    timeout, wait = terms.scheduling.get("timeout"), terms.scheduling.get("maxWaitDuration")
    timeout_s, wait_s = _read_seconds(reader, timeout, "timeout"), _read_seconds(reader, wait, "maxWaitDuration")
    for problem in job_fields.scheduling(terms.strategy, timeout_s, wait_s):
        reader.report(timeout if problem.field == "timeout" else wait, problem)
    if not timeout.known:
        return None
    fix = "Set scheduling.timeout, like 86400s."
    if has_gpu and timeout.value in (None, ""):
        at = timeout if timeout.value is not None else spec
        text = "No timeout is set: the job may run, and cost, for 7 days."
        reader.add(at, "GPU021", text, fix)
    elif has_gpu and timeout_s is not None and timeout_s >= job_fields.MAX_TIMEOUT_S:
        text = "The timeout is 7 days or more: the job may run, and cost, for 7 days."
        reader.add(timeout, "GPU021", text, fix)
    return timeout_s or job_fields.MAX_TIMEOUT_S


def _read_seconds(reader: Reader, node: Node, name: str) -> float | None:
    if not node.known:
        reader.report_unknown(node, name)
        return None
    if node.value in (None, ""):
        return None
    seconds = job_fields.duration_s(
        _as_text(node.value) if reader.judgement.document.places is not None else node.value
    )
    if seconds is None:
        reader.report_malformed(node, name, "a duration in seconds like '3600s'")
    return seconds


def _as_text(value: object) -> object:
    """Returns a Duration as text: Google's Python clients accept {"seconds": 3600}, which is invalid in files."""
    if not isinstance(value, dict) or not value or not set(value) <= {"seconds", "nanos"}:
        return value
    seconds = value.get("seconds", 0)
    return f"{seconds}s" if isinstance(seconds, int) else value


def judge_region(
    judgement: Judgement, step: str, at: Node, spec: MachineSpec, regions: list[str], serving: bool
) -> None:
    """Judges the accelerator in every region of the job; without regions, it must exist in some region."""
    for region in regions:
        problems = provisioning.region_known(region)
        if problems:
            problems = [_propose_region(problem, region, spec, serving) for problem in problems]
        else:
            problems = _check_region(spec, region, serving)
        judgement.report(step, at, *problems, parts={"region": at} if at.text() == region else None)


def _check_region(spec: MachineSpec, region: str, serving: bool) -> list[Problem]:
    """Returns a problem if the region lacks the machine's GPUs or TPUs."""
    if spec.is_tpu:
        return tpu_rules.region(*spec.names, where=region, serving=serving)
    row = catalog.accelerators().get(spec.gpu or "")
    return provisioning.region(spec.machine, row, region, serving=serving) if row is not None else []


def _propose_region(problem: Problem, region: str, spec: MachineSpec, serving: bool) -> Problem:
    """Returns the problem of a wrong region, with a region that has the machine."""
    meant = dict(problem.nearest).get("region")
    if meant is None or first_error(_check_region(spec, str(meant), serving)) is None:
        return problem
    having = [each for each in sorted(catalog.regions()) if not first_error(_check_region(spec, each, serving))]
    near = nearest(region, having, 0.5)
    text = f"Did you mean {meant}, which has no {spec.gpu or spec.machine_type}?"
    fix = f"{text} Nearest that has it: {near}." if near else text
    return replace(problem, suggestion=fix, nearest=(("region", near),) if near else ())


def tpu_price(spec: MachineSpec, regions: list[str], provisioning: str) -> Price | None:
    """Returns $/hour of a TPU slice for training in the first region of the job, else in the default region."""
    return tpu_machines.slice_price(
        *spec.names, spec.topology, regions[0] if regions else catalog.DEFAULT_REGION, provisioning
    )


def price_of(spec: MachineSpec, regions: list[str], provisioning: str) -> tuple[float | None, str | None]:
    """Returns $/hour of one machine and its region: the first of the job, else the default, else the cheapest."""
    region = regions[0] if regions else None
    price = spec.combination.price(provisioning, region) if spec.combination else None
    return (price.usd_per_hour, price.region) if price else (None, region)


def judge_lone_machine(judgement: Judgement, step: str, spec: Node, name: str = "", replicas: int | None = 1) -> None:
    """Judges a machine without the job around it; `name`: the step of its row, by default `step`."""
    regions = list(judgement.regions)
    machine = judge_machine(judgement, step, spec)
    judge_region(judgement, step, spec.get("machineType"), machine, regions, serving=False)
    usd, region = price_of(machine, regions, "standard")
    judgement.steps.append(machine.row(name or step, replicas, "STANDARD", usd, region))


#: Objects that contain only fields of CustomJobSpec; other objects may hold a job's fields and more.
_JOB_SPECS = ("jobSpec", "job_spec", "trialJobSpec", "trial_job_spec")
#: Fields with resource names, and the rule for each.
_NAMES = {
    "persistentResourceId": google_names.check_persistent_resource,
    "tensorboard": google_names.tensorboard_region,
}
_FLAGS = ("enableWebAccess", "enableDashboardAccess")
_BOOLEANS = {"true": True, "false": False}
_RETRIES = ("restartJobOnWorkerRestart", "disableRetries")


def judge_extras(reader: Reader, terms: Terms, spec: Node) -> None:
    """Judges the other fields of one CustomJobSpec."""
    if spec.path and spec.path[-1] in _JOB_SPECS:
        reader.keys(spec, "customJobSpec")
    elif isinstance(spec.value, dict) and "workerPoolSpecs" in spec.value:
        report_misplaced(reader, spec)
    for name in _FLAGS:
        _read_flag(reader, spec.get(name), name)
    _names(reader, terms, spec)
    _check_network(reader, spec)
    _check_tensorboard(reader, spec)
    _check_mounts(reader, spec)
    restarts, none = (_read_flag(reader, terms.scheduling.get(name), name) for name in _RETRIES)
    if restarts and none:
        text = "disableRetries overrides restartJobOnWorkerRestart: Vertex AI restarts nothing."
        _report(reader, terms.scheduling.get("disableRetries"), text, "Keep one of them.", "warning")
    if spec.get("persistentResourceId").text() and terms.strategy in ("SPOT", "FLEX_START"):
        text = f"A persistent resource uses existing machines: the strategy {terms.strategy} has no effect."
        _report(reader, terms.scheduling.get("strategy"), text, "Drop the strategy.", "warning")


def report_misplaced(reader: Reader, around: Node, *names: str) -> None:
    """Reports fields of `scheduling`, and `names`, that are one level too high, where the API ignores them."""
    for name in (*names, *KNOWN["scheduling"]):
        if not around.get(name).missing:
            text = f"{name} is in the wrong place, where the API ignores it."
            home = "jobSpec" if name in names else "the job's scheduling"
            reader.add(around.get(name), "GPU025", text, f"Write it in {home}.", "warning")


def _read_flag(reader: Reader, node: Node, name: str) -> bool:
    """Whether the flag is on. Google's components before 2.0 write it as text, "false"."""
    value = _BOOLEANS.get(node.value.lower()) if node.scope and isinstance(node.value, str) else node.value
    if node.known and node.value is not None and not isinstance(value, bool):
        reader.report_malformed(node, name, "true or false")
    return value is True


def _names(reader: Reader, terms: Terms, spec: Node) -> None:
    """Judges the names of resources: their format, and their region."""
    for field, rule in _NAMES.items():
        node = persistent_resource(spec) if field == "persistentResourceId" else spec.get(field)
        value = reader.text(node, field) if node.value is not None else None
        if not value or not node.known:
            continue
        try:
            region = rule(value)
        except ValueError as error:
            _report(reader, node, f"{field}: {error}", severity="warning")
            continue
        if region and terms.regions and region not in terms.regions:
            _report(reader, node, f"{field} is in {region}, the job in {', '.join(terms.regions)}.", severity="warning")


def _check_network(reader: Reader, spec: Node) -> None:
    config = reader.object(spec.get("pscInterfaceConfig"), "pscInterfaceConfig")
    if config is None:
        return
    reader.keys(config, "pscInterfaceConfig")
    attachment = config.get("networkAttachment")
    name = reader.text(attachment, "networkAttachment")
    if name and spec.get("network").text():
        text = "network and pscInterfaceConfig exclude each other."
        _report(reader, config, text, "Keep one of them.", "warning")
    peerings = config.get("dnsPeeringConfigs").decode()
    for peering in peerings.items():
        if reader.object(peering, "dnsPeeringConfigs") is not None:
            reader.keys(peering, "dnsPeeringConfig")
            domain = peering.get("domain")
            if (value := reader.text(domain, "domain")) and not value.endswith("."):
                _report(reader, domain, f"The domain '{value}' does not end with a dot.", f"Write {value}. there.")


def _check_tensorboard(reader: Reader, spec: Node) -> None:
    node = spec.get("tensorboard")
    if not node.text():
        return
    account, directory = spec.get("serviceAccount"), spec.get("baseOutputDirectory").decode()
    if account.known and not account.value and not account.dangling:
        text = "tensorboard needs serviceAccount: Vertex AI uploads the curves as that account."
        _report(reader, node, text, "Name one that may write there: roles/aiplatform.user.", "warning")
    prefix = directory.get("outputUriPrefix")
    if directory.known and prefix.known and not prefix.value:
        text = "tensorboard reads its logs below baseOutputDirectory, which is missing."
        _report(reader, node, text, "Set baseOutputDirectory.outputUriPrefix: gs://BUCKET/FOLDER.", "warning")


def _check_mounts(reader: Reader, spec: Node) -> None:
    for index, pool in enumerate(spec.get("workerPoolSpecs").decode().items()):
        for field, message in (("nfsMounts", "nfsMount"), ("lustreMounts", "lustreMount")):
            for mount in pool.decode().get(field).decode().items():
                if reader.object(mount, f"workerPoolSpecs[{index}].{field}") is not None:
                    reader.keys(mount, message)


def _report(reader: Reader, at: Node, text: str, fix: str = "", severity: str = "") -> None:
    reader.report(at, Problem("GPU035", "", text, fix, severity))
