"""The flags of `gcloud ai custom-jobs create` as the body of the CustomJob that it sends."""

import copy
from typing import Any

from vgp.check.sources.account import IMAGE
from vgp.check.sources.command_line import FlagError, Line, accelerator, pairs, refuse_others, whole

_KEYS = {
    "machine-type": ("machineSpec", "machineType"),
    "accelerator-type": ("machineSpec", "acceleratorType"),
    "accelerator-count": ("machineSpec", "acceleratorCount"),
    "container-image-uri": ("containerSpec", "imageUri"),
    "executor-image-uri": ("pythonPackageSpec", "executorImageUri"),
    "python-module": ("pythonPackageSpec", "pythonModule"),
    "boot-disk-type": ("diskSpec", "bootDiskType"),
    "boot-disk-size": ("diskSpec", "bootDiskSizeGb"),
}
_NUMBERS = ("accelerator-count", "boot-disk-size")
#: Keys with which gcloud builds an image of local code first.
_BUILD = ("local-package-path", "output-image-uri", "script", "requirements", "extra-packages", "extra-dirs")
_TEXTS = {"service-account": "serviceAccount", "network": "network", "persistent-resource-id": "persistentResourceId"}
#: What a pool runs, and the lists that it has.
_FIELDS = {"containerSpec": ("args", "command", "env"), "pythonPackageSpec": ("args", "packageUris", "env")}
_KNOWN = {
    "config", "worker-pool-spec", "args", "command", "env-vars", "python-package-uris", "region", "display-name",
    "project", "labels", "kms-key", "kms-keyring", "kms-location", "kms-project", "enable-web-access",
    "no-enable-web-access", "enable-dashboard-access", "no-enable-dashboard-access", *_TEXTS,
}  # fmt: skip


def custom_job(line: Line) -> dict[str, Any]:
    """The job of the command: the file of --config, and the flags laid over it, as gcloud does."""
    refuse_others(line, _KNOWN, 4)
    if line.after:
        raise FlagError("custom-jobs create takes nothing after `--`: give the arguments with --args.")
    spec = copy.deepcopy(line.config())
    specs = line.values("worker-pool-spec")
    if specs:
        spec["workerPoolSpecs"] = [_pool(text, line) for text in specs]
    pools = spec.get("workerPoolSpecs", [])
    _arguments(pools if isinstance(pools, list) else [pools], line)
    for flag, name in _TEXTS.items():
        spec |= {name: line.value(flag)} if line.value(flag) else {}
    for flag, name in (("enable-web-access", "enableWebAccess"), ("enable-dashboard-access", "enableDashboardAccess")):
        spec |= {} if line.switched(flag) is None else {name: line.switched(flag)}
    return _around(spec, line)


def tuning_job(line: Line) -> dict[str, Any]:
    """The tuning job of the command: the file of --config, which has the study and the trials' job, and the counts."""
    counts = {"max-trial-count": "maxTrialCount", "parallel-trial-count": "parallelTrialCount"}
    refuse_others(line, _KNOWN - {"worker-pool-spec", "args", "command", "env-vars"} | {*counts, "algorithm"}, 4)
    job = copy.deepcopy(line.config())
    if line.value("config") is None:
        raise FlagError("hp-tuning-jobs create needs --config, a file with the study and the job of its trials.")
    for flag, name in counts.items():
        if line.value(flag) is not None:
            job[name] = whole(str(line.value(flag)), flag)
    if line.value("algorithm"):
        study = job.get("studySpec")
        job["studySpec"] = {
            **(study if isinstance(study, dict) else {}),
            "algorithm": accelerator(line.value("algorithm") or ""),
        }
    return _beside(job, line)


def _around(spec: dict[str, Any], line: Line) -> dict[str, Any]:
    return _beside({"jobSpec": spec}, line)


def _beside(job: dict[str, Any], line: Line) -> dict[str, Any]:
    """The job, with what the flags say about it."""
    for flag, name in (("display-name", "displayName"), ("region", "location"), ("project", "project")):
        job |= {name: line.value(flag)} if line.value(flag) else {}
    if line.values("labels"):
        job["labels"] = {key: value for text in line.values("labels") for key, value in pairs(text, "labels").items()}
    if line.kms_key():
        job["encryptionSpec"] = {"kmsKeyName": line.kms_key()}
    return job


def _pool(text: str, line: Line) -> dict[str, Any]:
    values = pairs(text, "worker-pool-spec")
    unknown = sorted(values.keys() - {"replica-count", *_KEYS, *_BUILD})
    if unknown:
        keys = ", ".join(["replica-count", *_KEYS])
        raise FlagError(f"--worker-pool-spec has no key '{unknown[0]}'. Keys: {keys}.")
    pool: dict[str, Any] = {}
    for key, (outer, inner) in _KEYS.items():
        if key in values:
            number = whole(values[key], f"worker-pool-spec {key}") if key in _NUMBERS else None
            pool.setdefault(outer, {})[inner] = values[key] if number is None else number
    machine = pool.get("machineSpec", {})
    if "acceleratorType" in machine:
        machine["acceleratorType"] = accelerator(machine["acceleratorType"])
        machine.setdefault("acceleratorCount", 1)
    pool["replicaCount"] = whole(values.get("replica-count", "1"), "worker-pool-spec replica-count")
    return _built(pool, values, line) if any(key in values for key in _BUILD) else pool


def _built(pool: dict[str, Any], values: dict[str, str], line: Line) -> dict[str, Any]:
    """gcloud builds an image of the local code and runs that: the image is the job's, the building is not."""
    image = values.get("output-image-uri", IMAGE)
    package = pool.pop("pythonPackageSpec", {})
    for key in (*_BUILD, "executor-image-uri", "python-module"):
        if key in values and key != "output-image-uri":
            why = f"gcloud builds an image with {values[key]}: build it yourself as {image}, with its entry point"
            line.lose(f"worker-pool-spec {key}", why)
    return {**pool, "containerSpec": {"imageUri": image}} if package or "containerSpec" not in pool else pool


def _arguments(pools: list[Any], line: Line) -> None:
    """--args, --command, --env-vars and --python-package-uris go to every pool whose body has such a field."""
    bodies = [(kind, pool[kind]) for pool in pools if isinstance(pool, dict) for kind in _FIELDS if kind in pool]
    variables = [pair for value in line.values("env-vars") for pair in pairs(value, "env-vars").items()]
    lists: dict[str, tuple[str, list[Any]]] = {
        "args": ("args", line.items("args")),
        "command": ("command", line.items("command")),
        "packageUris": ("python-package-uris", line.items("python-package-uris")),
        "env": ("env-vars", [{"name": key, "value": text} for key, text in variables]),
    }
    for name, (flag, values) in lists.items():
        taking = [body for kind, body in bodies if values and name in _FIELDS[kind] and isinstance(body, dict)]
        for body in taking:
            body[name] = values
        if values and not taking:
            line.lose(flag, f"no pool runs what has {name}: {' '.join(map(str, values))}")
