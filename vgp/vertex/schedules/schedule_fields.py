"""The differences between a declared schedule and the live one, after both are brought into one form.

The live schedule has fields that Google filled in, integers that became doubles, and a time zone in another notation.
Every field that vgp sends is compared, and every field that is set although vgp does not send it.
"""

import hashlib
import json
import re
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from vgp.base.documents.json_text import JsonObject, JsonView
from vgp.check.spec.pipeline_spec import PipelineSpec
from vgp.protocol import commit
from vgp.vertex.runs.remote_run import restore_integers
from vgp.vertex.schedules.cron import Cron
from vgp.vertex.schedules.schedule_list import job_of_schedule

if TYPE_CHECKING:
    from google.cloud.aiplatform_v1.types import PipelineJob
    from google.cloud.aiplatform_v1.types import Schedule as LiveSchedule

#: The service account that Google fills in if a run has none.
_DEFAULT_ACCOUNT = re.compile(r"[0-9]+-compute@developer\.gserviceaccount\.com")
#: Labels that Google's services add: vertex-ai-pipelines-run-billing-id, goog-...
_GOOGLES_LABELS = ("vertex-ai-", "goog-")
_REQUEST = "create_pipeline_job_request"
#: The digest of the request that vgp sent for a run.
_DIGEST = "labels.request"
#: The commit is not compared: code that runs differently is in another image, so the spec differs too.
_COMMIT = f"labels.{commit.LABEL}"
#: Names of the settings -> fields of Schedule.
_OWN = {
    "display_name": "display_name", "cron": "cron", "start": "start_time", "end": "end_time",
    "max_runs": "max_run_count", "max_concurrent_runs": "max_concurrent_active_run_count",
    "max_concurrent_starts": "max_concurrent_run_count", "queueing": "allow_queueing",
}  # fmt: skip


@dataclass(frozen=True)
class Change:
    """One difference. `before` is None for an added field, `after` is None for a removed one."""

    #: Name in the settings: cron, parameters.epochs, labels.team; `pipeline` stands for the spec.
    field: str
    before: object
    after: object

    @property
    def path(self) -> str:
        """The field of Schedule that holds it, for the update mask."""
        return _OWN.get(self.field, _REQUEST)

    @property
    def in_place(self) -> bool:
        """Whether an update can make the change; if not, "the non-empty fields cannot be unset".

        https://cloud.google.com/vertex-ai/docs/reference/rest/v1/projects.locations.schedules/patch
        """
        return self.after is not None or self.field.startswith(("parameters.", "labels."))


def list_changes(declared: "LiveSchedule", live: "LiveSchedule", *, now: datetime | None = None) -> list[Change]:
    """Lists the differences between two Schedule messages, in the order of the output."""
    now = now or datetime.now(UTC)
    after, before = _flatten(declared, now), _flatten(live, now)
    if before.get(_DIGEST) == after.get(_DIGEST) and _without_empty(spec(live).content) == _without_empty(
        spec(declared).content
    ):
        before["pipeline"] = after["pipeline"]
    if after.get("service_account") is None and _DEFAULT_ACCOUNT.fullmatch(before.get("service_account") or ""):
        before["service_account"] = None
    keys = list(dict.fromkeys([*after, *before]))
    return [
        Change(key, before.get(key), after.get(key))
        for key in keys
        if key != _COMMIT and before.get(key) != after.get(key) and not _is_added_by_google(key, after)
    ]


def spec(schedule: "LiveSchedule") -> PipelineSpec:
    """Returns the spec of the schedule's pipeline, with whole numbers as integers."""
    from google.protobuf import json_format

    message = type(schedule).pb(schedule).create_pipeline_job_request.pipeline_job.pipeline_spec
    return PipelineSpec(restore_integers(json_format.MessageToDict(message)))


def _flatten(schedule: "LiveSchedule", now: datetime) -> JsonObject:
    start, latest = schedule.start_time, max(now.timestamp(), _to_seconds(schedule.create_time))
    return {
        "display_name": schedule.display_name,
        "cron": str(Cron.parse(schedule.cron)),
        # Google fills in the creation as the start; a slow clock here must not read that as a start in the future.
        "start": _moment(start) if _to_seconds(start) > latest else None,
        "end": _moment(schedule.end_time),
        "max_runs": schedule.max_run_count or None,
        "max_concurrent_runs": schedule.max_concurrent_active_run_count or None,
        "max_concurrent_starts": schedule.max_concurrent_run_count,
        "queueing": schedule.allow_queueing,
        **_flatten_job(job_of_schedule(schedule)),
        "pipeline": _hash_fields(spec(schedule).content),
    }


def _flatten_job(job: "PipelineJob") -> JsonObject:
    from google.protobuf import json_format

    config = type(job).pb(job).runtime_config
    return {
        "run_name": job.display_name or None,
        "service_account": job.service_account or None,
        "network": job.network or None,
        "encryption_key": job.encryption_spec.kms_key_name or None,
        "run_folder": config.gcs_output_directory.rstrip("/"),
        "failure_policy": job.runtime_config.failure_policy.name,
        "template": job.template_uri or None,
        "preflight_validations": job.preflight_validations or None,
        **{
            f"parameters.{k}": restore_integers(json_format.MessageToDict(v))
            for k, v in config.parameter_values.items()
        },
        **{f"labels.{k}": v for k, v in job.labels.items()},
    }


def _is_added_by_google(key: str, declared: JsonObject) -> bool:
    return key not in declared and key.removeprefix("labels.").startswith(_GOOGLES_LABELS)


def _without_empty(value: Any) -> Any:
    """Drops empty texts, empty lists and falses from a spec, because protocol buffers drop them too."""
    if isinstance(value, dict):
        kept = {key: _without_empty(inner) for key, inner in value.items()}
        return {key: inner for key, inner in kept.items() if inner not in ("", False, None, [], {})}
    return [_without_empty(inner) for inner in value] if isinstance(value, list) else value


def _hash_fields(plain: JsonView) -> str:
    text = json.dumps(plain, sort_keys=True, separators=(",", ":"))
    return f"sha256:{hashlib.sha256(text.encode()).hexdigest()[:12]}"


def _to_seconds(time: Any) -> float:
    return float(time.timestamp()) if time else 0.0


def _moment(time: Any) -> str | None:
    """Formats a time to the second."""
    return datetime.fromtimestamp(int(time.timestamp()), UTC).isoformat() if time else None
