"""IAM permissions and policies. The caller has every permission until a test removes some.

https://cloud.google.com/iam/docs/reference/rest/v1/Policy
"""

from typing import Any

from .call import Call
from .errors import ApiError


class Policies:
    def __init__(self) -> None:
        #: Permissions that the caller lacks on every resource; a call that needs one gets 403.
        self.missing: set[str] = set()
        #: The only permissions of the caller; None: all except the missing ones.
        self.only: set[str] | None = None
        #: Every permission that a call needed.
        self.asked: set[str] = set()
        #: {resource: {role: [member, ...]}}; names of resources are those of requests, with the project's id.
        self.bindings: dict[str, dict[str, list[str]]] = {}

    def lacks(self, permission: str) -> bool:
        self.asked |= {permission} - {""}
        unlisted = self.only is not None and permission not in {"", *self.only}
        return permission in self.missing or unlisted

    def test(self, call: Call) -> dict[str, Any]:
        """Returns the permissions of the call that the caller has."""
        asked = (call.body or {}).get("permissions", [])
        for permission in asked:
            if permission.count(".") < 2 or "*" in permission:
                raise ApiError(400, f"Permission {permission} is not valid for this resource.")
        held = [permission for permission in asked if not self.lacks(permission)]
        return {"permissions": held} if held else {}

    def act_as(self, account: str) -> None:
        """Raises:
        ApiError: with Vertex AI's text, https://github.com/googleapis/python-aiplatform/issues/1073
        """
        if self.lacks("iam.serviceAccounts.actAs"):
            raise ApiError(
                400, f"You do not have permission to act as service_account: {account}. (or it may not exist)."
            )

    def get(self, call: Call) -> dict[str, Any]:
        bindings = self.bindings.get(call.params["resource"], {})
        listed = [{"role": role, "members": members} for role, members in bindings.items()]
        return {"version": 1, "etag": "BwXhqDBBVmI=", **({"bindings": listed} if listed else {})}
