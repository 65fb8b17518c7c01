"""AI Platform Training -> Vertex AI: a trainingInput as a custom job or a tuning job.

Every field of the input is accounted for. No official table of the fields exists; the mapping follows from the messages
of ml v1 and aiplatform v1 (gcloud 528, aiplatform 1.165.1).
"""

from typing import Any

from vgp.check import legacy
from vgp.check.fields import Reader
from vgp.check.finding import Judgement
from vgp.convert.conversion import IMAGE, Conversion, leaves, text_of
from vgp.convert.tuning import study
from vgp.documents.document import Document, Path_, dotted
from vgp.documents.node import Node
from vgp.placement.compatibility import NO_ACCELERATOR

#: What the service writes into a job.
_OUTPUT = ("trainingOutput", "createTime", "state", "etag", "startTime", "endTime", "errorMessage", "jobPosition")
_POOLS = ("pool 0, the chief", "pool 1, the workers", "pool 2, the parameter servers", "pool 3, the evaluators")


def convert(document: Document, judgement: Judgement) -> Conversion:
    """The document's trainingInput as a Vertex AI job; `judgement` collects what cannot be read."""
    made = _Legacy(document, judgement)
    made.pools()
    made.around()
    made.code()
    made.scheduling()
    made.tuning()
    made.job()
    made.account()
    made.result.findings = list(judgement.findings)
    return made.result


class _Legacy:
    def __init__(self, document: Document, judgement: Judgement) -> None:
        self.data, self.node = document.data, legacy.training_input(document.data)
        self.reader, self.result = Reader(judgement, "trainingInput"), Conversion({"workerPoolSpecs": []})
        self.roles = {legacy.ROLES[role.name]: role for role in legacy.roles(self.node, self.reader)}
        #: Where everything stands that went into the result or was told.
        self.taken: set[Path_] = set()

    def take(self, node: Node) -> Node:
        self.taken.add(node.path)
        return node

    def texts(self, node: Node) -> list[str]:
        """A list of arguments or addresses."""
        if node.value is None:
            return []
        self.take(node)
        if isinstance(node.value, list) and all(isinstance(item, str | int | float) for item in node.value):
            return [text_of(item) for item in node.value]
        self.reader.judgement.malformed(self.reader.step, node, str(node.path[-1]), "a list of texts")
        return []

    def pools(self) -> None:
        tier = self.take(self.node.get("scaleTier")).text()
        if tier:
            self.result.became("scaleTier", f"{tier}: the machines of the worker pools")
        for index in range(max(self.roles, default=-1) + 1):
            self.result.job["workerPoolSpecs"].append(self.pool(index) if index in self.roles else {})

    def pool(self, index: int) -> dict[str, Any]:
        role = self.roles[index]
        machine: dict[str, Any] = {"machineType": role.machine_type}
        kind = None if role.accelerator_type in NO_ACCELERATOR else role.accelerator_type
        if kind or role.accelerator_count:
            # Half of a request is passed on: the check of the result names the other half.
            machine |= {"acceleratorType": kind} if kind else {}
            machine["acceleratorCount"] = role.accelerator_count
        gpus = f" with {role.accelerator_count} x {kind}" if kind else ""
        name = f"{role.legacy_type} = " if role.legacy_type else ""
        note = f" ({role.note})" if role.note else ""
        replicas = role.replicas or 1
        text = f"{_POOLS[index]}: {replicas} x {name}{role.machine_type}{gpus}{note}"
        self.result.became(f"{role.name}Type", text)
        self.take(role.type_at)
        if role.type_at.path[-1:] != ("scaleTier",):
            self.take(self.node.get(f"{role.name}Count"))
        accelerator = role.config_at.get("acceleratorConfig").decoded()
        if accelerator.value is not None:
            self.take(accelerator.get("type"))
            self.take(accelerator.get("count"))
            self.result.became(f"{role.name}Config.acceleratorConfig", "machineSpec.acceleratorType, acceleratorCount")
        return {"machineSpec": machine, "replicaCount": replicas, **self.disk(role), **self.body(role, index)}

    def disk(self, role: legacy.Role) -> dict[str, Any]:
        disk = self.reader.object(role.config_at.get("diskConfig"), "diskConfig")
        if disk is None:
            return {}
        self.result.became(f"{role.name}Config.diskConfig", "diskSpec")
        values = {
            "bootDiskType": self.reader.text(self.take(disk.get("bootDiskType")), "bootDiskType"),
            "bootDiskSizeGb": self.reader.number(self.take(disk.get("bootDiskSizeGb")), "bootDiskSizeGb"),
        }
        return {"diskSpec": {name: value for name, value in values.items() if value}}

    def body(self, role: legacy.Role, index: int) -> dict[str, Any]:
        """containerSpec where an image is named (the master's serves all roles), else pythonPackageSpec."""
        args = self.texts(self.node.get("args"))
        if self.node.get("jobDir").text():
            args.append(f"--job-dir={self.node.get('jobDir').text()}")
        own = self.reader.text(self.take(role.config_at.get("imageUri")), "imageUri")
        image = own or self.reader.text(self.node.get("masterConfig").get("imageUri"), "imageUri")
        if image:
            if own:
                self.result.became(f"{role.name}Config.imageUri", "containerSpec.imageUri")
            return {"containerSpec": {"imageUri": image, **self.commands(role, args, index)}}
        uris = self.texts(self.node.get("packageUris"))
        module = self.reader.text(self.take(self.node.get("pythonModule")), "pythonModule")
        if not uris and not module:
            if index == 0:
                self.result.became("imageUri", f"not given: put your image for {IMAGE} in containerSpec.imageUri")
            return {"containerSpec": {"imageUri": IMAGE, **self.commands(role, args, index)}}
        image = _prebuilt(self.node, bool(role.accelerator_count))
        body = {"executorImageUri": image, "packageUris": uris, "pythonModule": module or ""}
        return {"pythonPackageSpec": {**body, **({"args": args} if args else {})}}

    def commands(self, role: legacy.Role, args: list[str], index: int) -> dict[str, Any]:
        body: dict[str, Any] = {}
        for name, target in (("containerCommand", "command"), ("containerArgs", "args")):
            items = self.texts(role.config_at.get(name))
            if items:
                body[target] = items
                self.result.became(f"{role.name}Config.{name}", f"containerSpec.{target}")
        if args and "args" in body:
            self.result.dropped("args", f"{_POOLS[index]}, has containerArgs instead: {' '.join(args)}")
        return {"args": args, **body} if args else body

    def around(self) -> None:
        """What a custom job has by the same name, and where it runs and writes."""
        for name in ("network", "serviceAccount", "enableWebAccess"):
            if self.node.get(name).value is not None:
                self.result.job[name] = self.take(self.node.get(name)).value
                self.result.became(name, name)
        region = self.reader.text(self.take(self.node.get("region")), "region")
        if region:
            self.result.region = region
            self.result.became("region", f"--region={region}, the location of the request")
        folder = self.reader.text(self.take(self.node.get("jobDir")), "jobDir")
        if folder:
            self.result.job["baseOutputDirectory"] = {"outputUriPrefix": folder}
            text = "baseOutputDirectory.outputUriPrefix, and --job-dir in args for code that reads it"
            self.result.became("jobDir", text)
        key = self.node.get("encryptionConfig").get("kmsKeyName").text()
        if key:
            self.take(self.node.get("encryptionConfig").get("kmsKeyName"))
            self.result.kms_key = key
            self.result.became("encryptionConfig.kmsKeyName", "encryptionSpec.kmsKeyName of the job: --kms-key")
        if self.node.get("useChiefInTfConfig").value is not None:
            self.take(self.node.get("useChiefInTfConfig"))
            self.result.dropped("useChiefInTfConfig", "Vertex AI always names the first replica chief")

    def code(self) -> None:
        packaged = any("pythonPackageSpec" in pool for pool in self.result.job["workerPoolSpecs"])
        places = {"args": "args of every pool"}
        if packaged:
            places |= {"packageUris": "pythonPackageSpec.packageUris", "pythonModule": "pythonPackageSpec.pythonModule"}
        for name, place in places.items():
            if self.node.get(name).value is not None:
                self.result.became(name, place)
        for name in ("runtimeVersion", "pythonVersion"):
            if self.node.get(name).value is None:
                continue
            self.take(self.node.get(name))
            if packaged:
                text = "executorImageUri: Google's TensorFlow image of that version; check that it is the right one"
                self.result.became(name, text)
            else:
                self.result.dropped(name, "the container image has its own")

    def scheduling(self) -> None:
        scheduling = self.reader.object(self.node.get("scheduling"), "scheduling")
        targets = {"maxRunningTime": "timeout", "resilientToWorkerRestart": "restartJobOnWorkerRestart"}
        values: dict[str, Any] = {}
        for key in scheduling.value if scheduling is not None else ():
            node = self.take(scheduling.get(key))  # type: ignore[union-attr]
            if key in targets:
                values[targets[key]] = node.value
                self.result.became(f"scheduling.{key}", f"scheduling.{targets[key]}")
            elif key == "maxWaitTime":
                text = "only Flex-start waits for a set time: scheduling.maxWaitDuration"
                self.result.dropped(f"scheduling.{key}", text)
            else:
                self.result.dropped(f"scheduling.{key}", "custom jobs have no such field")
        if values:
            self.result.job["scheduling"] = values

    def tuning(self) -> None:
        """hyperparameters make it a tuning job, whose trials run the custom job."""
        spec = self.reader.object(self.node.get("hyperparameters"), "hyperparameters")
        if spec is None:
            return
        job = self.result.config
        study_spec, trials, notes, taken = study(spec, self.reader)
        self.taken |= taken
        self.result.config = {"studySpec": study_spec, **trials, "trialJobSpec": job}
        for name, text, dropped in notes:
            (self.result.dropped if dropped else self.result.became)(f"hyperparameters.{name}", text)

    def job(self) -> None:
        """What stands beside the trainingInput."""
        whole = Node(self.data)
        name = self.take(whole.get("jobId")).text()
        if name:
            self.result.display_name = name
            self.result.became("jobId", f"the display name {name}; Vertex AI gives the job its own id")
        self.result.project = self.take(whole.get("project")).text()
        labels = self.reader.object(whole.get("labels"), "labels")
        if labels is not None:
            self.take(labels)
            self.result.labels = {str(key): text_of(value) for key, value in labels.value.items()}
            self.result.became("labels", "labels of the job: --labels")

    def account(self) -> None:
        """Names everything that was not taken."""
        inner = self.node.path
        for path in leaves(self.data):
            if not any(path[:depth] in self.taken for depth in range(1, len(path) + 1)):
                own = path[len(inner) :] if path[: len(inner)] == inner else path
                self.result.dropped(dotted(own), self.why_not(own))

    def why_not(self, path: Path_) -> str:
        name = str(path[0]) if path else ""
        role = next((role for role in legacy.ROLES if name in (f"{role}Type", f"{role}Config", f"{role}Count")), None)
        if name in _OUTPUT:
            return "the service writes it"
        if path[-1:] == ("tpuTfVersion",):
            return "a custom job's image brings the software of its TPUs"
        tier = self.node.get("scaleTier").text()
        if role is not None and len(path) == 1 and tier and tier != "CUSTOM":
            return f"scaleTier {tier} decides the machines; it counts with CUSTOM only"
        if role is not None and legacy.ROLES[role] not in self.roles:
            return f"the job has no such machines: they need {role}Type and {role}Count, or another scaleTier"
        if name in ("packageUris", "pythonModule"):
            return "the container image has its own code"
        return "custom jobs have no such field"


def _prebuilt(node: Node, gpu: bool) -> str:
    """Google's TensorFlow image of the runtime version. https://docs.cloud.google.com/vertex-ai/docs/training/pre-built-containers"""
    version = str(node.get("runtimeVersion").value or "")
    major, _, minor = version.partition(".")
    if major != "2" or not minor.isdigit():
        return IMAGE
    python = ".py310" if int(minor) >= 12 else ""
    return f"us-docker.pkg.dev/vertex-ai/training/tf-{'gpu' if gpu else 'cpu'}.2-{minor}{python}:latest"
