"""Vertex AI's custom jobs in one region, by its REST API.

https://cloud.google.com/vertex-ai/docs/reference/rest/v1/projects.locations.customJobs
"""

from collections.abc import Mapping
from typing import Any
from urllib.parse import quote

from vgp.base import google_api

Json = dict[str, Any]


class JobService:
    """Calls of the custom jobs in `projects/PROJECT/locations/REGION`, without retries, except after a token expired
    (401).

    Args:
        session: A `requests` session with credentials.

    Raises (every method):
        google.api_core.exceptions.GoogleAPICallError: Google refused.
        requests.RequestException: there was no answer; the request may have taken effect.
    """

    def __init__(self, session: Any, project: str, region: str) -> None:
        self.session, self.region = session, region
        self.base = google_api.address(f"{region}-aiplatform")
        self.parent = f"projects/{project}/locations/{region}"

    def create(self, body: Json) -> Json:
        """Creates a job. The API takes no id from the client, so a repeated call creates a second job."""
        return self._send("POST", f"{self.parent}/customJobs", body)

    def get(self, name: str) -> Json:
        """Returns the job with the resource name."""
        return self._send("GET", name)

    def labelled(self, label: str, value: str) -> list[Json]:
        """Returns the jobs with the label, oldest first."""
        jobs: list[Json] = []
        token = ""
        while True:
            query = {"filter": f'labels.{label}="{value}"', "pageSize": "100"}
            page = self._send("GET", f"{self.parent}/customJobs", query=query | ({"pageToken": token} if token else {}))
            jobs += page.get("customJobs", [])
            token = page.get("nextPageToken", "")
            if not token:
                return sorted(jobs, key=lambda job: (job.get("createTime", ""), job["name"]))

    def cancel(self, name: str) -> None:
        """Requests the cancellation of a job; does nothing if it has ended or does not exist."""
        from google.api_core.exceptions import BadRequest, NotFound

        try:
            self._send("POST", f"{name}:cancel", {})
        except (BadRequest, NotFound):
            return

    def _send(self, method: str, path: str, body: Json | None = None, query: Mapping[str, str] | None = None) -> Json:
        from google.api_core.exceptions import from_http_response

        url = f"{self.base}/v1/{path}"
        answer = self.session.request(method, url, json=body, params=query, timeout=google_api.ATTEMPT_S)
        if not answer.ok:
            raise from_http_response(answer)
        return dict(answer.json())


def uri(name: str) -> str:
    """Returns the API URL of a job, as Google's own launcher writes it."""
    return f"https://{name.split('/')[3]}-aiplatform.googleapis.com/v1/{name}"


def page(name: str, project: str) -> str:
    """Returns the job's page in the console, as Google's SDK 1.165.1 does (`aiplatform.CustomJob`)."""
    region, number = quote(name.split("/")[3]), quote(name.rpartition("/")[2])
    path = f"agent-platform/locations/{region}/training/{number}"
    return f"https://console.cloud.google.com/{path}?project={quote(project)}"
