"""AI Platform Training -> Vertex AI: a trainingInput as the config of a custom job or of a tuning job.

Every field of the input is accounted for: what it became, or that it was dropped and why. No official table of the
fields exists; the mapping follows from the messages of ml v1 and aiplatform v1 (gcloud 528, aiplatform 1.165.1).
"""

from dataclasses import dataclass, field
from typing import Any

from pipelines.machines import legacy
from pipelines.machines.documents import Document
from pipelines.machines.fields import Reader
from pipelines.machines.finding import Finding, Judgement
from pipelines.machines.node import Node
from pipelines.machines.tuning import study

_KNOWN = ("trainingInput", "jobId", "labels", "trainingOutput", "createTime", "state", "etag", "startTime", "endTime")
_POOLS = ("pool 0, the chief", "pool 1, the workers", "pool 2, the parameter servers", "pool 3, the evaluators")


#: Stands where the input names no image: for the user to fill in.
IMAGE = "IMAGE"


@dataclass(frozen=True)
class Note:
    """What happened to one field of the input."""

    field: str
    became: str
    dropped: bool = False


@dataclass
class Conversion:
    """A config in the form of `gcloud ai custom-jobs create --config` (or hp-tuning-jobs), and the account of it."""

    config: dict[str, Any]
    notes: list[Note] = field(default_factory=list)
    region: str | None = None
    display_name: str | None = None
    kms_key: str | None = None
    #: Fields of the input that could not be read.
    findings: list[Finding] = field(default_factory=list)

    @property
    def is_tuning(self) -> bool:
        return "studySpec" in self.config

    @property
    def job(self) -> dict[str, Any]:
        """The CustomJobSpec: the config itself, or that of a trial."""
        return self.config["trialJobSpec"] if self.is_tuning else self.config

    def became(self, name: str, text: str) -> None:
        self.notes.append(Note(name, text))

    def dropped(self, name: str, why: str) -> None:
        self.notes.append(Note(name, why, dropped=True))

    def command(self, path: str = "config.yaml") -> str:
        """The gcloud command that takes the config."""
        verb = "hp-tuning-jobs" if self.is_tuning else "custom-jobs"
        words = [f"gcloud ai {verb} create", f"--region={self.region or 'REGION'}"]
        words += [f"--display-name={self.display_name or 'training'}", f"--config={path}"]
        if self.is_tuning:
            words += [f"--max-trial-count={self.config['maxTrialCount']}"]
            words += [f"--parallel-trial-count={self.config['parallelTrialCount']}"]
        if self.kms_key:
            words.append(f"--kms-key={self.kms_key}")
        return " ".join(words)


def convert(document: Document, judgement: Judgement) -> Conversion:
    """The document's trainingInput as a Vertex AI job; `judgement` collects what cannot be read."""
    node = legacy.training_input(document.data)
    result = Conversion({"workerPoolSpecs": []})
    reader = Reader(judgement, "trainingInput")
    seen = set(_KNOWN)
    _pools(node, reader, result, seen)
    _around(node, reader, result, seen)
    if node.get("hyperparameters").value is not None:
        seen.add("hyperparameters")
        _tuning(node, reader, result)
    name = Node(document.data).get("jobId").text()
    if name:
        result.display_name = name
        result.became("jobId", f"the display name {name}; Vertex AI gives the job its own id")
    for key in node.value:
        if key not in seen and key not in ("scaleTier",):
            result.dropped(str(key), "custom jobs have no such field")
    result.findings = list(judgement.findings)
    return result


def _pools(node: Node, reader: Reader, result: Conversion, seen: set[str]) -> None:
    found = {legacy.ROLES[role.name]: role for role in legacy.roles(node, reader)}
    for name in legacy.ROLES:
        seen |= {f"{name}Type", f"{name}Config", f"{name}Count"}
    if node.get("scaleTier").text():
        result.became("scaleTier", f"{node.get('scaleTier').text()}: the machines of the worker pools")
    pools = []
    for index in range(max(found, default=-1) + 1):
        role = found.get(index)
        pools.append({} if role is None else _pool(role, node, reader, result, index))
    result.job["workerPoolSpecs"] = pools


def _pool(role: legacy.Role, node: Node, reader: Reader, result: Conversion, index: int) -> dict[str, Any]:
    machine: dict[str, Any] = {"machineType": role.machine_type}
    if role.accelerator_type and role.accelerator_count:
        machine |= {"acceleratorType": role.accelerator_type, "acceleratorCount": role.accelerator_count}
    gpus = f" with {role.accelerator_count} x {role.accelerator_type}" if "acceleratorType" in machine else ""
    name = f"{role.legacy_type} = " if role.legacy_type else ""
    note = f" ({role.note})" if role.note else ""
    replicas = role.replicas or 1
    text = f"{_POOLS[index]}: {replicas} x {name}{role.machine_type}{gpus}{note}"
    result.became(f"{role.name}Type", text)
    if role.config_at.get("acceleratorConfig").value is not None:
        result.became(f"{role.name}Config.acceleratorConfig", "machineSpec.acceleratorType and acceleratorCount")
    pool: dict[str, Any] = {"machineSpec": machine, "replicaCount": replicas}
    pool |= _disk(role, reader, result)
    return pool | _body(role, node, reader, result, index)


def _disk(role: legacy.Role, reader: Reader, result: Conversion) -> dict[str, Any]:
    disk = reader.object(role.config_at.get("diskConfig"), "diskConfig")
    if disk is None:
        return {}
    result.became(f"{role.name}Config.diskConfig", "diskSpec")
    values = {
        "bootDiskType": reader.text(disk.get("bootDiskType"), "bootDiskType"),
        "bootDiskSizeGb": reader.number(disk.get("bootDiskSizeGb"), "bootDiskSizeGb"),
    }
    return {"diskSpec": {name: value for name, value in values.items() if value}}


def _body(role: legacy.Role, node: Node, reader: Reader, result: Conversion, index: int) -> dict[str, Any]:
    """containerSpec where an image is named (the master's serves all roles), else pythonPackageSpec."""
    args = [str(item.value) for item in node.get("args").items()]
    if node.get("jobDir").text():
        args.append(f"--job-dir={node.get('jobDir').text()}")
    image = reader.text(role.config_at.get("imageUri"), "imageUri")
    image = image or reader.text(node.get("masterConfig").get("imageUri"), "imageUri")
    if image:
        if role.config_at.get("imageUri").value:
            result.became(f"{role.name}Config.imageUri", "containerSpec.imageUri")
        body: dict[str, Any] = {"imageUri": image}
        for name in ("containerCommand", "containerArgs"):
            items = [str(item.value) for item in role.config_at.get(name).items()]
            if items:
                body["command" if name == "containerCommand" else "args"] = items
                result.became(
                    f"{role.name}Config.{name}", f"containerSpec.{'command' if 'Command' in name else 'args'}"
                )
        if args and "args" not in body:
            body["args"] = args
        return {"containerSpec": body}
    uris = [str(item.value) for item in node.get("packageUris").items()]
    module = reader.text(node.get("pythonModule"), "pythonModule")
    if not uris and not module:
        if index == 0:
            result.became("imageUri", f"not given: put your image for {IMAGE} in containerSpec.imageUri")
        return {"containerSpec": {"imageUri": IMAGE, **({"args": args} if args else {})}}
    body = {
        "executorImageUri": _prebuilt(node, bool(role.accelerator_count)),
        "packageUris": uris,
        "pythonModule": module or "",
    }
    return {"pythonPackageSpec": {**body, **({"args": args} if args else {})}}


def _prebuilt(node: Node, gpu: bool) -> str:
    """Google's TensorFlow image of the runtime version. https://docs.cloud.google.com/vertex-ai/docs/training/pre-built-containers"""
    version = str(node.get("runtimeVersion").value or "")
    major, _, minor = version.partition(".")
    if major != "2" or not minor.isdigit():
        return IMAGE
    python = ".py310" if int(minor) >= 12 else ""
    return f"us-docker.pkg.dev/vertex-ai/training/tf-{'gpu' if gpu else 'cpu'}.2-{minor}{python}:latest"


#: Legacy field -> (path in the CustomJobSpec, words of the account).
_MOVED = {
    "network": ("network", "network"),
    "serviceAccount": ("serviceAccount", "serviceAccount"),
    "enableWebAccess": ("enableWebAccess", "enableWebAccess"),
}


def _around(node: Node, reader: Reader, result: Conversion, seen: set[str]) -> None:
    """Everything beside the machines."""
    seen |= {*_MOVED, "region", "jobDir", "args", "packageUris", "pythonModule", "runtimeVersion", "pythonVersion"}
    seen |= {"scheduling", "encryptionConfig", "useChiefInTfConfig"}
    for name, (target, words) in _MOVED.items():
        if node.get(name).value is not None:
            result.job[target] = node.get(name).value
            result.became(name, words)
    result.region = reader.text(node.get("region"), "region")
    if result.region:
        result.became("region", f"--region={result.region}, the location of the request")
    if node.get("jobDir").text():
        result.job["baseOutputDirectory"] = {"outputUriPrefix": node.get("jobDir").text()}
        result.became("jobDir", "baseOutputDirectory.outputUriPrefix, and --job-dir in args for code that reads it")
    _code(node, result)
    _scheduling(node, reader, result)
    key = node.get("encryptionConfig").get("kmsKeyName").text()
    if key:
        result.kms_key = key
        result.became("encryptionConfig.kmsKeyName", "encryptionSpec.kmsKeyName of the job: --kms-key")
    if node.get("useChiefInTfConfig").value is not None:
        result.dropped("useChiefInTfConfig", "Vertex AI always names the first replica chief")


def _code(node: Node, result: Conversion) -> None:
    container = any("containerSpec" in pool for pool in result.job["workerPoolSpecs"])
    places = {
        "args": "args of every pool",
        "packageUris": "pythonPackageSpec.packageUris",
        "pythonModule": "pythonPackageSpec.pythonModule",
    }
    for name, place in places.items():
        if node.get(name).value is not None:
            result.became(name, place)
    for name in ("runtimeVersion", "pythonVersion"):
        if node.get(name).value is None:
            continue
        if container:
            result.dropped(name, "the container image has its own")
        else:
            result.became(
                name, "executorImageUri: Google's TensorFlow image of that version; check that it is the right one"
            )


def _scheduling(node: Node, reader: Reader, result: Conversion) -> None:
    scheduling = reader.object(node.get("scheduling"), "scheduling")
    if scheduling is None:
        return
    values: dict[str, Any] = {}
    for key in scheduling.value:
        name, value = f"scheduling.{key}", scheduling.value[key]
        if key == "maxRunningTime":
            values["timeout"] = value
            result.became(name, "scheduling.timeout")
        elif key == "resilientToWorkerRestart":
            values["restartJobOnWorkerRestart"] = value
            result.became(name, "scheduling.restartJobOnWorkerRestart")
        elif key == "maxWaitTime":
            result.dropped(name, "only Flex-start waits for a set time: scheduling.maxWaitDuration")
        else:
            result.dropped(name, "custom jobs have no such field")
    if values:
        result.job["scheduling"] = values


def _tuning(node: Node, reader: Reader, result: Conversion) -> None:
    """hyperparameters make it a tuning job, whose trials run the custom job."""
    spec = reader.object(node.get("hyperparameters"), "hyperparameters")
    if spec is None:
        return
    job = result.config
    study_spec, trials, notes = study(spec, reader)
    result.config = {"studySpec": study_spec, **trials, "trialJobSpec": job}
    for name, text, dropped in notes:
        result.notes.append(Note(f"hyperparameters.{name}", text, dropped))
