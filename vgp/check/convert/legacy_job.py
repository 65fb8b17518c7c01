"""AI Platform Training -> Vertex AI: a trainingInput as a custom job or a tuning job.

Every field of the input is accounted for. No official table of the fields exists; the mapping follows from the messages
of ml v1 and aiplatform v1 (gcloud 528, aiplatform 1.165.1).
"""

from typing import Any

from vgp.base.documents.document import Document
from vgp.base.documents.node import Node
from vgp.check.convert.conversion import Conversion, text_of
from vgp.check.convert.legacy_pools import LegacyInput, worker_pools
from vgp.check.convert.tuning import tuning
from vgp.check.judgement import Judgement

_SCHEDULING = {"maxRunningTime": "timeout", "resilientToWorkerRestart": "restartJobOnWorkerRestart"}


def conversion(document: Document, judgement: Judgement) -> Conversion:
    """The document's trainingInput as a Vertex AI job; `judgement` collects what cannot be read."""
    legacy = LegacyInput(document, judgement)
    legacy.result.job["workerPoolSpecs"] = worker_pools(legacy)
    _around(legacy)
    _code(legacy)
    _scheduling(legacy)
    _tuning(legacy)
    _job(legacy)
    legacy.account()
    legacy.result.findings = list(judgement.findings)
    return legacy.result


def _around(legacy: LegacyInput) -> None:
    """What a custom job has by the same name, and where it runs and writes."""
    node, result = legacy.node, legacy.result
    for name in ("network", "serviceAccount", "enableWebAccess"):
        if node.get(name).value is not None:
            result.job[name] = legacy.take(node.get(name)).value
            result.became(name, name)
    result.region = legacy.text("region") or None
    if result.region:
        result.became("region", f"--region={result.region}, the location of the request")
    folder = legacy.text("jobDir")
    if folder:
        result.job["baseOutputDirectory"] = {"outputUriPrefix": folder}
        result.became("jobDir", "baseOutputDirectory.outputUriPrefix, and --job-dir in args for code that reads it")
    key = node.get("encryptionConfig").get("kmsKeyName")
    if key.text():
        result.kms_key = legacy.take(key).text()
        result.became("encryptionConfig.kmsKeyName", "encryptionSpec.kmsKeyName of the job: --kms-key")
    if node.get("useChiefInTfConfig").value is not None:
        legacy.take(node.get("useChiefInTfConfig"))
        result.dropped("useChiefInTfConfig", "Vertex AI always names the first replica chief")


def _code(legacy: LegacyInput) -> None:
    """What became of the fields that every pool has taken, and of the versions of a package's image."""
    packaged = any("pythonPackageSpec" in pool for pool in legacy.result.job["workerPoolSpecs"])
    places = {"args": "args of every pool"}
    if packaged:
        places |= {"packageUris": "pythonPackageSpec.packageUris", "pythonModule": "pythonPackageSpec.pythonModule"}
    for name, place in places.items():
        if legacy.node.get(name).value is not None:
            legacy.result.became(name, place)
    for name in ("runtimeVersion", "pythonVersion"):
        if legacy.node.get(name).value is None:
            continue
        legacy.take(legacy.node.get(name))
        if packaged:
            text = "executorImageUri: Google's TensorFlow image of that version; check that it is the right one"
            legacy.result.became(name, text)
        else:
            legacy.result.dropped(name, "the container image has its own")


def _scheduling(legacy: LegacyInput) -> None:
    scheduling = legacy.reader.object(legacy.node.get("scheduling"), "scheduling")
    if scheduling is None:
        return
    values: dict[str, Any] = {}
    for key in scheduling.value:
        node, field = legacy.take(scheduling.get(key)), f"scheduling.{key}"
        if key in _SCHEDULING:
            values[_SCHEDULING[key]] = node.value
            legacy.result.became(field, f"scheduling.{_SCHEDULING[key]}")
        elif key == "maxWaitTime":
            legacy.result.dropped(field, "only Flex-start waits for a set time: scheduling.maxWaitDuration")
        else:
            legacy.result.dropped(field, "custom jobs have no such field")
    if values:
        legacy.result.job["scheduling"] = values


def _tuning(legacy: LegacyInput) -> None:
    """hyperparameters make it a tuning job, whose trials run the custom job."""
    spec = legacy.reader.object(legacy.node.get("hyperparameters"), "hyperparameters")
    if spec is not None:
        job = legacy.result.config
        legacy.result.config = {**tuning(legacy, spec), "trialJobSpec": job}


def _job(legacy: LegacyInput) -> None:
    """What stands beside the trainingInput."""
    whole, result = Node(legacy.data), legacy.result
    name = legacy.take(whole.get("jobId")).text()
    if name:
        result.display_name = name
        result.became("jobId", f"the display name {name}; Vertex AI gives the job its own id")
    result.project = legacy.take(whole.get("project")).text()
    labels = legacy.reader.object(whole.get("labels"), "labels")
    if labels is not None:
        legacy.take(labels)
        result.labels = {str(key): text_of(value) for key, value in labels.value.items()}
        result.became("labels", "labels of the job: --labels")
