"""Quotas of the project: https://cloud.google.com/docs/quotas/reference/rest/v1/projects.locations.services.quotaInfos.

google-api-python-client has no discovery document of this API; the routes are those of Google's client.
"""

from functools import cache
from typing import TYPE_CHECKING, Any

from .call import Call
from .discovery import Document
from .errors import ApiError
from .listing import one_page
from .messages import to_json

if TYPE_CHECKING:
    from .cloud import Cloud

PARENT = "v1/projects/{projectsId}/locations/{locationsId}/services/{servicesId}/quotaInfos"
PAGING = {"pageSize": {"type": "integer", "location": "query"}, "pageToken": {"type": "string", "location": "query"}}


@cache
def cloud_quotas() -> Document:
    """Returns a handwritten discovery document."""
    from google.cloud.cloudquotas_v1.services.cloud_quotas.transports import rest_base

    base = rest_base._BaseCloudQuotasRestTransport
    uris = [each._get_http_options()[0]["uri"] for each in (base._BaseGetQuotaInfo, base._BaseListQuotaInfos)]
    expected = ["/v1/{name=projects/*/locations/*/services/*/quotaInfos/*}"]
    assert uris == [*expected, "/v1/{parent=projects/*/locations/*/services/*}/quotaInfos"], uris
    path = {"type": "string", "location": "path"}
    get = {"path": "v1/{+name}", "flatPath": PARENT + "/{quotaInfosId}", "parameters": {"name": path}}
    listing = {"path": "v1/{+parent}/quotaInfos", "flatPath": PARENT, "parameters": {"parent": path, **PAGING}}
    prefix = "cloudquotas.projects.locations.services.quotaInfos"
    methods = {
        "get": {"id": f"{prefix}.get", "httpMethod": "GET", **get},
        "list": {"id": f"{prefix}.list", "httpMethod": "GET", **listing},
    }
    common = {"alt": {"type": "string", "location": "query"}}
    return Document(
        {
            "name": "cloudquotas",
            "version": "v1",
            "servicePath": "",
            "schemas": {},
            "parameters": common,
            "methods": methods,
        }
    )


class QuotaInfos:
    prefix = "cloudquotas.projects.locations.services.quotaInfos"

    def __init__(self, cloud: "Cloud"):
        self.cloud = cloud
        #: QuotaInfo messages by (service, quota id).
        self.infos: dict[tuple[str, str], Any] = {}

    def set(
        self,
        quota_id: str,
        value: int,
        *,
        service: str = "aiplatform.googleapis.com",
        metric: str = "",
        **dimensions: str,
    ) -> None:
        """Sets the limit of a quota, in one region with `region=`, else everywhere. Other quotas are not listed."""
        from google.cloud.cloudquotas_v1 import DimensionsInfo, QuotaInfo

        made = QuotaInfo.pb(QuotaInfo(quota_id=quota_id, service=service, metric=metric, container_type="PROJECT"))
        info = self.infos.setdefault((service, quota_id), made)
        info.name = f"projects/{self.cloud.project_number}/locations/global/services/{service}/quotaInfos/{quota_id}"
        kept = [one for one in info.dimensions_infos if dict(one.dimensions) != dimensions]
        region = dimensions.get("region")
        added = DimensionsInfo(
            dimensions=dimensions, details={"value": value}, applicable_locations=[region] if region else ["global"]
        )
        del info.dimensions_infos[:]
        info.dimensions_infos.extend([*kept, DimensionsInfo.pb(added)])
        info.dimensions[:] = sorted({key for one in info.dimensions_infos for key in one.dimensions})

    def get(self, call: Call) -> Any:
        self.cloud.resource(call.name, "cloudquotas.quotas.get")
        parts = call.name.split("/")
        found = self.infos.get((parts[5], parts[7]))
        if found is None:
            raise ApiError(404, f"Requested entity was not found: {call.name}.")
        return found

    def list(self, call: Call) -> dict[str, Any]:
        self.cloud.resource(call.parent, "cloudquotas.quotas.get")
        service = call.parent.rpartition("/")[2]
        ids = sorted(quota for owner, quota in self.infos if owner == service)
        page, following = self.cloud.pages.cut_page(call.query, lambda: ids)
        shown = [to_json(self.infos[service, quota], integers=True) for quota in page]
        return one_page("quotaInfos", shown, following)
