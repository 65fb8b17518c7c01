"""The container of a step: fills the placeholders of its command, and reads its outputs.

https://github.com/kubeflow/pipelines/blob/master/api/v2alpha1/pipeline_spec.proto, message ExecutorInput.
"""

import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from .wiring import UNKNOWN

if TYPE_CHECKING:
    from .cloud import Cloud
    from .plan import Task

Json = dict[str, Any]
_OF_THE_RUN = re.compile(r"\{\{\$\.(pipeline_\w+)\}\}")
_OF_THE_STEP = re.compile(r"\{\{\$(?:\.(inputs|outputs)\.parameters\['([^']+)'\](?:\.output_file)?)?\}\}")
#: Placeholder of the executor input inside a text of JSON.
_ESCAPED = "{{$.json_escape[1]}}"
#: Value of a missing input in JSON, where it has no quotes.
_EMPTY: Json = {"STRUCT": {}, "LIST": []}
#: Larger files of the mount are not copied.
_MOST_BYTES = 50_000_000


def executor_input(task: "Task", done: Mapping[str, "Task"], run: str) -> Json:
    """Returns the step's executor input; `done` are the earlier tasks, `run` is the run's resource name."""
    declared = task.component.get("inputDefinitions", {})
    defaults = {k: part["defaultValue"] for k, part in declared.get("parameters", {}).items() if "defaultValue" in part}
    kinds = {name: part.get("parameterType") for name, part in declared.get("parameters", {}).items()}
    empty = {name: _EMPTY[kind] for name, kind in kinds.items() if kind in _EMPTY}
    # Google's service writes whole numbers in JSON without a fraction.
    given = {
        name: int(value) if kinds.get(name) == "NUMBER_INTEGER" else value
        for name, value in task.inputs.items()
        if value is not UNKNOWN
    }
    wired = task.spec.get("inputs", {}).get("parameters", {})
    finals = {
        name: each["taskFinalStatus"]["producerTask"] for name, each in wired.items() if "taskFinalStatus" in each
    }
    ends = {name: _final_status(done[producer], run) for name, producer in finals.items()}
    artifacts = {name: _artifact(source, key) for name, (source, key) in task.artifacts.items()}
    outputs, folder = task.component.get("outputDefinitions", {}), task.output_uri(task.root, "").rstrip("/")
    mounted = folder.replace("gs://", "/gcs/")
    return {
        "inputs": {"parameterValues": {**empty, **defaults, **given, **ends}, "artifacts": artifacts},
        "outputs": {
            "parameters": {name: {"outputFile": f"{mounted}/{name}"} for name in outputs.get("parameters", {})},
            "artifacts": {name: _artifact(task, name) for name in outputs.get("artifacts", {})},
            "outputFile": f"{mounted}/executor_output.json",
        },
    }


def _final_status(task: "Task", run: str) -> Json:
    error = {"code": 9, "message": task.error} if task.error else {}
    state = task.final if task.final == "FAILED" else "SUCCEEDED"
    return {"state": state, "pipelineJobResourceName": run, "pipelineTaskName": task.name, "error": error}


def _artifact(task: "Task", key: str) -> Json:
    source = task.cached_from or task
    kind = source.component.get("outputDefinitions", {}).get("artifacts", {}).get(key, {}).get("artifactType", {})
    uri = source.output_uri(source.root, key) + source.script.uris.get(key, "")
    metadata = source.script.metadata.get(key, {})
    return {"artifacts": [{"name": f"{source.id}-{key}", "uri": uri, "type": kind, "metadata": metadata}]}


def fill_placeholders(word: str, given: Json, placeholder_values: Mapping[str, str]) -> str:
    """Returns a word of the container's command with its placeholders filled in."""
    text, inputs = json.dumps(given), given["inputs"]["parameterValues"]
    # The pools of a job are an input that has this placeholder too.
    own = {name: value for name, value in inputs.items() if "{{$" not in json.dumps(value)}
    inner = json.dumps({**given, "inputs": {**given["inputs"], "parameterValues": own}})

    def value(match: "re.Match[str]") -> str:
        kind, name = match.groups()
        if kind is None:
            return text
        if kind == "outputs":
            return str(given["outputs"]["parameters"][name]["outputFile"])
        found = inputs.get(name, "")
        return found if isinstance(found, str) else json.dumps(found)

    text = _OF_THE_STEP.sub(value, _OF_THE_RUN.sub(lambda match: placeholder_values.get(match[1], ""), word))
    return _OF_THE_RUN.sub(
        lambda match: placeholder_values.get(match[1], ""), text.replace(_ESCAPED, json.dumps(inner)[1:-1])
    )


def collect_outputs(cloud: "Cloud", mount: Path, task: "Task") -> tuple[Json, dict[str, Json], dict[str, str]]:
    """Returns values of output parameters, metadata of artifacts, and the suffixes that the step added to their URIs.

    Copies the files of the mount's folder to the storage server.
    """
    folder = task.output_uri(task.root, "").rstrip("/").removeprefix("gs://")
    for path in sorted((mount / folder).rglob("*")):
        if path.is_file() and path.stat().st_size <= _MOST_BYTES:
            _upload(cloud, path.relative_to(mount).as_posix(), path.read_bytes())
    output = json.loads(_read(cloud, f"{folder}/executor_output.json") or b"{}")
    outputs, metadata, uris = dict(output.get("parameterValues", {})), {}, {}
    for name, declared in task.component.get("outputDefinitions", {}).get("parameters", {}).items():
        if name not in outputs and (text := _read(cloud, f"{folder}/{name}")) is not None:
            string = declared.get("parameterType") == "STRING"
            outputs[name] = text.decode() if string else json.loads(text)
    for name, listed in output.get("artifacts", {}).items():
        for each in listed.get("artifacts", ()):
            metadata[name] = each.get("metadata", {})
            uris[name] = each.get("uri", "").removeprefix(task.output_uri(task.root, name))
    return outputs, metadata, uris


def _upload(cloud: "Cloud", path: str, content: bytes) -> None:
    bucket, _, name = path.partition("/")
    target = f"/upload/storage/v1/b/{bucket}/o?uploadType=media&name={quote(name, safe='')}"
    cloud.storage.upstream()
    cloud.storage.ask("POST", target, {"Content-Type": "application/octet-stream"}, content)


def _read(cloud: "Cloud", path: str) -> bytes | None:
    bucket, _, name = path.partition("/")
    cloud.storage.upstream()
    status, _, body = cloud.storage.ask("GET", f"/storage/v1/b/{bucket}/o/{quote(name, safe='')}?alt=media")
    return body if status == 200 else None
