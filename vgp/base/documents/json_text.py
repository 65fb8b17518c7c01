"""Untrusted JSON texts: validated against a model, or read with their repeated keys and the lines of paths."""

import json
import re
from bisect import bisect_left
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar

from vgp.base.documents.bounded_text import FieldPath

if TYPE_CHECKING:  # imported only for validation
    from pydantic import BaseModel
    from pydantic_core import ErrorDetails

#: An external JSON object, such as a spec or an answer of Google's APIs; its reader checks the fields that it uses.
JsonObject: TypeAlias = dict[str, Any]
#: A read-only JSON object.
JsonView: TypeAlias = Mapping[str, Any]
#: Any external JSON value; its reader narrows it with isinstance.
Json: TypeAlias = str | int | float | bool | list[Any] | JsonObject | None

# ---- untrusted JSON: validated against a model, and refused if parsers could disagree about it

Model = TypeVar("Model", bound="BaseModel")


def parse_model(model: type[Model], text: bytes) -> Model:
    """Parses and validates a JSON text.

    Raises:
        ValueError: invalid JSON, another model, too deep nesting or a repeated key, in one line.
    """
    from pydantic import ValidationError

    try:
        parsed = model.model_validate_json(text)
    except ValidationError as error:
        raise ValueError("; ".join(map(_format_problem, error.errors()[:3]))) from None
    parse_json(text)
    return parsed


def parse_json(text: bytes) -> Any:
    """Parses JSON as json.loads does; also raises ValueError for a repeated key and for too deep nesting."""
    try:
        return json.loads(text, object_pairs_hook=_unique)
    except RecursionError:
        raise ValueError("it is nested too deeply") from None


def _unique(pairs: list[tuple[str, object]]) -> dict[str, object]:
    members = dict(pairs)
    if len(members) < len(pairs):
        raise ValueError("a key is given twice")
    return members


def _format_problem(problem: "ErrorDetails") -> str:
    """Formats a validation error, such as `history.2.loss: Input should be a valid number`."""
    where = ".".join(map(str, problem["loc"]))
    return f"{where}: {problem['msg']}" if where else str(problem["msg"])


Repeating = list[tuple[dict[Any, Any], object]]

#: Longer numbers stay texts, because no field needs more than fifteen digits.
MAX_DIGITS = 400

_TOKEN = re.compile(r'"(?:[^"\\]++|\\.)*+"|[{}\[\],:]|[^\s{}\[\],:"]++')


def loads(text: str) -> tuple[Any, Repeating]:
    """Returns the data, and its objects with a repeated key, each with that key.

    Raises:
        ValueError: the text is not JSON.
        RecursionError: it is nested too deeply.
    """
    repeating: Repeating = []

    def collect(pairs: list[tuple[str, object]]) -> dict[str, object]:
        value = dict(pairs)
        if len(value) < len(pairs):
            counts = Counter(key for key, _ in pairs)
            repeating.extend((value, key) for key, count in counts.items() if count > 1)
        return value

    data = json.loads(text, object_pairs_hook=collect, parse_int=_parse_whole)
    return data, repeating


def _parse_whole(digits: str) -> int | str:
    return int(digits) if len(digits) <= MAX_DIGITS else digits


def values(text: str, most: int) -> int:
    """Counts the values of the text before parsing it, stopping above `most`; returns 0 if they cannot exceed it."""
    if text.count(",") + text.count("[") + text.count("{") < most:
        return 0
    count, before = 1, ""
    for match in _TOKEN.finditer(text):
        token = match.group()
        # A non-empty list or object has one value more than commas.
        count += token == "," or (before in ("[", "{") and token not in ("]", "}"))
        before = token
        if count > most:
            break
    return count


def with_texts(data: Any, change: Callable[[str], Any]) -> Any:
    """Returns a copy of the data with `change` applied to each text; keys stay."""
    if isinstance(data, dict):
        return {key: with_texts(item, change) for key, item in data.items()}
    if isinstance(data, list):
        return [with_texts(item, change) for item in data]
    return change(data) if isinstance(data, str) else data


def levels(data: object) -> int:
    """Returns the depth of nesting."""
    depth, level = 0, [data] if isinstance(data, dict | list) else []
    while level:
        depth += 1
        children = (child for value in level for child in (value.values() if isinstance(value, dict) else value))
        level = [child for child in children if isinstance(child, dict | list)]
    return depth


def lines(text: str, paths: set[FieldPath]) -> dict[FieldPath, int]:
    """Returns the line (from 1) of each path, or of its nearest parent, reading the text once."""
    wanted = {path[:depth] for path in paths for depth in range(1, len(path) + 1)}
    offsets: dict[FieldPath, int] = {}
    for path, offset in _locate_paths(text, wanted) if wanted else ():
        offsets.setdefault(path, offset)
        if len(offsets) == len(wanted):
            break
    breaks = [match.start() for match in re.finditer("\n", text)]
    return {path: bisect_left(breaks, _find_deepest(offsets, path)) + 1 for path in paths}


def _find_deepest(offsets: dict[FieldPath, int], path: FieldPath) -> int:
    known = (offsets[path[:depth]] for depth in range(len(path), 0, -1) if path[:depth] in offsets)
    return next(known, 0)


def _locate_paths(text: str, paths: set[FieldPath]) -> Iterator[tuple[FieldPath, int]]:
    """Yields (path, offset) of each key or item in `paths`, from the tokens of a valid JSON text."""
    path: list[Any] = []
    kinds: list[str] = []
    expects_key = fresh_item = False
    deepest = max(map(len, paths))
    for match in _TOKEN.finditer(text):
        token = match.group()
        if fresh_item and token != "]" and len(path) <= deepest and tuple(path) in paths:
            yield tuple(path), match.start()
        fresh_item = False
        if token in ("{", "["):
            kinds.append(token)
            path.append(0 if token == "[" else None)
            expects_key, fresh_item = token == "{", token == "["
        elif token in ("}", "]"):
            kinds.pop()
            path.pop()
        elif token == ",":
            expects_key, fresh_item = kinds[-1] == "{", kinds[-1] == "["
            if fresh_item:
                path[-1] = int(path[-1] or 0) + 1
        elif token != ":" and expects_key:
            path[-1] = token[1:-1] if "\\" not in token else json.loads(token, strict=False)
            expects_key = False
            if len(path) <= deepest and tuple(path) in paths:
                yield tuple(path), match.start()
