"""Checks of the service account of the steps: it exists, the caller may use it, and its roles are those of a run."""

from collections.abc import Iterator
from dataclasses import replace

from vgp.settings import Settings
from vgp.vertex import permissions, rest
from vgp.vertex.permissions import ACT_AS
from vgp.vertex.preflight.access import EVERYTHING, JOBS, LADDER, LOGS, Policies, Policy, Resource, find_runner
from vgp.vertex.preflight.account import Project
from vgp.vertex.preflight.preflight_questions import Finding, Question, call_options, skip_question

_DEFAULT = "Compute Engine's default account"


def ask_act_as(settings: Settings, project: Project) -> Question:
    """Returns the question whether the caller may start jobs that run as the account."""
    subject = find_runner(settings, project) or _DEFAULT
    return Question("identity.act_as", subject, lambda: _check_act_as(settings, project))


def list_questions(settings: Settings, project: Project, policies: Policies) -> Iterator[Question]:
    yield ask_act_as(settings, project)
    email = find_runner(settings, project)
    if not email:
        yield skip_question(
            "identity.account", _DEFAULT, "the project's number could not be read, so the default account is unknown"
        )
        return
    yield Question("identity.account", email, lambda: _check_account(settings, email))
    if settings.service_account:
        yield Question("identity.itself", email, lambda: _check_self(settings, email, project, policies))
    yield Question("identity.roles", email, lambda: _check_roles(settings, email, project, policies))


def _check_act_as(settings: Settings, project: Project) -> Iterator[Finding]:
    from google.api_core import exceptions

    email = find_runner(settings, project)
    if not settings.service_account:
        seen = "is what steps run as, since no service account is set; it may do much more than a run needs"
        yield Finding("identity.chosen", email or _DEFAULT, "warning", seen, _create_command(project))
    if not email:
        return
    body = {"permissions": [ACT_AS]}
    try:
        answer = rest.call(settings, "iam", f"{_path(email)}:testIamPermissions", body=body, **call_options())
    except exceptions.NotFound:
        yield _report_missing(email)
        return
    if ACT_AS in answer.get("permissions", ()):
        yield Finding("identity.act_as", email, "ok", "lets you act as it")
        return
    member = project.principal if ":" in project.principal else "user:YOU"
    hint = permissions.act_as(email, member, project.id)
    yield Finding(
        "identity.act_as", email, "error", "does not let you act as it: you can start nothing that runs as it", hint
    )


def _check_account(settings: Settings, email: str) -> Iterator[Finding]:
    """https://cloud.google.com/iam/docs/reference/rest/v1/projects.serviceAccounts/get"""
    from google.api_core import exceptions

    try:
        account = rest.call(settings, "iam", _path(email), **call_options())
    except exceptions.NotFound:
        yield _report_missing(email)
        return
    if account.get("disabled"):
        yield Finding("identity.account", email, "error", "is disabled", f"gcloud iam service-accounts enable {email}")
        return
    yield Finding("identity.account", email, "ok", "is there and enabled")


def _check_self(settings: Settings, email: str, project: Project, policies: Policies) -> Iterator[Finding]:
    """Checks that the account may act as itself, because a run starts its training job under its own account."""
    from google.api_core import exceptions

    try:
        own = Policy.from_json(rest.call(settings, "iam", f"{_path(email)}:getIamPolicy", body={}, **call_options()))
    except exceptions.NotFound:
        return
    home, grant = (
        permissions.home_project(email, project.id),
        permissions.command_to_act_as(email, project.id),
    )
    yield policies.check(email, (ACT_AS,), Resource("identity.itself", email, home, own, grant))


def _check_roles(settings: Settings, email: str, project: Project, policies: Policies) -> Iterator[Finding]:
    grant = f"gcloud projects add-iam-policy-binding {project.id}"
    for check, needed in (("identity.jobs", JOBS), ("identity.logs", LOGS)):
        yield policies.check(email, needed, Resource(check, project.id, project.id, Policy(), grant))
    if any(step.capacity for step in settings.steps.values()):
        # A warning: without it a failed step shows Google's error and not the last lines of its program.
        finding = policies.check(
            email, LADDER, Resource("identity.last_words", project.id, project.id, Policy(), grant)
        )
        yield replace(finding, level="warning") if finding.level == "error" else finding
    held = policies.read(project.id).roles({f"serviceAccount:{email}"}) & set(EVERYTHING)
    for role in sorted(held):
        hint = f"gcloud projects remove-iam-policy-binding {project.id} --member serviceAccount:{email} --role {role}"
        seen = f"has {role}: the code of a step can change everything in {project.id}"
        yield Finding("identity.least", email, "warning", seen, hint)
    if not held:
        yield Finding("identity.least", email, "ok", "is neither owner nor editor")


def _create_command(project: Project) -> str:
    return (
        f"gcloud iam service-accounts create pipelines-runner --project {project.id}\n"
        f'then in pipelines.toml: service_account = "pipelines-runner@{project.id}.iam.gserviceaccount.com"'
    )


def _report_missing(email: str) -> Finding:
    name, _, domain = email.partition("@")
    home = domain.removesuffix(".iam.gserviceaccount.com")
    hint = f"gcloud iam service-accounts create {name} --project {home}" if home != domain else ""
    return Finding("identity.account", email, "error", "is not there", hint)


def _path(email: str) -> str:
    return f"v1/projects/-/serviceAccounts/{email}"
