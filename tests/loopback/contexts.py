"""Contexts of ML Metadata: runs and experiments, and which belong to which.

https://cloud.google.com/vertex-ai/docs/reference/rest/v1/projects.locations.metadataStores.contexts
"""

from typing import TYPE_CHECKING, Any

from .call import Call
from .errors import ApiError
from .messages import new, parse, to_json

if TYPE_CHECKING:
    from .cloud import Cloud


class Contexts:
    prefix = "aiplatform.projects.locations.metadataStores.contexts"

    def __init__(self, cloud: "Cloud"):
        self.cloud = cloud
        self.created: dict[str, Any] = {}

    def create(self, call: Call) -> Any:
        parent = self.cloud.resource(call.parent, "aiplatform.contexts.create")
        name = f"{parent}/contexts/{call.query['contextId']}"
        if name in self.created:
            raise ApiError(409, f"Context {name} already exists.")
        context = parse(call.body, new("Context"))
        context.name = name
        self.created[name] = context
        return context

    def get(self, call: Call) -> Any:
        return self._found(call.name)

    def addContextChildren(self, call: Call) -> dict[str, Any]:
        parent = self._found(call.params["context"])
        for child in call.body["childContexts"]:
            found = self._found(child)
            if parent.name not in found.parent_contexts:
                found.parent_contexts.append(parent.name)
        return {}

    def _found(self, given: str) -> Any:
        name = self.cloud.resource(given, "aiplatform.contexts.get")
        if name not in self.created and name.rpartition("/")[2] in self._runs():
            self.created[name] = parse({"name": name, "schemaTitle": "system.PipelineRun"}, new("Context"))
        if name not in self.created:
            raise ApiError(404, f"Context {name} not found.")
        return self.created[name]

    def _runs(self) -> set[str]:
        """Ids of the runs, each of which has a context of its own."""
        return {name.rpartition("/")[2] for name in self.cloud.pipeline_jobs.jobs}

    def children(self, parent: str) -> list[dict[str, Any]]:
        return [to_json(each) for each in self.created.values() if parent in each.parent_contexts]
