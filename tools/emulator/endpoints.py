"""Vertex AI's endpoints: each deployed model is served by its own container, and requests are split between them.

A container is a process of this machine with the documented AIP_* variables and its own port. A model is deployed once
its health route answers 200; if the process ends first, the deployment fails.
https://cloud.google.com/vertex-ai/docs/predictions/custom-container-requirements
"""

import json
import secrets
import socket
from dataclasses import dataclass, field
from datetime import datetime
from http.client import HTTPConnection, HTTPException
from pathlib import Path
from typing import TYPE_CHECKING, Any

from .call import Call
from .errors import ApiError, precondition_error
from .listing import Filter, one_page, sort_items
from .machines import MARK, Machine, Machines
from .messages import new, parse, set_time, to_json
from .schema import snake
from .server import Answer

if TYPE_CHECKING:
    from .cloud import Cloud

FILTERS = {"display_name": "= !=", "displayName": "= !=", "endpoint": "= !=", "labels.*": "= != :"}
FIELDS = {"display_name", "description", "labels", "traffic_split"}
TYPE = "type.googleapis.com/google.cloud.aiplatform.v1."
#: Seconds for a health check, which is made at each poll of the operation, and for a prediction.
LOOK_S, PREDICT_S = 1.0, 60.0
#: The most bytes of a request to the shared host, and to an endpoint's own host.
#: https://cloud.google.com/vertex-ai/docs/predictions/choose-endpoint-type
SHARED_BYTES, DEDICATED_BYTES = 1_500_000, 10_000_000
#: Headers of a raw prediction that are meant for Google or for one connection, and not for the container.
GOOGLES = {"authorization", "connection", "content-encoding", "content-length", "host", "transfer-encoding"}
#: google.rpc.Code.FAILED_PRECONDITION
ENDED = 9


@dataclass(eq=False)
class Deployment:
    """A version of a model on an endpoint. `operation` is the deployment, while it runs."""

    message: Any
    model: str
    machine: Machine
    port: int
    spec: Any
    operation: str
    split: dict[str, int] = field(default_factory=dict)

    def ask(self, route: str, timeout: float, body: bytes | None = None, **headers: str) -> Answer:
        """Returns the container's answer with its raw body; the status is 0 if there is no answer."""
        connection = HTTPConnection("127.0.0.1", self.port, timeout=timeout)
        try:
            connection.request("GET" if body is None else "POST", route, body, headers)
            answer = connection.getresponse()
            kind = answer.getheader("Content-Type", "application/octet-stream")
            return Answer(answer.status, answer.read(), {"Content-Type": kind})
        except (OSError, HTTPException):
            return Answer(0, b"")
        finally:
            connection.close()

    def predict(self, body: bytes, **headers: str) -> Answer:
        """Returns the container's answer to a prediction. Raises ApiError if there is none."""
        answer = self.ask(self.spec.container_spec.predict_route or "/predict", PREDICT_S, body, **headers)
        if not answer.status:
            raise ApiError(503, "The model server does not answer.")
        return answer


@dataclass(eq=False)
class Endpoint:
    message: Any
    created: datetime
    deployments: dict[str, Deployment] = field(default_factory=dict)
    #: The number of requests, by which the split selects a deployment.
    requests: int = 0


class Endpoints:
    prefix = "aiplatform.projects.locations.endpoints"

    def __init__(self, cloud: "Cloud", folder: Path):
        self.cloud = cloud
        #: Added to the variables of every container.
        self.environment: dict[str, str] = {}
        self.endpoints: dict[str, Endpoint] = {}
        self.folder = folder

    def create(self, call: Call) -> dict[str, Any]:
        parent = self.cloud.resource(call.parent, "aiplatform.endpoints.create")
        message = parse(call.body, new("Endpoint"))
        if not message.display_name:
            raise ApiError(400, "display_name is required.")
        name = f"{parent}/endpoints/{call.query.get('endpointId') or 7_000_000_000_000_000_000 + len(self.endpoints)}"
        if name in self.endpoints:
            raise ApiError(409, f"Endpoint {name} already exists.")
        message.name = name
        if message.dedicated_endpoint_enabled:
            message.dedicated_endpoint_dns = f"{name.rpartition('/')[2]}.{self.cloud.tunnel.dedicated}"
        self.endpoints[name] = Endpoint(message, self.cloud.clock.now())
        return self.cloud.operations.finish(name, {"@type": f"{TYPE}Endpoint", **to_json(self.render(name))})

    def of(self, name: str, permission: str) -> Endpoint:
        found = self.endpoints.get(self.cloud.resource(name, permission))
        if found is None:
            raise ApiError(404, f"The Endpoint does not exist: {name}.")
        return found

    def render(self, name: str) -> Any:
        endpoint, message = self.endpoints[name], new("Endpoint")
        message.CopyFrom(endpoint.message)
        message.deployed_models.extend(one.message for one in endpoint.deployments.values() if not one.operation)
        for moment in ("create_time", "update_time"):
            set_time(message, moment, endpoint.created)
        return message

    def get(self, call: Call) -> Any:
        return self.render(self.of(call.name, "aiplatform.endpoints.get").message.name)

    def list(self, call: Call) -> dict[str, Any]:
        parent = self.cloud.resource(call.parent, "aiplatform.endpoints.list")
        matches = Filter(call.query.get("filter", ""), FILTERS)

        def names() -> list[str]:
            here = [
                name
                for name in self.endpoints
                if name.startswith(f"{parent}/") and matches.test(self.filter_fields(name))
            ]
            order = call.query.get("orderBy") or "create_time desc"
            return sort_items(here, order, ("create_time", "display_name"), self.find_sort_key)

        page, following = self.cloud.pages.cut_page(call.query, names)
        shown = [to_json(self.render(name), integers=True) for name in page if name in self.endpoints]
        return one_page("endpoints", shown, following)

    def filter_fields(self, name: str) -> dict[str, Any]:
        """Returns the fields of a filter."""
        message = self.endpoints[name].message
        names = {"display_name": message.display_name, "displayName": message.display_name}
        return {"endpoint": name.rpartition("/")[2], **names, "labels": dict(message.labels)}

    def find_sort_key(self, name: str, key: str) -> Any:
        one = self.endpoints[name]
        return one.created if key == "create_time" else one.message.display_name

    def patch(self, call: Call) -> Any:
        endpoint = self.of(call.name, "aiplatform.endpoints.update")
        given = parse(call.body, new("Endpoint"))
        paths = {snake(path) for path in call.query["updateMask"].split(",")}
        if paths - FIELDS:
            raise precondition_error(f"{', '.join(sorted(paths - FIELDS))} cannot be updated of an endpoint.")
        if "traffic_split" in paths:
            self.dealt(endpoint, dict(given.traffic_split))
        for path in paths - {"traffic_split"}:
            endpoint.message.ClearField(path)
            if path == "labels":
                endpoint.message.labels.update(given.labels)
            else:
                setattr(endpoint.message, path, getattr(given, path))
        return self.render(endpoint.message.name)

    def delete(self, call: Call) -> dict[str, Any]:
        endpoint = self.of(call.name, "aiplatform.endpoints.delete")
        if endpoint.deployments:
            raise precondition_error(f"{call.name} has deployed models: undeploy them first.")
        del self.endpoints[endpoint.message.name]
        return self.cloud.operations.finish_deletion(endpoint.message.name)

    # ---- models on an endpoint

    def deployModel(self, call: Call) -> dict[str, Any]:
        endpoint = self.of(call.params["endpoint"], "aiplatform.endpoints.deploy")
        message = parse(call.body["deployedModel"], new("DeployedModel"))
        model, version = self.cloud.models.find(message.model, "aiplatform.models.get")
        spec = model.versions[version].message
        if not message.dedicated_resources.machine_spec.machine_type:
            raise ApiError(400, "dedicated_resources.machine_spec.machine_type is required for a custom container.")
        if not spec.container_spec.command:
            raise ApiError(501, "the loopback cloud has no images: it starts the command of a container alone")
        message.id = message.id or str(1_000_000_000_000_000_000 + secrets.randbelow(10**15))
        message.model, message.model_version_id = model.name, version
        message.display_name = message.display_name or model.display_name
        set_time(message, "create_time", self.cloud.clock.now())
        split = {name if name != "0" else message.id: part for name, part in call.body.get("trafficSplit", {}).items()}
        self.require_split(split, {*endpoint.deployments, message.id})
        operation = self.cloud.operations.name_below(endpoint.message.name)
        self.cloud.operations.operations[operation] = {"name": operation}
        machine, port = self.container(endpoint, message, spec)
        machine.start()
        endpoint.deployments[message.id] = Deployment(message, model.name, machine, port, spec, operation, split)
        return self.cloud.operations.operations[operation]

    def container(self, endpoint: Endpoint, message: Any, spec: Any) -> tuple[Machine, int]:
        """Returns the serving process, not yet started, and its port."""
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            port = int(free.getsockname()[1])
        mark, container = secrets.token_hex(8), spec.container_spec
        words = [*container.command, *container.args]
        variables = {
            **Machines(self.cloud, self.folder, self.environment).variables,
            **{each.name: each.value for each in container.env},
            "AIP_HTTP_PORT": str(port), "AIP_HEALTH_ROUTE": container.health_route or "/health",
            "AIP_PREDICT_ROUTE": container.predict_route or "/predict", "AIP_STORAGE_URI": spec.artifact_uri,
            "AIP_ENDPOINT_ID": endpoint.message.name.rpartition("/")[2], "AIP_DEPLOYED_MODEL_ID": message.id,
            "AIP_MODE": "PREDICTION", "AIP_PROJECT_NUMBER": self.cloud.project_number, MARK: mark,
            "AIP_MACHINE_TYPE": message.dedicated_resources.machine_spec.machine_type,
        }  # fmt: skip
        return Machine(message.id, 0, 0, self.folder / message.id, mark, words, variables), port

    def settle(self) -> None:
        """Ends the operations of deployments whose container is healthy or has ended."""
        for endpoint in self.endpoints.values():
            for one in [one for one in endpoint.deployments.values() if one.operation]:
                if one.ask(one.spec.container_spec.health_route or "/health", LOOK_S).status == 200:
                    self.end(endpoint, one)
                elif one.machine.code is not None:
                    said = [line for _, line in one.machine.read_output()]
                    words = f"Model server exited unexpectedly: exit code {one.machine.code}. {' '.join(said[-3:])}"
                    self.end_deployment(one, {"error": {"code": ENDED, "message": words}})
                    del endpoint.deployments[one.message.id]

    def end(self, endpoint: Endpoint, one: Deployment) -> None:
        self.end_deployment(
            one, {"response": {"@type": f"{TYPE}DeployModelResponse", "deployedModel": to_json(one.message)}}
        )
        if one.split:
            self.dealt(endpoint, one.split)

    def end_deployment(self, one: Deployment, how: dict[str, Any]) -> None:
        self.cloud.operations.operations[one.operation] = {"name": one.operation, "done": True, **how}
        one.operation = ""

    def undeployModel(self, call: Call) -> dict[str, Any]:
        endpoint = self.of(call.params["endpoint"], "aiplatform.endpoints.undeploy")
        one = endpoint.deployments.get(call.body["deployedModelId"])
        if one is None:
            raise ApiError(404, f"{call.params['endpoint']} has no deployed model {call.body['deployedModelId']}.")
        split = call.body.get("trafficSplit", {})
        rest = {*endpoint.deployments} - {one.message.id}
        if not split and rest and endpoint.message.traffic_split.get(one.message.id):
            raise precondition_error(
                f"The deployed model {one.message.id} has traffic: give a traffic_split without it."
            )
        self.require_split(split, rest)
        one.machine.end()
        del endpoint.deployments[one.message.id]
        if split or not rest:
            self.dealt(endpoint, split)
        return self.cloud.operations.finish(endpoint.message.name, {"@type": f"{TYPE}UndeployModelResponse"})

    def require_split(self, split: dict[str, int], there: set[str]) -> None:
        if split and (sum(split.values()) != 100 or set(split) - there):
            raise ApiError(400, f"traffic_split must add up to 100 over deployed models: {split}.")

    def dealt(self, endpoint: Endpoint, split: dict[str, int]) -> None:
        self.require_split(split, {*endpoint.deployments})
        endpoint.message.ClearField("traffic_split")
        endpoint.message.traffic_split.update(split)

    def holding(self, model: str, version: str) -> "list[tuple[str, str]]":
        """Returns the endpoints, with deployment ids, that serve a version."""
        return [
            (name, one.message.id)
            for name, endpoint in self.endpoints.items()
            for one in endpoint.deployments.values()
            if (one.model, one.message.model_version_id) == (model, version)
        ]

    # ---- requests

    def predict(self, call: Call) -> dict[str, Any]:
        body = json.dumps(call.body).encode()
        _, one = self.ask(call, body)
        answer = one.predict(body, **{"Content-Type": "application/json"})
        if answer.status != 200:
            raise ApiError(answer.status, answer.body.decode(errors="replace"))
        deployment = {
            "deployedModelId": one.message.id,
            "model": one.model,
            "modelDisplayName": one.message.display_name,
        }
        return {**json.loads(answer.body), **deployment, "modelVersionId": one.message.model_version_id}

    def rawPredict(self, call: Call) -> Answer:
        """Returns the container's body, content type and status; headers name the deployment that answered."""
        endpoint, one = self.ask(call, call.body)
        sent = {name: value for name, value in call.headers.items() if name not in GOOGLES}
        answer = one.predict(call.body, **sent)
        answer.headers |= {
            "X-Vertex-AI-Endpoint-Id": endpoint.message.name.rpartition("/")[2],
            "X-Vertex-AI-Deployed-Model-Id": one.message.id,
            "X-Vertex-AI-Model": one.model,
            "X-Vertex-AI-Model-Version-Id": one.message.model_version_id,
        }
        return answer

    def ask(self, call: Call, body: bytes) -> tuple[Endpoint, Deployment]:
        """Returns the deployment that answers the request. Raises ApiError for a wrong host or a body too large."""
        endpoint = self.of(call.params["endpoint"], "aiplatform.endpoints.predict")
        host, own = call.headers.get("host", ""), endpoint.message.dedicated_endpoint_dns
        if host.endswith(self.cloud.tunnel.dedicated) and host != own:
            raise ApiError(404, f"{endpoint.message.name} is not served at {host}.")
        if own and host != own:
            raise precondition_error(
                f"Dedicated Endpoint cannot be accessed through the shared Vertex AI domain: ask {own}."
            )
        most = DEDICATED_BYTES if own else SHARED_BYTES
        if len(body) > most:
            raise ApiError(400, f"The request size ({len(body)} bytes) exceeds {most / 1e6:.3f}MB limit.")
        return endpoint, self.choose_deployment(endpoint)

    def choose_deployment(self, endpoint: Endpoint) -> Deployment:
        """Returns the deployment for the next request; of every hundred requests each gets its share of the split."""
        at, endpoint.requests = endpoint.requests % 100, endpoint.requests + 1
        for name, part in sorted(endpoint.message.traffic_split.items()):
            if at < part:
                return endpoint.deployments[name]
            at -= part
        raise precondition_error(f"{endpoint.message.name} has no deployed model with traffic.")

    def close(self) -> None:
        for endpoint in self.endpoints.values():
            for one in endpoint.deployments.values():
                one.machine.end()


class EndpointOperations:
    """Operations under the resource names of endpoints."""

    prefix = "aiplatform.projects.locations.endpoints.operations"

    def __init__(self, cloud: "Cloud"):
        self.cloud = cloud

    def get(self, call: Call) -> dict[str, Any]:
        self.cloud.resource(call.name, "aiplatform.endpoints.get")
        return self.cloud.operations.get(call)
