"""Finds requests deep inside documents of other kinds, such as Helm values, Google Workflows and Kubernetes resources.

An object counts if it has a field of the API for machines and names a machine type, so that schemas of the API do not
count. A machine type beside an accelerator type also counts, because many files of parameters hold no more than that.
"""

import json
from typing import Any

from vgp.base.documents.bounded_text import FieldPath, format_path, spend
from vgp.base.documents.node import Node, spellings
from vgp.check import api_object, terms
from vgp.check.judgement import Judgement

_MACHINE, _ACCELERATOR = spellings("machineType"), spellings("acceleratorType")
_BODIES = (*spellings("containerSpec"), *spellings("pythonPackageSpec"))
Requests = list[tuple[FieldPath, Any]]


def find_requests(data: object) -> Requests:
    """Returns path and value of each outermost request inside the data."""
    return _search(data, ())[1]


def _search(value: object, path: FieldPath) -> tuple[bool, Requests]:
    """Returns whether the value names a machine type, and the requests inside it."""
    value = _decode(value) if isinstance(value, str) else value
    children = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    results = [_search(child, (*path, key)) for key, child in children]
    names_machine = _has_text(value, _MACHINE)
    is_item = len(path) == 1 and isinstance(path[0], int)  # a list of requests, which may lack their machines
    has_machine = names_machine or is_item or any(machine for machine, _ in results)
    if has_machine and (_is_job(value) or names_machine and _has_text(value, _ACCELERATOR)):
        return True, [(path, value)]
    return has_machine, [request for _, inside in results for request in inside]


def _decode(text: str) -> object:
    """Returns the content of a JSON text that names a machine type; None for other texts."""
    if text.lstrip()[:1] not in ("{", "[") or not any(word in text for word in _MACHINE):
        return None
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return None


def _is_job(value: object) -> bool:
    """Whether the value is an object of the API, or a list of worker pools."""
    if isinstance(value, list):
        return any(isinstance(item, dict) and any(name in item for name in _BODIES) for item in value)
    return api_object.find_kind_field(value) not in (None, "machineSpec")


def _has_text(value: object, names: tuple[str, ...]) -> bool:
    return isinstance(value, dict) and any(value.get(name) and isinstance(value[name], str) for name in names)


def judge(judgement: Judgement, requests: Requests) -> None:
    """Judges each request inside the document; a step without a name is called by its path."""
    for path, value in requests:
        spend("steps")
        node = Node(value, path)
        step = node.get("displayName").text() or f"{'' if len(path) > 1 else 'job'}{format_path(path)}"
        with judgement.report_exceptions(step, node):
            if isinstance(value, list):
                api_object.judge_pools(judgement, step, node)
            elif not api_object.judge(judgement, step, node):
                terms.judge_lone_machine(judgement, step, node)
