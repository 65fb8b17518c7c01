"""Checks of the caller and the project: credentials, project, billing, and the caller's permissions."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial

from vgp.settings import Settings
from vgp.vertex import clients, rest
from vgp.vertex.permissions import Call, calls
from vgp.vertex.preflight.preflight_questions import ATTEMPT_S, Finding, Level, Question, call_options

#: Verbs that everyone who works with runs needs; CI may be the only user of the others.
_VERBS = {"submit", "schedule", "wait", "show"}
#: Verbs that only read; the check that needs such a permission reports its absence.
_READ_ONLY = {"preflight", "machines", "ci"}
_SIGN_IN = "gcloud auth application-default login"


@dataclass
class Project:
    """The Google Cloud project; `number` is None if it could not be read."""

    id: str
    number: str | None = None
    #: The member that the credentials stand for, such as user:me@example.com.
    principal: str = "a user"


def check_credentials(project: Project) -> Iterator[Finding]:
    """Checks that the credentials get a token, which every other question needs; sets the project's `principal`."""
    from google.auth.exceptions import RefreshError, TransportError
    from google.auth.transport.requests import Request

    token_source = clients.credentials()
    try:
        if not token_source.valid:
            token_source.refresh(partial(Request(), timeout=ATTEMPT_S))
    except TransportError as error:
        hint = "Check the network; behind a proxy, set HTTPS_PROXY"
        yield Finding("account.credentials", "Google", "error", f"cannot be reached: {error}", hint)
        return
    except RefreshError as error:
        seen = f"is not accepted: {str(error.args[0] if error.args else error).splitlines()[0]}"
        yield Finding("account.credentials", _name_kind(token_source), "error", seen, f"Sign in again: {_SIGN_IN}")
        return
    project.principal = clients.principal(token_source) or project.principal
    yield Finding("account.credentials", project.principal, "ok", f"has a token ({_name_kind(token_source)})")


def check_project(settings: Settings, known: Project) -> Iterator[Finding]:
    """Checks that the project exists and is active; sets the number of `known`."""
    from google.api_core import exceptions

    def finding(level: Level, observation: str, hint: str = "") -> Finding:
        return Finding("account.project", known.id, level, observation, hint)

    try:
        project = clients.projects(settings).get_project(name=f"projects/{known.id}", **call_options())
    except exceptions.NotFound:
        yield finding("error", "is not there", "Your projects: gcloud projects list")
        return
    known.number = project.name.rsplit("/", 1)[-1]
    if project.state.name == "ACTIVE":
        yield finding("ok", f"is active, number {known.number}")
    else:
        yield finding("error", f"is {project.state.name.lower()}", f"Restore it: gcloud projects undelete {known.id}")


def list_questions(settings: Settings, known: Project) -> Iterator[Question]:
    """Lists the questions about billing and permissions."""
    yield Question("account.billing", known.id, lambda: _check_billing(settings, known))
    yield Question("account.permissions", known.principal, lambda: _check_permissions(settings, known))


def _check_billing(settings: Settings, known: Project) -> Iterator[Finding]:
    """https://cloud.google.com/billing/docs/reference/rest/v1/projects/getBillingInfo"""
    answer = rest.call(settings, "cloudbilling", f"v1/projects/{known.id}/billingInfo", **call_options())
    if answer.get("billingEnabled"):
        yield Finding("account.billing", known.id, "ok", "has billing enabled")
        return
    link = f"https://console.cloud.google.com/billing/linkedaccount?project={known.id}"
    yield Finding(
        "account.billing", known.id, "error", "has no billing account: no API would work", f"Link one: {link}"
    )


def _check_permissions(settings: Settings, known: Project) -> Iterator[Finding]:
    """Checks that the caller holds the project permissions of every verb that does more than read."""
    own_calls = [
        call for call in calls() if (call.by, call.on) == ("caller", "project") and not set(call.when) <= _READ_ONLY
    ]
    names = sorted({name for call in own_calls for name in call.permissions})
    answer = clients.projects(settings).test_iam_permissions(
        resource=f"projects/{known.id}", permissions=names, **call_options()
    )
    missing = set(names) - set(answer.permissions)
    if not missing:
        yield Finding("account.permissions", known.principal, "ok", "may start, follow and schedule runs")
    for role in dict.fromkeys(call.role for call in own_calls if missing & set(call.permissions)):
        yield _report_missing_role(
            known, role, [call for call in own_calls if call.role == role and missing & set(call.permissions)], missing
        )


def _report_missing_role(known: Project, role: str, refused: Sequence[Call], missing: set[str]) -> Finding:
    verbs = dict.fromkeys(verb for call in refused for verb in call.when if verb not in _READ_ONLY)
    names = sorted(missing & {name for call in refused for name in call.permissions})
    level: Level = "error" if _VERBS & set(verbs) else "warning"
    member = known.principal if ":" in known.principal else "MEMBER"
    hint = f"gcloud projects add-iam-policy-binding {known.id} --member {member} --role {role}"
    return Finding("account.permissions", known.principal, level, f"lacks {', '.join(names)}: {', '.join(verbs)}", hint)


def _name_kind(token_source: object) -> str:
    kinds = {
        "google.oauth2.service_account": "service account key",
        "google.oauth2.credentials": "signed in with gcloud",
        "google.auth.compute_engine.credentials": "the machine's own account",
        "google.auth.impersonated_credentials": "impersonated service account",
        "google.auth.identity_pool": "workload identity federation",
    }
    return kinds.get(type(token_source).__module__, type(token_source).__module__)
