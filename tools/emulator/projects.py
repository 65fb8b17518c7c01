"""The project and its billing, its service accounts, its keys.

https://cloud.google.com/resource-manager/reference/rest/v3/projects, https://cloud.google.com/billing/docs/reference/rest,
https://cloud.google.com/iam/docs/reference/rest/v1/projects.serviceAccounts,
https://cloud.google.com/kms/docs/reference/rest/v1/projects.locations.keyRings.cryptoKeys
"""

from typing import TYPE_CHECKING, Any

from .call import Call
from .credentials import EMAIL
from .errors import ApiError
from .listing import one_page

if TYPE_CHECKING:
    from .cloud import Cloud


class Projects:
    prefix = "cloudresourcemanager.projects"

    def __init__(self, cloud: "Cloud"):
        self.cloud = cloud
        self.state = "ACTIVE"

    def get(self, call: Call) -> dict[str, Any]:
        number = self.cloud.resource(call.name, "resourcemanager.projects.get")
        return {"name": number, "projectId": self.cloud.project, "displayName": "Test", "state": self.state}

    def getIamPolicy(self, call: Call) -> dict[str, Any]:
        self.cloud.resource(call.params["resource"], "resourcemanager.projects.getIamPolicy")
        call.params["resource"] = f"projects/{self.cloud.project}"
        return self.cloud.policies.get(call)

    def testIamPermissions(self, call: Call) -> dict[str, Any]:
        self.cloud.resource(call.params["resource"], "")
        return self.cloud.policies.test(call)


class Billing:
    prefix = "cloudbilling.projects"

    def __init__(self, cloud: "Cloud"):
        self.cloud = cloud
        self.enabled = True

    def getBillingInfo(self, call: Call) -> dict[str, Any]:
        self.cloud.resource(call.name, "resourcemanager.projects.get")
        name = f"projects/{self.cloud.project}/billingInfo"
        account = "billingAccounts/000000-000000-000000" if self.enabled else ""
        return {"name": name, "projectId": self.cloud.project, "billingAccountName": account,
                "billingEnabled": self.enabled}  # fmt: skip


class ServiceAccounts:
    prefix = "iam.projects.serviceAccounts"

    def __init__(self, cloud: "Cloud"):
        self.cloud = cloud
        #: Fields of each account in the API, by email.
        self.accounts: dict[str, dict[str, Any]] = {}
        #: Compute Engine's default account, for runs and builds that name no other.
        self.compute = f"{cloud.project_number}-compute@developer.gserviceaccount.com"
        for email in (EMAIL, f"pipelines@{cloud.project}.iam.gserviceaccount.com", self.compute):
            self.add(email)

    def add(self, email: str, **fields: Any) -> dict[str, Any]:
        name = f"projects/{self.cloud.project}/serviceAccounts/{email}"
        number = str(110_000_000_000_000_000_000 + len(self.accounts))
        known = {"name": name, "projectId": self.cloud.project, "uniqueId": number, "email": email}
        self.accounts[email] = known | {"oauth2ClientId": number} | fields
        return self.accounts[email]

    def find(self, name: str, permission: str) -> dict[str, Any]:
        """Returns an account; `-` as its project matches any project."""
        email = name.rpartition("/")[2]
        self.cloud.resource(name.replace("projects/-/", f"projects/{self.cloud.project}/"), permission)
        if email not in self.accounts:
            raise ApiError(404, f"Unknown service account: {email}")
        return self.accounts[email]

    def get(self, call: Call) -> dict[str, Any]:
        return self.find(call.name, "iam.serviceAccounts.get")

    def list(self, call: Call) -> dict[str, Any]:
        self.cloud.resource(call.name, "iam.serviceAccounts.list")
        page, following = self.cloud.pages.cut_page(call.query, lambda: list(self.accounts))
        shown = [self.accounts[email] for email in page]
        return one_page("accounts", shown, following)

    def getIamPolicy(self, call: Call) -> dict[str, Any]:
        call.params["resource"] = self.find(call.params["resource"], "iam.serviceAccounts.getIamPolicy")["name"]
        return self.cloud.policies.get(call)

    def testIamPermissions(self, call: Call) -> dict[str, Any]:
        call.params["resource"] = self.find(call.params["resource"], "")["name"]
        return self.cloud.policies.test(call)


class AllowedLocations:
    """The lookup of allowed locations, which google-auth makes before the first request of a service account."""

    prefix = "iamcredentials.projects.serviceAccounts"

    def getAllowedLocations(self, call: Call) -> dict[str, Any]:
        return {"locations": [], "encodedLocations": "0x0"}


class CryptoKeys:
    prefix = "cloudkms.projects.locations.keyRings.cryptoKeys"

    def __init__(self, cloud: "Cloud"):
        self.cloud = cloud
        #: By name, with the project's id.
        self.keys: dict[str, dict[str, Any]] = {}
        self.add(f"projects/{cloud.project}/locations/{cloud.region}/keyRings/ring/cryptoKeys/key")

    def add(self, name: str, *, purpose: str = "ENCRYPT_DECRYPT", state: str = "ENABLED") -> dict[str, Any]:
        """Adds a key; `state` is that of its primary version."""
        version = {"name": f"{name}/cryptoKeyVersions/1", "state": state, "protectionLevel": "SOFTWARE"}
        self.keys[name] = {"name": name, "purpose": purpose, "primary": version}
        return self.keys[name]

    def find(self, name: str, permission: str) -> dict[str, Any]:
        numbered = self.cloud.resource(name, permission)
        key = self.keys.get(numbered.replace(self.cloud.project_number, self.cloud.project, 1))
        if key is None:
            raise ApiError(404, f"CryptoKey {name} not found.")
        return key

    def get(self, call: Call) -> dict[str, Any]:
        return self.find(call.name, "cloudkms.cryptoKeys.get")

    def getIamPolicy(self, call: Call) -> dict[str, Any]:
        self.find(call.params["resource"], "cloudkms.cryptoKeys.getIamPolicy")
        return self.cloud.policies.get(call)

    def testIamPermissions(self, call: Call) -> dict[str, Any]:
        self.find(call.params["resource"], "")
        return self.cloud.policies.test(call)
