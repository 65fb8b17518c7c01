"""Proposes a task.toml for a table.

python -m vgp.steps table titanic.csv --target survived --out titanic.toml
"""

import json
import re
import shlex
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from vgp.base.documents.json_text import JsonObject
from vgp.base.exits import UserError, exits
from vgp.base.storage import files
from vgp.data.tasks.table import proposal, sample
from vgp.data.tasks.table.proposal import Asked, Column, Proposal
from vgp.data.tasks.table.task import Table

#: From so many rows on the default batch and epochs take enough steps; of fewer so many in all, and an epoch, about.
ENOUGH_ROWS, STEPS, STEPS_PER_EPOCH = 100_000, 1_000, 50


@exits
def new(data: str, out: str = "task.toml", *, force: bool = False, **asked: Any) -> JsonObject:
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
    text = proposal_text(made)
    Table({"declaration": text})  # what is wrong with it is said before it is written
    _write(path, text)
    return told(made, data, out)


def told(made: proposal.Proposal, data: str, out: str) -> JsonObject:
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


def show(result: JsonObject) -> None:
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
    try:
        files.write(path, text)
    except OSError as error:
        raise UserError(f"{path} cannot be written: {error.strerror or error}.") from None


# ---- a proposal as the text of a task.toml, which a person reads in a minute


_BARE = re.compile(r"[A-Za-z0-9_-]+")
#: Names are padded up to this width, so that types stand below each other.
_WIDTH = 24


def proposal_text(proposal: Proposal) -> str:
    """The text, which holds no path: the same table gives the same one, wherever it lies."""
    return "\n".join([*_top(proposal), *_columns(proposal), *_ignored(proposal), *_tables(proposal)]) + "\n"


def _top(proposal: Proposal) -> Iterator[str]:
    goal, sample = proposal.target, proposal.sample
    yield f"# Proposed from {sample.words}: change what is wrong. Every value is checked when all is read."
    yield "# To run it: vgp run training --set task=THIS_FILE --set data=FILES"
    yield ""
    yield f"target = {quoted(goal.name)}"
    yield f'kind = "{"regression" if goal.regression else "classes"}"  # {plain(goal.why)}'
    if goal.regression:
        yield "quantiles = [0.1, 0.5, 0.9]"
        yield 'decided_by = "pinball"  # what a new model must do better: pinball, squared or absolute'
    else:
        yield f"classes = {_list(goal.classes)}"
    if proposal.left_out:
        yield f"left_out = {_list(proposal.left_out)}  # classes whose rows are left out"
    for name, value, why in (
        ("key", list(proposal.key), "names the rows"),
        ("time", proposal.time, "when a row's outcome is not known yet; later rows test"),
        ("group", *_group(proposal)),
        ("slices", list(proposal.slices), "figures are also told by these"),
        ("missing", list(proposal.missing), "these stand for a missing value, as an empty field does"),
    ):
        if value:
            yield f"{name} = {_list(value) if isinstance(value, list) else quoted(value)}  # {why}"


def _group(proposal: Proposal) -> tuple[str | list[str], str]:
    """What rows share, and why. Days are named although they are the default, so that a person sees them."""
    if proposal.group == "row":
        return "row", "every row counts by itself, as asked for"
    if not proposal.time:
        return (
            proposal.group,
            'its rows stay in one split, so the figures are those of new ones; "row": every row by itself',
        )
    why = 'rows of one day share what it brings, so the decision counts days of the time; "row": all rows by themselves'
    if proposal.group in ("", "day"):
        return "day", why
    return [
        "day",
        proposal.group,
    ], "what rows share: the day of the time, and what they belong to; the decision counts both"


def _columns(proposal: Proposal) -> Iterator[str]:
    yield ""
    yield "[columns]"
    for column in proposal.of_role("target", "key", "time", "group", "learned"):
        role = "" if column.role == "learned" else column.role
        yield _line(column, role or column.why)


def _ignored(proposal: Proposal) -> Iterator[str]:
    columns = proposal.of_role("leak", "ignored")
    if columns:
        yield ""
        yield "[ignored]  # not read; to learn from a column move its line up, and what leaks into trusted too"
        yield from (_line(column, column.why) for column in columns)


def _tables(proposal: Proposal) -> Iterator[str]:
    if proposal.repeats:
        yield ""
        yield "[repeats]  # what the report says of columns whose values come again"
        yield from (f"{key(name)} = {quoted(words)}" for name, words in proposal.repeats.items())
    yield ""
    if proposal.time:
        yield "[split]  # windows of time: as lengths, 2013-01:2013-06, 2013-W27, ..."
        yield f'test = "{proposal.split.test}"  # the end of the data tests, what is before it trains'
        yield "validation_share = 0.05  # of the days that train"
    else:
        yield "[split]  # by a hash: the same rows every time"
        yield "test_share = 0.2"
        yield "validation_share = 0.05"
    yield ""
    yield "[network]"
    yield "hidden = [256, 128]"
    yield "dropout = 0.1"
    yield "rare = 10  # values of a category that fewer training rows have share one embedding"
    reading = {"separator": proposal.sample.reading.separator, "encoding": proposal.sample.reading.encoding}
    told = {name: value for name, value in reading.items() if value}
    if told:
        yield ""
        yield "[reading]"
        yield from (f"{name} = {quoted(value)}" for name, value in told.items())


def _line(column: Column, why: str) -> str:
    written = f"{key(column.name):{min(_WIDTH, max(12, len(column.name)))}} = {quoted(column.type)}"
    return f"{written}  # {plain(why)}" if why else written


def key(name: str) -> str:
    return name if _BARE.fullmatch(name) else quoted(name)


def quoted(value: str) -> str:
    """A basic string of TOML: of JSON's, but for DEL, which TOML escapes too."""
    return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007F")


def _list(values: Sequence[str]) -> str:
    return f"[{', '.join(map(quoted, values))}]"


def plain(text: str) -> str:
    """For a comment: in one line, without control characters."""
    return "".join(letter if letter.isprintable() else " " for letter in text)
