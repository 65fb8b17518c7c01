"""Typed reading of spec fields: the value, or a finding that says why there is none."""

from vgp.base.documents.budget import spend
from vgp.base.documents.field_path import dotted
from vgp.base.documents.node import Node, spellings, whole_number
from vgp.base.text.nearest import nearest
from vgp.base.text.secret import is_secret_variable
from vgp.check.judgement import Judgement
from vgp.machines.catalog.catalog import accelerators

#: Unknown fields of one object that are told one by one.
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
    """Reads the fields of one step; what cannot be read is reported once."""

    def __init__(self, judgement: Judgement, step: str) -> None:
        self.judgement, self.step = judgement, step

    def text(self, node: Node, what: str) -> str | None:
        """A text; None if it is missing, not known, or no text (which is reported)."""
        if not node.known:
            self.judgement.unknown(self.step, node, what)
        elif node.value is not None and not isinstance(node.value, str):
            self.judgement.malformed(self.step, node, what, "a text")
        spend("characters", len(node.text() or ""))
        return node.text()

    def number(self, node: Node, what: str) -> int | None:
        """A whole number of 0 or more."""
        if not node.known:
            self.judgement.unknown(self.step, node, what)
            return None
        if node.value is None or node.value == "":
            return None
        number = whole_number(node.value)
        if number is None or number < 0:
            self.judgement.malformed(self.step, node, what, "a whole number of 0 or more")
            return None
        return number

    def accelerator(self, node: Node) -> str | None:
        """The accelerator's name; numbers of the enum count too."""
        if isinstance(node.value, int) and not isinstance(node.value, bool):
            named = {row.number: row.name for row in accelerators().values()} | {0: ""}
            return named.get(node.value, str(node.value))
        return self.text(node, "acceleratorType")

    def object(self, node: Node, what: str) -> Node | None:
        """An object, also as JSON text; None if it is missing or none."""
        node = node.decoded()
        if not node.known:
            self.judgement.unknown(self.step, node, what)
            return None
        if node.value is None or isinstance(node.value, dict):
            return node if node.value is not None else None
        self.judgement.malformed(self.step, node, what, "an object")
        return None

    def words(self, node: Node, *names: str) -> str:
        """Everything that the lists under `names` say, in one text to look up words in."""
        words: list[str] = []
        for name in names:
            values = node.get(name)
            if values.known and values.value is not None and not isinstance(values.value, list):
                self.judgement.malformed(self.step, values, name, "a list")
            words += [str(item) for item in (values.value if isinstance(values.value, list) else ()) if item]
            spend("characters", sum(map(len, words)))
        return " ".join(words)

    def variables(self, env: Node) -> None:
        """Reports variables of a container that look like credentials, without their values."""
        for pair in env.items():
            name, value = pair.get("name").text() or "", pair.get("value")
            if value.known and is_secret_variable(name[:200], value.value):
                text = f"The variable {name} looks like a credential: whoever sees the spec or the job can read it."
                fix = "Keep it in Secret Manager, and give the container its name: projects/PROJECT/secrets/NAME."
                self.judgement.add(self.step, value, "GPU033", text, fix)

    def keys(self, node: Node, message: str) -> None:
        """Reports keys that the API's message does not have: the API refuses them, gcloud sends them."""
        known = KNOWN[message]
        right = sorted({spelled for name in known for spelled in spellings(name)})
        unknown = [key for key in node.value if key not in right] if isinstance(node.value, dict) else []
        where, fields = dotted(node.path) or message, f"Fields: {', '.join(known)}."
        if len(unknown) > MAX_UNKNOWN:
            text = f"{where} has {len(unknown):,} fields that the API does not know."
            self.judgement.add(self.step, node, "GPU025", text, fields, "warning")
        for key in unknown[:MAX_UNKNOWN]:
            near = nearest(str(key), right, cutoff=0.75)
            text = f"{where} has a field '{str(key)[:60]}' that the API does not know."
            at = Node(None, (*node.path, key if isinstance(key, str | int) else str(key)))
            hint = f"Did you mean {near}?" if near else fields
            self.judgement.add(self.step, at, "GPU025", text, hint, "error" if near else "warning")
