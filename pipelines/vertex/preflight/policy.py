"""Who may do what: permissions of an account, read from the policies of a project and of single things in it.

A policy shows what it grants directly. What comes through a group, a custom role, a condition, a folder or the
organization cannot be seen here, and is said to be unknown rather than wrong.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from threading import Lock
from typing import Any

from pipelines.errors import RequestError, WorkFailed
from pipelines.settings import Settings
from pipelines.vertex import clients
from pipelines.vertex.errors import explained
from pipelines.vertex.preflight.account import Project
from pipelines.vertex.preflight.asking import patience
from pipelines.vertex.preflight.finding import Finding

#: Permission -> predefined roles that hold it, the narrowest first. https://cloud.google.com/iam/docs/roles-permissions
_HOLDERS = {
    "aiplatform.customJobs.create": ("roles/aiplatform.user", "roles/aiplatform.admin", "roles/editor", "roles/owner"),
    "artifactregistry.repositories.downloadArtifacts": (
        "roles/artifactregistry.reader", "roles/artifactregistry.writer", "roles/artifactregistry.repoAdmin",
        "roles/artifactregistry.admin", "roles/viewer", "roles/editor", "roles/owner",
    ),
    "cloudkms.cryptoKeyVersions.useToDecrypt": (
        "roles/cloudkms.cryptoKeyEncrypterDecrypter", "roles/cloudkms.cryptoKeyDecrypter",
    ),
    "cloudkms.cryptoKeyVersions.useToEncrypt": (
        "roles/cloudkms.cryptoKeyEncrypterDecrypter", "roles/cloudkms.cryptoKeyEncrypter",
    ),
    "iam.serviceAccounts.actAs": ("roles/iam.serviceAccountUser", "roles/editor", "roles/owner"),
    "logging.logEntries.create": ("roles/logging.logWriter", "roles/logging.admin", "roles/editor", "roles/owner"),
    "storage.objects.create": (
        "roles/storage.objectUser", "roles/storage.objectAdmin", "roles/storage.admin",
        "roles/storage.objectCreator", "roles/storage.legacyBucketWriter", "roles/storage.legacyBucketOwner",
    ),
    "storage.objects.delete": (
        "roles/storage.objectUser", "roles/storage.objectAdmin", "roles/storage.admin",
        "roles/storage.legacyBucketWriter", "roles/storage.legacyBucketOwner",
    ),
    "storage.objects.get": (
        "roles/storage.objectUser", "roles/storage.objectAdmin", "roles/storage.admin",
        "roles/storage.objectViewer", "roles/storage.legacyObjectReader", "roles/storage.legacyObjectOwner",
    ),
    "storage.objects.list": (
        "roles/storage.objectUser", "roles/storage.objectAdmin", "roles/storage.admin", "roles/storage.objectViewer",
        "roles/storage.legacyBucketReader", "roles/storage.legacyBucketWriter", "roles/storage.legacyBucketOwner",
    ),
}  # fmt: skip

JOBS = ("aiplatform.customJobs.create",)
LOGS = ("logging.logEntries.create",)
OBJECTS = tuple(permission for permission in _HOLDERS if permission.startswith("storage."))
IMAGES = ("artifactregistry.repositories.downloadArtifacts",)
KEYS = ("cloudkms.cryptoKeyVersions.useToDecrypt", "cloudkms.cryptoKeyVersions.useToEncrypt")
ACT_AS = ("iam.serviceAccounts.actAs",)
EVERYTHING = ("roles/owner", "roles/editor")


@dataclass(frozen=True)
class Binding:
    role: str
    members: frozenset[str]
    conditional: bool


@dataclass(frozen=True)
class Policy:
    """The bindings of one policy, from any of the forms in which Google's clients give them."""

    bindings: tuple[Binding, ...] = ()

    @classmethod
    def of_message(cls, policy: Any) -> "Policy":
        """From google.iam.v1.Policy."""
        made = [Binding(b.role, frozenset(b.members), bool(b.condition.expression)) for b in policy.bindings]
        return cls(tuple(made))

    @classmethod
    def of_storage(cls, policy: Any) -> "Policy":
        """From Cloud Storage's client."""
        return cls.of_json({"bindings": policy.bindings})

    @classmethod
    def of_json(cls, policy: dict[str, Any]) -> "Policy":
        bindings = policy.get("bindings", ())
        return cls(tuple(Binding(b["role"], frozenset(b["members"]), bool(b.get("condition"))) for b in bindings))

    def roles(self, members: Iterable[str]) -> set[str]:
        """The roles that any of `members` has without a condition."""
        wanted = set(members)
        return {each.role for each in self.bindings if not each.conditional and each.members & wanted}

    def doubts(self, members: Iterable[str], permissions: Iterable[str]) -> list[str]:
        """What could grant one of `permissions` in a way that the policy alone does not show."""
        mine = set(members)
        holders = {role for permission in permissions for role in _HOLDERS[permission]}
        return sorted({text for each in self.bindings for text in _doubt(each, mine, holders)})


def _doubt(binding: Binding, mine: set[str], holders: set[str]) -> list[str]:
    custom = not binding.role.startswith("roles/")
    if binding.members & mine and custom:
        return [f"the custom role {binding.role}"]
    if binding.members & mine and binding.conditional and binding.role in holders:
        return [f"{binding.role} under a condition"]
    sets = [each for each in binding.members if each.startswith(("group:", "domain:", "principalSet:"))]
    return [f"{binding.role} of {each}" for each in sets] if custom or binding.role in holders else []


def runner(settings: Settings, project: Project) -> str | None:
    """The account that steps run as; None if it is the default one of a project whose number is not known.

    https://cloud.google.com/vertex-ai/docs/pipelines/configure-project#service-account
    """
    default = f"{project.number}-compute@developer.gserviceaccount.com" if project.number else None
    return settings.service_account or default


class Policies:
    """The project's policy, read once when first needed, and what it says of the runner."""

    def __init__(self, settings: Settings, project: Project) -> None:
        self._settings, self._project = settings, project
        self._lock = Lock()
        self._read: Policy | WorkFailed | RequestError | None = None

    def of_project(self) -> Policy:
        """
        Raises:
            WorkFailed: the policy cannot be read.
        """
        with self._lock:
            if self._read is None:
                self._read = self._fetched()
        if isinstance(self._read, Policy):
            return self._read
        raise self._read

    def _fetched(self) -> Policy | WorkFailed | RequestError:
        from google.iam.v1.iam_policy_pb2 import GetIamPolicyRequest
        from google.iam.v1.options_pb2 import GetPolicyOptions

        resource = f"projects/{self._project.id}"
        request = GetIamPolicyRequest(resource=resource, options=GetPolicyOptions(requested_policy_version=3))
        try:
            with explained(f"the policy of {self._project.id} is not seen", self._settings):
                client = clients.projects(self._settings)
                return Policy.of_message(client.get_iam_policy(request=request, **patience()))
        except (WorkFailed, RequestError) as failure:
            return failure

    def runner(self, check: str, subject: str, permissions: tuple[str, ...], own: Policy, add: str) -> Finding:
        """Whether the runner holds `permissions`, by the policy of the thing itself or by the project's.

        `add` is the gcloud command that grants a role on the thing, without member and role.
        """
        email = runner(self._settings, self._project)
        if email is None:
            return Finding(
                check, subject, "unknown", "the project's number could not be read, so not who the runner is"
            )
        return self.account(check, subject, email, permissions, own, add)

    def account(
        self, check: str, subject: str, email: str, permissions: tuple[str, ...], own: Policy, add: str
    ) -> Finding:
        """Like `runner`, for any service account."""
        member = f"serviceAccount:{email}"
        members = {member, "allUsers", "allAuthenticatedUsers"}
        if not (missing := _missing(permissions, own.roles(members))):
            return Finding(check, subject, "ok", f"{email} may ({', '.join(_used(permissions, own.roles(members)))})")
        project = self.of_project()
        held = project.roles(members)
        members |= {f"project{role.removeprefix('roles/').title()}:{self._project.id}" for role in held & set(_BASIC)}
        held |= own.roles(members)
        if not (missing := _missing(permissions, held)):
            return Finding(check, subject, "ok", f"{email} may ({', '.join(_used(permissions, held))})")
        hint = f"{add} --member {member} --role {_HOLDERS[missing[0]][0]}"
        doubts = own.doubts(members, missing) + project.doubts(members, missing)
        seen = f"{email} lacks {', '.join(missing)}"
        if doubts:
            return Finding(check, subject, "unknown", f"{seen}, unless through {', '.join(sorted(set(doubts)))}", hint)
        return Finding(check, subject, "error", seen, hint)


_BASIC = ("roles/viewer", "roles/editor", "roles/owner")


def _missing(permissions: Iterable[str], held: set[str]) -> list[str]:
    return [each for each in permissions if not held & set(_HOLDERS[each])]


def _used(permissions: Iterable[str], held: set[str]) -> list[str]:
    return sorted({role for each in permissions for role in held & set(_HOLDERS[each])})
