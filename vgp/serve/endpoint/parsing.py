"""The body of a prediction request -> rows, or what is wrong about it in words.

{"instances": [{"column": value, ...}, ...], "parameters": {"history": [{...}, ...]}}
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from vgp.base.exits import UserError
from vgp.base.text.printable import quoted

#: What curl, browsers and plain clients say of a body when nobody told them what it is.
UNTOLD = ("", "application/x-www-form-urlencoded", "text/plain", "application/octet-stream")
EXAMPLE = '{"instances": [{"column": value, ...}, ...]}'


@dataclass(frozen=True)
class Question:
    """Rows to predict, and the rows before them that a task may look back on."""

    rows: list[dict[str, Any]]
    history: list[dict[str, Any]] | None = None


def not_json(content_type: str, encoding: str) -> str:
    """Why a body of these two headers is not read, in words; "" where it may be JSON.

    A raw prediction of Vertex AI brings whatever headers its sender gave.
    """
    media = content_type.partition(";")[0].strip().lower()
    if encoding.strip().lower() not in ("", "identity"):
        return f"the body has Content-Encoding {quoted(encoding)}: send it as it is, not compressed."
    if media in UNTOLD or media.endswith(("/json", "+json")):
        return ""
    return f"the body has Content-Type {quoted(content_type)}: send application/json, {EXAMPLE}."


def question(body: bytes) -> Question:
    """What a request asks.

    Raises:
        UserError: the body is no such JSON, with the field.
    """
    given = _json(body)
    _require_keys(given, ("instances", "parameters"), "the request")
    if "instances" not in given:
        raise UserError(f"the request has no instances. Send {EXAMPLE}.")
    parameters = given.get("parameters") or {}
    if not isinstance(parameters, dict):
        raise UserError('parameters: an object, such as {"history": [...]}.')
    _require_keys(parameters, ("history",), "parameters")
    history = parameters.get("history")
    return Question(
        _rows(given["instances"], "instances"), None if history is None else _rows(history, "parameters.history")
    )


def _json(body: bytes) -> dict[str, Any]:
    try:
        given = json.loads(body, parse_constant=_no_number)
    except (ValueError, RecursionError) as error:
        told = "it is nested too deeply" if isinstance(error, RecursionError) else str(error)
        raise UserError(f"the body is no JSON: {told[:200]}. Send {EXAMPLE}.") from None
    if not isinstance(given, dict):
        raise UserError(f"the body is no JSON object. Send {EXAMPLE}.")
    return given


def _no_number(text: str) -> float:
    raise ValueError(f"{text} is no JSON; a missing value is null")


def _require_keys(given: Mapping[str, Any], known: tuple[str, ...], where: str) -> None:
    if other := sorted(set(given) - set(known)):
        raise UserError(f"{where} has {quoted(other[0])}; it may have {' and '.join(known)}.")


def _rows(value: Any, where: str) -> list[dict[str, Any]]:
    if not isinstance(value, list):
        raise UserError(f"{where}: a list of objects, one for each row.")
    for number, row in enumerate(value):
        if not isinstance(row, dict):
            raise UserError(f'{where}[{number}]: an object with the row\'s values by column, such as {{"column": 1}}.')
        if not row:
            raise UserError(f"{where}[{number}] has no values.")
    return value
