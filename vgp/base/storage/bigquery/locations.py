"""Where data lies: BigQuery joins nothing across locations, and rows do not leave theirs."""

from collections.abc import Mapping, Sequence

from vgp.base.exits import UserError
from vgp.base.storage import storage
from vgp.base.storage.bigquery.names import TableName
from vgp.base.storage.pinned import PinnedRelation


def of_query(title: str, tables: Mapping[TableName, str]) -> str:
    """Where all tables of a query lie. Raises UserError if it has none, or they lie in different places.

    Args:
        tables: The location of each.
    """
    if not tables:
        raise UserError(f"{title} reads no table: there is nothing to learn from.")
    (first, location), *others = tables.items()
    for name, other in others:
        if other.lower() != location.lower():
            raise UserError(
                f"{title} joins {first.uri} in {location} and {name.uri} in {other}: "
                "BigQuery joins nothing across locations. Copy one to the other."
            )
    return location


def check_one_place(relations: Sequence[PinnedRelation], location: str = "") -> None:
    """Raises UserError if sources lie in different places, or elsewhere than the settings say."""
    first = relations[0]
    for relation in relations:
        if relation.location.lower() != first.location.lower():
            raise UserError(
                f"{first.name} lies in {first.location} and {relation.name} in {relation.location}: BigQuery joins "
                "nothing across locations. Copy one to the other (bq cp, or a dataset copy)."
            )
    if location and location.lower() != first.location.lower():
        raise UserError(
            f"{first.name} lies in {first.location}, and [steps.prepare.bigquery] has location = {location!r}: leave "
            "it out, or give data of that location."
        )


def check_bucket(relations: Sequence[PinnedRelation], folder: str) -> None:
    """Raises UserError if the bucket of the runs lies on another continent or in another region than the data."""
    if not storage.is_remote(folder) or not relations or not (there := storage.location(folder)):
        return
    here = relations[0].location
    if not near(here, there):
        raise UserError(
            f"{relations[0].name} lies in {here}, and the runs in gs://{storage.split(folder)[0]} in {there}: rows "
            f"would cross between them. Use a bucket in {here}, or copy the dataset to {there}."
        )


def near(dataset: str, bucket: str) -> bool:
    """Whether rows may go from a dataset's location to a bucket's without leaving the region, or the multi-region.

    https://cloud.google.com/bigquery/docs/locations (2026-11)
    """
    here, there = dataset.lower(), bucket.lower()
    areas = {"us": ("us-", "nam"), "eu": ("europe-", "eur")}
    inside = [place.startswith(areas[area]) for place, area in ((here, there), (there, here)) if area in areas]
    return here == there or any(inside)
