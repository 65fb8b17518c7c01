"""Writes a job as a Python program with Google's SDK (google-cloud-aiplatform 1.165.1).

The program uses `aiplatform.CustomJob` if that has all fields, else the client of the API, which accepts the body
unchanged. Fields that the API's v1 lacks are dropped and noted.
"""

import json
import math
from dataclasses import replace
from typing import Any

from vgp.base.documents.json_text import JsonObject
from vgp.base.documents.node import spellings
from vgp.base.text import google_names
from vgp.check.convert.conversion import SPEC, Conversion
from vgp.check.judgement import KNOWN
from vgp.check.sources.command_line import Note
from vgp.machines.placement.job_fields import duration_s
from vgp.machines.placement.provisioning import STRATEGIES, strategy_name

#: Fields of the messages of aiplatform v1 (1.165.1).
V1 = {
    "jobSpec": SPEC, "trialJobSpec": SPEC,
    "workerPoolSpecs": KNOWN["workerPoolSpec"],
    "containerSpec": ("imageUri", "command", "args", "env"),
    "pythonPackageSpec": ("executorImageUri", "packageUris", "pythonModule", "args", "env"),
    "env": ("name", "value"),
    "machineSpec": ("machineType", "acceleratorType", "acceleratorCount", "gpuPartitionSize", "tpuTopology",
                    "reservationAffinity"),
    "nfsMounts": KNOWN["nfsMount"], **{name: KNOWN[name] for name in ("reservationAffinity", "diskSpec", "scheduling")},
    "baseOutputDirectory": ("outputUriPrefix",),
}  # fmt: skip
#: Field of the spec -> argument of CustomJob.submit.
_SUBMIT = {
    "serviceAccount": "service_account", "network": "network", "tensorboard": "tensorboard",
    "enableWebAccess": "enable_web_access", "pscInterfaceConfig": "psc_interface_config",
}  # fmt: skip
_CONSTRUCTED = ("workerPoolSpecs", "scheduling", "baseOutputDirectory", "persistentResourceId")


def program(conversion: Conversion) -> tuple[str, list[Note]]:
    """Returns the program, and notes on fields that it lacks or adds."""
    notes: list[Note] = []
    body = _keep_v1_fields(conversion.body(), "", "", notes)
    prefix = f"{conversion.spec_at}." if conversion.spec_at else ""
    notes = [replace(note, field=note.field.replace("jobSpec.", prefix, 1)) for note in notes]
    spec = body.get("jobSpec", {})
    arguments = _build_submit_arguments(spec.get("scheduling", {}))
    simple = "jobSpec" in body and not spec.keys() - {*_SUBMIT, *_CONSTRUCTED} and arguments is not None
    notes += [] if conversion.region else [Note("region", "not given: replace REGION")]
    if simple and arguments is not None:
        return _build_custom_job(conversion, body, arguments, notes), notes
    notes += [] if conversion.project else [Note("project", "not given: replace PROJECT")]
    return _build_client(conversion, body), notes


def _keep_v1_fields(value: object, name: str, path: str, notes: list[Note]) -> Any:
    """Returns the body without the fields that v1 lacks."""
    if isinstance(value, list):
        return [_keep_v1_fields(item, name, f"{path}[{index}]", notes) for index, item in enumerate(value)]
    if not isinstance(value, dict):
        return value
    known = {}
    for key, inner in value.items():
        where = f"{path}.{key}" if path else str(key)
        if name in V1 and key not in V1[name]:
            notes.append(Note(where, f"the SDK's v1 has no such field in {name}", dropped=True))
        else:
            known[key] = _keep_v1_fields(inner, key, where, notes)
    return known


def _build_submit_arguments(scheduling: JsonObject) -> JsonObject | None:
    """Returns the arguments of CustomJob.submit; None if they cannot express it: whole seconds, a timeout above
    zero."""
    arguments: JsonObject = {}
    for name in ("timeout", "maxWaitDuration"):
        if name not in scheduling:
            continue
        seconds = duration_s(scheduling[name])
        if seconds is None or seconds != int(seconds) or (name == "timeout" and not seconds):
            return None
        arguments[spellings(name)[1]] = int(seconds)
    for name in ("restartJobOnWorkerRestart", "disableRetries"):
        if name in scheduling:
            arguments[spellings(name)[1]] = scheduling[name]
    if "strategy" in scheduling:
        strategy = strategy_name(scheduling["strategy"])
        if strategy not in STRATEGIES:
            return None
        arguments["scheduling_strategy"] = Name(f"aiplatform_v1.Scheduling.Strategy.{strategy}")
    return arguments


def _build_custom_job(conversion: Conversion, body: JsonObject, submit: JsonObject, notes: list[Note]) -> str:
    spec = body["jobSpec"]
    folder = spec.get("baseOutputDirectory", {}).get("outputUriPrefix")
    arguments = {
        "display_name": body["displayName"],
        "project": conversion.project,
        "location": conversion.region or "REGION",
        "staging_bucket": _find_bucket(folder),
        "base_output_dir": folder,
        "labels": body.get("labels"),
        "encryption_spec_key_name": conversion.kms_key,
        "persistent_resource_id": spec.get("persistentResourceId"),
        "worker_pool_specs": snake(spec["workerPoolSpecs"]),
    }
    if not folder:
        text = "not given: the SDK uses a new folder below staging_bucket; replace BUCKET with your bucket"
        notes.append(Note("baseOutputDirectory", text))
    submit |= {argument: snake(spec[name]) for name, argument in _SUBMIT.items() if name in spec}
    imports = "from google.cloud import aiplatform"
    imports += ", aiplatform_v1" if "scheduling_strategy" in submit else ""
    job = call("aiplatform.CustomJob", {name: value for name, value in arguments.items() if value is not None})
    return f"{imports}\n\njob = {job}\n{call('job.submit', submit)}\nprint(job.resource_name)\n"


def _find_bucket(folder: str | None) -> str:
    """Returns the bucket of the folder; BUCKET if it names none."""
    try:
        return google_names.join_uri(google_names.split_uri(str(folder or ""))[0])
    except ValueError:
        return "gs://BUCKET"


def _build_client(conversion: Conversion, body: JsonObject) -> str:
    kind = "HyperparameterTuningJob" if conversion.is_tuning else "CustomJob"
    method = spellings(kind)[1]
    region = conversion.region or "REGION"
    options = {"api_endpoint": f"{region}-aiplatform.googleapis.com"}
    parent = f"projects/{conversion.project or 'PROJECT'}/locations/{region}"
    return (
        "import json\n\nfrom google.cloud import aiplatform_v1\n\n"
        f"BODY = {literal(body)}\n\n"
        f"client = aiplatform_v1.JobServiceClient(client_options={literal(options)})\n"
        f"job = client.create_{method}(\n"
        f"    parent={literal(parent)}, {method}=aiplatform_v1.{kind}.from_json(json.dumps(BODY))\n)\n"
        "print(job.name)\n"
    )


def snake(value: object) -> Any:
    """Returns the value with snake_case keys for the SDK; texts are unchanged."""
    if isinstance(value, list):
        return [snake(item) for item in value]
    if isinstance(value, dict):
        return {spellings(key)[1]: snake(item) for key, item in value.items()}
    return value


class Name(str):
    """A Python expression that is written without quotes."""


def call(name: str, arguments: JsonObject) -> str:
    lines = [f"    {argument}={literal(value, 1)},\n" for argument, value in arguments.items()]
    return f"{name}(\n{''.join(lines)})" if lines else f"{name}()"


def literal(value: object, depth: int = 0) -> str:
    """Returns the value as Python source in ASCII: short lists and objects on one line."""
    if isinstance(value, Name):
        return value
    if isinstance(value, float) and not math.isfinite(value):
        return f'float("{value}")'
    if value in ({}, []) or isinstance(value, bool | int | float | None):
        return repr(value)
    if not isinstance(value, dict | list):
        return json.dumps(str(value)).replace("\x7f", "\\x7f")
    opening, closing = ("{", "}") if isinstance(value, dict) else ("[", "]")
    if isinstance(value, dict):
        items = [f"{literal(str(key))}: {literal(item, depth + 1)}" for key, item in value.items()]
    else:
        items = [literal(item, depth + 1) for item in value]
    flat = ", ".join(items)
    if "\n" not in flat and len(flat) + 4 * depth < 90:
        return f"{opening}{flat}{closing}"
    pad = "    " * (depth + 1)
    return f"{opening}\n{''.join(f'{pad}{item},{chr(10)}' for item in items)}{'    ' * depth}{closing}"
