"""A compiled spec: its one textual form, and its parameters checked against what it declares."""

import difflib
import json
import math
import re
from collections.abc import Mapping, Sequence
from typing import Any

from vgp.errors import RequestError
from vgp.spec import placeholders
from vgp.text.printable import PASSWORD

_STRING_OR_EXPONENT = re.compile(r'"(?:[^"\\]|\\.)*"|(?<![.\d])(?P<whole>\d+)(?P<exponent>e[+-]\d+)')
_HALF = re.compile("[\ud800-\udfff]")
_ESCAPE = re.compile(r"(?P<pair>\\ud[89ab][0-9a-f]{2}\\ud[c-f][0-9a-f]{2})|\\.")

#: Vertex AI keeps numbers as doubles, which hold no larger integer exactly. Protobuf reads 100 messages inside each
#: other, and a JSON value is up to four of them a level.
_LARGEST, _DEEPEST = 2**53, 20

_KINDS = {
    "STRING": "text",
    "NUMBER_INTEGER": "an integer, at most 2^53",
    "NUMBER_DOUBLE": "a number",
    "BOOLEAN": "true or false",
    "LIST": "a JSON list",
    "STRUCT": "a JSON object",
}


def as_text(spec: Mapping[str, Any]) -> str:
    """The one textual form of a spec: what is compared, committed and uploaded. JSON, and the same read as YAML.

    Vertex's SDK and its template registry read YAML 1.1, to which 1e-05 is a text and \\ud83d\\ude00 two broken
    characters: written as 1.0e-05 and as the character itself, both are the same in JSON and in YAML.
    """
    text = json.dumps(spec, indent=2, sort_keys=True)
    return _STRING_OR_EXPONENT.sub(_as_yaml, text) + "\n"


def _as_yaml(found: re.Match[str]) -> str:
    if found["whole"]:
        return f"{found['whole']}.0{found['exponent']}"
    return _ESCAPE.sub(lambda escape: json.loads(f'"{escape[0]}"') if escape["pair"] else escape[0], found[0])


def parameters(spec: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
    """The pipeline's parameters by name, as the spec declares them: parameterType, defaultValue, description."""
    return spec["root"].get("inputDefinitions", {}).get("parameters", {})


def arguments(spec: Mapping[str, Any], settings: Sequence[str]) -> dict[str, Any]:
    """`name=value` texts as typed arguments of the pipeline.

    Raises:
        RequestError: a text without `=`, an unknown or repeated name, a value of the wrong type, a missing value.
    """
    declared = parameters(spec)
    found: dict[str, Any] = {}
    for text in settings:
        name, equals, value = text.partition("=")
        if not equals:
            raise RequestError(f"--set {text}: give it as name=value.")
        if name not in declared:
            raise RequestError(f"--set {text}: the pipeline has no parameter {name!r}. {_near(name, declared)}")
        if name in found:
            raise RequestError(f"--set {name} is given twice.")
        found[name] = _typed(name, value, declared[name]["parameterType"])
    _refuse_missing(declared, found)
    _refuse_texts(found)
    return found


def values(spec: Mapping[str, Any], given: Mapping[str, Any]) -> dict[str, Any]:
    """Typed values, as of a settings file, checked as arguments of the pipeline.

    Raises:
        RequestError: an unknown name, a value of the wrong type, a missing value.
    """
    declared = parameters(spec)
    for name, value in given.items():
        if name not in declared:
            raise RequestError(f"the pipeline has no parameter {name!r}. {_near(name, declared)}")
        kind = declared[name]["parameterType"]
        if not _fits(value, kind):
            raise RequestError(f"{name} = {json.dumps(value, default=str)}: {name} takes {_KINDS.get(kind, kind)}.")
    _refuse_missing(declared, given)
    _refuse_texts(given)
    return dict(given)


def _fits(value: Any, kind: str) -> bool:
    if kind == "NUMBER_DOUBLE":
        return isinstance(value, int | float) and not isinstance(value, bool) and _kept(value)
    if kind == "NUMBER_INTEGER":
        return isinstance(value, int) and not isinstance(value, bool) and _kept(value)
    wanted = {"STRING": str, "BOOLEAN": bool, "LIST": list, "STRUCT": dict}.get(kind, object)
    return isinstance(value, wanted) and _kept(value)


def _kept(value: Any, level: int = 0) -> bool:
    """Whether Vertex AI gives the value back as it is."""
    if isinstance(value, dict | list):
        inner = [*value, *value.values()] if isinstance(value, dict) else value
        return level < _DEEPEST and all(_kept(each, level + 1) for each in inner)
    if isinstance(value, str):
        return value.isascii() or not _HALF.search(value)
    if isinstance(value, float):
        return math.isfinite(value)
    return value is None or (isinstance(value, int) and abs(value) <= _LARGEST)


def _refuse_missing(declared: Mapping[str, Any], given: Mapping[str, Any]) -> None:
    missing = [n for n, p in declared.items() if n not in given and "defaultValue" not in p and not p.get("isOptional")]
    if missing:
        raise RequestError(f"the pipeline needs a value for {', '.join(missing)}: --set {missing[0]}=...")


def _refuse_texts(given: Mapping[str, Any]) -> None:
    """What would not arrive as it is, or would be kept and shown where no password belongs."""
    for name, value in given.items():
        if placeholders.within(value):
            raise RequestError(f"{name} {placeholders.RULE}")
        if any(map(PASSWORD.search, placeholders.texts(value))):
            raise RequestError(
                f"{name} holds an address with a password, and parameters are shown in specs, logs and the console. "
                "Leave it out of the address."
            )


def _near(name: str, declared: Mapping[str, Any]) -> str:
    near = difflib.get_close_matches(name, declared, n=1)
    return f"Did you mean {near[0]}?" if near else f"It has {', '.join(sorted(declared))}."


def _typed(name: str, text: str, kind: str) -> Any:
    try:
        value = _read(text, kind)
    except (ValueError, RecursionError):
        value = None
    if value is None or not _fits(value, kind):
        raise RequestError(f"--set {name}={text}: {name} takes {_KINDS.get(kind, kind)}.")
    return value


def _read(text: str, kind: str) -> Any:
    if kind in ("NUMBER_INTEGER", "NUMBER_DOUBLE"):
        if "_" in text or not text.isascii():
            raise ValueError("Python's own ways to write a number")
        return int(text) if kind == "NUMBER_INTEGER" else float(text)
    if kind == "BOOLEAN":
        return {"true": True, "false": False}.get(text.lower())
    return json.loads(text) if kind in ("LIST", "STRUCT") else text
