"""Whether an account may do what a run needs, by the policy of a thing and by that of the project around it."""

from collections.abc import Sequence
from dataclasses import dataclass
from threading import Lock

from vgp.base.errors import RequestError, WorkFailed
from vgp.settings import Settings
from vgp.vertex import clients
from vgp.vertex.google_errors import explained
from vgp.vertex.permissions import role_for
from vgp.vertex.preflight.access_policy import Policy, doubts, lacking, used
from vgp.vertex.preflight.account import Project
from vgp.vertex.preflight.preflight_questions import Finding, patience

_BASIC = {"roles/viewer", "roles/editor", "roles/owner"}


@dataclass(frozen=True)
class Thing:
    """What access is granted to, as a finding names it."""

    check: str
    subject: str
    #: Id of the project that it is in: what is granted there holds here.
    project: str
    policy: Policy
    #: The gcloud command that grants a role on it, without member and role.
    grant: str


def runner(settings: Settings, project: Project) -> str | None:
    """The account that steps run as; None if it is the default one of a project whose number is not known.

    https://cloud.google.com/vertex-ai/docs/pipelines/configure-project#service-account
    """
    default = f"{project.number}-compute@developer.gserviceaccount.com" if project.number else None
    return settings.service_account or default


def agents(project: Project) -> list[str]:
    """The accounts with which Vertex AI itself works in the project: https://cloud.google.com/iam/docs/service-agents"""
    kinds = ("gcp-sa-aiplatform", "gcp-sa-aiplatform-cc")
    return [f"service-{project.number}@{kind}.iam.gserviceaccount.com" for kind in kinds] if project.number else []


class Policies:
    """The policies of projects, each read once, when it is first needed."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._lock = Lock()
        self._read: dict[str, Policy | WorkFailed | RequestError] = {}

    def of(self, project: str) -> Policy:
        """The policy of the project.

        Raises:
            WorkFailed: the policy cannot be read.
        """
        with self._lock:
            if project not in self._read:
                self._read[project] = self._fetched(project)
        policy = self._read[project]
        if isinstance(policy, Policy):
            return policy
        raise policy

    def may(self, email: str | None, permissions: Sequence[str], thing: Thing) -> Finding:
        """Whether the service account holds `permissions` on the thing. None: nobody knows whom to ask about.

        Raises:
            WorkFailed: the thing's own policy does not grant them, and the project's cannot be read.
        """
        if email is None:
            seen = "the project's number could not be read, so not who the account is"
            return Finding(thing.check, thing.subject, "unknown", seen)
        member = f"serviceAccount:{email}"
        members = {member, "allUsers", "allAuthenticatedUsers"}
        held = thing.policy.roles(members)
        if lacking(permissions, held):
            around = self.of(thing.project).roles(members)
            # Buckets name holders of the project's basic roles so: projectEditor:my-project.
            basic = {f"project{role.removeprefix('roles/').title()}:{thing.project}" for role in around & _BASIC}
            held |= around | thing.policy.roles(basic)
        lacks = lacking(permissions, held)
        if not lacks:
            seen = f"grants {email} what it needs ({', '.join(used(permissions, held))})"
            return Finding(thing.check, thing.subject, "ok", seen)
        hint = f"{thing.grant} --member {member} --role {role_for(*lacks)}"
        other = sorted({*doubts(thing.policy, members, lacks), *doubts(self.of(thing.project), members, lacks)})
        seen = f"does not grant {email} {', '.join(lacks)}"
        if other:
            return Finding(thing.check, thing.subject, "unknown", f"{seen}, unless through {', '.join(other)}", hint)
        return Finding(thing.check, thing.subject, "error", seen, hint)

    def _fetched(self, project: str) -> Policy | WorkFailed | RequestError:
        from google.iam.v1.iam_policy_pb2 import GetIamPolicyRequest
        from google.iam.v1.options_pb2 import GetPolicyOptions

        options = GetPolicyOptions(requested_policy_version=3)
        request = GetIamPolicyRequest(resource=f"projects/{project}", options=options)
        try:
            with explained(f"the policy of {project} is not seen", self._settings):
                client = clients.projects(self._settings)
                return Policy.of_message(client.get_iam_policy(request=request, **patience()))
        except (WorkFailed, RequestError) as failure:
            return failure
