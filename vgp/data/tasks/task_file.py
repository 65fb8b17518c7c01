"""`task=titanic.toml`: a file on this machine, whose text goes on in its place."""

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from vgp.base.exits import UserError
from vgp.base.text.printable import quoted

ENDING = ".toml"


def is_file(task: str) -> bool:
    """Whether the name of a task is that of a file."""
    return task.strip().endswith(ENDING)


def options(task: str, given: Mapping[str, Any], folder: str | Path = "") -> dict[str, Any]:
    """The options of the task `table` that a file stands for: its text, and those that were given beside it.

    Args:
        folder: What a relative path is relative to; "" = the current folder.

    Raises:
        UserError: there is no such file, it cannot be, or the options hold a declaration already.
    """
    from vgp.data.tasks.table.parsing import MOST_BYTES, parse

    path = Path(folder) / os.path.expanduser(task.strip())
    if "declaration" in given:
        raise UserError(f"task = {task} and task_options.declaration both say what the table is: give one of them.")
    try:
        with path.open("rb") as file:
            data = file.read(MOST_BYTES + 1)
        text = data.decode("utf-8-sig") if len(data) <= MOST_BYTES else data.decode(errors="replace")
    except FileNotFoundError:
        raise UserError(_absent(task, path)) from None
    except UnicodeDecodeError as error:
        raise UserError(f"task = {task}: the file is not UTF-8 text: {error.reason} at byte {error.start}.") from None
    except OSError as error:
        raise UserError(f"task = {task}: {error.strerror or error}.") from None
    parse(text, task.strip())
    return {**given, "declaration": text}


def _absent(task: str, path: Path) -> str:
    there = sorted(file.name for file in path.parent.glob(f"*{ENDING}")) if path.parent.is_dir() else []
    near = f" There is {', '.join(there[:5])}." if there else ""
    return (
        f"task = {task}: there is no such file in {quoted(str(path.parent.absolute()))}.{near} To have one written: "
        "vgp new table DATA --target COLUMN."
    )
