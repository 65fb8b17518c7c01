"""The flags of `gcloud ai-platform jobs submit training` as the trainingInput that they make."""

import copy
from typing import Any

from vgp.check.sources.command_line import FlagError, Line, accelerator, pairs, refuse_others

_ROLES = {"master": "master", "worker": "worker", "parameter-server": "parameterServer", "evaluator": "evaluator"}
_FIELDS = {
    "region": "region", "job-dir": "jobDir", "module-name": "pythonModule", "runtime-version": "runtimeVersion",
    "python-version": "pythonVersion", "service-account": "serviceAccount", "network": "network",
    "use-chief-in-tf-config": "useChiefInTfConfig",
}  # fmt: skip
_OTHERS = {
    "config", "scale-tier", "packages", "labels", "kms-key", "kms-keyring", "kms-location", "kms-project", "project",
    "max-running-time", "enable-web-access", "no-enable-web-access", "package-path",
}  # fmt: skip
_OF_ROLES = {
    f"{flag}-{rest}"
    for flag in _ROLES
    for rest in ("machine-type", "count", "server-count", "image-uri", "accelerator")
}


def legacy_job(line: Line) -> dict[str, Any]:
    """The job of the command: the file of --config, and the flags laid over it."""
    at = line.command.index("training") + 1
    refuse_others(line, set(_FIELDS) | _OTHERS | _OF_ROLES, at + 1)
    job = copy.deepcopy(line.config())
    if job and not isinstance(job.get("trainingInput"), dict):
        job = {"trainingInput": job}
    inputs = job.setdefault("trainingInput", {})
    if line.command[at:]:
        job["jobId"] = line.command[at]
    for flag, name in _FIELDS.items():
        if line.value(flag) is not None:
            inputs[name] = line.value(flag)
    _roles(line, inputs)
    _others(line, job, inputs)
    if line.after:
        inputs["args"] = line.after
    return job


def _roles(line: Line, inputs: dict[str, Any]) -> None:
    for flag, role in _ROLES.items():
        machine, image = line.value(f"{flag}-machine-type"), line.value(f"{flag}-image-uri")
        count = line.value(f"{flag}-count") or line.value(f"{flag}-server-count")
        inputs |= {f"{role}Type": machine} if machine else {}
        inputs |= {f"{role}Count": count} if count else {}
        config = {"imageUri": image} if image else {}
        config |= _accelerator(line, f"{flag}-accelerator")
        if config:
            inputs.setdefault(f"{role}Config", {}).update(config)
    if line.value("scale-tier"):
        inputs["scaleTier"] = accelerator(line.value("scale-tier") or "")
    elif any(key.endswith("Type") for key in inputs):
        inputs.setdefault("scaleTier", "CUSTOM")


def _accelerator(line: Line, flag: str) -> dict[str, Any]:
    """type=nvidia-tesla-t4,count=2 as an acceleratorConfig."""
    text = line.value(flag)
    if text is None:
        return {}
    values = pairs(text, flag)
    unknown = sorted(values.keys() - {"type", "count"})
    if unknown:
        raise FlagError(f"--{flag} has no key '{unknown[0]}'. Keys: type, count.")
    return {"acceleratorConfig": {"type": accelerator(values.get("type", "")), "count": values.get("count", "1")}}


def _others(line: Line, job: dict[str, Any], inputs: dict[str, Any]) -> None:
    if line.items("packages"):
        inputs["packageUris"] = line.items("packages")
    if line.values("labels"):
        job["labels"] = {key: value for text in line.values("labels") for key, value in pairs(text, "labels").items()}
    if line.kms_key():
        inputs["encryptionConfig"] = {"kmsKeyName": line.kms_key()}
    if line.value("max-running-time"):
        inputs["scheduling"] = {**(inputs.get("scheduling") or {}), "maxRunningTime": line.value("max-running-time")}
    if line.switched("enable-web-access") is not None:
        inputs["enableWebAccess"] = line.switched("enable-web-access")
    if line.value("project"):
        job["project"] = line.value("project")
    if line.value("package-path") is not None:
        path = line.value("package-path")
        line.lose("package-path", f"gcloud packs {path} itself: pack it, upload it, and name it in packageUris")
