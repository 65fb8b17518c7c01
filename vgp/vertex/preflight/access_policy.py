"""Who may do what: permissions of an account, read from the policies of a project and of single things in it.

A policy shows what it grants directly. What comes through a group, a custom role, a condition, a folder or the
organization cannot be seen here, and is said to be unknown rather than wrong.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from vgp.vertex.permissions import holders, needed

JOBS = needed("runner", "project", "aiplatform")
LOGS = needed("runner", "project", "logging")
LADDER = needed("runner", "ladder")
OBJECTS = needed("runner", "bucket", "storage.objects")
IMAGES = needed("runner", "images")
KEYS = needed("aiplatform", "key")
EVERYTHING = ("roles/owner", "roles/editor")

#: Members that stand for many.
_SETS = ("group:", "domain:", "principalSet:")


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
    def of_message(cls, policy: Any) -> "Policy":
        """From google.iam.v1.Policy."""
        bindings = [Binding(b.role, frozenset(b.members), bool(b.condition.expression)) for b in policy.bindings]
        return cls(tuple(bindings))

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
