"""Finds the files of the setting `data`, and their formats.

Like Hadoop's `FileInputFormat` and Arrow's datasets, it skips names that begin with `_` or `.`, which Spark, Hive, Beam
and macOS leave beside the data, unless `data` names them. A partition such as `_day=7` is read. The files of a Delta,
Iceberg or Hudi table are refused, because only its log shows which rows are valid.
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
from vgp.base.text.printable import quote

#: Name endings of each format; text files may be compressed.
TEXT = {".csv": "csv", ".tsv": "csv", ".jsonl": "json", ".ndjson": "json"}
PACKED = ("", ".gz", ".zst")
KINDS = {
    **{plain + packed: kind for plain, kind in TEXT.items() for packed in PACKED},
    ".csv.zip": "csv",
    ".parquet": "parquet",
}
SUFFIXES = tuple(KINDS)
WORDS = ".csv, .tsv, .jsonl or .ndjson, each also with .gz or .zst behind it, .csv.zip or .parquet"
#: The fix for other formats, by the name ending.
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
    """Returns the files of `data`, each once, in the given order.

    Args:
        data: Files, folders and globs, local or gs://, and documents of pins, separated by commas, in any formats.

    Raises:
        UserError: a part matches no data file or is in an unsupported place, a table occurs in two formats or has a
            log, or a file has an unsupported format.
    """
    parts = storage.parts(data)
    if not parts:
        raise UserError("no input was given: expected files, folders or globs, separated by commas.")
    files: dict[tuple[str | int, ...], File] = {}
    for part in parts:
        matches = storage.find(part, (*SUFFIXES, *map(str.upper, SUFFIXES)))
        if not pinned.read_digest(part):
            matches = without_leftovers(part, matches)
            _require_one_of_each(matches)
        for file in matches:
            files.setdefault(_identify_file(file), file)
    for file in files.values():
        suffix(storage.plain(file.path))
    return list(files.values())


def _identify_file(file: File) -> tuple[str | int, ...]:
    """Returns a key of the file itself, equal for all links and paths to a local file."""
    if file.version is None:
        return (file.path,)
    stat = os.stat(file.path)
    return stat.st_dev, stat.st_ino


def suffix(path: str) -> str:
    """Returns the ending of a path that shows its format, in lower case. Raises UserError for other endings."""
    if known := _SUFFIX.search(path.lower()):
        return known[0]
    fix = FIXES.get(os.path.splitext(path.lower())[1], "")
    raise UserError(f"{path} is not a table that is read here: its name must end in {WORDS}. {fix}".strip())


def _require_one_of_each(files: Sequence[File]) -> None:
    """Raises UserError if a table seems to exist in two formats, since all its rows would be read twice."""
    stems: dict[str, str] = {}
    for path in (storage.plain(file.path) for file in files):
        if (other := stems.setdefault(_SUFFIX.sub("", path.lower()), path)) != path:
            raise UserError(f"{other} and {path} seem to be the same table: name one of them, or move the other away.")


#: The folder of a table's log, the ending of the files in it, and the name of the format.
LOGS = (("_delta_log", ".json", "Delta"), ("metadata", ".metadata.json", "Iceberg"), (".hoodie", "", "Hudi"))
#: The most folders to search for logs; each takes several requests to a bucket.
MOST_FOLDERS = 32


def without_leftovers(part: str, files: Sequence[File]) -> list[File]:
    """Removes temporary and hidden files from the files of one part of `data`.

    Raises:
        UserError: no file is left, or the files belong to a table with a log.
    """
    part = os.path.expanduser(part)
    if [file.path for file in files] == [part]:  # the part is the path of the file
        return list(files)
    root = _find_root(part)
    named = [name for name in part[len(root) :].split("/") if name[:1] in ("_", ".")]
    kept = [file for file in files if all(_is_named(name, named) for name in _list_hidden_names(file, root))]
    if not kept:
        raise UserError(
            f"{part} matches only files such as {storage.plain(files[0].path)}. Files whose names begin with _ or . "
            "are skipped, because they are temporary: finish the job that writes them, or give their full paths."
        )
    _require_no_log(kept)
    return kept


def _find_root(part: str) -> str:
    """Returns the folder of a part, or the folder before the first wildcard."""
    if storage.WILDCARDS & set(part) and not os.path.isdir(part):
        return re.split(r"[*?\[]", part, maxsplit=1)[0].rpartition("/")[0]
    return part.rstrip("/")


def _list_hidden_names(file: File, root: str) -> Iterator[str]:
    """Yields the hidden names in the path of a file below the root."""
    below = storage.plain(file.path)[len(root) :] if root else storage.plain(file.path)
    for name in below.split("/"):
        if name.startswith(".") and name not in (".", "..") or name.startswith("_") and "=" not in name:
            yield name


def _is_named(name: str, patterns: Sequence[str]) -> bool:
    return any(pattern[0] == name[0] and fnmatchcase(name, pattern) for pattern in patterns)


def _require_no_log(files: Sequence[File]) -> None:
    """Raises UserError if the files belong to a table whose log shows which of their rows are valid."""
    parquet = (storage.plain(file.path) for file in files if storage.plain(file.path).endswith(".parquet"))
    tables = dict.fromkeys(re.sub(r"(/[^/]+=[^/]*)+$", "", path.rpartition("/")[0]) for path in parquet)
    folders = [folder or "." for table in list(tables)[:MOST_FOLDERS] for folder in _list_table_folders(table)]
    for folder, (log, ending, kind) in product(folders, LOGS):
        if _holds(f"{folder}/{log}", ending):
            raise UserError(
                f"{folder} is a table of {kind}: its files also hold rows that were deleted or replaced, and only "
                f"{log} knows which. Write its rows as plain Parquet (in Spark: spark.read.format("
                f"'{kind.lower()}').load(...).write.parquet(...)), or load them into a table of BigQuery."
            )


def _list_table_folders(files_folder: str) -> list[str]:
    """Returns the folders that may hold the table's log; for Iceberg it is the folder above `data`."""
    return [files_folder, *([files_folder.removesuffix("/data")] if files_folder.endswith("/data") else [])]


def _holds(folder: str, ending: str) -> bool:
    if storage.is_remote(folder):
        return any(file.path.endswith(ending) for file in storage.below(folder))
    return os.path.isdir(folder) and any(name.endswith(ending) for name in os.listdir(folder))


# ---- the format of text files, where the files do not show it


#: The option for files in which a quote is an ordinary character.
NO_QUOTE = "none"
DECIMALS = (".", ",")


@dataclass(frozen=True)
class Reading:
    """The options of a task for text files; "" = detected in each file.

    Raises:
        UserError: the separator, the quote or the decimal mark is invalid, two of them are equal, or the encoding is
            unknown.
    """

    #: The character between two fields of a CSV file, such as `;` or a tab.
    separator: str = ""
    #: The character around a field that holds separators; "none" if fields are never quoted.
    quote: str = ""
    #: The name of a Python codec, such as `windows-1252`.
    encoding: str = ""
    #: The decimal mark: `.` or `,`.
    decimal: str = ""
    #: Texts for a missing number, date or boolean, besides an empty field and Arrow's own (NA, null).
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
            raise UserError(f"the option decimal must be '.' or ','; it is {quote(self.decimal)}.")
        if self.separator and self.separator in (self.quote, self.decimal):
            same = "quote" if self.separator == self.quote else "decimal"
            raise UserError(f"the options separator and {same} are both {self.separator!r}: choose different marks.")
        try:
            "a".encode(self.encoding or "utf-8")
        except (LookupError, ValueError):
            raise UserError(
                f"the option encoding is {quote(self.encoding)}, which is none; such as windows-1252 or utf-16."
            ) from None

    def _check_mark(self, name: str, value: str) -> None:
        if value and (len(value) > 1 or not value.isascii() or value.isalnum() or value in "\r\n\0"):
            raise UserError(
                f"the option {name} must be one character, such as {';' if name == 'separator' else chr(39)!r}, no "
                f"letter, digit or line end; it is {quote(value)}."
            )
