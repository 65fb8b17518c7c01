"""The files that `data` stands for, and the kind of each."""

import os
import re
from collections.abc import Sequence

from vgp.base.exits import UserError
from vgp.base.storage import pinned, storage
from vgp.base.storage.finding import File
from vgp.data.sources import leftovers

#: Name endings of each kind of table; text may be packed.
TEXT = {".csv": "csv", ".tsv": "csv", ".jsonl": "json", ".ndjson": "json"}
PACKED = ("", ".gz", ".zst")
KINDS = {
    **{plain + packed: kind for plain, kind in TEXT.items() for packed in PACKED},
    ".csv.zip": "csv",
    ".parquet": "parquet",
}
SUFFIXES = tuple(KINDS)
WORDS = ".csv, .tsv, .jsonl or .ndjson, each also with .gz or .zst behind it, .csv.zip or .parquet"
#: What to do with files that are nearly of a kind, by the last of their endings.
FIXES = {
    ".json": "If it has one object on each line, call it .jsonl.",
    ".txt": "If it is a table, call it .csv or .tsv.",
    ".xlsx": "Save the sheet as 'CSV UTF-8'.",
    ".xls": "Save the sheet as 'CSV UTF-8'.",
    ".zip": "Unpack it, or pack each table as .gz.",
    ".bz2": "Pack it as .gz or .zst.",
    ".xz": "Pack it as .gz or .zst.",
    ".zstd": "Call it .zst.",
    ".gzip": "Call it .gz.",
    ".avro": "Export it as .parquet.",
    ".orc": "Export it as .parquet.",
    ".feather": "Write it as .parquet.",
    ".arrow": "Write it as .parquet.",
    ".pq": "Call it .parquet.",
}
_SUFFIX = re.compile(f"({'|'.join(map(re.escape, SUFFIXES))})$")


def resolve(data: str) -> list[File]:
    """The files that `data` stands for, each once, in the order given.

    Args:
        data: Files, folders and globs, local or gs://, and documents of pins, separated by commas; kinds may be mixed.

    Raises:
        UserError: a part matches nothing or no data, is of a place that is not read from, or holds one table twice or
            one that has a log; or a file is of no kind that is read.
    """
    parts = storage.parts(data)
    if not parts:
        raise UserError("no input was given: expected files, folders or globs, separated by commas.")
    files: dict[tuple[str | int, ...], File] = {}
    for part in parts:
        matches = storage.find(part, (*SUFFIXES, *map(str.upper, SUFFIXES)))
        if not pinned.digest(part):
            matches = leftovers.without(part, matches)
            _require_one_of_each(matches)
        for file in matches:
            files.setdefault(_identity(file), file)
    for file in files.values():
        suffix(storage.plain(file.path))
    return list(files.values())


def _identity(file: File) -> tuple[str | int, ...]:
    """What all names of one file have in common: of a file here that is found by a link or by another way to it."""
    if file.version is None:
        return (file.path,)
    there = os.stat(file.path)
    return there.st_dev, there.st_ino


def suffix(path: str) -> str:
    """The ending of a table's name that says its kind, in lower case. Raises UserError if it has none."""
    if known := _SUFFIX.search(path.lower()):
        return known[0]
    fix = FIXES.get(os.path.splitext(path.lower())[1], "")
    raise UserError(f"{path} is not a table that is read here: its name must end in {WORDS}. {fix}".strip())


def _require_one_of_each(files: Sequence[File]) -> None:
    """Raises UserError where one table seems to be there as files of two kinds: all of its rows would come twice."""
    stems: dict[str, str] = {}
    for path in (storage.plain(file.path) for file in files):
        if (other := stems.setdefault(_SUFFIX.sub("", path.lower()), path)) != path:
            raise UserError(f"{other} and {path} seem to be the same table: name one of them, or move the other away.")
