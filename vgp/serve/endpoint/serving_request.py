"""What is served, and where: arguments, and the variables that Vertex AI sets in a container.

https://cloud.google.com/vertex-ai/docs/predictions/custom-container-requirements#aip-variables
"""

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from vgp.base.exits import UserError
from vgp.base.text.printable import quoted

#: A dedicated endpoint of Vertex AI takes no larger request; a shared one refuses those above 1.5 MB itself.
#: https://cloud.google.com/vertex-ai/docs/predictions/choose-endpoint-type
MOST_MB = 10.0
PORT, HERE, EVERYWHERE = 8080, "127.0.0.1", "0.0.0.0"


@dataclass(frozen=True)
class Request:
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
) -> Request:
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
    return Request(
        where.rstrip("/"),
        name,
        version,
        task,
        dict(_checksum(text) for text in sha256),
        host or (EVERYWHERE if "AIP_HTTP_PORT" in environment else HERE),
        _port(port if port is not None else environment.get("AIP_HTTP_PORT", PORT)),
        _route(environment, "AIP_PREDICT_ROUTE", Request.predict),
        _route(environment, "AIP_HEALTH_ROUTE", Request.health),
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
