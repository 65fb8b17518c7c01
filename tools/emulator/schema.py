"""Checks a JSON body by the message of a discovery document, with the errors of Google's front end.

Required and output-only fields are those that the document describes as such.
"""

import re
from functools import lru_cache
from typing import Any

from .discovery import Document
from .errors import ApiError, bad_request

INTEGER = re.compile(r"-?\d+")


@lru_cache(maxsize=4096)
def snake(name: str) -> str:
    return re.sub(r"(?<=[a-z0-9])([A-Z])", lambda m: "_" + m[1].lower(), name)


def camel(name: str) -> str:
    return re.sub(r"_([a-z0-9])", lambda m: m[1].upper(), name)


def message_field(name: str) -> str:
    """Returns the request's field with the body: pipeline_job for GoogleCloudAiplatformV1PipelineJob."""
    short = re.sub(r"^Google\w*?V\d+(beta\d+)?(?=[A-Z])", "", name)
    return snake(short[0].lower() + short[1:])


class Reader:
    """A reader of one JSON value; `violations` are (field, description)."""

    def __init__(self, document: Document, *, answer: bool = False):
        self.schemas = document.schemas
        #: Whether the value is an answer, which may have output-only fields.
        self.answer = answer
        self.violations: list[tuple[str, str]] = []
        self.missing: list[str] = []

    def read(self, schema: dict[str, Any], value: Any, where: str) -> Any:
        """Returns the value with the document's field names, without output-only fields."""
        if "$ref" in schema:
            schema = self.schemas[schema["$ref"]]
        kind = schema["type"]
        if kind == "any" or value is None:
            return value
        if kind == "object":
            return self.read_object(schema, value, where)
        if kind == "array":
            if not isinstance(value, list):
                return self.wrong(where, value, "ARRAY")
            return [self.read(schema["items"], item, f"{where}[{i}]") for i, item in enumerate(value)]
        return self.read_scalar(schema, kind, value, where)

    def read_object(self, schema: dict[str, Any], value: Any, where: str) -> Any:
        if not isinstance(value, dict):
            return self.wrong(where, value, "OBJECT")
        if "properties" not in schema:
            values = schema.get("additionalProperties", {"type": "any"})
            return {key: self.read(values, item, f"{where}['{key}']") for key, item in value.items()}
        properties, kept = schema["properties"], {}
        for key, item in value.items():
            name = key if key in properties else camel(key)
            if name not in properties:
                at = f" at '{where}'" if where else ""
                text = f'Invalid JSON payload received. Unknown name "{key}"{at}: Cannot find field.'
                self.violations.append((where, text))
            elif self.answer or not properties[name].get("readOnly"):
                kept[name] = self.read(properties[name], item, f"{where}.{snake(name)}".lstrip("."))
        for name, part in properties.items():
            if part.get("description", "").startswith("Required.") and kept.get(name) in (None, "", [], {}):
                self.missing.append(f"{where}.{snake(name)}".lstrip("."))
        return kept

    def read_scalar(self, schema: dict[str, Any], kind: str, value: Any, where: str) -> Any:
        number = isinstance(value, int | float) and not isinstance(value, bool)
        if "enum" in schema:
            ok = value in schema["enum"] or (number and int(value) == value and value >= 0)
            return value if ok else self.wrong(where, value, "ENUM")
        if kind == "boolean":
            return value if isinstance(value, bool) else self.wrong(where, value, "BOOL")
        if kind == "integer" or schema.get("format") in ("int64", "uint64"):
            ok = number and int(value) == value or (isinstance(value, str) and INTEGER.fullmatch(value))
            return value if ok else self.wrong(where, value, schema.get("format", "int32").upper())
        if kind == "number":
            return value if number or value in ("NaN", "Infinity", "-Infinity") else self.wrong(where, value, "DOUBLE")
        return value if isinstance(value, str) else self.wrong(where, value, "STRING")

    def wrong(self, where: str, value: Any, kind: str) -> None:
        shown = f'"{value}"' if isinstance(value, str) else value
        self.violations.append((where, f"Invalid value at '{where}' (TYPE_{kind}), {shown}"))


def read_body(document: Document, schema: str, body: Any, where: str, *, complete: bool = True) -> dict[str, Any]:
    """Returns the body of a request. `complete`: required fields must be set, as in every request but an update.

    Raises:
        ApiError: 400, with every violation.
    """
    reader = Reader(document)
    value = reader.read({"$ref": schema}, body, where)
    if reader.violations:
        raise bad_request(reader.violations, "\n".join(text for _, text in reader.violations))
    if reader.missing and complete:
        found = "".join(
            f"{i}.Field: {name}; Message: Required field is not set.\t" for i, name in enumerate(reader.missing, 1)
        )
        violations = [(name, "Required field is not set.") for name in reader.missing]
        raise bad_request(violations, f"List of found errors:\t{found}")
    return value


def check_query(parameters: dict[str, dict[str, Any]], common: dict[str, Any], query: dict[str, list[str]]) -> None:
    """Raises:
    ApiError: 400 for an unknown parameter, or a value of another type.
    """
    for name, values in query.items():
        known = parameters.get(name) or common.get(name.removeprefix("$"))
        if known is None or known.get("location") == "path":
            text = (
                f'Invalid JSON payload received. Unknown name "{name}": Cannot bind query parameter. '
                f"Field '{name}' could not be found in request message."
            )
            raise bad_request([("", text)], text)
        if name in parameters:
            for value in values:
                check_parameter(name, known, value)
    for name, known in parameters.items():
        required = known.get("required") or known.get("description", "").startswith("Required.")
        if required and known["location"] == "query" and not query.get(name):
            raise bad_request(
                [(snake(name), "Required field is not set.")], f"{snake(name)}: Required field is not set."
            )


def check_parameter(name: str, known: dict[str, Any], value: str) -> None:
    wrong = (
        (known["type"] == "integer" and not INTEGER.fullmatch(value))
        or (known["type"] == "boolean" and value.lower() not in ("true", "false"))
        or ("enum" in known and value not in known["enum"] and not INTEGER.fullmatch(value))
    )
    if wrong:
        text = f"Invalid value at '{snake(name)}' (TYPE_{known.get('format', known['type']).upper()}), \"{value}\""
        raise bad_request([(snake(name), text)], text)


def check_answer(document: Document, schema: str, answer: Any) -> None:
    """Raises an error if an answer of this server does not match the document."""
    reader = Reader(document, answer=True)
    reader.read({"$ref": schema}, answer, "answer")
    if reader.violations:
        raise ApiError(500, f"the loopback cloud answers what no {schema} is: {reader.violations}")
