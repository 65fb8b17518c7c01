"""Long-running operations, which are done at once or end later on the cloud's clock."""

from collections.abc import Callable
from datetime import datetime
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
        #: End time of each active operation, and the action at its end.
        self.running: dict[str, tuple[datetime, Callable[[], dict[str, Any]]]] = {}

    def finish_deletion(self, name: str) -> dict[str, Any]:
        """Returns the finished operation of a deletion in Vertex AI."""
        kind = "type.googleapis.com/google.cloud.aiplatform.v1.DeleteOperationMetadata"
        return self.finish(name, EMPTY, {"@type": kind})

    def finish(self, resource: str, response: dict[str, Any], metadata: dict[str, Any] | None = None) -> dict[str, Any]:
        name = self.name_below("/".join(resource.split("/")[:4]))
        operation = {"name": name, "done": True, "response": response}
        self.operations[name] = operation | ({"metadata": metadata} if metadata else {})
        return self.operations[name]

    def name_below(self, resource: str) -> str:
        return f"{resource}/operations/{4_000_000_000_000_000_000 + len(self.operations)}"

    def start(self, resource: str, due: datetime, work: Callable[[], dict[str, Any]]) -> dict[str, Any]:
        """Starts an operation that ends at `due` with the `response` or `error` that `work` returns then."""
        name = self.name_below(resource)
        self.operations[name] = {"name": name}
        self.running[name] = (due, work)
        self.settle()
        return self.operations[name]

    def settle(self) -> None:
        """Ends the operations that are due, in order."""
        now = self.cloud.clock.now()
        for name, (due, work) in sorted(self.running.items(), key=lambda item: item[1][0]):
            if due <= now:
                del self.running[name]
                self.operations[name] = {"name": name, "done": True, **work()}

    def get(self, call: Call) -> dict[str, Any]:
        found = self.operations.get(call.name)
        if found is None:
            raise ApiError(404, f"Operation not found: {call.name}.")
        return found
