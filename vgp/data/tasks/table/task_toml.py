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
from vgp.data.tasks.table.proposal import Column, Proposal, ProposalRequest
from vgp.data.tasks.table.task import Table

#: Below `ENOUGH_ROWS` the default batch size and epochs make too few steps: aim at these totals instead.
ENOUGH_ROWS, STEPS, STEPS_PER_EPOCH = 100_000, 1_000, 50


@exits
def write_proposal(data: str, out: str = "task.toml", *, force: bool = False, **asked: Any) -> JsonObject:
    """Writes the task.toml of a table and returns a summary of the proposal as JSON.

    Args:
        data: Files, folders, globs and gs:// addresses, separated by commas.
        out: The file to write.
        force: Whether to replace an existing file.
        asked: The fields of `ProposalRequest`.

    Raises:
        UserError: the target is missing, the table is ambiguous, or `out` cannot be written.
    """
    path = Path(out)
    _refuse_occupied(path, force)
    rows = sample.read_sample(data)
    if not asked.get("target"):
        raise UserError(proposal.list_columns(rows))
    proposed = proposal.propose(rows, ProposalRequest(**asked))
    text = format_proposal(proposed)
    Table({"declaration": text})  # raises for a mistake before the file exists
    _write(path, text)
    return _summarize(proposed, data, out)


def _summarize(proposed: proposal.Proposal, data: str, out: str) -> JsonObject:
    """Returns the proposal as JSON, with the command that trains on it."""
    goal = proposed.target
    return {
        "file": out,
        "data": data,
        "rows": proposed.sample.rows.num_rows,
        "whole": proposed.sample.whole,
        "looked": proposed.sample.words,
        "target": goal.name,
        "kind": "regression" if goal.regression else "classes",
        "classes": list(goal.classes),
        "why": goal.why,
        "columns": [asdict(column) for column in proposed.columns],
        "missing": list(proposed.missing),
        "next": f"vgp run training --set task={shlex.quote(out)} --set data={shlex.quote(data)}{_pace(proposed)}",
    }


def _pace(proposed: proposal.Proposal) -> str:
    """Returns options for smaller batches and more epochs if the table is too small for the defaults."""
    rows = proposed.sample.rows.num_rows
    if not proposed.sample.whole or rows >= ENOUGH_ROWS:
        return ""
    batch = max(16, 1 << (rows // STEPS_PER_EPOCH).bit_length())
    epochs = max(3, min(100, STEPS * batch // rows))
    return f" --set global_batch_size={batch} --set epochs={epochs}"


def print_proposal(result: JsonObject) -> None:
    """Prints the columns as tab-separated text, and the next command."""
    for column in result["columns"]:
        print(f"{column['name']}\t{column['type']}\t{column['role']}\t{column['why']}")
    print(f"wrote {result['file']}; next: {result['next']}")


def _refuse_occupied(path: Path, force: bool) -> None:
    if path.suffix != ".toml":
        raise UserError(f"--out {path}: the name must end in .toml, so that task={path} is recognised as a file.")
    if not path.parent.is_dir():
        raise UserError(f"--out {path}: the folder {path.parent} does not exist.")
    if path.is_dir():
        raise UserError(f"--out {path} is a folder.")
    if path.exists() and not force:
        raise UserError(f"{path} exists already. Choose another --out, or replace the file with --force.")


def _write(path: Path, text: str) -> None:
    """Writes the file atomically. Raises UserError if that fails."""
    try:
        files.write(path, text)
    except OSError as error:
        raise UserError(f"{path} cannot be written: {error.strerror or error}.") from None


# ---- a proposal as the text of a task.toml


_BARE = re.compile(r"[A-Za-z0-9_-]+")
#: Column names are padded to at most this width, to align the types.
_WIDTH = 24


def format_proposal(proposal: Proposal) -> str:
    """Returns the text of the task.toml. It holds no path, so it depends on the table alone."""
    return (
        "\n".join(
            [*_write_top(proposal), *_write_columns(proposal), *_format_ignored(proposal), *_write_tables(proposal)]
        )
        + "\n"
    )


def _write_top(proposal: Proposal) -> Iterator[str]:
    goal, sample = proposal.target, proposal.sample
    yield f"# Proposed from {sample.words}. Correct what is wrong. Each run checks every value against these types."
    yield "# To run it: vgp run training --set task=THIS_FILE --set data=FILES"
    yield ""
    yield f"target = {quote(goal.name)}"
    yield f'kind = "{"regression" if goal.regression else "classes"}"  # {plain(goal.why)}'
    if goal.regression:
        yield "quantiles = [0.1, 0.5, 0.9]"
        yield 'decided_by = "pinball"  # the loss that decides between models: pinball, squared or absolute'
    else:
        yield f"classes = {_list(goal.classes)}"
    if proposal.left_out:
        yield f"left_out = {_list(proposal.left_out)}  # rows of these classes are dropped"
    for name, value, why in (
        ("key", list(proposal.key), "identifies each row"),
        ("time", proposal.time, "when the prediction is made; the latest rows are the test split"),
        ("group", *_group(proposal)),
        ("slices", list(proposal.slices), "the report has figures for each value of these columns"),
        ("missing", list(proposal.missing), "these texts mean a missing value, like an empty field"),
    ):
        if value:
            yield f"{name} = {_list(value) if isinstance(value, list) else quote(value)}  # {why}"


def _group(proposal: Proposal) -> tuple[str | list[str], str]:
    """Returns the value of `group` and its comment. Writes the default "day" explicitly, so that the reader sees it."""
    if proposal.group == "row":
        return "row", "each row is independent, as requested"
    if not proposal.time:
        why = 'rows that share a value stay in one split, so the figures hold for new values; "row": split each row'
        return proposal.group, why
    if proposal.group in ("", "day"):
        return "day", 'rows of one day are not independent, so the decision counts days; "row": count each row'
    why = "rows of one day, or with one value of this column, are not independent; the decision counts both"
    return ["day", proposal.group], why


def _write_columns(proposal: Proposal) -> Iterator[str]:
    yield ""
    yield "[columns]"
    for column in proposal.of_role("target", "key", "time", "group", "learned"):
        role = "" if column.role == "learned" else column.role
        yield _write_line(column, role or column.why)


def _format_ignored(proposal: Proposal) -> Iterator[str]:
    columns = proposal.of_role("leak", "ignored")
    if columns:
        yield ""
        yield "[ignored]  # not read; to learn from a column, move its line up, and add one that leaks to `trusted`"
        yield from (_write_line(column, column.why) for column in columns)


def _write_tables(proposal: Proposal) -> Iterator[str]:
    if proposal.repeats:
        yield ""
        yield "[repeats]  # remarks of the report on columns whose values repeat"
        yield from (f"{quote_key(name)} = {quote(words)}" for name, words in proposal.repeats.items())
    yield ""
    if proposal.time:
        yield "[split]  # windows of time: a length, 2013-01:2013-06, 2013-W27, ..."
        yield f'test = "{proposal.split.test}"  # the end of the data; earlier rows train'
        yield "validation_share = 0.05  # of the training days"
    else:
        yield "[split]  # by a hash, so every run makes the same split"
        yield "test_share = 0.2"
        yield "validation_share = 0.05"
    yield ""
    yield "[network]"
    yield "hidden = [256, 128]"
    yield "dropout = 0.1"
    yield "rare = 10  # values of a category with fewer training rows share one embedding"
    reading = proposal.sample.reading
    options = {"separator": reading.separator, "encoding": reading.encoding}
    if any(options.values()):
        yield ""
        yield "[reading]"
        yield from (f"{name} = {quote(value)}" for name, value in options.items() if value)


def _write_line(column: Column, why: str) -> str:
    line = f"{quote_key(column.name):{min(_WIDTH, max(12, len(column.name)))}} = {quote(column.type)}"
    return f"{line}  # {plain(why)}" if why else line


def quote_key(name: str) -> str:
    return name if _BARE.fullmatch(name) else quote(name)


def quote(value: str) -> str:
    """Returns a basic string of TOML, which is a JSON string with DEL escaped."""
    return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007F")


def _list(values: Sequence[str]) -> str:
    return f"[{', '.join(map(quote, values))}]"


def plain(text: str) -> str:
    """Replaces control characters and line breaks by blanks, for a comment."""
    return "".join(letter if letter.isprintable() else " " for letter in text)
