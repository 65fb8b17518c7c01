"""Secret Manager: https://cloud.google.com/secret-manager/docs/reference/rest/v1/projects.secrets.versions/access."""

import base64
from typing import TYPE_CHECKING, Any

from .call import Call
from .errors import ApiError

if TYPE_CHECKING:
    from .cloud import Cloud


class Secrets:
    prefix = "secretmanager.projects.secrets.versions"

    def __init__(self, cloud: "Cloud"):
        self.cloud = cloud
        #: The versions of each secret, by its short name; the newest is last.
        self.versions: dict[str, list[str]] = {}

    def access(self, call: Call) -> dict[str, Any]:
        name = self.cloud.resource(call.name, "secretmanager.versions.access")
        secret, version = name.split("/")[3], name.split("/")[5]
        values = self.versions.get(secret, [])
        number = len(values) if version == "latest" else int(version)
        if not 1 <= number <= len(values):
            raise ApiError(404, f"Secret [{name.partition('/versions/')[0]}] not found or has no versions.")
        data = base64.b64encode(values[number - 1].encode()).decode()
        return {"name": f"{name.rpartition('/')[0]}/{number}", "payload": {"data": data}}


class SecretPolicies:
    prefix = "secretmanager.projects.secrets"

    def __init__(self, cloud: "Cloud"):
        self.cloud = cloud

    def getIamPolicy(self, call: Call) -> dict[str, Any]:
        name = self.cloud.resource(call.params["resource"], "secretmanager.secrets.getIamPolicy")
        if name.rpartition("/")[2] not in self.cloud.secrets.versions:
            raise ApiError(404, f"Secret [{name}] not found.")
        return self.cloud.policies.get(call)
