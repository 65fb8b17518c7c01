"""Checks that the runner may read two secrets: the webhook of notifications, and the token of the MLflow server.

A run succeeds without them, so a problem is a warning.

https://cloud.google.com/secret-manager/docs/access-control
"""

from collections.abc import Iterator
from dataclasses import replace

from vgp.settings import Settings
from vgp.vertex import rest
from vgp.vertex.permissions import list_needed_permissions
from vgp.vertex.preflight.access import Policies, Policy, Resource, find_runner
from vgp.vertex.preflight.account import Project
from vgp.vertex.preflight.preflight_questions import Finding, Question, call_options, skip_question


def list_questions(settings: Settings, project: Project, policies: Policies) -> Iterator[Question]:
    webhook, token = settings.notify.webhook or "", settings.mlflow.token or ""
    if webhook.startswith("projects/"):
        yield _build_question(
            "notify.secret", webhook, "no notification would be sent when a run ends", settings, project, policies
        )
    else:
        yield skip_question("notify.secret", "webhook", "no address is in Secret Manager")
    if token:
        yield _build_question("mlflow.secret", token, "runs would not be logged to MLflow", settings, project, policies)


def _build_question(
    name: str, version: str, loss: str, settings: Settings, project: Project, policies: Policies
) -> Question:  # fmt: skip
    secret = version.partition("/versions/")[0]
    return Question(name, secret, lambda: _check_reader(name, settings, secret, loss, project, policies))


def _check_reader(
    question: str, settings: Settings, secret: str, loss: str, project: Project, policies: Policies
) -> Iterator[Finding]:
    from google.api_core import exceptions

    _, home, _, name = secret.split("/")
    try:
        own = Policy.from_json(rest.call(settings, "secretmanager", f"v1/{secret}:getIamPolicy", **call_options()))
    except exceptions.NotFound:
        create = f"gcloud secrets create {name} --project {home} --data-file -"
        yield Finding(question, secret, "warning", f"is not there: {loss}", create)
        return
    grant = f"gcloud secrets add-iam-policy-binding {name} --project {home}"
    thing = Resource(question, secret, home, own, grant)
    finding = policies.check(find_runner(settings, project), list_needed_permissions("runner", "secret"), thing)
    yield replace(finding, level="warning") if finding.level == "error" else finding
