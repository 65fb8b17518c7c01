"""The declared schedules as Terraform resources, formatted as `terraform fmt` does.

https://github.com/hashicorp/terraform-provider-google/blob/main/website/docs/r/vertex_ai_schedule.html.markdown

Two things differ from what `apply` sends. The label managed-by says terraform, so that `apply` leaves them alone.
And the provider knows parameters as texts only, so the values of other parameters become defaults of the pipeline.
"""

import copy
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from vgp.settings import Settings
from vgp.vertex import clients
from vgp.vertex.runs.job import MANAGED_BY
from vgp.vertex.schedules import fields, live
from vgp.vertex.schedules.wanted import Wanted

_MINIMUM = "# Needs a provider hashicorp/google that has this resource: 7.38 does."
_NAME = re.compile(r"[a-zA-Z_][a-zA-Z0-9_-]*")
_ESCAPES = {'"': '\\"', "\\": "\\\\", "\n": "\\n", "\r": "\\r", "\t": "\\t"}


def text(settings: Settings, wanted: Sequence[Wanted]) -> str:
    """The resources of the schedules, as one file."""
    lines = [line for each in wanted for line in ("", *_resource(settings, each))]
    return "\n".join([_MINIMUM, *lines, ""])


def _resource(settings: Settings, wanted: Wanted) -> Iterator[str]:
    if wanted.declared.paused:
        yield "# Declared as paused, which the provider cannot say: pause it after the first apply."
    yield f"resource {_string('google_vertex_ai_schedule')} {_string(wanted.name)} {{"
    schedule = type(wanted.message).to_dict(wanted.message, preserving_proto_field_name=True)
    own = ("display_name", "cron", "start_time", "end_time", "allow_queueing")
    counts = ("max_concurrent_run_count", "max_concurrent_active_run_count", "max_run_count")
    yield from _attributes({
        "project": clients.project(settings),
        "location": settings.region,
        **{key: schedule[key] for key in own if schedule.get(key)},
        **{key: int(schedule[key]) for key in counts if int(schedule.get(key) or 0)},
    })  # fmt: skip
    yield ""
    yield from _block("create_pipeline_job_request", _request(wanted))
    yield "}"


def _request(wanted: Wanted) -> Iterator[str]:
    yield from _attributes({"parent": wanted.message.create_pipeline_job_request.parent})
    yield ""
    yield from _block("pipeline_job", _job(wanted))


def _job(wanted: Wanted) -> Iterator[str]:
    job = live.job(wanted.message)
    config = type(job.runtime_config).to_dict(job.runtime_config, use_integers_for_enums=False)
    spec, texts = _with_defaults(fields.spec(wanted.message), config.get("parameter_values") or {})
    given = {
        "display_name": job.display_name,
        "service_account": job.service_account,
        "network": job.network,
        "template_uri": job.template_uri,
    }
    yield from _attributes({key: value for key, value in given.items() if value})
    yield ""
    yield from _attribute("labels", {**job.labels, MANAGED_BY[0]: "terraform"})
    yield ""
    first, *rest = _value(spec)
    yield from _indented([f"pipeline_spec = jsonencode({first}", *rest[:-1], f"{rest[-1]})"])
    yield ""
    yield from _block("runtime_config", _runtime(config, texts))
    if job.encryption_spec.kms_key_name:
        yield ""
        yield from _block("encryption_spec", _attributes({"kms_key_name": job.encryption_spec.kms_key_name}))


def _runtime(config: Mapping[str, Any], texts: Mapping[str, str]) -> Iterator[str]:
    yield from _attributes({key: config[key] for key in ("gcs_output_directory", "failure_policy")})
    if texts:
        yield ""
        yield from _attribute("parameter_values", texts)


def _with_defaults(spec: dict[str, Any], values: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, str]]:
    """The spec with the values that are no texts as its defaults, and the texts."""
    changed = copy.deepcopy(spec)
    declared = changed["root"].get("inputDefinitions", {}).get("parameters", {})
    for name, value in values.items():
        if not isinstance(value, str):
            declared[name]["defaultValue"] = value
    return changed, {name: value for name, value in sorted(values.items()) if isinstance(value, str)}


def _block(name: str, body: Iterator[str]) -> Iterator[str]:
    yield f"  {name} {{"
    yield from (f"  {line}" if line else "" for line in body)
    yield "  }"


def _attributes(values: Mapping[str, Any]) -> Iterator[str]:
    yield from _indented(_aligned(values))


def _attribute(name: str, value: Any) -> Iterator[str]:
    """One on its own: a value of several lines."""
    yield from _attributes({name: value})


def _indented(lines: Sequence[str]) -> Iterator[str]:
    yield from (f"  {line}" for line in lines)


def _aligned(values: Mapping[str, Any]) -> list[str]:
    """`name = value` lines; the signs of neighbours that take one line each stand in one column."""
    lines: list[str] = []
    run: list[tuple[str, str]] = []

    def close() -> None:
        width = max((len(key) for key, _ in run), default=0)
        lines.extend(f"{key:<{width}} = {value}" for key, value in run)
        run.clear()

    for key, value in values.items():
        first, *rest = _value(value)
        if rest:
            close()
            lines += [f"{_key(key)} = {first}", *rest]
        else:
            run.append((_key(key), first))
    close()
    return lines


def _key(name: str) -> str:
    return name if _NAME.fullmatch(name) and name not in ("for", "null", "true", "false") else _string(name)


def _value(value: Any) -> list[str]:
    """A JSON value as the lines of an HCL expression."""
    if isinstance(value, str):
        return [_string(value)]
    if isinstance(value, dict) and value:
        return ["{", *_indented(_aligned(dict(sorted(value.items())))), "}"]
    if isinstance(value, list) and value:
        items = [_value(each) for each in value]
        return ["[", *(line for item in items for line in _indented([*item[:-1], f"{item[-1]},"])), "]"]
    return [json.dumps(value)]


def _string(value: str) -> str:
    """Quoted; `${` and `%{`, which HCL would evaluate, stand for themselves."""
    escaped = "".join(_ESCAPES.get(each) or (each if each >= " " else f"\\u{ord(each):04x}") for each in value)
    return '"' + escaped.replace("${", "$${").replace("%{", "%%{") + '"'
