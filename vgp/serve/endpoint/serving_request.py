"""What is served and where, from arguments and the variables of Vertex AI; and the rows that a request asks about.

https://cloud.google.com/vertex-ai/docs/predictions/custom-container-requirements#aip-variables
"""

import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from vgp.base.documents.json_text import JsonObject
from vgp.base.exits import UserError
from vgp.base.text.printable import quoted

# ---- the body of a prediction request -> rows, or what is wrong about it in words

# {"instances": [{"column": value, ...}, ...], "parameters": {"history": [{...}, ...]}}

#: What curl, browsers and plain clients say of a body when nobody told them what it is.
UNTOLD = ("", "application/x-www-form-urlencoded", "text/plain", "application/octet-stream")
EXAMPLE = '{"instances": [{"column": value, ...}, ...]}'


@dataclass(frozen=True)
class Question:
    """Rows to predict, and the rows before them that a task may look back on."""

    rows: list[JsonObject]
    history: list[JsonObject] | None = None


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


def _json(body: bytes) -> JsonObject:
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


def _require_keys(given: JsonObject, known: tuple[str, ...], where: str) -> None:
    if other := sorted(set(given) - set(known)):
        raise UserError(f"{where} has {quoted(other[0])}; it may have {' and '.join(known)}.")


def _rows(value: object, where: str) -> list[JsonObject]:
    if not isinstance(value, list):
        raise UserError(f"{where}: a list of objects, one for each row.")
    for number, row in enumerate(value):
        if not isinstance(row, dict):
            raise UserError(f'{where}[{number}]: an object with the row\'s values by column, such as {{"column": 1}}.')
        if not row:
            raise UserError(f"{where}[{number}] has no values.")
    return value


#: A dedicated endpoint of Vertex AI takes no larger request; a shared one refuses those above 1.5 MB itself.
#: https://cloud.google.com/vertex-ai/docs/predictions/choose-endpoint-type
MOST_MB = 10.0
PORT, HERE, EVERYWHERE = 8080, "127.0.0.1", "0.0.0.0"


@dataclass(frozen=True)
class ServingRequest:
    """What `python -m vgp.steps serve` is asked for."""

    #: Folder of the model, here or gs://.
    model: str
    #: How the registry calls the model, and the version's number; "" = it is of no registry.
    name: str = ""
    version: str = ""
    #: `module:Class` of a task that does not ship.
    task: str = ""
    #: Expected SHA-256 by file, in hexadecimal.
    sha256: Mapping[str, str] = field(default_factory=dict)
    host: str = HERE
    port: int = PORT
    predict: str = "/predict"
    health: str = "/health"
    most_bytes: int = round(MOST_MB * 1e6)


def request(
    model: str = "",
    *,
    name: str = "",
    version: str = "",
    task: str = "",
    sha256: Sequence[str] = (),
    host: str = "",
    port: int | None = None,
    max_request_mb: float = MOST_MB,
    environment: Mapping[str, str] = os.environ,
) -> ServingRequest:
    """What is asked for: an argument, else Vertex AI's variable, else what suits a laptop.

    Raises:
        UserError: no model is given, or a value is none of its kind.
    """
    if not (where := model or environment.get("AIP_STORAGE_URI", "")):
        raise UserError(
            "no model is given: python -m vgp.steps serve FOLDER, the folder with model.json, here or gs://. On Vertex "
            "AI the variable AIP_STORAGE_URI names it."
        )
    if not 0 < max_request_mb <= 1000:
        raise UserError(f"--max-request-mb {max_request_mb:g}: megabytes above 0, at most 1000.")
    return ServingRequest(
        where.rstrip("/"),
        name,
        version,
        task,
        dict(_checksum(text) for text in sha256),
        host or (EVERYWHERE if "AIP_HTTP_PORT" in environment else HERE),
        _port(port if port is not None else environment.get("AIP_HTTP_PORT", PORT)),
        _route(environment, "AIP_PREDICT_ROUTE", ServingRequest.predict),
        _route(environment, "AIP_HEALTH_ROUTE", ServingRequest.health),
        round(max_request_mb * 1e6),
    )


def _port(given: int | str) -> int:
    try:
        number = int(given)
    except ValueError:
        number = -1
    if not 0 <= number <= 65535:
        raise UserError(f"port {quoted(str(given))}: a number from 1 to 65535, or 0 for any that is free.")
    return number


def _route(environment: Mapping[str, str], variable: str, default: str) -> str:
    route = environment.get(variable) or default
    if not route.startswith("/") or set("{}?# ") & set(route):
        raise UserError(f"{variable}={quoted(route)}: a path that begins with /, such as {default}.")
    return route


def _checksum(text: str) -> tuple[str, str]:
    file, equals, digest = text.rpartition("=")
    if not equals or len(digest) != 64 or set(digest) - set("0123456789abcdef"):
        raise UserError(f"--sha256 {quoted(text)}: give it as FILE=SHA256, 64 hexadecimal digits.")
    return file, digest
