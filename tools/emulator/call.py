"""One request, as the loopback cloud records it and passes it to the handlers."""

from dataclasses import dataclass, field
from typing import Any

from .discovery import Method


@dataclass
class Call:
    #: Name in the discovery document: aiplatform.projects.locations.pipelineJobs.create.
    method: str
    http_method: str
    #: Without the query.
    path: str
    query: dict[str, str]
    headers: dict[str, str]
    #: Every value of each query parameter; `query` has the last one.
    repeated: dict[str, list[str]] = field(default_factory=dict, repr=False)
    #: JSON, or bytes for an API without JSON; None without a body.
    body: Any = None
    #: Values in the path: {"parent": "projects/test-project/locations/us-central1"}.
    params: dict[str, str] = field(default_factory=dict)
    definition: Method | None = field(default=None, repr=False)
    #: The HTTP status of the answer; 0 if none was sent.
    status: int = 0

    @property
    def name(self) -> str:
        return self.params["name"]

    @property
    def parent(self) -> str:
        return self.params["parent"]
