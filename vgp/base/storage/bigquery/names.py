"""Names of data in BigQuery (`bq://project.dataset.table`, or a .sql file), and its locations."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from vgp.base.exits import UserError
from vgp.base.storage import storage
from vgp.base.storage.pinned import PinnedRelation
from vgp.base.text.printable import quote

SCHEME = "bq://"
QUERY_SUFFIX = ".sql"
#: Ids of old projects begin with a domain: example.com:project.
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


def split_bigquery(data: str) -> tuple[list[str], str]:
    """Splits `data` into its parts in BigQuery and the rest."""
    parts = storage.parts(data)
    return [part for part in parts if is_bigquery(part)], ",".join(part for part in parts if not is_bigquery(part))


def parse(text: str) -> TableName:
    """Parses `bq://project.dataset.table`, with or without the scheme.

    Raises:
        UserError: it is not one whole table.
    """
    name = text[len(SCHEME) :] if is_table(text) else text
    table = name.rpartition(".")[2]
    if "*" in table:
        raise UserError(
            f"{text}: a table with * means several tables, and BigQuery cannot pin them together. Name each table, "
            "separated by commas, or write a .sql file that joins them with UNION ALL."
        )
    if "$" in table or "@" in table:
        raise UserError(f"{text}: for a part of a table write a .sql file with a WHERE; for its past use as_of = DAY.")
    if match := _NAME.fullmatch(name):
        return TableName(**match.groupdict())
    raise UserError(
        f"{quote(text)} is not a table of BigQuery: expected {SCHEME}PROJECT.DATASET.TABLE.{_suggest_name(name)}"
    )


def _suggest_name(name: str) -> str:
    parts = [part for part in re.split(r"[./:]", name) if part]
    if len(parts) == 3 and re.fullmatch(rf"{_PROJECT}", parts[0]):
        return f" Is it {SCHEME}{'.'.join(parts)}?"
    if len(parts) == 2 and "-" in parts[0]:  # names of datasets have no -
        return f" The table is missing: {SCHEME}{'.'.join(parts)}.TABLE."
    if len(parts) == 2:
        return f" The project is missing: {SCHEME}PROJECT.{'.'.join(parts)}."
    return ""


# ---- locations: BigQuery does not join across locations


def find_query_location(title: str, tables: Mapping[TableName, str]) -> str:
    """Returns the location of a query's tables. Raises UserError if there is no table, or the locations differ.

    Args:
        tables: The location of each table.
    """
    if not tables:
        raise UserError(f"{title} reads no table, so there is no data.")
    (first, location), *others = tables.items()
    for name, other in others:
        if other.lower() != location.lower():
            raise UserError(
                f"{title} joins {first.uri} in {location} and {name.uri} in {other}: "
                "BigQuery does not join across locations. Copy one table to the other location."
            )
    return location


def check_one_place(relations: Sequence[PinnedRelation], location: str = "") -> None:
    """Raises UserError if the locations of the sources differ, from each other or from the setting."""
    first = relations[0]
    for relation in relations:
        if relation.location.lower() != first.location.lower():
            raise UserError(
                f"{first.name} is in {first.location} and {relation.name} in {relation.location}: BigQuery does not "
                "join across locations. Copy one to the other (bq cp, or a dataset copy)."
            )
    if location and location.lower() != first.location.lower():
        raise UserError(
            f"{first.name} is in {first.location}, but [steps.prepare.bigquery] has location = {location!r}: remove "
            "the setting, or use data in that location."
        )


def check_bucket(relations: Sequence[PinnedRelation], folder: str) -> None:
    """Raises UserError if the bucket of the runs is not near the location of the data."""
    if not storage.is_remote(folder) or not relations or not (there := storage.location(folder)):
        return
    here = relations[0].location
    if not near(here, there):
        raise UserError(
            f"{relations[0].name} is in {here}, but the bucket of the runs, gs://{storage.split(folder)[0]}, is in "
            f"{there}: rows would leave their location. Use a bucket in {here}, or copy the dataset to {there}."
        )


def near(dataset: str, bucket: str) -> bool:
    """Whether rows can go from a dataset's to a bucket's location within one region or multi-region.

    https://cloud.google.com/bigquery/docs/locations (2026-11)
    """
    here, there = dataset.lower(), bucket.lower()
    areas = {"us": ("us-", "nam"), "eu": ("europe-", "eur")}
    inside = [place.startswith(areas[area]) for place, area in ((here, there), (there, here)) if area in areas]
    return here == there or any(inside)
