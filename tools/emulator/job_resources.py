"""Persistent resources and TensorBoards, which custom jobs use; read only.

https://cloud.google.com/vertex-ai/docs/reference/rest/v1/projects.locations.persistentResources
https://cloud.google.com/vertex-ai/docs/reference/rest/v1/projects.locations.tensorboards
"""

from typing import TYPE_CHECKING, Any

from .call import Call
from .errors import ApiError
from .messages import new, parse

if TYPE_CHECKING:
    from .cloud import Cloud


class JobResources:
    #: Name of the message, and name in the API's methods.
    message, kind = "", ""

    def __init__(self, cloud: "Cloud"):
        self.cloud = cloud
        self.there: dict[str, Any] = {}

    def add(self, name: str, region: str = "us-central1", **fields: Any) -> str:
        """Adds a resource with the fields of its JSON; returns its resource name, with the project's id."""
        path = f"locations/{region}/{self.kind}/{name}"
        message = self.there[f"projects/{self.cloud.project_number}/{path}"] = new(self.message)
        message.name = f"projects/{self.cloud.project_number}/{path}"
        parse(fields, message)
        return f"projects/{self.cloud.project}/{path}"

    def get(self, call: Call) -> Any:
        found = self.there.get(self.cloud.resource(call.name, f"aiplatform.{self.kind}.get"))
        if found is None:
            raise ApiError(404, f"The {self.message} does not exist: {call.name}.")
        return found


class PersistentResources(JobResources):
    prefix = "aiplatform.projects.locations.persistentResources"
    message, kind = "PersistentResource", "persistentResources"


class Tensorboards(JobResources):
    prefix = "aiplatform.projects.locations.tensorboards"
    message, kind = "Tensorboard", "tensorboards"
