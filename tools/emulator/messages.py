"""Converts between JSON and the messages of Google's client libraries."""

from datetime import datetime
from functools import lru_cache
from typing import Any

from google.protobuf import json_format
from google.protobuf.struct_pb2 import Struct

from .errors import ApiError


def parse(body: dict[str, Any], message: Any) -> Any:
    """Fills the message from JSON; refuses unknown fields."""
    try:
        return json_format.ParseDict(body, message)
    except json_format.ParseError as error:
        raise ApiError(400, f"Invalid JSON payload received. {error}") from error


def to_json(message: Any, *, integers: bool = False) -> dict[str, Any]:
    """Returns the JSON of a message. The spec of a job, its largest part, is converted once."""
    kind = message.DESCRIPTOR.name
    if kind not in ("PipelineJob", "Schedule"):
        return json_format.MessageToDict(message, use_integers_for_enums=integers)
    copied = type(message)()
    copied.CopyFrom(message)
    job = copied if kind == "PipelineJob" else copied.create_pipeline_job_request.pipeline_job
    spec = job.pipeline_spec.SerializeToString(deterministic=True) if job.HasField("pipeline_spec") else b""
    job.ClearField("pipeline_spec")
    shown = json_format.MessageToDict(copied, use_integers_for_enums=integers)
    if spec:
        holder = shown if kind == "PipelineJob" else shown["createPipelineJobRequest"]["pipelineJob"]
        holder["pipelineSpec"] = _spec(spec)
    return shown


@lru_cache(maxsize=32)
def _spec(serialized: bytes) -> dict[str, Any]:
    return json_format.MessageToDict(Struct.FromString(serialized))


def new(name: str) -> Any:
    """Returns an empty protobuf message of aiplatform_v1."""
    from google.cloud import aiplatform_v1

    kind = getattr(aiplatform_v1, name)
    return kind.pb(kind())


def set_time(message: Any, name: str, moment: datetime | None) -> None:
    if moment is not None:
        getattr(message, name).FromDatetime(moment)


def rfc3339(moment: datetime) -> str:
    return moment.isoformat().replace("+00:00", "Z")
