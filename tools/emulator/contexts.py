"""Contexts of ML Metadata, to which experiments and runs belong.

https://cloud.google.com/vertex-ai/docs/reference/rest/v1/projects.locations.metadataStores.contexts
"""

from typing import TYPE_CHECKING, Any

from .call import Call
from .errors import ApiError
from .messages import new, parse, set_time, to_json

if TYPE_CHECKING:
    from .cloud import Cloud


class Contexts:
    prefix = "aiplatform.projects.locations.metadataStores.contexts"

    def __init__(self, cloud: "Cloud"):
        self.cloud = cloud
        #: Contexts that clients created; each run and each pipeline has a further one.
        self.created: dict[str, Any] = {}

    def create(self, call: Call) -> Any:
        parent = self.cloud.resource(call.parent, "aiplatform.contexts.create")
        name = f"{parent}/contexts/{call.query.get('contextId') or len(self.created) + 1}"
        if self.find_context(name):
            raise ApiError(409, f"Context with name {name} already exists")
        made = self.created[name] = parse(call.body, new("Context"))
        made.name = name
        set_time(made, "create_time", self.cloud.clock.now())
        set_time(made, "update_time", self.cloud.clock.now())
        return made

    def find_context(self, name: str) -> Any:
        """Returns the context, or None. That of a run exists as soon as the run."""
        if name in self.created:
            return self.created[name]
        parent, _, own = name.partition("/metadataStores/default/contexts/")
        job = self.cloud.pipeline_jobs.jobs.get(f"{parent}/pipelineJobs/{own}")
        if job is None:
            return None
        made = self.created[name] = new("Context")
        made.name, made.display_name, made.schema_title = name, own, "system.PipelineRun"
        set_time(made, "create_time", job.created)
        return made

    def find(self, name: str, permission: str) -> Any:
        found = self.find_context(self.cloud.resource(name, permission))
        if found is None:
            raise ApiError(404, f"Context not found: {name}")
        return found

    def get(self, call: Call) -> Any:
        return self.find(call.name, "aiplatform.contexts.get")

    def addContextChildren(self, call: Call) -> dict[str, Any]:
        context = self.find(call.params["context"], "aiplatform.contexts.addContextChildren")
        for name in call.body.get("childContexts", []):
            child = self.find(name, "aiplatform.contexts.addContextChildren")
            if context.name not in child.parent_contexts:
                child.parent_contexts.append(context.name)
        return {}

    def children(self, parent: str) -> list[dict[str, Any]]:
        return [to_json(each) for each in self.created.values() if parent in each.parent_contexts]
