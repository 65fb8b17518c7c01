"""What lies beside the files of a table and is no data: what Spark, Hive, Beam and macOS leave there.

Names that begin with `_` or `.` are passed over, as by Hadoop's `FileInputFormat` and Arrow's datasets, unless `data`
names them; so are all files in a folder of such a name, but not those of a partition `_day=7`. And the files of a table
that keeps a log of which of their rows count are no table without it.
"""

import os
import re
from collections.abc import Iterator, Sequence
from fnmatch import fnmatchcase
from itertools import product

from vgp.base.exits import UserError
from vgp.base.storage import storage
from vgp.base.storage.finding import File

#: What such a table has in its folder, the endings of the files in it, and what it is called.
LOGS = (("_delta_log", ".json", "Delta"), ("metadata", ".metadata.json", "Iceberg"), (".hoodie", "", "Hudi"))
#: Folders that are looked at, in each of which a bucket is asked for every kind of log.
MOST_FOLDERS = 32


def without(part: str, files: Sequence[File]) -> list[File]:
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
