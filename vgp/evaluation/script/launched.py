"""`script.json`: what ran in place of our training, as the launching text wrote it down; for people only."""

from collections.abc import Mapping
from typing import Any

from vgp.base import strict
from vgp.base.exits import UserError
from vgp.base.storage import storage
from vgp.evaluation.script.collected import Launched

FILE_NAME = "script.json"
MOST_BYTES = 1 << 20


def read(folder: str) -> Launched:
    """What the file in the folder tells; what it lacks is left empty, also if it is no such file."""
    try:
        told = strict.loads(storage.read(f"{storage.uri(folder)}/{FILE_NAME}", most=MOST_BYTES, links=False))
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
