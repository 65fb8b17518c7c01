"""Whether an account may do what a run needs, by the policy of a thing and by that of the project around it.

A policy shows what it grants directly. What comes through a group, a custom role, a condition, a folder or the
organization cannot be seen here, and is said to be unknown rather than wrong.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from threading import Lock
from typing import TYPE_CHECKING

from vgp.base.documents.json_text import JsonObject
from vgp.base.errors import RequestError, WorkFailed
from vgp.settings import Settings
from vgp.vertex import clients
from vgp.vertex.google_errors import explained
from vgp.vertex.permissions import holders, needed, role_for
from vgp.vertex.preflight.account import Project
from vgp.vertex.preflight.preflight_questions import Finding, patience

if TYPE_CHECKING:
    from google.api_core.iam import Policy as StoragePolicy
    from google.iam.v1.policy_pb2 import Policy as IamPolicy

JOBS = needed("runner", "project", "aiplatform")
LOGS = needed("runner", "project", "logging")
LADDER = needed("runner", "ladder")
OBJECTS = needed("runner", "bucket", "storage.objects")
IMAGES = needed("runner", "images")
KEYS = needed("aiplatform", "key")
EVERYTHING = ("roles/owner", "roles/editor")

#: Members that stand for many.
_SETS = ("group:", "domain:", "principalSet:")

_BASIC = {"roles/viewer", "roles/editor", "roles/owner"}


@dataclass(frozen=True)
class Binding:
    """A role, and who has it."""

    role: str
    members: frozenset[str]
    conditional: bool


@dataclass(frozen=True)
class Policy:
    """The bindings of one policy, from any of the forms in which Google's clients give them."""

    bindings: tuple[Binding, ...] = ()

    @classmethod
    def of_message(cls, policy: "IamPolicy") -> "Policy":
        """From google.iam.v1.Policy."""
        bindings = [Binding(b.role, frozenset(b.members), bool(b.condition.expression)) for b in policy.bindings]
        return cls(tuple(bindings))

    @classmethod
    def of_storage(cls, policy: "StoragePolicy") -> "Policy":
        """From Cloud Storage's client."""
        return cls.of_json({"bindings": policy.bindings})

    @classmethod
    def of_json(cls, policy: JsonObject) -> "Policy":
        bindings = policy.get("bindings", ())
        return cls(tuple(Binding(b["role"], frozenset(b["members"]), bool(b.get("condition"))) for b in bindings))

    def roles(self, members: Iterable[str]) -> set[str]:
        """The roles that any of `members` has without a condition."""
        holders = set(members)
        return {binding.role for binding in self.bindings if not binding.conditional and binding.members & holders}


def lacking(permissions: Iterable[str], roles: set[str]) -> list[str]:
    """Those of `permissions` that none of `roles` holds."""
    return [permission for permission in permissions if not roles & holders(permission)]


def used(permissions: Iterable[str], roles: set[str]) -> list[str]:
    """Those of `roles` that hold one of `permissions`."""
    return sorted({role for permission in permissions for role in roles & holders(permission)})


def doubts(policy: Policy, members: set[str], permissions: Iterable[str]) -> Iterator[str]:
    """What in the policy could grant `members` one of `permissions` in a way that the policy alone does not show."""
    holding = {role for permission in permissions for role in holders(permission)}
    for binding in policy.bindings:
        custom = not binding.role.startswith("roles/")
        if binding.members & members and custom:
            yield f"the custom role {binding.role}"
        elif binding.members & members and binding.conditional and binding.role in holding:
            yield f"{binding.role} under a condition"
        elif custom or binding.role in holding:
            yield from (f"{binding.role} of {member}" for member in binding.members if member.startswith(_SETS))


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
