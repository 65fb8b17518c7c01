"""The APIs that the project has enabled: https://cloud.google.com/service-usage/docs/reference/rest."""

from typing import TYPE_CHECKING, Any

from .call import Call
from .errors import ApiError
from .listing import one_page

if TYPE_CHECKING:
    from .cloud import Cloud

ENABLED = (
    "aiplatform",
    "artifactregistry",
    "cloudbilling",
    "cloudbuild",
    "cloudkms",
    "cloudquotas",
    "cloudresourcemanager",
    "compute",
    "iam",
    "iamcredentials",
    "logging",
    "monitoring",
    "serviceusage",
    "storage",
)


class Services:
    prefix = "serviceusage.services"

    def __init__(self, cloud: "Cloud"):
        self.cloud = cloud
        #: Names such as aiplatform.googleapis.com; all other APIs are disabled.
        self.enabled = {f"{name}.googleapis.com" for name in ENABLED}

    def service(self, name: str) -> dict[str, Any]:
        full = self.cloud.resource(name, "serviceusage.services.get")
        service = full.rpartition("/")[2]
        state = "ENABLED" if service in self.enabled else "DISABLED"
        return {"name": full, "config": {"name": service}, "state": state, "parent": full.rpartition("/services/")[0]}

    def get(self, call: Call) -> dict[str, Any]:
        return self.service(call.name)

    def batchGet(self, call: Call) -> dict[str, Any]:
        names = call.repeated.get("names", [])
        if len(names) > 30:
            raise ApiError(400, f"at most 30 services can be asked for at once, got {len(names)}")
        return {"services": [self.service(name) for name in names]}

    def list(self, call: Call) -> dict[str, Any]:
        parent = self.cloud.resource(call.parent, "serviceusage.services.list")
        wanted = call.query.get("filter", "")
        if wanted not in ("", "state:ENABLED"):
            raise ApiError(400, f"Invalid filter: {wanted!r}; this server knows state:ENABLED.")
        page, following = self.cloud.pages.cut_page(call.query, lambda: sorted(self.enabled))
        shown = [self.service(f"{parent}/services/{name}") for name in page]
        return one_page("services", shown, following)
