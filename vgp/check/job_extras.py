"""Judges what a CustomJobSpec has besides machines: a shell, TensorBoard, private networks, who tries again."""

from typing import Any

from vgp.base.documents.node import Node
from vgp.base.text import google_names
from vgp.check.judgement import KNOWN, Reader
from vgp.check.terms import Terms, persistent_resource
from vgp.machines.placement.machine_rules import Problem

#: Objects whose every key is a field of CustomJobSpec; elsewhere a job's own fields stand beside it.
_WHOLE = ("jobSpec", "job_spec", "trialJobSpec", "trial_job_spec")
#: Names of resources, and the rule for each.
_NAMES = {"persistentResourceId": google_names.persistent_resource, "tensorboard": google_names.tensorboard}
_FLAGS = ("enableWebAccess", "enableDashboardAccess")
_BOOLEANS = {"true": True, "false": False}
_RETRIES = ("restartJobOnWorkerRestart", "disableRetries")


def judge(reader: Reader, terms: Terms, spec: Node) -> None:
    """One CustomJobSpec."""
    if spec.path and spec.path[-1] in _WHOLE:
        reader.keys(spec, "customJobSpec")
    elif isinstance(spec.value, dict) and "workerPoolSpecs" in spec.value:
        misplaced(reader, spec)
    for name in _FLAGS:
        _flag(reader, spec.get(name), name)
    _names(reader, terms, spec)
    _network(reader, spec)
    _tensorboard(reader, spec)
    _mounts(reader, spec)
    restarts, none = (_flag(reader, terms.scheduling.get(name), name) for name in _RETRIES)
    if restarts and none:
        text = "disableRetries overrides restartJobOnWorkerRestart: Vertex AI restarts nothing."
        _report(reader, terms.scheduling.get("disableRetries"), text, "Keep one of them.", "warning")
    if spec.get("persistentResourceId").text() and terms.strategy in ("SPOT", "FLEX_START"):
        text = f"A persistent resource has its machines already: the strategy {terms.strategy} has no effect."
        _report(reader, terms.scheduling.get("strategy"), text, "Drop the strategy.", "warning")


def misplaced(reader: Reader, around: Node, *names: str) -> None:
    """Reports fields of `scheduling`, and those of these names, that stand above it, where nothing reads them."""
    for name in (*names, *KNOWN["scheduling"]):
        if not around.get(name).missing:
            text = f"{name} stands where the API knows no such field: the job runs without it."
            home = "jobSpec" if name in names else "the job's scheduling"
            reader.judgement.add(reader.step, around.get(name), "GPU025", text, f"Write it in {home}.", "warning")


def _flag(reader: Reader, node: Node, name: str) -> bool:
    """Whether it is on. In a pipeline it may be a text, "false": so Google's components before 2.0 write it."""
    value = _BOOLEANS.get(node.value.lower()) if node.scope and isinstance(node.value, str) else node.value
    if node.known and node.value is not None and not isinstance(value, bool):
        reader.judgement.malformed(reader.step, node, name, "true or false")
    return value is True


def _names(reader: Reader, terms: Terms, spec: Node) -> None:
    """Names of resources: their form, and that they are in a region of the job."""
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


def _network(reader: Reader, spec: Node) -> None:
    config = reader.object(spec.get("pscInterfaceConfig"), "pscInterfaceConfig")
    if config is None:
        return
    reader.keys(config, "pscInterfaceConfig")
    attachment = config.get("networkAttachment")
    name = reader.text(attachment, "networkAttachment")
    if name and spec.get("network").text():
        text = "network and pscInterfaceConfig exclude each other: a job reaches a network by one of the two."
        _report(reader, config, text, "Keep one of them.", "warning")
    peerings = config.get("dnsPeeringConfigs").decoded()
    for peering in peerings.items():
        if reader.object(peering, "dnsPeeringConfigs") is not None:
            reader.keys(peering, "dnsPeeringConfig")
            domain = peering.get("domain")
            if (value := reader.text(domain, "domain")) and not value.endswith("."):
                _report(reader, domain, f"The domain '{value}' does not end with a dot.", f"Write {value}. there.")


def _tensorboard(reader: Reader, spec: Node) -> None:
    node = spec.get("tensorboard")
    if not node.text():
        return
    account, directory = spec.get("serviceAccount"), spec.get("baseOutputDirectory").decoded()
    if account.known and not account.value and not account.dangling:
        text = "tensorboard needs serviceAccount: Vertex AI uploads the curves as that account."
        _report(reader, node, text, "Name one that may write there: roles/aiplatform.user.", "warning")
    prefix = directory.get("outputUriPrefix")
    if directory.known and prefix.known and not prefix.value:
        text = "tensorboard shows what is below baseOutputDirectory, and there is none."
        _report(reader, node, text, "Set baseOutputDirectory.outputUriPrefix: gs://BUCKET/FOLDER.", "warning")


def _mounts(reader: Reader, spec: Node) -> None:
    for index, pool in enumerate(spec.get("workerPoolSpecs").decoded().items()):
        for field, message in (("nfsMounts", "nfsMount"), ("lustreMounts", "lustreMount")):
            for mount in pool.decoded().get(field).decoded().items():
                if reader.object(mount, f"workerPoolSpecs[{index}].{field}") is not None:
                    reader.keys(mount, message)


def _report(reader: Reader, at: Node, text: str, fix: str = "", severity: Any = "") -> None:
    reader.judgement.report(reader.step, at, Problem("GPU035", "", text, fix, severity))
