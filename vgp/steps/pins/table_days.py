"""The days on which tables and queries of BigQuery have rows: asked there, and remembered, for what is pinned stays."""

import hashlib
from collections.abc import Sequence

from vgp.base.engine_settings import engines
from vgp.base.storage import storage
from vgp.base.storage.bigquery.jobs import Owner
from vgp.base.storage.pinned import PinnedRelation
from vgp.data import days
from vgp.data.engines.bigquery import BigQuery
from vgp.data.tables import blame, features, rebased
from vgp.data.tabular import TabularTask


def present(
    task: TabularTask, relations: Sequence[PinnedRelation], folder: str, run: str, *, dry_run: bool = False
) -> set[int]:
    """The days of all rows, from 1970-01-01.

    Args:
        folder: Where the pins lie: there the days are remembered, so that an unchanged table is not asked again.
        run: In its name the query runs.
        dry_run: Whether nothing is written.

    Raises:
        UserError: BigQuery refuses the query, or it would read more than is allowed.
    """
    memory = f"{folder}/days-{_key(task, relations)}.json" if storage.is_remote(folder) else ""
    if memory and (known := days.remembered(memory)):
        return days.spread(known[_NAME])
    fields = features.telling_days(task)
    settings, owner = engines().bigquery, Owner(run, "resolve")
    with (
        BigQuery.opened(relations, fields, settings, owner, values=False) as engine,
        blame.named(task, engine),
    ):
        rows = engine.source()
        counted = engine.read(rows.select(day=rebased.said(task, "days", rows).epoch_days()).distinct())
    found = {day for day in counted["day"].to_pylist() if day is not None}
    if memory and not dry_run:
        days.remember(memory, {_NAME: days.stretches(found)})
    return found


#: All relations together have one entry.
_NAME = "tables"


def _key(task: TabularTask, relations: Sequence[PinnedRelation]) -> str:
    text = "".join([days.key(task), *(relation.sha256 for relation in relations)])
    return hashlib.sha256(text.encode()).hexdigest()[:16]
