"""The checks of a pipeline before Vertex AI creates a job."""

from typing import Any

from google.protobuf import json_format

from .errors import ApiError

KINDS: dict[str, tuple[type, ...]] = {
    "STRING": (str,),
    "NUMBER_INTEGER": (int, float),
    "NUMBER_DOUBLE": (int, float),
    "BOOLEAN": (bool,),
    "LIST": (list,),
    "STRUCT": (dict,),
}


def checked(request: Any, templates: Any) -> dict[str, Any]:
    """Returns the spec of a PipelineJob, downloaded if the job names a template only.

    Raises:
        ApiError: 400 for a spec that Vertex AI would refuse.
    """
    if not request.HasField("pipeline_spec") or not request.pipeline_spec.fields:
        if not request.template_uri:
            raise ApiError(400, "One of pipeline_spec and template_uri must be set.")
        version, spec = templates.find(request.template_uri)
        json_format.ParseDict(spec, request.pipeline_spec)
        request.template_metadata.version = version
    else:
        spec = json_format.MessageToDict(request.pipeline_spec)
    if not request.runtime_config.gcs_output_directory:
        request.runtime_config.gcs_output_directory = spec.get("defaultPipelineRoot", "")
    if not request.runtime_config.gcs_output_directory.startswith("gs://"):
        root = request.runtime_config.gcs_output_directory
        raise ApiError(400, f"runtime_config.gcs_output_directory must be a Cloud Storage path (gs://...): {root!r}.")
    for part in ("pipelineInfo", "root", "deploymentSpec", "schemaVersion"):
        if part not in spec:
            raise ApiError(400, f"Invalid pipeline_spec: {part} is missing.")
    spec.setdefault("components", {})
    spec["deploymentSpec"].setdefault("executors", {})
    parameters(request, spec)
    return spec


def parameters(request: Any, spec: dict[str, Any]) -> dict[str, Any]:
    """Returns the run's parameter values, with defaults.

    Raises:
        ApiError: 400 for an unknown name, a missing value, or a value of another type.
    """
    declared = spec["root"].get("inputDefinitions", {}).get("parameters", {})
    given = {key: json_format.MessageToDict(v) for key, v in request.runtime_config.parameter_values.items()}
    for name, value in given.items():
        if name not in declared:
            raise ApiError(400, f"The pipeline parameter {name} is not found in the pipeline job input definitions.")
        kind = declared[name].get("parameterType", "STRING")
        if value is not None and not fits(value, kind):
            raise ApiError(400, f"The value of the pipeline parameter {name} must be {kind}, got: {value!r}.")
    values = {name: part.get("defaultValue") for name, part in declared.items()} | given
    for name, part in declared.items():
        if name not in given and "defaultValue" not in part and not part.get("isOptional"):
            raise ApiError(400, f"The pipeline parameter {name} is required, and has no value.")
    return values


def fits(value: Any, kind: str) -> bool:
    if isinstance(value, bool) and kind != "BOOLEAN":
        return False
    if kind == "NUMBER_INTEGER" and isinstance(value, float) and not value.is_integer():
        return False
    return isinstance(value, KINDS.get(kind, (object,)))
