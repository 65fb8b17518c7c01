"""The job that a launcher container of Google Cloud Pipeline Components starts: a JSON text in its arguments.

The text is made of placeholders and of kfp's {"Concat": [...]} and {"IfPresent": {...}}.
"""

import json
import re
from dataclasses import replace
from typing import Any

from vgp.base.documents.budget import spend
from vgp.base.documents.node import Node, Scope
from vgp.check.api_object import telling_field
from vgp.check.inputs import MAX_NESTING

_PLACEHOLDER = re.compile(r"\{\{\$[^{}]*+\}\}")
_WORDS = ("job_spec", "worker_pool_specs", "dedicated_resources", "workerPoolSpecs")


def job(container: Node) -> Node | None:
    """The object that the JSON text describes; None if there is none."""
    for argument in _arguments(container):
        if not _names_a_job(argument.value):
            continue
        value = _json(_joined(argument.value, container.scope))
        if telling_field(value) not in (None, "machineSpec"):
            return Node(value, argument.path, container.scope)
    return None


def unread(container: Node) -> Node | None:
    """The argument that names a job, of a launcher whose job is no JSON."""
    return next((argument for argument in _arguments(container) if _names_a_job(argument.value)), None)


def option(container: Node, name: str) -> Node | None:
    """The value of the argument after `name`."""
    arguments = _arguments(container)
    for argument, following in zip(arguments, arguments[1:], strict=False):
        if argument.value == name:
            value = following.resolved()
            return value if value.text() else None
    return None


def _names_a_job(argument: Any) -> bool:
    return isinstance(argument, str) and any(word in argument for word in _WORDS)


def _arguments(container: Node) -> list[Node]:
    """Arguments as they are written: placeholders inside are not followed yet."""
    args = container.get("args")
    values = args.value if isinstance(args.value, list) else []
    return [replace(args, value=value, path=(*args.path, index)) for index, value in enumerate(values)]


def _joined(text: str, scope: Scope | None) -> str:
    """The parts of a Concat joined are the JSON that the launcher gets."""
    value = _json(text) if text.lstrip().startswith(('{"Concat"', '{"concat"')) else None
    return _concat(value, scope) if value is not None else text


def _concat(value: Any, scope: Scope | None, depth: int = 0) -> str:
    if isinstance(value, str) or depth > MAX_NESTING:
        return str(value)
    if not isinstance(value, dict):
        return json.dumps(value, default=str)
    lowered = {str(key).lower(): part for key, part in value.items()}
    if isinstance(lowered.get("concat"), list):
        return "".join(_concat(part, scope, depth + 1) for part in lowered["concat"])
    choice = lowered.get("ifpresent")
    if isinstance(choice, dict):
        branch = "Then" if _is_present(str(choice.get("InputName")), scope) else "Else"
        return _concat(choice.get(branch, ""), scope, depth + 1)
    return json.dumps(value, default=str)


def _is_present(name: str, scope: Scope | None) -> bool:
    value = scope.lookup(name, 0) if scope is not None else Node(None)
    return not value.dangling and (not value.known or value.value is not None)


def _json(text: str) -> Any:
    """The text as JSON, its bare placeholders quoted; None if it is none."""
    spend("characters", len(text))
    pieces, position, is_inside = [], 0, False
    for match in _PLACEHOLDER.finditer(text):
        before = text[position : match.start()]
        is_inside ^= len(re.findall(r'(?<!\\)(?:\\\\)*"', before)) % 2 == 1
        pieces += [before, match.group() if is_inside else json.dumps(match.group())]
        position = match.end()
    try:
        return json.loads("".join([*pieces, text[position:]]), strict=False)
    except (ValueError, RecursionError):
        return None
