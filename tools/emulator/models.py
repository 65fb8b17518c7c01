"""Vertex AI's Model Registry: models with versions and aliases, and the operations that create and delete them.

https://cloud.google.com/vertex-ai/docs/reference/rest/v1/projects.locations.models
"""

import re
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any

from .call import Call
from .errors import ApiError, precondition_error
from .listing import Filter, one_page, sort_items
from .messages import new, parse, set_time, to_json
from .schema import snake

if TYPE_CHECKING:
    from .cloud import Cloud

MODEL_ID = re.compile(r"[a-z_][a-z0-9_-]{0,62}")
ALIAS = re.compile(r"[a-z][a-zA-Z0-9-]{0,126}[a-z0-9-]")
LABEL = re.compile(r"[a-z0-9_-]{0,63}")
IMAGE = re.compile(r"([a-z0-9-]+-docker\.pkg\.dev|([a-z]+\.)?gcr\.io)/\S+")
DEFAULT = "default"
LABELS = "= != :"
FILTERS = {"model": "= !=", "display_name": "= !=", "displayName": "= !=", "labels.*": LABELS}
#: Fields that an update of a model may change, and an update of a version.
MODEL_FIELDS, VERSION_FIELDS = {"display_name", "description", "labels"}, {"version_description", "labels"}
TYPE = "type.googleapis.com/google.cloud.aiplatform.v1."


@dataclass
class Version:
    message: Any
    created: datetime
    updated: datetime
    labels: dict[str, str]


@dataclass
class Model:
    name: str
    created: datetime
    display_name: str
    description: str
    labels: dict[str, str]
    versions: dict[str, Version] = field(default_factory=dict)
    last_id: int = 0

    def holder(self, alias: str) -> Version | None:
        return next((v for v in self.versions.values() if alias in v.message.version_aliases), None)


class Models:
    prefix = "aiplatform.projects.locations.models"

    def __init__(self, cloud: "Cloud"):
        self.cloud = cloud
        self.models: dict[str, Model] = {}
        #: Seconds that an upload takes; its version exists once it has ended.
        self.upload_s: float = 0
        #: Errors of the next uploads: (code of google.rpc, message).
        self.failures: list[tuple[int, str]] = []
        #: Whether an alias of another version is moved, or refused until it is removed there: not documented.
        self.aliases_move = True
        #: Versions, as model@version, on an endpoint that is not emulated, so they cannot be deleted.
        self.deployed: set[str] = set()

    def upload(self, call: Call) -> dict[str, Any]:
        parent = self.cloud.resource(call.parent, "aiplatform.models.upload")
        message = parse(call.body["model"], new("Model"))
        self.check(message)
        name = self.target(parent, call.body)
        self.reserve(name, message, call.body)
        failure = self.failures.pop(0) if self.failures else None
        due = self.cloud.clock.now() + timedelta(seconds=self.upload_s)
        return self.cloud.operations.start(name, due, lambda: self.end_upload(name, message, failure))

    def end_upload(self, name: str, message: Any, failure: tuple[int, str] | None) -> dict[str, Any]:
        if not failure:
            return {"response": self.commit(name, message)}
        if not self.models[name].versions:
            del self.models[name]
        return {"error": {"code": failure[0], "message": failure[1]}}

    def target(self, parent: str, body: dict[str, Any]) -> str:
        """Returns the resource name of the uploaded version's model."""
        if "parentModel" in body and "modelId" in body:
            raise ApiError(400, "Only one of parent_model and model_id can be set.")
        if "parentModel" in body:
            name = self.cloud.resource(body["parentModel"], "aiplatform.models.upload").partition("@")[0]
            self.of(name)
            return name
        model_id = body.get("modelId") or str(6_000_000_000_000_000_000 + 31 * len(self.models))
        if not model_id.isdecimal() and not MODEL_ID.fullmatch(model_id):
            raise ApiError(400, f"Invalid model_id: {model_id!r}. It must match {MODEL_ID.pattern}.")
        return f"{parent}/models/{model_id}"

    def check(self, message: Any) -> None:
        """Raises:
        ApiError: 400 for an invalid model.
        """
        if message.artifact_uri and not message.container_spec.image_uri:
            raise ApiError(400, "container_spec.image_uri is required for a model with artifact_uri.")
        if message.artifact_uri and not message.artifact_uri.startswith("gs://"):
            raise ApiError(400, f"artifact_uri must be a Cloud Storage path: {message.artifact_uri}.")
        if message.container_spec.image_uri and not IMAGE.fullmatch(message.container_spec.image_uri):
            raise ApiError(400, f"image_uri must be of Artifact Registry: {message.container_spec.image_uri}.")
        if len(message.display_name) > 128:
            raise ApiError(400, "display_name must have at most 128 characters.")
        check_labels(message.labels)
        for alias in message.version_aliases:
            check_alias(alias)

    def reserve(self, name: str, message: Any, body: dict[str, Any]) -> None:
        """Reserves the id of a new model at once, so that one of two first uploads is refused."""
        if "parentModel" in body:
            if self.models[name].versions and self.key_of(name) != message.encryption_spec.kms_key_name:
                raise ApiError(400, "All versions of a model must have the same encryption key.")
            return
        if name in self.models:
            raise ApiError(409, f"Model {name} already exists.")
        now, labels = self.cloud.clock.now(), dict(message.labels)
        self.models[name] = Model(name, now, message.display_name, message.description, labels)

    def key_of(self, name: str) -> str:
        first = next(iter(self.models[name].versions.values()))
        return str(first.message.encryption_spec.kms_key_name)

    def commit(self, name: str, message: Any) -> dict[str, Any]:
        """Adds the version with the next number and its aliases, which other versions then lose."""
        model, now = self.models[name], self.cloud.clock.now()
        model.last_id += 1
        version_id = str(model.last_id)
        aliases = {*message.version_aliases, *([] if model.versions else [DEFAULT])}
        kept = new("Model")
        kept.CopyFrom(message)
        for cleared in ("version_aliases", "labels", "display_name", "description"):
            kept.ClearField(cleared)
        model.versions[version_id] = Version(kept, now, now, dict(message.labels))
        for alias in aliases:
            self.point(model, alias, version_id)
        return {"@type": f"{TYPE}UploadModelResponse", "model": name, "modelVersionId": version_id}

    def point(self, model: Model, alias: str, version_id: str) -> None:
        held, target = model.holder(alias), model.versions[version_id]
        if held and held is not target:
            held.message.version_aliases.remove(alias)
        if alias not in target.message.version_aliases:
            target.message.version_aliases.append(alias)

    def of(self, name: str) -> Model:
        model = self.models.get(name)
        if model is None or not model.versions:
            raise ApiError(404, f"The Model does not exist: {name}.")
        return model

    def find(self, given: str, permission: str, *, explicit: bool = False) -> tuple[Model, str]:
        """Returns the model and version id of a name: by id, by alias, or the default version."""
        name, at, version = self.cloud.resource(given, permission).partition("@")
        model = self.of(name)
        if explicit and not (at and version.isdecimal()):
            raise ApiError(400, f"The version ID has to be part of the name: {given}.")
        if version.isdecimal() and version in model.versions:
            return model, version
        held = model.holder(version or DEFAULT)
        if version.isdecimal() or held is None:
            raise ApiError(404, f"The Model version does not exist: {given}.")
        return model, next(id for id, v in model.versions.items() if v is held)

    def render(self, model: Model, version_id: str, *, versioned: bool = True) -> Any:
        version, message = model.versions[version_id], new("Model")
        message.CopyFrom(version.message)
        message.name = f"{model.name}@{version_id}" if versioned else model.name
        message.version_id = version_id
        message.display_name, message.description = model.display_name, model.description
        message.labels.update({**model.labels, **version.labels})
        set_time(message, "create_time", model.created)
        for name in ("version_update_time", "update_time"):
            set_time(message, name, version.updated)
        set_time(message, "version_create_time", version.created)
        if message.container_spec.image_uri:
            message.supported_deployment_resources_types.append(1)  # DEDICATED_RESOURCES, which gcloud looks for
        if f"{model.name.rpartition('/')[2]}@{version_id}" in self.deployed:
            place = model.name.partition("/models/")[0]
            message.deployed_models.add(endpoint=f"{place}/endpoints/7", deployed_model_id="11")
        for endpoint, id in self.cloud.endpoints.holding(model.name, version_id):
            message.deployed_models.add(endpoint=endpoint, deployed_model_id=id)
        return message

    def get(self, call: Call) -> Any:
        model, version_id = self.find(call.name, "aiplatform.models.get")
        return self.render(model, version_id, versioned="@" in call.name)

    def list(self, call: Call) -> dict[str, Any]:
        parent = self.cloud.resource(call.parent, "aiplatform.models.list")
        matches = Filter(call.query.get("filter", ""), FILTERS)

        def names() -> list[str]:
            here = [model for name, model in self.models.items() if name.startswith(f"{parent}/") and model.versions]
            kept = [model for model in here if matches.test(filter_fields(model))]
            order = call.query.get("orderBy") or "create_time desc"
            return [m.name for m in sort_items(kept, order, ("create_time", "display_name"), model_key)]

        page, following = self.cloud.pages.cut_page(call.query, names)
        shown = [self.get_default(self.models[name]) for name in page if name in self.models]
        return one_page("models", [to_json(each, integers=True) for each in shown], following)

    def get_default(self, model: Model) -> Any:
        held = model.holder(DEFAULT)
        return self.render(model, next(id for id, v in model.versions.items() if v is held), versioned=False)

    def listVersions(self, call: Call) -> dict[str, Any]:
        model = self.of(self.cloud.resource(call.name, "aiplatform.models.list").partition("@")[0])
        matches = Filter(call.query.get("filter", ""), {"labels.*": LABELS})

        def names() -> list[str]:
            kept = [id for id, v in model.versions.items() if matches.test({"labels": {**model.labels, **v.labels}})]
            order = call.query.get("orderBy") or "create_time desc"
            return sort_items(kept, order, ("create_time", "update_time"), lambda id, key: self.moment(model, id, key))

        page, following = self.cloud.pages.cut_page(call.query, names)
        shown = [to_json(self.render(model, id), integers=True) for id in page if id in model.versions]
        return one_page("models", shown, following)

    def moment(self, model: Model, version_id: str, key: str) -> Any:
        version = model.versions[version_id]
        return (version.created if key == "create_time" else version.updated, int(version_id))

    def mergeVersionAliases(self, call: Call) -> Any:
        model, version_id = self.find(call.name, "aiplatform.models.update", explicit=True)
        for change in call.body["versionAliases"]:
            check_alias(change.removeprefix("-"))
        for change in call.body["versionAliases"]:
            self.merge(model, version_id, change)
        model.versions[version_id].updated = self.cloud.clock.now()
        return self.render(model, version_id)

    def merge(self, model: Model, version_id: str, change: str) -> None:
        target, alias = model.versions[version_id], change.removeprefix("-")
        if change == f"-{DEFAULT}":
            raise ApiError(400, "The default alias cannot be removed: give it to another version.")
        if change.startswith("-"):
            if alias in target.message.version_aliases:
                target.message.version_aliases.remove(alias)
            return
        held = model.holder(alias)
        if held not in (None, target) and alias != DEFAULT and not self.aliases_move:
            raise ApiError(400, f"The version alias {alias} is used by another version of the model.")
        self.point(model, alias, version_id)

    def patch(self, call: Call) -> Any:
        model, version_id = self.find(call.name, "aiplatform.models.update")
        versioned = "@" in call.name
        given = parse(call.body, new("Model"))
        paths = {snake(path) for path in call.query["updateMask"].split(",")}
        allowed = VERSION_FIELDS if versioned else MODEL_FIELDS
        if paths - allowed:
            what = f"version {version_id} of the model" if versioned else "the model"
            raise precondition_error(f"{', '.join(sorted(paths - allowed))} cannot be updated of {what}.")
        check_labels(given.labels)
        version = model.versions[version_id]
        target: Any = version if versioned else model
        for path in paths:
            if path == "labels":
                target.labels = dict(given.labels)
            else:
                setattr(version.message if versioned else model, path, getattr(given, path))
        version.updated = self.cloud.clock.now()
        return self.render(model, version_id, versioned=versioned)

    def delete(self, call: Call) -> dict[str, Any]:
        model, _ = self.find(call.name, "aiplatform.models.delete")
        self.require_undeployed(model, *model.versions)
        del self.models[model.name]
        return self.cloud.operations.finish_deletion(model.name)

    def deleteVersion(self, call: Call) -> dict[str, Any]:
        model, version_id = self.find(call.name, "aiplatform.models.delete", explicit=True)
        if len(model.versions) == 1:
            raise precondition_error(f"{call.name} is the only version; delete the model instead.")
        if DEFAULT in model.versions[version_id].message.version_aliases:
            raise precondition_error(f"{call.name} is the default version and cannot be deleted.")
        self.require_undeployed(model, version_id)
        del model.versions[version_id]
        return self.cloud.operations.finish_deletion(model.name)

    def require_undeployed(self, model: Model, *version_ids: str) -> None:
        for version_id in version_ids:
            unseen = f"{model.name.rpartition('/')[2]}@{version_id}" in self.deployed
            if unseen or self.cloud.endpoints.holding(model.name, version_id):
                raise precondition_error(f"The Model {model.name}@{version_id} is deployed and cannot be deleted.")


class ModelOperations:
    """Operations under the resource names of models."""

    prefix = "aiplatform.projects.locations.models.operations"

    def __init__(self, cloud: "Cloud"):
        self.cloud = cloud

    def get(self, call: Call) -> dict[str, Any]:
        self.cloud.resource(call.name, "aiplatform.models.get")
        return self.cloud.operations.get(call)


def check_labels(labels: dict[str, str]) -> None:
    for key, value in labels.items():
        if not (key and LABEL.fullmatch(key) and LABEL.fullmatch(value)):
            raise ApiError(400, f"Invalid label: {key}={value}.")


def check_alias(alias: str) -> None:
    if not ALIAS.fullmatch(alias):
        raise ApiError(400, f"Invalid version alias: {alias!r}. It must match {ALIAS.pattern}.")


def filter_fields(model: Model) -> dict[str, Any]:
    """Returns the fields of a filter."""
    names = {"display_name": model.display_name, "displayName": model.display_name}
    return {"model": model.name.rpartition("/")[2], **names, "labels": model.labels}


def model_key(model: Model, name: str) -> Any:
    return model.created if name == "create_time" else model.display_name
