"""JSON that someone else may have written: held to a model, and refused where readers could differ in what it says."""

import json
from typing import Any, TypeVar

from pydantic import BaseModel, ValidationError

Model = TypeVar("Model", bound=BaseModel)


def parse(model: type[Model], text: bytes) -> Model:
    """The object that the text describes.

    Raises:
        ValueError: in one line: it is no JSON, not of the model, nested too deeply, or gives a key twice.
    """
    try:
        parsed = model.model_validate_json(text)
    except ValidationError as error:
        raise ValueError("; ".join(map(_sentence, error.errors()[:3]))) from None
    loads(text)
    return parsed


def loads(text: bytes) -> Any:
    """As json.loads; ValueError also for a key that is given twice, or for too deep a nesting."""
    try:
        return json.loads(text, object_pairs_hook=_unique)
    except RecursionError:
        raise ValueError("it is nested too deeply") from None


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    members = dict(pairs)
    if len(members) < len(pairs):
        raise ValueError("a key is given twice")
    return members


def _sentence(problem: Any) -> str:
    """Such as `history.2.loss: Input should be a valid number`."""
    where = ".".join(map(str, problem["loc"]))
    return f"{where}: {problem['msg']}" if where else str(problem["msg"])
