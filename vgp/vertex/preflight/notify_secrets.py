"""Checks that the runner may read the secrets of notifications and MLflow; a run succeeds without them.

The address that hears how it ended, and the token of an MLflow server.

https://cloud.google.com/secret-manager/docs/access-control
"""

from collections.abc import Iterator
from dataclasses import replace

from vgp.settings import Settings
from vgp.vertex import rest
from vgp.vertex.permissions import needed
from vgp.vertex.preflight.access import Policies, Policy, Thing, runner
from vgp.vertex.preflight.account import Project
from vgp.vertex.preflight.preflight_questions import Finding, Question, patience, skip_question


def questions(settings: Settings, project: Project, policies: Policies) -> Iterator[Question]:
    webhook, token = settings.notify.webhook or "", settings.mlflow.token or ""
    if webhook.startswith("projects/"):
        yield _question(
            "notify.secret", webhook, "no notification would be sent when a run ends", settings, project, policies
        )
    else:
        yield skip_question("notify.secret", "webhook", "no address is in Secret Manager")
    if token:
        yield _question("mlflow.secret", token, "runs would not be logged to MLflow", settings, project, policies)


def _question(
    name: str, version: str, loss: str, settings: Settings, project: Project, policies: Policies
) -> Question:  # fmt: skip
    secret = version.partition("/versions/")[0]
    return Question(name, secret, lambda: _reader(name, settings, secret, loss, project, policies))


def _reader(
    question: str, settings: Settings, secret: str, loss: str, project: Project, policies: Policies
) -> Iterator[Finding]:
    from google.api_core import exceptions

    _, home, _, name = secret.split("/")
    try:
        own = Policy.of_json(rest.call(settings, "secretmanager", f"v1/{secret}:getIamPolicy", **patience()))
    except exceptions.NotFound:
        create = f"gcloud secrets create {name} --project {home} --data-file -"
        yield Finding(question, secret, "warning", f"is not there: {loss}", create)
        return
    grant = f"gcloud secrets add-iam-policy-binding {name} --project {home}"
    thing = Thing(question, secret, home, own, grant)
    found = policies.may(runner(settings, project), needed("runner", "secret"), thing)
    yield replace(found, level="warning") if found.level == "error" else found
