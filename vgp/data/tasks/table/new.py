"""Proposes a task.toml for a table.

python -m vgp.steps table titanic.csv --target survived --out titanic.toml
"""

import os
import shlex
from dataclasses import asdict
from pathlib import Path
from typing import Any

from vgp.base.exits import UserError, exits
from vgp.data.tasks.table import proposal, sample, written
from vgp.data.tasks.table.proposal import Asked
from vgp.data.tasks.table.task import Table

#: From so many rows on the default batch and epochs take enough steps; of fewer so many in all, and an epoch, about.
ENOUGH_ROWS, STEPS, STEPS_PER_EPOCH = 100_000, 1_000, 50


@exits
def new(data: str, out: str = "task.toml", *, force: bool = False, **asked: Any) -> dict[str, Any]:
    """Writes the task.toml of a table; returns what it says, and why.

    Args:
        data: As for a run: files, folders, globs, gs://, separated by commas.
        out: The file to write.
        force: Whether a file that is there is replaced.
        asked: As of `Asked`.
    """
    path = Path(out)
    _refuse_occupied(path, force)
    rows = sample.read(data)
    if not asked.get("target"):
        raise UserError(proposal.columns(rows))
    made = proposal.propose(rows, Asked(**asked))
    text = written.text(made)
    Table({"declaration": text})  # what is wrong with it is said before it is written
    _write(path, text)
    return told(made, data, out)


def told(made: proposal.Proposal, data: str, out: str) -> dict[str, Any]:
    """What was decided, as JSON."""
    goal = made.target
    return {
        "file": out,
        "data": data,
        "rows": made.sample.rows.num_rows,
        "whole": made.sample.whole,
        "looked": made.sample.words,
        "target": goal.name,
        "kind": "regression" if goal.regression else "classes",
        "classes": list(goal.classes),
        "why": goal.why,
        "columns": [asdict(column) for column in made.columns],
        "missing": list(made.missing),
        "next": f"vgp run training --set task={shlex.quote(out)} --set data={shlex.quote(data)}{_pace(made)}",
    }


def _pace(made: proposal.Proposal) -> str:
    """What a small table needs beside the defaults, which are those of a large one: more and smaller steps."""
    rows = made.sample.rows.num_rows
    if not made.sample.whole or rows >= ENOUGH_ROWS:
        return ""
    batch = max(16, 1 << (rows // STEPS_PER_EPOCH).bit_length())
    epochs = max(3, min(100, STEPS * batch // rows))
    return f" --set global_batch_size={batch} --set epochs={epochs}"


def show(result: dict[str, Any]) -> None:
    """The same as text, without a terminal's means."""
    for column in result["columns"]:
        print(f"{column['name']}\t{column['type']}\t{column['role']}\t{column['why']}")
    print(f"wrote {result['file']}; next: {result['next']}")


def _refuse_occupied(path: Path, force: bool) -> None:
    if path.suffix != ".toml":
        raise UserError(f"--out {path}: the name must end in .toml, so that task={path} is known to be a file.")
    if not path.parent.is_dir():
        raise UserError(f"--out {path}: there is no folder {path.parent}.")
    if path.is_dir():
        raise UserError(f"--out {path} is a folder.")
    if path.exists() and not force:
        raise UserError(f"{path} is there already: give another --out, or --force to replace it.")


def _write(path: Path, text: str) -> None:
    """All of it or nothing."""
    part = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        part.write_text(text, encoding="utf-8")
        part.replace(path)
    except OSError as error:
        raise UserError(f"{path} cannot be written: {error.strerror or error}.") from None
    finally:
        part.unlink(missing_ok=True)
