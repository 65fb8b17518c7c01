"""The files that `data` stands for, and the kind of each."""

from training.errors import UserError
from training.storage import storage
from training.storage.finding import File

#: Name endings of each kind of table; text may be packed.
TEXT = {".csv": "csv", ".tsv": "csv", ".jsonl": "json", ".ndjson": "json"}
PACKED = ("", ".gz", ".zst")
KINDS = {
    **{plain + packed: kind for plain, kind in TEXT.items() for packed in PACKED},
    ".csv.zip": "csv",
    ".parquet": "parquet",
}
SUFFIXES = tuple(KINDS)


def resolve(data: str) -> list[File]:
    """The files that `data` stands for, each once, in the order given.

    Args:
        data: Files, folders and globs, local or gs://, and documents of pins, separated by commas; kinds may be mixed.

    Raises:
        UserError: a part matches nothing, is of a place that is not read from, or a file is of no kind that is read.
    """
    parts = storage.parts(data)
    if not parts:
        raise UserError("no input was given: expected files, folders or globs, separated by commas.")
    files: dict[str, File] = {}
    for part in parts:
        matches = storage.find(part, (*SUFFIXES, *(suffix.upper() for suffix in SUFFIXES)))
        for file in matches:
            suffix(storage.plain(file.path))
        files.update((file.path, file) for file in matches)
    return list(files.values())


def suffix(path: str) -> str:
    """The ending of a table's name that says its kind, in lower case. Raises UserError if it has none."""
    name = path.lower()
    if known := [ending for ending in SUFFIXES if name.endswith(ending)]:
        return max(known, key=len)
    raise UserError(f"{path} is not a table that is read here: its name must end in {', '.join(SUFFIXES)}.")


def kind(path: str) -> str:
    return KINDS[suffix(path)]
