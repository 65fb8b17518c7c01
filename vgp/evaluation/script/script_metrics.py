"""`metrics.json`, as a script leaves it: an object of names and numbers, nothing nested."""

import json
import math
from collections.abc import Mapping
from typing import Any

from vgp.base import strict
from vgp.base.exits import UserError
from vgp.base.storage import storage
from vgp.base.text.printable import quoted
from vgp.evaluation.script.collected import Launched

FILE_NAME = "metrics.json"
#: The console shows a handful; a curve belongs into TensorBoard's logs.
MOST_METRICS = 200
MOST_LETTERS = 100
MOST_BYTES = 1 << 20


def read(path: str) -> dict[str, float]:
    """The numbers of the file, by name, in its order.

    Raises:
        UserError: it is too large, no JSON, or holds something else than finite numbers.
    """
    text = storage.read(path, most=MOST_BYTES, links=False)
    try:
        told = json.loads(text, object_pairs_hook=_members, parse_constant=_no_constant, parse_int=_number)
    except RecursionError:
        raise _refused(path, "it is nested too deeply") from None
    except ValueError as error:
        raise _refused(path, str(error) or "it is no JSON") from None
    if not isinstance(told, dict):
        raise _refused(path, f"it holds {_kind(told)}, not an object of names and numbers")
    if len(told) > MOST_METRICS:
        raise _refused(path, f"it holds {len(told):,} metrics, and may hold {MOST_METRICS}")
    return {_name(path, name): _figure(path, name, value) for name, value in told.items()}


def _figure(path: str, name: str, value: object) -> float:
    if isinstance(value, dict | list):
        raise _refused(path, f"{quoted(name)} holds {_kind(value)}, and nothing may be nested: val_loss in place of "
                             "val: {loss}")  # fmt: skip
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise _refused(path, f"{quoted(name)} is {_kind(value)}, not a number")
    if not math.isfinite(value):
        raise _refused(path, f"{quoted(name)} is larger than a number can be")
    return value


def _name(path: str, name: str) -> str:
    if not name.strip() or not name.isprintable() or len(name) > MOST_LETTERS:
        rule = f"a name is printable text of at most {MOST_LETTERS} letters"
        raise _refused(path, f"{quoted(name)} names a metric, and {rule}")
    return name


def _members(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    members: dict[str, Any] = {}
    for name, value in pairs:
        if name in members:
            raise ValueError(f"{quoted(name)} is given twice")
        members[name] = value
    return members


def _no_constant(name: str) -> None:
    raise ValueError(f"it holds {name}, which is not JSON and no figure: leave the metric out, or mend the training")


def _number(digits: str) -> float:
    """A whole number as it is, as long as a double holds it."""
    if len(digits) > 300:
        return math.inf
    return int(digits)


def _kind(value: object) -> str:
    kinds = {dict: "an object", list: "a list", str: "text", bool: "true or false", type(None): "null"}
    return kinds.get(type(value), "a number")


def _refused(path: str, what: str) -> UserError:
    return UserError(f'{storage.plain(path)}: {what}. It holds numbers by name: {{"loss": 0.31, "accuracy": 0.9}}.')


# ---- `script.json`: what ran in place of our training, as the launching text wrote it down; for people only


LAUNCHED_FILE_NAME = "script.json"
MOST_LAUNCHED_BYTES = 1 << 20


def read_launched(folder: str) -> Launched:
    """What the file in the folder tells; what it lacks is left empty, also if it is no such file."""
    try:
        told = strict.loads(
            storage.read(f"{storage.uri(folder)}/{LAUNCHED_FILE_NAME}", most=MOST_LAUNCHED_BYTES, links=False)
        )
    except (UserError, ValueError):
        return Launched()
    return _launched(told) if isinstance(told, dict) else Launched()


def _launched(told: Mapping[str, Any]) -> Launched:
    command = told.get("command")
    seconds = told.get("seconds")
    return Launched(
        command=tuple(map(str, command)) if isinstance(command, list) else (),
        launch=_text(told.get("launch")),
        nodes=_count(told.get("nodes")),
        processes=_count(told.get("processes")),
        seconds=float(seconds) if isinstance(seconds, int | float) and 0 <= seconds < 1e9 else None,
        checkpoints=_text(told.get("checkpoint_folder")),
        warnings=tuple(map(str, warnings)) if isinstance(warnings := told.get("warnings"), list) else (),
    )


def _text(value: object) -> str:
    return value if isinstance(value, str) else ""


def _count(value: object) -> int:
    return value if isinstance(value, int) and 0 <= value < 1_000_000 else 0
