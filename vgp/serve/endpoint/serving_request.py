"""The configuration of the server, from arguments and the variables of Vertex AI, and the parser of request bodies.

https://cloud.google.com/vertex-ai/docs/predictions/custom-container-requirements#aip-variables
"""

import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from vgp.base.documents.json_text import JsonObject
from vgp.base.exits import UserError
from vgp.base.text.printable import quote

# ---- the body of a prediction request

# {"instances": [{"column": value, ...}, ...], "parameters": {"history": [{...}, ...]}}

#: Default content types of curl, browsers and other clients.
UNTOLD = ("", "application/x-www-form-urlencoded", "text/plain", "application/octet-stream")
EXAMPLE = '{"instances": [{"column": value, ...}, ...]}'


@dataclass(frozen=True)
class Question:
    """The rows to predict, and earlier rows as history."""

    rows: list[JsonObject]
    history: list[JsonObject] | None = None


def not_json(content_type: str, encoding: str) -> str:
    """Returns the reason to refuse a body with these headers, or "" if it may be JSON.

    A raw prediction of Vertex AI passes on the headers of its client.
    """
    media = content_type.partition(";")[0].strip().lower()
    if encoding.strip().lower() not in ("", "identity"):
        return f"the body has Content-Encoding {quote(encoding)}: send it uncompressed."
    if media in UNTOLD or media.endswith(("/json", "+json")):
        return ""
    return f"the body has Content-Type {quote(content_type)}: send application/json, {EXAMPLE}."


def question(body: bytes) -> Question:
    """Parses the body of a request.

    Raises:
        UserError: The body is invalid; names the field.
    """
    content = _parse_json(body)
    _require_keys(content, ("instances", "parameters"), "the request")
    if "instances" not in content:
        raise UserError(f"the request has no instances. Send {EXAMPLE}.")
    parameters = content.get("parameters") or {}
    if not isinstance(parameters, dict):
        raise UserError('parameters must be an object, such as {"history": [...]}.')
    _require_keys(parameters, ("history",), "parameters")
    history = parameters.get("history")
    return Question(
        _check_rows(content["instances"], "instances"),
        None if history is None else _check_rows(history, "parameters.history"),
    )


def _parse_json(body: bytes) -> JsonObject:
    try:
        content = json.loads(body, parse_constant=_refuse_constant)
    except (ValueError, RecursionError) as error:
        fault = "it is nested too deeply" if isinstance(error, RecursionError) else str(error)
        raise UserError(f"the body is not JSON: {fault[:200]}. Send {EXAMPLE}.") from None
    if not isinstance(content, dict):
        raise UserError(f"the body is not a JSON object. Send {EXAMPLE}.")
    return content


def _refuse_constant(text: str) -> float:
    raise ValueError(f"{text} is not JSON; a missing value is null")


def _require_keys(content: JsonObject, known: tuple[str, ...], where: str) -> None:
    if other := sorted(set(content) - set(known)):
        raise UserError(f"{where} has {quote(other[0])}; allowed: {' and '.join(known)}.")


def _check_rows(value: object, where: str) -> list[JsonObject]:
    if not isinstance(value, list):
        raise UserError(f"{where} must be a list of objects, one for each row.")
    for number, row in enumerate(value):
        if not isinstance(row, dict):
            raise UserError(
                f'{where}[{number}] must be an object with the row\'s values by column, such as {{"column": 1}}.'
            )
        if not row:
            raise UserError(f"{where}[{number}] has no values.")
    return value


#: The limit of a dedicated endpoint of Vertex AI; a shared one refuses requests above 1.5 MB itself.
#: https://cloud.google.com/vertex-ai/docs/predictions/choose-endpoint-type
MOST_MB = 10.0
PORT, HERE, EVERYWHERE = 8080, "127.0.0.1", "0.0.0.0"


@dataclass(frozen=True)
class ServingRequest:
    """The configuration of `python -m vgp.steps serve`."""

    #: Folder of the model, local or gs://.
    model: str
    #: The model's name and version in the registry; "" = not registered.
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
    """Returns the configuration: for each value the argument, else Vertex AI's variable, else the default.

    Raises:
        UserError: No model is given, or a value is invalid.
    """
    if not (where := model or environment.get("AIP_STORAGE_URI", "")):
        raise UserError(
            "no model is given. Run python -m vgp.steps serve FOLDER with the folder of model.json, local or gs://. On "
            "Vertex AI, the variable AIP_STORAGE_URI names it."
        )
    if not 0 < max_request_mb <= 1000:
        raise UserError(f"--max-request-mb {max_request_mb:g}: must be above 0 and at most 1000 megabytes.")
    return ServingRequest(
        where.rstrip("/"),
        name,
        version,
        task,
        dict(_parse_checksum(text) for text in sha256),
        host or (EVERYWHERE if "AIP_HTTP_PORT" in environment else HERE),
        _check_port(port if port is not None else environment.get("AIP_HTTP_PORT", PORT)),
        _read_route(environment, "AIP_PREDICT_ROUTE", ServingRequest.predict),
        _read_route(environment, "AIP_HEALTH_ROUTE", ServingRequest.health),
        round(max_request_mb * 1e6),
    )


def _check_port(value: int | str) -> int:
    try:
        number = int(value)
    except ValueError:
        number = -1
    if not 0 <= number <= 65535:
        raise UserError(f"port {quote(str(value))}: must be a number from 1 to 65535, or 0 for any free port.")
    return number


def _read_route(environment: Mapping[str, str], variable: str, default: str) -> str:
    route = environment.get(variable) or default
    if not route.startswith("/") or set("{}?# ") & set(route):
        raise UserError(f"{variable}={quote(route)}: must be a path that begins with /, such as {default}.")
    return route


def _parse_checksum(text: str) -> tuple[str, str]:
    file, equals, digest = text.rpartition("=")
    if not equals or len(digest) != 64 or set(digest) - set("0123456789abcdef"):
        raise UserError(f"--sha256 {quote(text)}: give it as FILE=SHA256, 64 hexadecimal digits.")
    return file, digest
