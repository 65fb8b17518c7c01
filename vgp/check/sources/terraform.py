"""Reads Terraform as documents of the machines that its google_vertex_ai_ resources request, without running anything.

Fields of the API identify a request, in any resource: dedicated_resources (endpoints with models
of the Model Garden, deployed models and indexes, deployment resource pools), resource_pools (persistent resources),
worker_pool_specs and job_spec (jobs), pipeline_spec (pipeline jobs and schedules), and any other machine_spec.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from vgp.base.documents import bounded_text, json_text
from vgp.base.documents.bounded_text import FieldPath, Unreadable
from vgp.base.documents.document import Document, Place, number_documents
from vgp.base.documents.json_text import JsonObject
from vgp.base.documents.node import Computed, spellings
from vgp.check.sources import embedded_commands, hcl, shell_script
from vgp.check.sources.hcl import Module, Scope
from vgp.check.sources.hcl_blocks import Block, blocks

PREFIX = "google_vertex_ai_"
#: The beginning of a text over several lines, such as the command of a local-exec provisioner.
_HEREDOC = re.compile(r"<<-?\w+[ \t]*$", re.MULTILINE)
#: Maximum number of instances of count and for_each that are judged.
MAX_INSTANCES = 100
#: Attributes about the resource, not about its request.
_META = (
    "count", "for_each", "provider", "depends_on", "lifecycle", "provisioner", "connection", "timeouts", "dynamic",
)  # fmt: skip
#: Blocks that are lists in the API, even with a single element.
_LISTS = (
    "worker_pool_specs", "resource_pools", "deployed_models", "env", "nfs_mounts", "lustre_mounts",
    "autoscaling_metric_specs", "dns_peering_configs",
)  # fmt: skip
#: Fields that identify an object as a request.
_KIND_FIELDS = frozenset(spelled for name in (
    "trialJobSpec", "jobSpec", "deployedModels", "dedicatedResources", "trainingTaskInputs", "resourcePools",
    "workerPoolSpecs",
) for spelled in spellings(name))  # fmt: skip
_MACHINE, _PIPELINE = spellings("machineSpec"), spellings("pipelineSpec")
_REPLICAS = ("min_replica_count", "max_replica_count")


@dataclass
class _Resource:
    """One instance of a resource: its fields, and the lines of its parts."""

    address: str
    data: JsonObject
    places: dict[FieldPath, int]
    notes: list[str] = field(default_factory=list)


def may_ask(text: str) -> bool:
    """Whether a file has resources of Vertex AI and a word of a request for machines, or gcloud commands."""
    return _has_resources(text) or embedded_commands.may_ask(text)


def _has_resources(text: str) -> bool:
    return PREFIX in text and any(word in text for word in (*_KIND_FIELDS, *_MACHINE, *_PIPELINE))


def documents(file: str, text: str, folder: Path | None = None) -> list[Document]:
    """Returns the requests of a file's resources; a file with such resources that is not Terraform has its fault.

    `folder`: the folder of the files that set its variables.
    """
    commands = shell_script.documents(file, _HEREDOC.sub("", text), folder) if embedded_commands.may_ask(text) else []
    return number_documents([*commands, *(_read_resources(file, text, folder) if _has_resources(text) else ())])


def _read_resources(file: str, text: str, folder: Path | None) -> list[Document]:
    try:
        with bounded_text.document():
            own_blocks = blocks(file, text)
            module = hcl.module(file, own_blocks, folder)
            ours = [each for each in own_blocks if each.kind == "resource" and len(each.labels) == 2]
            ours = [each for each in ours if each.labels[0].startswith(PREFIX)]
            resources = [each for block in ours for each in _list_instances(module, block)]
            region = module.region()
        return [each for resource in resources for each in _build_documents(file, resource, region)]
    except (Unreadable, bounded_text.Exhausted) as error:
        return [Document(file, None, "", fault=error)]
    except RecursionError:
        return [Document(file, None, "", fault=bounded_text.Exhausted("The file is nested too deeply."))]


def _list_instances(module: Module, block: Block) -> Iterator[_Resource]:
    """Yields the instances of count and for_each; if they are unknown or may be none, one with a note."""
    address, notes = ".".join(block.labels), []
    name = next((name for name in ("count", "for_each") if name in block.attributes), "")
    scopes: list[tuple[str, Scope]] = [("", {})]
    if name:
        expression = block.attributes[name][0]
        value = module.value(expression, {})
        known = _list_scopes(name, value)
        scopes = known or []
        if known is None or not known and "var." in hcl.source(expression):
            why = f"{name} is not checkable: {value}" if known is None else f"{name} is {value!r} by default"
            notes.append(f"{why}. The resource is judged as if there were one.")
            unknown = Computed(f"{name} is not known")
            scopes = [("", {"count": {"index": unknown}, "each": {"key": unknown, "value": unknown}})]
    if len(scopes) > MAX_INSTANCES:
        notes.append(f"The resource has {len(scopes):,} instances; the first {MAX_INSTANCES} are judged.")
    for suffix, scope in scopes[:MAX_INSTANCES]:
        places: dict[FieldPath, int] = {(): block.line}
        data = _read_fields(module, block, scope, (), places)
        yield _Resource(f"{address}{suffix}", data, places, notes)


def _list_scopes(name: str, value: Any) -> list[tuple[str, Scope]] | None:
    """Returns `count` or `each` for each instance; None if unknown."""
    if name == "count":
        is_count = isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= 10_000
        return [(f"[{index}]", {"count": {"index": index}}) for index in range(value)] if is_count else None
    items = _list_items(value)
    return items and [(f'["{key}"]', {"each": {"key": key, "value": item}}) for key, item in items]


def _list_items(value: object) -> list[tuple[Any, Any]] | None:
    """Returns (key, value) of the items of for_each; None if unknown."""
    if isinstance(value, dict):
        return list(value.items())
    return [(str(item), item) for item in value] if isinstance(value, list) else None


def _read_fields(
    module: Module, block: Block, scope: Scope, path: FieldPath, places: dict[FieldPath, int]
) -> JsonObject:
    """Returns the attributes and blocks of a body as an object at `path`."""
    data: JsonObject = {}
    for name, (expression, line) in block.attributes.items():
        value = module.value(expression, scope) if path or name not in _META else None
        if value is not None:
            data[name] = value if hasattr(expression, "data") else _convert_value(name, value)
            places[(*path, name)] = line
    groups: dict[str, list[tuple[Block, Scope]]] = {}
    for inner in block.blocks:
        if path or inner.kind not in _META or inner.kind == "dynamic":
            for each in _expand_block(module, inner, scope):
                groups.setdefault(inner.labels[0] if inner.kind == "dynamic" else inner.kind, []).append(each)
    for kind, members in groups.items():
        at = (*path, kind)
        places[at] = members[0][0].line
        if kind in _LISTS or len(members) > 1:
            data[kind] = [
                _read_fields(module, each, inner, (*at, index), places) for index, (each, inner) in enumerate(members)
            ]
            places |= {(*at, index): each.line for index, (each, _) in enumerate(members)}
        else:
            data[kind] = _read_fields(module, *members[0], at, places)
    return data


def _convert_value(name: str, value: object) -> Any:
    """Returns a value of Terraform's JSON in the API's shape; blocks may be inside a list or not."""
    if isinstance(value, list) and name not in _LISTS and len(value) == 1 and isinstance(value[0], dict):
        return _convert_value(name, value[0])
    if isinstance(value, list):
        return [_convert_value("", item) for item in value]
    if isinstance(value, dict):
        shaped = {key: _convert_value(key, item) for key, item in value.items()}
        return [shaped] if name in _LISTS else shaped
    return value


def _expand_block(module: Module, block: Block, scope: Scope) -> Iterator[tuple[Block, Scope]]:
    """Yields the block itself, or the content of a dynamic block for each item; once if the items are unknown."""
    if block.kind != "dynamic":
        yield block, scope
        return
    content = next((each for each in block.blocks if each.kind == "content"), None)
    if content is None or not block.labels:
        return
    collection = block.attributes.get("for_each", ([], 0))[0]
    value = module.value(collection, scope)
    items, iterator = _list_items(value), block.labels[0]
    if "iterator" in block.attributes:
        iterator = hcl.source(block.attributes["iterator"][0])
    if items is None:
        yield content, {**scope, iterator: dict.fromkeys(("key", "value"), Computed(f"for_each is not known: {value}"))}
    for key, item in (items or [])[:MAX_INSTANCES]:
        yield content, {**scope, iterator: {"key": key, "value": item}}


def _build_documents(file: str, resource: _Resource, region: str | None) -> Iterator[Document]:
    """Yields a document for each request inside a resource."""
    data = resource.data
    where = next((data[name] for name in ("location", "region") if data.get(name) is not None), region)
    for request, at, before in _find_requests(data, ()):
        whole = {key: value for key, value in request.items() if key not in ("display_name", "displayName")}
        whole |= {"displayName": resource.address} | ({"location": where} if where is not None else {})
        size = len(at)
        places: dict[FieldPath, Place] = {(): Place(_find_line(resource.places, at))}
        places |= {(*before, *path[size:]): Place(line) for path, line in resource.places.items() if path[:size] == at}
        notes = tuple(((), note) for note in resource.notes)
        yield Document(file, whole, "", places=places, notes=notes)


def _find_line(places: dict[FieldPath, int], at: FieldPath) -> int:
    return next(places[at[:size]] for size in range(len(at), -1, -1) if at[:size] in places)


def _find_requests(value: object, at: FieldPath) -> Iterator[tuple[JsonObject, FieldPath, FieldPath]]:
    """Yields (request, path of its data, path to strip) for each outermost request."""
    if isinstance(value, list):
        for index, item in enumerate(value):
            yield from _find_requests(item, (*at, index))
    if not isinstance(value, dict):
        return
    machine = next((name for name in _MACHINE if name in value), None)
    pipeline = _decode_json(next((value[name] for name in _PIPELINE if name in value), None))
    if _KIND_FIELDS & value.keys():
        yield value, at, ()
    elif isinstance(pipeline, dict) and {"root", "deploymentSpec"} & pipeline.keys():
        yield {"pipelineSpec": pipeline, "runtimeConfig": value.get("runtime_config", {})}, at, ()
    elif isinstance(pipeline, str):
        why = pipeline if isinstance(pipeline, Computed) else "it is not JSON"
        yield {"jobSpec": {"workerPoolSpecs": Computed(f"they stand in pipeline_spec, and {why}")}}, at, ()
    elif machine:
        fields = {name: value[name] for name in (machine, *_REPLICAS) if name in value}
        yield {"dedicated_resources": fields}, at, ("dedicated_resources",)
    else:
        for key, item in value.items():
            yield from _find_requests(_decode_json(item), (*at, key))


def _decode_json(value: object) -> Any:
    """Returns the content of a JSON text; other values are unchanged."""
    if isinstance(value, str) and not isinstance(value, Computed) and value.lstrip()[:1] in ("{", "["):
        try:
            return json_text.loads(value)[0]
        except (ValueError, RecursionError):
            return value
    return value
