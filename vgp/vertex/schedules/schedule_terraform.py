"""The declared schedules as Terraform resources, in its JSON syntax: `vgp schedule plan --terraform`.

https://github.com/hashicorp/terraform-provider-google/blob/main/website/docs/r/vertex_ai_schedule.html.markdown
https://developer.hashicorp.com/terraform/language/syntax/json

There are two differences from `apply`. The label managed-by is terraform, so `apply` ignores these schedules. And the
provider takes parameters only as texts, so the values of other parameters become defaults of the pipeline.
"""

import json
from collections.abc import Mapping, Sequence
from typing import Any

from vgp.base.documents.json_text import JsonObject
from vgp.protocol import commit
from vgp.settings import Settings
from vgp.vertex import clients
from vgp.vertex.runs.pipeline_job import MANAGED_BY
from vgp.vertex.schedules import schedule_fields, schedule_list
from vgp.vertex.schedules.declared_schedule import Declaration

#: Terraform reads a property of this name as a comment.
_COMMENT = "//"
_PROVIDER = "Needs a provider hashicorp/google that has this resource: 7.38 does."
_PAUSED = "Declared as paused, which the provider does not support: pause it after the first apply."
_OWN = (
    "display_name", "cron", "start_time", "end_time", "allow_queueing", "max_concurrent_run_count",
    "max_concurrent_active_run_count", "max_run_count",
)  # fmt: skip


def render_text(settings: Settings, declarations: Sequence[Declaration]) -> str:
    """Renders the resources of the schedules as one file, NAME.tf.json."""
    schedules = {declaration.name: _build_resource(settings, declaration) for declaration in declarations}
    document = {_COMMENT: _PROVIDER, "resource": {"google_vertex_ai_schedule": schedules}}
    return json.dumps(_escape(document), indent=2) + "\n"


def _build_resource(settings: Settings, declaration: Declaration) -> JsonObject:
    schedule = type(declaration.message).to_dict(declaration.message, preserving_proto_field_name=True)
    # Protocol buffers write 64-bit integers as texts.
    own = {key: int(schedule[key]) if key.endswith("_count") else schedule[key] for key in _OWN if schedule.get(key)}
    request = declaration.message.create_pipeline_job_request
    return {
        **({_COMMENT: _PAUSED} if declaration.declared.paused else {}),
        "project": clients.project(settings),
        "location": settings.region,
        **{key: value for key, value in own.items() if value},
        "create_pipeline_job_request": {"parent": request.parent, "pipeline_job": _build_job(declaration)},
    }


def _build_job(declaration: Declaration) -> JsonObject:
    job = schedule_list.job_of_schedule(declaration.message)
    config = type(job.runtime_config).to_dict(job.runtime_config, use_integers_for_enums=False)
    values = config.get("parameter_values") or {}
    texts = {name: value for name, value in sorted(values.items()) if isinstance(value, str)}
    defaults = {name: value for name, value in values.items() if name not in texts}
    key = job.encryption_spec.kms_key_name
    block = {
        "display_name": job.display_name,
        "service_account": job.service_account,
        "network": job.network,
        "template_uri": job.template_uri,
        "preflight_validations": job.preflight_validations,
        "labels": {**_labels(job.labels), MANAGED_BY[0]: "terraform"},
        "pipeline_spec": json.dumps(
            schedule_fields.spec(declaration.message).with_defaults(defaults).content, sort_keys=True
        ),
        "runtime_config": {
            "gcs_output_directory": config["gcs_output_directory"],
            "failure_policy": config["failure_policy"],
            **({"parameter_values": texts} if texts else {}),
        },
        "encryption_spec": {"kms_key_name": key} if key else None,
    }
    return {name: value for name, value in block.items() if value}


def _labels(labels: Mapping[str, str]) -> dict[str, str]:
    """Drops the label of the commit, with which every commit would change every schedule in Terraform's plan."""
    return {key: value for key, value in labels.items() if key != commit.LABEL}


def _escape(value: Any) -> Any:
    """Escapes `${` and `%{` in all texts of the value, because Terraform would evaluate them."""
    if isinstance(value, str):
        return value.replace("${", "$${").replace("%{", "%%{")
    if isinstance(value, Mapping):
        return {_escape(key): _escape(inner) for key, inner in value.items()}
    return value
