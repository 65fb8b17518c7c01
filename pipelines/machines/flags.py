"""A gcloud command line -> the file that says the same: trainingInput for ai-platform, a custom job for gcloud ai.

parse("gcloud ai-platform jobs submit training j --scale-tier=custom --master-machine-type=n1-standard-8 ...")
"""

import json
import re
import shlex
from typing import Any


class FlagError(ValueError):
    """The line is none that is understood, or a flag of it has a wrong value."""


_ROLE_FLAGS = {
    "master": "master", "worker": "worker", "parameter-server": "parameterServer", "evaluator": "evaluator",
}  # fmt: skip
_LEGACY = {
    "scale-tier": "scaleTier", "region": "region", "job-dir": "jobDir", "module-name": "pythonModule",
    "runtime-version": "runtimeVersion", "python-version": "pythonVersion", "service-account": "serviceAccount",
    "network": "network", "use-chief-in-tf-config": "useChiefInTfConfig", "enable-web-access": "enableWebAccess",
}  # fmt: skip
_IGNORED = ("async", "stream-logs", "project", "quiet", "format", "verbosity", "account", "labels", "package-path",
            "staging-bucket", "no-async", "user-output-enabled")  # fmt: skip
_POOL_KEYS = {
    "machine-type": ("machineSpec", "machineType"),
    "accelerator-type": ("machineSpec", "acceleratorType"),
    "accelerator-count": ("machineSpec", "acceleratorCount"),
    "container-image-uri": ("containerSpec", "imageUri"),
    "executor-image-uri": ("pythonPackageSpec", "executorImageUri"),
    "python-module": ("pythonPackageSpec", "pythonModule"),
    "boot-disk-type": ("diskSpec", "bootDiskType"),
    "boot-disk-size": ("diskSpec", "bootDiskSizeGb"),
}


def parse(line: str) -> dict[str, Any]:
    """What the command line asks for, as the data of a file: a legacy job or a custom job's spec.

    Raises:
        FlagError: no such command, or a flag without a value.
    """
    words = _words(line)
    own, after = _split(words)
    if any(word in own for word in ("ai-platform", "ml-engine")) and "training" in own:
        return _legacy_job(own, after)
    if "ai" in own and "custom-jobs" in own:
        return _custom_job(own, after)
    raise FlagError(
        "not a command that can be converted. Give `gcloud ai-platform jobs submit training ...` or "
        "`gcloud ai custom-jobs create ...`."
    )


def _words(line: str) -> list[str]:
    joined = re.sub(r"\\[ \t]*\r?\n", " ", line)
    try:
        return shlex.split(joined, comments=True)
    except ValueError as error:
        raise FlagError(f"the line cannot be split into words: {error}.") from None


def _split(words: list[str]) -> tuple[list[str], list[str]]:
    """Words before and after the lone `--`: gcloud's own, and those of the training code."""
    if "--" in words:
        at = words.index("--")
        return words[:at], words[at + 1 :]
    return words, []


def _flags(words: list[str]) -> list[tuple[str, str]]:
    found = []
    index = 0
    while index < len(words):
        word = words[index]
        index += 1
        if not word.startswith("--"):
            continue
        name, equals, value = word[2:].partition("=")
        if not equals and index < len(words) and not words[index].startswith("--"):
            value, index = words[index], index + 1
        found.append((name, value))
    return found


def _legacy_job(words: list[str], after: list[str]) -> dict[str, Any]:
    at = words.index("training")
    job: dict[str, Any] = {"trainingInput": {}}
    if at + 1 < len(words) and not words[at + 1].startswith("--"):
        job["jobId"] = words[at + 1]
    inputs = job["trainingInput"]
    for name, value in _flags(words):
        _legacy_flag(inputs, name, value)
    if any(key.endswith("Type") for key in inputs):
        inputs.setdefault("scaleTier", "CUSTOM")
    if after:
        inputs["args"] = after
    return job


def _legacy_flag(inputs: dict[str, Any], name: str, value: str) -> None:
    if name in _LEGACY:
        value = value.upper().replace("-", "_") if name == "scale-tier" else value
        inputs[_LEGACY[name]] = value or True
        return
    if name == "packages":
        inputs["packageUris"] = value.split(",")
        return
    if name == "kms-key":
        inputs["encryptionConfig"] = {"kmsKeyName": value}
        return
    if name == "max-running-time":
        inputs["scheduling"] = {"maxRunningTime": value}
        return
    for prefix, role in _ROLE_FLAGS.items():
        rest = name.removeprefix(f"{prefix}-")
        if rest != name and _role_flag(inputs, role, rest, value, name):
            return
    if name not in _IGNORED:
        raise FlagError(f"--{name} is not a flag that can be converted.")


def _role_flag(inputs: dict[str, Any], role: str, rest: str, value: str, flag: str) -> bool:
    config = inputs.setdefault(f"{role}Config", {}) if rest in ("accelerator", "image-uri") else {}
    if rest == "machine-type":
        inputs[f"{role}Type"] = value
    elif rest in ("count", "server-count"):
        inputs[f"{role}Count"] = value
    elif rest == "image-uri":
        config["imageUri"] = value
    elif rest == "accelerator":
        pairs = _pairs(value, flag)
        kind = pairs.get("type", "").upper().replace("-", "_")
        config["acceleratorConfig"] = {"type": kind, "count": pairs.get("count", "1")}
    else:
        return False
    return True


def _pairs(value: str, flag: str) -> dict[str, str]:
    pairs = dict(part.partition("=")[::2] for part in value.split(",") if part)
    if not pairs or "" in pairs:
        raise FlagError(f"--{flag}={value}: write key=value,key=value.")
    return pairs


def _custom_job(words: list[str], after: list[str]) -> dict[str, Any]:
    pools: list[dict[str, Any]] = []
    job: dict[str, Any] = {}
    lists: dict[str, list[str]] = {"args": list(after), "command": []}
    env: list[dict[str, str]] = []
    for name, value in _flags(words):
        if name == "worker-pool-spec":
            pools.append(_pool(value))
        elif name in ("args", "command"):
            lists[name] += value.split(",")
        elif name == "env-vars":
            env += [{"name": key, "value": text} for key, text in _pairs(value, name).items()]
        elif name in ("region", "display-name"):
            job["location" if name == "region" else "displayName"] = value
        elif name in ("service-account", "network", "persistent-resource-id"):
            job[
                {"service-account": "serviceAccount", "persistent-resource-id": "persistentResourceId"}.get(name, name)
            ] = value
        elif name == "enable-web-access":
            job["enableWebAccess"] = True
        elif name not in (*_IGNORED, "python-package-uris"):
            raise FlagError(f"--{name} is not a flag that can be converted.")
    for pool in pools:
        for body in (pool[key] for key in ("containerSpec", "pythonPackageSpec") if key in pool):
            body |= {name: items for name, items in lists.items() if items} | ({"env": env} if env else {})
    return {**job, "workerPoolSpecs": pools}


def _pool(value: str) -> dict[str, Any]:
    if value.lstrip().startswith("{"):
        return dict(json.loads(value))
    pool: dict[str, Any] = {}
    for key, text in _pairs(value, "worker-pool-spec").items():
        if key == "replica-count":
            pool["replicaCount"] = int(text) if text.isdigit() else text
        elif key in _POOL_KEYS:
            outer, inner = _POOL_KEYS[key]
            pool.setdefault(outer, {})[inner] = int(text) if text.isdigit() else text
        elif key not in (
            "local-package-path",
            "output-image-uri",
            "script",
            "requirements",
            "extra-packages",
            "extra-dirs",
        ):
            raise FlagError(
                f"--worker-pool-spec has no key '{key}'. Keys: {', '.join(['replica-count', *_POOL_KEYS])}."
            )
    pool.setdefault("replicaCount", 1)
    return pool
