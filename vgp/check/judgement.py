"""The judgement of one document: it collects findings and step rows, and reads the fields of the spec by type."""

import traceback
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import date
from pathlib import Path
from reprlib import Repr

from vgp.base.documents.bounded_text import Exhausted, Unreadable, format_path, spend
from vgp.base.documents.document import Document
from vgp.base.documents.edits import Change
from vgp.base.documents.node import Computed, Node, spellings, whole_number
from vgp.base.text.nearest import nearest
from vgp.base.text.printable import is_secret_variable, one_line, shorten_middle
from vgp.check.check_finding import Finding, StepRow
from vgp.machines.catalog.catalog import accelerators
from vgp.machines.placement.machine_rules import Problem


@dataclass
class Judgement:
    """The findings of one document. The options are those of `vgp check`."""

    document: Document
    as_of: date
    regions: Sequence[str] = ()
    strategy: str | None = None
    #: Whether all steps of the pipeline run on a persistent resource, according to its job.
    on_resource: bool = False
    findings: list[Finding] = field(default_factory=list)
    steps: list[StepRow] = field(default_factory=list)
    _known: set[Finding] = field(default_factory=set)

    def report(self, step: str, at: Node, *problems: Problem, parts: Mapping[str, Node] | None = None) -> None:
        """Adds problems with a field; the message mentions when the value is only a parameter's default.

        `parts`: the nodes of the fields that a problem's nearest value changes.
        """
        for problem in problems:
            message = problem.message
            if at.assumed:
                message = f"{message} (This value is the default of the pipeline parameter '{at.assumed}'.)"
            self._keep(
                Finding(
                    problem.rule, problem.level, self.document.file, _shorten_text(step),
                    _shorten_text(format_path(at.path)), _shorten_text(message), _shorten_text(problem.suggestion),
                    at.path, self.document, _list_changes(problem, parts or {}),
                )
            )  # fmt: skip

    def _keep(self, finding: Finding) -> None:
        if finding not in self._known:
            spend("findings")
            self._known.add(finding)
            self.findings.append(finding)

    def add(self, step: str, at: Node, rule: str, message: str, suggestion: str = "", severity: str = "") -> None:
        self.report(step, at, Problem(rule, "", message, suggestion, severity))

    def report_unknown(self, step: str, at: Node, field: str) -> None:
        """Reports an unknown value: an error if no run can determine it, else a note."""
        if at.dangling:
            self.add(step, at, "GPU015", f"{field} has no value: {at.dangling}.", "Give it a value or a real input.")
        elif at.runtime:
            is_text = isinstance(at.value, Computed) or (isinstance(at.value, str) and "{{$" not in at.value)
            fix = "" if is_text else "Give the parameter a default."
            self.add(step, at, "GPU024", f"{field} is not checkable: {at.runtime}.", fix)

    def report_malformed(self, step: str, at: Node, field: str, rule: str) -> None:
        """Reports a value that breaks `rule`, for example `a list with at least one pool`."""
        value = "missing" if at.value is None else _shorten_value(at.value)
        self.add(step, at, "GPU025", f"{field} must be {rule}; it is {value}.")

    @contextmanager
    def report_exceptions(self, step: str, at: Node) -> Iterator[None]:
        """Reports any exception in the block as a finding of this field, so that the rest is still judged."""
        try:
            yield
        except (Unreadable, Exhausted):
            raise
        except Exception as error:
            fix = "This is a fault of `vgp check`: please report it with the file."
            self.add(step, at, "GPU031", f"The checker failed here: {_locate_error(error)}.", fix)


def _list_changes(problem: Problem, parts: Mapping[str, Node]) -> tuple[Change, ...]:
    """Returns the changes that fix the problem; none if one of the fields is missing."""
    if any(name not in parts for name, _ in problem.nearest):
        return ()
    pairs = [(parts[name], value) for name, value in problem.nearest]
    return tuple(
        Change(node.path, node.value, value, _explain_blocked_change(node))
        for node, value in pairs
        if node.value != value
    )


def _explain_blocked_change(node: Node) -> str:
    if node.assumed:
        return f"it is the default of the parameter '{node.assumed}', which others may use"
    return "" if node.known else "the value is known only at run time"


def _shorten_text(text: str) -> str:
    """Returns the text shortened and without control characters, because documents choose their names and values."""
    return one_line(shorten_middle(text))


_REPR = Repr()
_REPR.maxlevel, _REPR.maxstring, _REPR.maxother = 3, 60, 60


def _shorten_value(value: object) -> str:
    """Returns the value as Python writes it; the inside of large values is not read."""
    text = _REPR.repr(value)
    return text if len(text) <= 60 else f"{text[:57]}..."


def _locate_error(error: Exception) -> str:
    """Returns `IndexError: list index out of range (plain.py:88)`."""
    last = traceback.extract_tb(error.__traceback__)[-1]
    return f"{type(error).__name__}: {error} ({Path(last.filename).name}:{last.lineno})"


#: Number of unknown fields of one object that are reported individually.
MAX_UNKNOWN = 20

#: Fields of the API's messages (aiplatform v1 and v1beta1, 1.165.1).
KNOWN = {
    "machineSpec": (
        "machineType", "acceleratorType", "acceleratorCount", "gpuPartitionSize", "tpuTopology",
        "multihostGpuNodeCount", "reservationAffinity", "minGpuDriverVersion",
    ),
    "workerPoolSpec": (
        "containerSpec", "pythonPackageSpec", "machineSpec", "replicaCount", "nfsMounts", "lustreMounts", "diskSpec",
    ),
    "resourcePool": (
        "id", "machineSpec", "replicaCount", "diskSpec", "usedReplicaCount", "idleReplicaCount", "autoscalingSpec",
    ),
    "autoscalingSpec": ("minReplicaCount", "maxReplicaCount"),
    #: DedicatedResources and BatchDedicatedResources.
    "dedicatedResources": (
        "machineSpec", "minReplicaCount", "maxReplicaCount", "requiredReplicaCount", "initialReplicaCount",
        "startingReplicaCount", "autoscalingMetricSpecs", "spot", "flexStart", "scaleToZeroSpec",
    ),
    "diskSpec": ("bootDiskType", "bootDiskSizeGb"),
    "scheduling": ("timeout", "restartJobOnWorkerRestart", "strategy", "disableRetries", "maxWaitDuration"),
    "customJobSpec": (
        "persistentResourceId", "workerPoolSpecs", "scheduling", "serviceAccount", "network", "reservedIpRanges",
        "pscInterfaceConfig", "baseOutputDirectory", "protectedArtifactLocationId", "tensorboard", "enableWebAccess",
        "enableDashboardAccess", "experiment", "experimentRun", "models",
    ),
    "pscInterfaceConfig": ("networkAttachment", "dnsPeeringConfigs"),
    "dnsPeeringConfig": ("domain", "targetProject", "targetNetwork"),
    "nfsMount": ("server", "path", "mountPoint"),
    "lustreMount": ("instanceIp", "volumeHandle", "filesystem", "mountPoint"),
    "reservationAffinity": ("reservationAffinityType", "key", "values"),
}  # fmt: skip


class Reader:
    """A reader of one step's fields, which reports each unreadable field once."""

    def __init__(self, judgement: Judgement, step: str) -> None:
        self.judgement, self.step = judgement, step

    def report(self, at: Node, *problems: Problem, parts: Mapping[str, Node] | None = None) -> None:
        self.judgement.report(self.step, at, *problems, parts=parts)

    def add(self, at: Node, rule: str, message: str, suggestion: str = "", severity: str = "") -> None:
        self.judgement.add(self.step, at, rule, message, suggestion, severity)

    def report_unknown(self, at: Node, field: str) -> None:
        self.judgement.report_unknown(self.step, at, field)

    def report_malformed(self, at: Node, field: str, rule: str) -> None:
        self.judgement.report_malformed(self.step, at, field, rule)

    def text(self, node: Node, field: str) -> str | None:
        """Returns a text; None if it is missing, unknown or another type (which is reported)."""
        if not node.known:
            self.report_unknown(node, field)
        elif node.value is not None and not isinstance(node.value, str):
            self.report_malformed(node, field, "a text")
        spend("characters", len(node.text() or ""))
        return node.text()

    def number(self, node: Node, field: str) -> int | None:
        """Returns a whole number of 0 or more; None if it is missing, unknown or invalid (which is reported)."""
        if not node.known:
            self.report_unknown(node, field)
            return None
        if node.value is None or node.value == "":
            return None
        number = whole_number(node.value)
        if number is None or number < 0:
            self.report_malformed(node, field, "a whole number of 0 or more")
            return None
        return number

    def accelerator(self, node: Node) -> str | None:
        """Returns the accelerator's name; it may be given as a number of the enum."""
        if isinstance(node.value, int) and not isinstance(node.value, bool):
            named = {row.number: row.name for row in accelerators().values()} | {0: ""}
            return named.get(node.value, str(node.value))
        return self.text(node, "acceleratorType")

    def object(self, node: Node, field: str) -> Node | None:
        """Returns an object, also from JSON text; None if it is missing or invalid."""
        node = node.decode()
        if not node.known:
            self.report_unknown(node, field)
            return None
        if node.value is None or isinstance(node.value, dict):
            return node if node.value is not None else None
        self.report_malformed(node, field, "an object")
        return None

    def words(self, node: Node, *names: str) -> str:
        """Returns all texts of the lists `names`, joined into one text."""
        words: list[str] = []
        for name in names:
            values = node.get(name)
            if values.known and values.value is not None and not isinstance(values.value, list):
                self.report_malformed(values, name, "a list")
            words += [str(item) for item in (values.value if isinstance(values.value, list) else ()) if item]
            spend("characters", sum(map(len, words)))
        return " ".join(words)

    def variables(self, env: Node) -> None:
        """Reports variables of a container that look like credentials, without their values."""
        for pair in env.items():
            name, value = pair.get("name").text() or "", pair.get("value")
            if value.known and is_secret_variable(name[:200], value.value):
                text = f"The variable {name} looks like a credential: every reader of the spec or the job sees it."
                fix = "Keep it in Secret Manager, and pass its name to the container: projects/PROJECT/secrets/NAME."
                self.add(value, "GPU033", text, fix)

    def keys(self, node: Node, message: str) -> None:
        """Reports keys that the API's message lacks: the API refuses them, although gcloud sends them."""
        known = KNOWN[message]
        right = sorted({spelled for name in known for spelled in spellings(name)})
        unknown = [key for key in node.value if key not in right] if isinstance(node.value, dict) else []
        where, fields = format_path(node.path) or message, f"Fields: {', '.join(known)}."
        if len(unknown) > MAX_UNKNOWN:
            text = f"{where} has {len(unknown):,} fields that the API does not know."
            self.add(node, "GPU025", text, fields, "warning")
        for key in unknown[:MAX_UNKNOWN]:
            near = nearest(str(key), right, cutoff=0.75)
            text = f"{where} has a field '{str(key)[:60]}' that the API does not know."
            at = Node(None, (*node.path, key if isinstance(key, str | int) else str(key)))
            hint = f"Did you mean {near}?" if near else fields
            self.add(at, "GPU025", text, hint, "error" if near else "warning")
