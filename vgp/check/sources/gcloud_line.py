"""Converts a gcloud command line into the data of an equivalent file, and notes the flags that no file has.

    data("gcloud ai-platform jobs submit training j --scale-tier=custom --master-machine-type=n1-standard-8 ...")

The flags of custom, tuning and legacy jobs, and of deployments, become the bodies that gcloud sends.
"""

import copy
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from vgp.base.documents.json_text import JsonObject
from vgp.check.sources import command_line
from vgp.check.sources.command_line import (
    DROPPED,
    IMAGE,
    REPEATED,
    FlagError,
    Line,
    Note,
    accelerator,
    pairs,
    parse_count,
    refuse_others,
)

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
#: Keys with which gcloud first builds an image of local code.
_BUILD = ("local-package-path", "output-image-uri", "script", "requirements", "extra-packages", "extra-dirs")
_TEXTS = {"service-account": "serviceAccount", "network": "network", "persistent-resource-id": "persistentResourceId"}
#: The two forms of a worker pool's program, and the fields of each that are lists.
_FIELDS = {"containerSpec": ("args", "command", "env"), "pythonPackageSpec": ("args", "packageUris", "env")}
_KNOWN = {
    "config", "worker-pool-spec", "args", "command", "env-vars", "python-package-uris", "region", "display-name",
    "project", "labels", "kms-key", "kms-keyring", "kms-location", "kms-project", "enable-web-access",
    "no-enable-web-access", "enable-dashboard-access", "no-enable-dashboard-access", *_TEXTS,
}  # fmt: skip


def read_custom_job(line: Line) -> JsonObject:
    """Returns the job of the command: the file of --config, overridden by the flags, as in gcloud."""
    refuse_others(line, _KNOWN, 4)
    if line.after:
        raise FlagError("custom-jobs create takes nothing after `--`: give the arguments with --args.")
    spec = copy.deepcopy(line.config())
    specs = line.values("worker-pool-spec")
    if specs:
        spec["workerPoolSpecs"] = [_parse_pool(text, line) for text in specs]
    pools = spec.get("workerPoolSpecs", [])
    _add_arguments(pools if isinstance(pools, list) else [pools], line)
    spec |= line.read_fields(_TEXTS)
    for flag, name in (("enable-web-access", "enableWebAccess"), ("enable-dashboard-access", "enableDashboardAccess")):
        spec |= {} if line.read_switch(flag) is None else {name: line.read_switch(flag)}
    return _add_shared_flags({"jobSpec": spec}, line)


def read_tuning_job(line: Line) -> JsonObject:
    """Returns the tuning job: the file of --config, which has the study and the trials' job, and the counts."""
    counts = {"max-trial-count": "maxTrialCount", "parallel-trial-count": "parallelTrialCount"}
    refuse_others(line, _KNOWN - {"worker-pool-spec", "args", "command", "env-vars"} | {*counts, "algorithm"}, 4)
    job = copy.deepcopy(line.config())
    if line.value("config") is None:
        raise FlagError("hp-tuning-jobs create needs --config, a file with the study and the job of its trials.")
    for flag, name in counts.items():
        if line.value(flag) is not None:
            job[name] = parse_count(str(line.value(flag)), flag)
    if line.value("algorithm"):
        study = job.get("studySpec")
        job["studySpec"] = {
            **(study if isinstance(study, dict) else {}),
            "algorithm": accelerator(line.value("algorithm") or ""),
        }
    return _add_shared_flags(job, line)


def _add_shared_flags(job: JsonObject, line: Line) -> JsonObject:
    """Returns the job with the values of its flags."""
    job |= line.read_fields({"display-name": "displayName", "region": "location", "project": "project"})
    job |= {"labels": line.labels()} if line.values("labels") else {}
    if line.kms_key():
        job["encryptionSpec"] = {"kmsKeyName": line.kms_key()}
    return job


def _parse_pool(text: str, line: Line) -> JsonObject:
    values = pairs(text, "worker-pool-spec")
    unknown = sorted(values.keys() - {"replica-count", *_KEYS, *_BUILD})
    if unknown:
        keys = ", ".join(["replica-count", *_KEYS])
        raise FlagError(f"--worker-pool-spec has no key '{unknown[0]}'. Keys: {keys}.")
    pool: JsonObject = {}
    for key, (outer, inner) in _KEYS.items():
        if key in values:
            number = parse_count(values[key], f"worker-pool-spec {key}") if key in _NUMBERS else None
            pool.setdefault(outer, {})[inner] = values[key] if number is None else number
    machine = pool.get("machineSpec", {})
    if "acceleratorType" in machine:
        machine["acceleratorType"] = accelerator(machine["acceleratorType"])
        machine.setdefault("acceleratorCount", 1)
    pool["replicaCount"] = parse_count(values.get("replica-count", "1"), "worker-pool-spec replica-count")
    return _add_built_image(pool, values, line) if any(key in values for key in _BUILD) else pool


def _add_built_image(pool: JsonObject, values: dict[str, str], line: Line) -> JsonObject:
    """Returns the pool with the image that gcloud would build of the local code; notes that the build is missing."""
    image = values.get("output-image-uri", IMAGE)
    package = pool.pop("pythonPackageSpec", {})
    for key in (*_BUILD, "executor-image-uri", "python-module"):
        if key in values and key != "output-image-uri":
            why = f"gcloud builds an image with {values[key]}: build it yourself as {image}, with its entry point"
            line.note_dropped(f"worker-pool-spec {key}", why)
    return {**pool, "containerSpec": {"imageUri": image}} if package or "containerSpec" not in pool else pool


def _add_arguments(pools: list[Any], line: Line) -> None:
    """Adds --args, --command, --env-vars and --python-package-uris to every pool whose body has the field."""
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
            line.note_dropped(flag, f"no pool runs what has {name}: {' '.join(map(str, values))}")


_REPLICAS = {"min-replica-count": "minReplicaCount", "max-replica-count": "maxReplicaCount"}


def read_deployment(line: Line) -> JsonObject:
    """Returns the deployed model with its machine; without --machine-type Google chooses the machine."""
    machine = line.read_fields({"machine-type": "machineType"})
    if line.value("accelerator"):
        values = pairs(str(line.value("accelerator")), "accelerator")
        machine["acceleratorType"] = accelerator(values.get("type", ""))
        machine["acceleratorCount"] = parse_count(values.get("count", "1"), "accelerator count")
    resources: JsonObject = {"machineSpec": machine} if machine else {}
    for flag, name in _REPLICAS.items():
        if line.value(flag) is not None and resources:
            resources[name] = parse_count(str(line.value(flag)), flag)
    model = {"dedicatedResources": resources} if resources else {"automaticResources": {}}
    return {"deployedModel": {**model, "displayName": line.value("display-name") or ""}} | line.read_fields(
        {"region": "location"}
    )


_LEGACY_ROLES = {
    "master": "master",
    "worker": "worker",
    "parameter-server": "parameterServer",
    "evaluator": "evaluator",
}
_LEGACY_FIELDS = {
    "region": "region", "job-dir": "jobDir", "module-name": "pythonModule", "runtime-version": "runtimeVersion",
    "python-version": "pythonVersion", "service-account": "serviceAccount", "network": "network",
    "use-chief-in-tf-config": "useChiefInTfConfig",
}  # fmt: skip
_OTHER_FLAGS = {
    "config", "scale-tier", "packages", "labels", "kms-key", "kms-keyring", "kms-location", "kms-project", "project",
    "max-running-time", "enable-web-access", "no-enable-web-access", "package-path",
}  # fmt: skip
_ROLE_FLAGS = {
    f"{flag}-{rest}"
    for flag in _LEGACY_ROLES
    for rest in ("machine-type", "count", "server-count", "image-uri", "accelerator")
}


def read_legacy_job(line: Line) -> JsonObject:
    """Returns the legacy job of the command: the file of --config, overridden by the flags."""
    at = line.command.index("training") + 1
    refuse_others(line, set(_LEGACY_FIELDS) | _OTHER_FLAGS | _ROLE_FLAGS, at + 1)
    job = copy.deepcopy(line.config())
    if job and not isinstance(job.get("trainingInput"), dict):
        job = {"trainingInput": job}
    inputs = job.setdefault("trainingInput", {})
    if line.command[at:]:
        job["jobId"] = line.command[at]
    for flag, name in _LEGACY_FIELDS.items():
        if line.value(flag) is not None:
            inputs[name] = line.value(flag)
    _add_roles(line, inputs)
    _add_other_flags(line, job, inputs)
    if line.after:
        inputs["args"] = line.after
    return job


def _add_roles(line: Line, inputs: JsonObject) -> None:
    for flag, role in _LEGACY_ROLES.items():
        count = line.value(f"{flag}-count") or line.value(f"{flag}-server-count")
        inputs |= line.read_fields({f"{flag}-machine-type": f"{role}Type"})
        inputs |= {f"{role}Count": count} if count else {}
        config = line.read_fields({f"{flag}-image-uri": "imageUri"}) | _parse_accelerator(line, f"{flag}-accelerator")
        if config:
            inputs.setdefault(f"{role}Config", {}).update(config)
    if line.value("scale-tier"):
        inputs["scaleTier"] = accelerator(line.value("scale-tier") or "")
    elif any(key.endswith("Type") for key in inputs):
        inputs.setdefault("scaleTier", "CUSTOM")


def _parse_accelerator(line: Line, flag: str) -> JsonObject:
    """Returns type=nvidia-tesla-t4,count=2 as an acceleratorConfig."""
    text = line.value(flag)
    if text is None:
        return {}
    values = pairs(text, flag)
    unknown = sorted(values.keys() - {"type", "count"})
    if unknown:
        raise FlagError(f"--{flag} has no key '{unknown[0]}'. Keys: type, count.")
    return {"acceleratorConfig": {"type": accelerator(values.get("type", "")), "count": values.get("count", "1")}}


def _add_other_flags(line: Line, job: JsonObject, inputs: JsonObject) -> None:
    if line.items("packages"):
        inputs["packageUris"] = line.items("packages")
    job |= {"labels": line.labels()} if line.values("labels") else {}
    if line.kms_key():
        inputs["encryptionConfig"] = {"kmsKeyName": line.kms_key()}
    if line.value("max-running-time"):
        inputs["scheduling"] = {**(inputs.get("scheduling") or {}), "maxRunningTime": line.value("max-running-time")}
    if line.read_switch("enable-web-access") is not None:
        inputs["enableWebAccess"] = line.read_switch("enable-web-access")
    job |= line.read_fields({"project": "project"})
    if line.value("package-path") is not None:
        path = line.value("package-path")
        line.note_dropped(
            "package-path", f"gcloud packages {path} itself: package it, upload it, and add it to packageUris"
        )


class _Command(NamedTuple):
    """A command of gcloud that requests machines."""

    words: tuple[str, ...]
    read: Callable[[Line], JsonObject]
    #: Number of positional words: the name of a job, the id of an endpoint.
    names: int = 0


_COMMANDS = (
    _Command(("ai", "custom-jobs", "create"), read_custom_job),
    _Command(("ai", "hp-tuning-jobs", "create"), read_tuning_job),
    _Command(("ai", "endpoints", "deploy-model"), read_deployment, 1),
    *(
        _Command((service, "jobs", "submit", "training"), read_legacy_job, 1)
        for service in ("ai-platform", "ml-engine")
    ),
)


def recognises(words: Sequence[str]) -> bool:
    """Whether these words, without flags, are a command that requests machines."""
    return words[:1] == ["gcloud"] and _find_command(words) is not None


def _find_command(words: Sequence[str]) -> _Command | None:
    verbs = tuple(word for word in words[1:6] if word not in ("alpha", "beta"))
    return next((each for each in _COMMANDS if verbs[: len(each.words)] == each.words), None)


def take_unknown(line: Line) -> list[str]:
    """Removes the words that may be flags and that only the shell knows, such as ${ARGS[@]}, and returns them."""
    command = _find_command(line.command)
    verbs = [word for word in line.command if word not in ("alpha", "beta")]
    rest = verbs[1 + len(command.words) + command.names if command else 4 :]
    unknown = [word for word in rest if word.startswith(("$", "`"))]
    line.command[:] = verbs[: len(verbs) - len(rest)] + [word for word in rest if word not in unknown]
    return unknown


def has_machines(data: JsonObject) -> bool:
    """Whether the data of a command name machines, or explicitly leave the choice to Google."""
    model, inputs = data.get("deployedModel", {}), data.get("trainingInput", {})
    named = (data.get("jobSpec", {}).get("workerPoolSpecs"), data.get("trialJobSpec"), model.get("dedicatedResources"))
    return any((*named, inputs.get("scaleTier"), inputs.get("masterType")))


def data(line: str | Line) -> tuple[JsonObject, list[Note]]:
    """Returns the command line's request as the data of a file, and notes on the rest.

    Raises:
        FlagError: an unknown command, an unknown flag, or a flag with a wrong value.
    """
    words = command_line.parse(line) if isinstance(line, str) else line
    words.command[1:3] = [word for word in words.command[1:3] if word not in ("alpha", "beta")]
    command = _find_command(words.command)
    if command is None or words.command[:1] != ["gcloud"]:
        raise FlagError(
            "this command cannot be converted. Use `gcloud ai-platform jobs submit training ...`, "
            "`gcloud ai custom-jobs create ...` or `gcloud ai hp-tuning-jobs create ...`."
        )
    job = command.read(words)
    for name in dict.fromkeys(flag for flag, _ in words.flags):
        if name in DROPPED:
            words.note_dropped(name, DROPPED[name])
        elif name not in REPEATED:
            for value in words.values(name)[:-1]:
                words.note_dropped(f"{name}={value}", "given again; gcloud uses the last value")
    return job, words.dropped
