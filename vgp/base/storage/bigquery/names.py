"""How data in BigQuery is named: `bq://project.dataset.table`, or a file that ends in .sql."""

import re
from dataclasses import dataclass

from vgp.base.exits import UserError
from vgp.base.storage import storage
from vgp.base.text.printable import quoted

SCHEME = "bq://"
QUERY_SUFFIX = ".sql"
#: Of old projects the id begins with a domain: example.com:project.
_PROJECT = r"(?:[a-z0-9.-]+:)?[a-z][a-z0-9-]*"
_NAME = re.compile(rf"(?P<project>{_PROJECT})\.(?P<dataset>[\w-]+)\.(?P<table>[^.`/\\]+)")


@dataclass(frozen=True, order=True)
class TableName:
    project: str
    dataset: str
    table: str

    def __str__(self) -> str:
        return f"{self.project}.{self.dataset}.{self.table}"

    @property
    def uri(self) -> str:
        return f"{SCHEME}{self}"

    @property
    def sql(self) -> str:
        return f"`{self.project}`.`{self.dataset}`.`{self.table}`"


def is_table(part: str) -> bool:
    return part.lower().startswith(SCHEME)


def is_query(part: str) -> bool:
    return part.lower().endswith(QUERY_SUFFIX)


def is_bigquery(part: str) -> bool:
    """Whether a part of `data` names a table or a query of BigQuery."""
    return is_table(part) or is_query(part)


def parted(data: str) -> tuple[list[str], str]:
    """What of `data` is a table or a query of BigQuery, and the rest of it."""
    parts = storage.parts(data)
    return [part for part in parts if is_bigquery(part)], ",".join(part for part in parts if not is_bigquery(part))


def parse(text: str) -> TableName:
    """The table that `bq://project.dataset.table` names, with or without the scheme.

    Raises:
        UserError: it names none, or only a part of one, or many.
    """
    name = text[len(SCHEME) :] if is_table(text) else text
    table = name.rpartition(".")[2]
    if "*" in table:
        raise UserError(
            f"{text}: a table with * stands for many, of which BigQuery keeps no common past. Name the tables one by "
            "one, separated by commas, or write a .sql file that joins them with UNION ALL."
        )
    if "$" in table or "@" in table:
        raise UserError(f"{text}: for a part of a table or its past write a .sql file with a WHERE; as_of names a day.")
    if match := _NAME.fullmatch(name):
        return TableName(**match.groupdict())
    raise UserError(f"{quoted(text)} is no table of BigQuery: expected {SCHEME}PROJECT.DATASET.TABLE.{_hint(name)}")


def _hint(name: str) -> str:
    parts = [part for part in re.split(r"[./:]", name) if part]
    if len(parts) == 3 and re.fullmatch(rf"{_PROJECT}", parts[0]):
        return f" Is it {SCHEME}{'.'.join(parts)}?"
    if len(parts) == 2 and "-" in parts[0]:  # no dataset is called so
        return f" The table is missing: {SCHEME}{'.'.join(parts)}.TABLE."
    if len(parts) == 2:
        return f" The project is missing: {SCHEME}PROJECT.{'.'.join(parts)}, whichever machine reads it."
    return ""
