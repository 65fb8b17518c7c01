"""Long-running operations, which here are done when they are answered."""

from typing import TYPE_CHECKING, Any

from .call import Call
from .errors import ApiError

if TYPE_CHECKING:
    from .cloud import Cloud

EMPTY = {"@type": "type.googleapis.com/google.protobuf.Empty"}


class Operations:
    prefix = "aiplatform.projects.locations.operations"

    def __init__(self, cloud: "Cloud"):
        self.cloud = cloud
        self.operations: dict[str, dict[str, Any]] = {}

    def deleted(self, name: str) -> dict[str, Any]:
        """The answer to a deletion in Vertex AI."""
        kind = "type.googleapis.com/google.cloud.aiplatform.v1.DeleteOperationMetadata"
        return self.done(name, EMPTY, {"@type": kind})

    def done(self, resource: str, response: dict[str, Any], metadata: dict[str, Any] | None = None) -> dict[str, Any]:
        name = f"{'/'.join(resource.split('/')[:4])}/operations/{4_000_000_000_000_000_000 + len(self.operations)}"
        operation = {"name": name, "done": True, "response": response}
        self.operations[name] = operation | ({"metadata": metadata} if metadata else {})
        return self.operations[name]

    def get(self, call: Call) -> dict[str, Any]:
        found = self.operations.get(call.name)
        if found is None:
            raise ApiError(404, f"Operation not found: {call.name}.")
        return found
