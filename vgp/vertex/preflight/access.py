"""Whether an account may do what a run needs, by the policy of a resource and by that of its project.

A policy shows direct grants only. Grants through a group, a custom role, a condition, a folder or the organization
cannot be read here, so a finding that could depend on them is `unknown` and not `error`.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from threading import Lock
from typing import TYPE_CHECKING

from vgp.base.documents.json_text import JsonObject
from vgp.base.errors import RequestError, WorkFailed
from vgp.settings import Settings
from vgp.vertex import clients
from vgp.vertex.google_errors import explain_errors
from vgp.vertex.permissions import holders, list_needed_permissions, role_for
from vgp.vertex.preflight.account import Project
from vgp.vertex.preflight.preflight_questions import Finding, call_options

if TYPE_CHECKING:
    from google.api_core.iam import Policy as StoragePolicy
    from google.iam.v1.policy_pb2 import Policy as IamPolicy

JOBS = list_needed_permissions("runner", "project", "aiplatform")
LOGS = list_needed_permissions("runner", "project", "logging")
LADDER = list_needed_permissions("runner", "ladder")
OBJECTS = list_needed_permissions("runner", "bucket", "storage.objects")
IMAGES = list_needed_permissions("runner", "images")
KEYS = list_needed_permissions("aiplatform", "key")
EVERYTHING = ("roles/owner", "roles/editor")

#: Prefixes of members that stand for several accounts.
_SETS = ("group:", "domain:", "principalSet:")

_BASIC = {"roles/viewer", "roles/editor", "roles/owner"}


@dataclass(frozen=True)
class Binding:
    """A role and the members that hold it."""

    role: str
    members: frozenset[str]
    conditional: bool


@dataclass(frozen=True)
class Policy:
    """The bindings of one IAM policy, read from any form that Google's clients return."""

    bindings: tuple[Binding, ...] = ()

    @classmethod
    def from_message(cls, policy: "IamPolicy") -> "Policy":
        """Reads a google.iam.v1.Policy."""
        bindings = [Binding(b.role, frozenset(b.members), bool(b.condition.expression)) for b in policy.bindings]
        return cls(tuple(bindings))

    @classmethod
    def from_storage(cls, policy: "StoragePolicy") -> "Policy":
        """Reads a policy of Cloud Storage's client."""
        return cls.from_json({"bindings": policy.bindings})

    @classmethod
    def from_json(cls, policy: JsonObject) -> "Policy":
        bindings = policy.get("bindings", ())
        return cls(tuple(Binding(b["role"], frozenset(b["members"]), bool(b.get("condition"))) for b in bindings))

    def roles(self, members: Iterable[str]) -> set[str]:
        """Returns the roles that any of `members` holds without a condition."""
        holders = set(members)
        return {binding.role for binding in self.bindings if not binding.conditional and binding.members & holders}


def list_missing(permissions: Iterable[str], roles: set[str]) -> list[str]:
    """Returns the `permissions` that none of `roles` contains."""
    return [permission for permission in permissions if not roles & holders(permission)]


def list_granting(permissions: Iterable[str], roles: set[str]) -> list[str]:
    """Returns the `roles` that contain one of `permissions`."""
    return sorted({role for permission in permissions for role in roles & holders(permission)})


def list_possible_grants(policy: Policy, members: set[str], permissions: Iterable[str]) -> Iterator[str]:
    """Describes bindings that may grant `members` one of `permissions`, though the policy alone cannot show it."""
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
class Resource:
    """A resource that has an IAM policy, with the names that a finding uses for it."""

    check: str
    subject: str
    #: Id of its project, whose grants apply to the resource too.
    project: str
    policy: Policy
    #: The gcloud command that grants a role on it, without --member and --role.
    grant: str


def find_runner(settings: Settings, project: Project) -> str | None:
    """Returns the service account of the steps, or None if it is the default and the project's number is unknown.

    https://cloud.google.com/vertex-ai/docs/pipelines/configure-project#service-account
    """
    default = f"{project.number}-compute@developer.gserviceaccount.com" if project.number else None
    return settings.service_account or default


def list_service_agents(project: Project) -> list[str]:
    """Returns Vertex AI's service agents of the project: https://cloud.google.com/iam/docs/service-agents"""
    kinds = ("gcp-sa-aiplatform", "gcp-sa-aiplatform-cc")
    return [f"service-{project.number}@{kind}.iam.gserviceaccount.com" for kind in kinds] if project.number else []


class Policies:
    """A cache of project policies, each read when it is first needed."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._lock = Lock()
        self._read: dict[str, Policy | WorkFailed | RequestError] = {}

    def read(self, project: str) -> Policy:
        """Returns the policy of the project.

        Raises:
            WorkFailed: the policy cannot be read.
        """
        with self._lock:
            if project not in self._read:
                self._read[project] = self._fetch(project)
        policy = self._read[project]
        if isinstance(policy, Policy):
            return policy
        raise policy

    def check(self, email: str | None, permissions: Sequence[str], resource: Resource) -> Finding:
        """Checks that the service account `email` holds `permissions` on the resource; `unknown` without an `email`.

        Raises:
            WorkFailed: the resource's policy does not grant them, and the project's policy cannot be read.
        """
        if email is None:
            seen = "the project's number could not be read, so not who the account is"
            return Finding(resource.check, resource.subject, "unknown", seen)
        member = f"serviceAccount:{email}"
        members = {member, "allUsers", "allAuthenticatedUsers"}
        held = resource.policy.roles(members)
        if list_missing(permissions, held):
            project_roles = self.read(resource.project).roles(members)
            # A bucket's policy names the holders of the project's basic roles as projectEditor:my-project.
            basic = {
                f"project{role.removeprefix('roles/').title()}:{resource.project}" for role in project_roles & _BASIC
            }
            held |= project_roles | resource.policy.roles(basic)
        missing = list_missing(permissions, held)
        if not missing:
            seen = f"grants {email} what it needs ({', '.join(list_granting(permissions, held))})"
            return Finding(resource.check, resource.subject, "ok", seen)
        hint = f"{resource.grant} --member {member} --role {role_for(*missing)}"
        uncertain = sorted(
            {
                *list_possible_grants(resource.policy, members, missing),
                *list_possible_grants(self.read(resource.project), members, missing),
            }
        )
        seen = f"does not grant {email} {', '.join(missing)}"
        if uncertain:
            return Finding(
                resource.check, resource.subject, "unknown", f"{seen}, unless through {', '.join(uncertain)}", hint
            )
        return Finding(resource.check, resource.subject, "error", seen, hint)

    def _fetch(self, project: str) -> Policy | WorkFailed | RequestError:
        from google.iam.v1.iam_policy_pb2 import GetIamPolicyRequest
        from google.iam.v1.options_pb2 import GetPolicyOptions

        options = GetPolicyOptions(requested_policy_version=3)
        request = GetIamPolicyRequest(resource=f"projects/{project}", options=options)
        try:
            with explain_errors(f"the policy of {project} is not seen", self._settings):
                client = clients.projects(self._settings)
                return Policy.from_message(client.get_iam_policy(request=request, **call_options()))
        except (WorkFailed, RequestError) as failure:
            return failure
