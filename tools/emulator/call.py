"""One request as the loopback cloud saw it, and as the handlers get it."""

from dataclasses import dataclass, field
from typing import Any

from .discovery import Method


@dataclass
class Call:
    #: As the discovery document names it: aiplatform.projects.locations.pipelineJobs.create.
    method: str
    http_method: str
    #: Without the query.
    path: str
    query: dict[str, str]
    headers: dict[str, str]
    #: Every value of each query parameter; `query` has the last one.
    repeated: dict[str, list[str]] = field(default_factory=dict, repr=False)
    #: JSON, or bytes where the API takes other things; None without a body.
    body: Any = None
    #: Values in the path: {"parent": "projects/test-project/locations/us-central1"}.
    params: dict[str, str] = field(default_factory=dict)
    definition: Method | None = field(default=None, repr=False)
    #: The HTTP status of the answer; 0 where none was sent.
    status: int = 0

    @property
    def name(self) -> str:
        return self.params["name"]

    @property
    def parent(self) -> str:
        return self.params["parent"]
