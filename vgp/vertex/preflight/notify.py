"""Whether the runner may read the address that hears how a run ended. Without it the run ends all the same.

https://cloud.google.com/secret-manager/docs/access-control
"""

from collections.abc import Iterator
from dataclasses import replace

from vgp.settings import Settings
from vgp.vertex import rest
from vgp.vertex.permissions import needed
from vgp.vertex.preflight.access import Policies, Thing, runner
from vgp.vertex.preflight.account import Project
from vgp.vertex.preflight.asking import patience
from vgp.vertex.preflight.finding import Finding, Question, skipped
from vgp.vertex.preflight.policy import Policy


def questions(settings: Settings, project: Project, policies: Policies) -> Iterator[Question]:
    webhook = settings.notify.webhook or ""
    if not webhook.startswith("projects/"):
        yield skipped("notify.secret", "webhook", "no address is in Secret Manager")
        return
    secret = webhook.partition("/versions/")[0]
    yield Question("notify.secret", secret, lambda: _reader(settings, secret, project, policies))


def _reader(settings: Settings, secret: str, project: Project, policies: Policies) -> Iterator[Finding]:
    from google.api_core import exceptions

    _, home, _, name = secret.split("/")
    try:
        own = Policy.of_json(rest.call(settings, "secretmanager", f"v1/{secret}:getIamPolicy", **patience()))
    except exceptions.NotFound:
        create = f"gcloud secrets create {name} --project {home} --data-file -"
        yield Finding("notify.secret", secret, "warning", "is not there: nobody would hear how a run ended", create)
        return
    grant = f"gcloud secrets add-iam-policy-binding {name} --project {home}"
    thing = Thing("notify.secret", secret, home, own, grant)
    found = policies.may(runner(settings, project), needed("runner", "secret"), thing)
    yield replace(found, level="warning") if found.level == "error" else found
