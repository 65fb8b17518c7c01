"""The APIs that a run and its commands need, and one command that enables the missing ones."""

from collections.abc import Iterator, Sequence

from vgp.check.container_facts import engines_of_steps
from vgp.check.spec.pipeline_spec import PipelineSpec
from vgp.machines.placement.request_parts import Engines
from vgp.settings import Settings
from vgp.vertex import clients
from vgp.vertex.preflight.account import Project
from vgp.vertex.preflight.preflight_questions import Finding, Question, call_options

#: Without these a run fails.
_RUN = ("aiplatform", "artifactregistry", "compute", "iam", "logging", "storage")
#: Without these preflight skips some checks.
_PREFLIGHT = ("cloudquotas", "cloudresourcemanager")


def list_questions(settings: Settings, project: Project, spec: PipelineSpec) -> Iterator[Question]:
    yield Question(
        "apis.enabled", project.id, lambda: _check_enabled(settings, project, list(engines_of_steps(spec).values()))
    )


def _check_enabled(settings: Settings, project: Project, used: Sequence[Engines]) -> Iterator[Finding]:
    """https://cloud.google.com/service-usage/docs/reference/rest/v1/services/batchGet"""
    secret = (settings.notify.webhook or "").startswith("projects/") or settings.mlflow.token
    needed = [
        *_RUN,
        *(["cloudkms"] if settings.encryption_key else []),
        *(["servicenetworking"] if settings.network else []),
        *(["secretmanager"] if secret else []),
        *(["bigquery", "bigquerystorage"] if any(engines.bigquery for engines in used) else []),
        *(["dataflow"] if any(engines.dataflow for engines in used) else []),
    ]
    states = _read_states(settings, project, [*needed, *_PREFLIGHT])
    missing = [name for name in needed if not states.get(_service_name(name))]
    missing_for_checks = [name for name in _PREFLIGHT if not states.get(_service_name(name))]
    if missing:
        yield Finding(
            "apis.enabled",
            project.id,
            "error",
            _format_services("without", missing),
            _format_command(project, missing + missing_for_checks),
        )
    else:
        yield Finding("apis.enabled", project.id, "ok", _format_services("has", needed))
    if missing_for_checks:
        seen = f"{_format_services('without', missing_for_checks)}: some checks are not possible"
        yield Finding(
            "apis.looking", project.id, "warning", seen, _format_command(project, missing + missing_for_checks)
        )


def _read_states(settings: Settings, project: Project, names: list[str]) -> dict[str, bool]:
    request = {
        "parent": f"projects/{project.id}",
        "names": [f"projects/{project.id}/services/{_service_name(name)}" for name in names],
    }
    answer = clients.service_usage(settings).batch_get_services(request=request, **call_options())
    return {service.name.rsplit("/", 1)[-1]: service.state.name == "ENABLED" for service in answer.services}


def _format_services(verb: str, names: list[str]) -> str:
    return f"{verb} {', '.join(map(_service_name, names))}"


def _format_command(project: Project, names: list[str]) -> str:
    return f"gcloud services enable {' '.join(map(_service_name, names))} --project {project.id}"


def _service_name(name: str) -> str:
    return f"{name}.googleapis.com"
