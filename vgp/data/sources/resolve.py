"""The files that `data` stands for, and the kind of each.

What lies beside the files of a table and is no data: what Spark, Hive, Beam and macOS leave there.

Names that begin with `_` or `.` are passed over, as by Hadoop's `FileInputFormat` and Arrow's datasets, unless `data`
names them; so are all files in a folder of such a name, but not those of a partition `_day=7`. And the files of a table
that keeps a log of which of their rows count are no table without it.
"""

import os
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, fields
from fnmatch import fnmatchcase
from itertools import product

from vgp.base.exits import UserError
from vgp.base.storage import pinned, storage
from vgp.base.storage.finding import File
from vgp.base.text.printable import quoted

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
            matches = without_leftovers(part, matches)
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


#: What such a table has in its folder, the endings of the files in it, and what it is called.
LOGS = (("_delta_log", ".json", "Delta"), ("metadata", ".metadata.json", "Iceberg"), (".hoodie", "", "Hudi"))
#: Folders that are looked at, in each of which a bucket is asked for every kind of log.
MOST_FOLDERS = 32


def without_leftovers(part: str, files: Sequence[File]) -> list[File]:
    """The files that are data, of those that one part of `data` stands for.

    Raises:
        UserError: none is, or they belong to a table with a log.
    """
    part = os.path.expanduser(part)
    if [file.path for file in files] == [part]:  # named outright
        return list(files)
    root = _root(part)
    named = [name for name in part[len(root) :].split("/") if name[:1] in ("_", ".")]
    kept = [file for file in files if all(_is_named(name, named) for name in _hidden(file, root))]
    if not kept:
        raise UserError(
            f"{part} stands for files such as {storage.plain(files[0].path)} alone. Names that begin with _ or . are "
            "those of unfinished and passing files, which are no data: finish the job that writes them, or name them "
            "outright."
        )
    _require_no_log(kept)
    return kept


def _root(part: str) -> str:
    """The folder that a part names, or that its glob begins with."""
    if storage.WILDCARDS & set(part) and not os.path.isdir(part):
        return re.split(r"[*?\[]", part, maxsplit=1)[0].rpartition("/")[0]
    return part.rstrip("/")


def _hidden(file: File, root: str) -> Iterator[str]:
    """The names below the root that are hidden."""
    below = storage.plain(file.path)[len(root) :] if root else storage.plain(file.path)
    for name in below.split("/"):
        if name.startswith(".") and name not in (".", "..") or name.startswith("_") and "=" not in name:
            yield name


def _is_named(name: str, patterns: Sequence[str]) -> bool:
    return any(pattern[0] == name[0] and fnmatchcase(name, pattern) for pattern in patterns)


def _require_no_log(files: Sequence[File]) -> None:
    """Raises UserError where the files belong to a table whose log says which of their rows count."""
    parquet = (storage.plain(file.path) for file in files if storage.plain(file.path).endswith(".parquet"))
    tables = dict.fromkeys(re.sub(r"(/[^/]+=[^/]*)+$", "", path.rpartition("/")[0]) for path in parquet)
    folders = [folder or "." for table in list(tables)[:MOST_FOLDERS] for folder in _table_folders(table)]
    for folder, (log, ending, kind) in product(folders, LOGS):
        if _holds(f"{folder}/{log}", ending):
            raise UserError(
                f"{folder} is a table of {kind}: its files also hold rows that were deleted or replaced, and only "
                f"{log} knows which. Write its rows as plain Parquet (in Spark: spark.read.format("
                f"'{kind.lower()}').load(...).write.parquet(...)), or load them into a table of BigQuery."
            )


def _table_folders(files_folder: str) -> list[str]:
    """The folders that may be the table's, whose files lie there; of Iceberg it is the one above `data`."""
    return [files_folder, *([files_folder.removesuffix("/data")] if files_folder.endswith("/data") else [])]


def _holds(folder: str, ending: str) -> bool:
    if storage.is_remote(folder):
        return any(file.path.endswith(ending) for file in storage.below(folder))
    return os.path.isdir(folder) and any(name.endswith(ending) for name in os.listdir(folder))


# ---- how files of text are written, where the files do not show it themselves


#: For files in which a quote is a letter like others.
NO_QUOTE = "none"
DECIMALS = (".", ",")


@dataclass(frozen=True)
class Reading:
    """What a task's options say about its files; "" = found in each file.

    Raises:
        UserError: the separator, the quote or the decimal mark cannot be one, two of them are the same, or there is no
            such encoding.
    """

    #: Between two fields of a CSV file: such as `;` or a tab.
    separator: str = ""
    #: Around a field that holds separators; "none" where nothing is quoted.
    quote: str = ""
    #: Of text, as Python's codecs call it: such as `windows-1252`.
    encoding: str = ""
    #: In numbers: `.` or `,`.
    decimal: str = ""
    #: Texts that stand for a missing number, date or boolean, beside an empty field and what Arrow knows (NA, null).
    missing: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        for field in fields(self):
            value = getattr(self, field.name)
            if field.name != "missing" and not isinstance(value, str):
                raise UserError(f"the option {field.name} must be text; it is {value!r}.")
        self._check_mark("separator", self.separator)
        if self.quote != NO_QUOTE:
            self._check_mark("quote", self.quote)
        if self.decimal not in ("", *DECIMALS):
            raise UserError(f"the option decimal must be '.' or ','; it is {quoted(self.decimal)}.")
        if self.separator and self.separator in (self.quote, self.decimal):
            same = "quote" if self.separator == self.quote else "decimal"
            raise UserError(f"the options separator and {same} are both {self.separator!r}: no value could be told.")
        try:
            "a".encode(self.encoding or "utf-8")
        except (LookupError, ValueError):
            raise UserError(
                f"the option encoding is {quoted(self.encoding)}, which is none; such as windows-1252 or utf-16."
            ) from None

    def _check_mark(self, name: str, value: str) -> None:
        if value and (len(value) > 1 or not value.isascii() or value.isalnum() or value in "\r\n\0"):
            raise UserError(
                f"the option {name} must be one character, such as {';' if name == 'separator' else chr(39)!r}, no "
                f"letter, digit or line end; it is {quoted(value)}."
            )
