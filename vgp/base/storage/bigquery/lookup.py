"""Metadata of tables and queries: their pins, now or at a past moment, and the moments at which pins are read."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

from vgp.base.exits import UserError
from vgp.base.storage import storage
from vgp.base.storage.bigquery import client, names
from vgp.base.storage.bigquery.names import TableName
from vgp.base.storage.bigquery.query import MOST_LETTERS, QueryText
from vgp.base.storage.finding import File, Past
from vgp.base.storage.pinned import PinnedRelation, PinnedTable

if TYPE_CHECKING:
    from google.cloud import bigquery

#: https://cloud.google.com/bigquery/docs/time-travel#configure_the_time_travel_window (2026-11)
DEFAULT_PAST_HOURS = 168
#: This clock may be ahead of BigQuery's, which refuses to read the future.
SKEW = timedelta(hours=1)
#: https://cloud.google.com/bigquery/docs/views-intro#view_limitations (2026-11)
MOST_NESTED_VIEWS = 16
_KINDS = ("TABLE", "CLONE", "SNAPSHOT")
_FIRST = {
    "DATE": "DATE '0001-01-01'",
    "DATETIME": "DATETIME '0001-01-01 00:00:00'",
    "TIMESTAMP": "TIMESTAMP '0001-01-01 00:00:00+00'",
    "INTEGER": "-9223372036854775808",
}


@dataclass(frozen=True)
class Table:
    """A table or a view, as it is now."""

    name: TableName
    kind: str
    modified_ms: int
    created_ms: int
    location: str
    #: Text of a view.
    query: str
    #: The filter that the table requires of every query, written to keep all rows; "" without one.
    restriction: str
    #: Whether rows are streaming in, which the last modification time does not include.
    streaming: bool
    rows: int


@dataclass(frozen=True)
class Lookup:
    """Reads metadata of BigQuery, billed to `project`."""

    project: str

    def table(self, name: TableName, asker: str = "") -> Table:
        """Returns a table or view. Raises UserError if it is missing, unreadable, or of a kind without versions.

        Args:
            asker: The query that reads it, for messages.
        """
        bigquery_client, dataset = client.client(self.project), f"{name.project}.{name.dataset}"
        with client.explain_errors(f"{asker}: {name.uri}" if asker else name.uri):
            table = bigquery_client.get_table(str(name), retry=client.default_retry(), timeout=60)
            location = (
                table.location
                or bigquery_client.get_dataset(dataset, retry=client.default_retry(), timeout=60).location
            )
        return _read_table(name, table, location)

    def past_hours(self, name: TableName) -> int:
        """Returns for how many hours back a table can be read."""
        from google.api_core.exceptions import Forbidden

        bigquery_client = client.client(self.project)
        try:
            with client.explain_errors(name.uri):
                try:
                    dataset = bigquery_client.get_dataset(
                        f"{name.project}.{name.dataset}", retry=client.default_retry(), timeout=60
                    )
                except Forbidden:  # permission to read a table does not include its dataset
                    return DEFAULT_PAST_HOURS
        except UserError:
            return DEFAULT_PAST_HOURS
        return int(dataset.max_time_travel_hours or DEFAULT_PAST_HOURS)

    def pin(
        self, parts: Sequence[str], past: Past | None = None, now: datetime | None = None
    ) -> tuple[PinnedRelation, ...]:
        """Pins tables and queries as of now, or as of `past` if BigQuery still shows it; `past` records whether it
        does.

        Args:
            parts: bq://project.dataset.table, or paths and globs of .sql files.

        Raises:
            UserError: a part is unreadable or not repeatable, or the locations differ.
        """
        now, relations = now or datetime.now(UTC), dict[str, PinnedRelation]()
        for part in parts:
            for file in [None] if names.is_table(part) else storage.find(part):
                relation = self._relation(part, file, past, now)
                relations[relation.name] = relation
        names.check_one_place(list(relations.values()))
        return tuple(relations[name] for name in sorted(relations))

    def _relation(self, part: str, file: File | None, past: Past | None, now: datetime) -> PinnedRelation:
        if file is None:
            name = names.parse(part)
            table = self.table(name)
            if not table.query:
                return PinnedRelation(
                    name=name.uri, sql=f"SELECT * FROM {name.sql}", tables=(self._pin_table(table, past, now),),
                    plain=True, restriction=table.restriction, location=table.location,
                )  # fmt: skip
            query = QueryText(f"the view {name.uri}", table.query, name.project)
        else:
            part = storage.plain(file.path)
            path = f"{part}#{file.generation}" if file.generation else part
            query = QueryText(part, storage.read(path, most=4 * MOST_LETTERS).decode("utf-8-sig", errors="replace"))
        tables: dict[TableName, Table] = {}
        sql = self._expand_views(query, tables)
        location = names.find_query_location(part, {name: table.location for name, table in tables.items()})
        pinned_tables = tuple(self._pin_table(tables[name], past, now) for name in sorted(tables))
        return PinnedRelation(name=part, sql=sql, tables=pinned_tables, location=location)

    def _expand_views(self, query: QueryText, tables: dict[TableName, Table], depth: int = 0) -> str:
        """Returns the query with its views expanded; adds the tables that it reads to `tables`."""
        if depth > MOST_NESTED_VIEWS:
            raise UserError(f"{query.title}: views of views of views, more than {MOST_NESTED_VIEWS} deep.")
        inner: dict[TableName, str] = {}
        for name in query.tables:
            table = self.table(name, query.title)
            if table.query:
                view = QueryText(f"the view {name.uri}", table.query, name.project)
                inner[name] = self._expand_views(view, tables, depth + 1)
            else:
                tables[name] = table
        return query.rewritten(lambda name: inner.get(name, ""))

    def _pin_table(self, table: Table, past: Past | None, now: datetime) -> PinnedTable:
        if table.kind == "SNAPSHOT":
            return PinnedTable(name=str(table.name), as_of_ms=0)
        latest = table.modified_ms + 1
        if table.streaming:
            latest = max(latest, _ms(now - timedelta(minutes=1)))
        if past is None:
            return PinnedTable(name=str(table.name), as_of_ms=latest)
        moment = _ms(past.moment)
        if unchanged := latest <= moment + 1:
            moment = latest
        reach = now - past.moment < timedelta(hours=self.past_hours(table.name)) and table.created_ms <= moment
        past.shown[table.name.uri] = unchanged or reach
        return PinnedTable(name=str(table.name), as_of_ms=moment if unchanged or reach else latest)

    def moments(self, relations: Sequence[PinnedRelation], now: datetime | None = None) -> Mapping[TableName, int]:
        """Returns the moment at which each pinned table is read, in milliseconds since 1970; 0 = now.

        An unchanged table may be older than BigQuery's time travel window: it is read as of last midnight, so that
        retries on one day use one moment.

        Raises:
            UserError: a table has changed since it was pinned, and BigQuery no longer shows its past.
        """
        now = now or datetime.now(UTC)
        pinned = {names.parse(table.name): table.as_of_ms for relation in relations for table in relation.tables}
        return {name: self._moment(name, as_of_ms, now) for name, as_of_ms in pinned.items()}

    def _moment(self, name: TableName, as_of_ms: int, now: datetime) -> int:
        if not as_of_ms:
            return 0
        table = self.table(name)
        if table.modified_ms < as_of_ms and not table.streaming:
            midnight = (now - SKEW).replace(hour=0, minute=0, second=0, microsecond=0)
            return max(as_of_ms, _ms(midnight))
        if table.created_ms > as_of_ms:
            raise UserError(
                f"{name.uri} was pinned as of {_format_ms(as_of_ms)}, but was deleted and recreated on "
                f"{_format_ms(table.created_ms)}: start a new run, which pins the data again."
            )
        hours = self.past_hours(name)
        if now - timedelta(hours=hours) + timedelta(minutes=10) > datetime.fromtimestamp(as_of_ms / 1000, UTC):
            raise UserError(
                f"{name.uri} was pinned as of {_format_ms(as_of_ms)} but changed on {_format_ms(table.modified_ms)}, "
                f"and BigQuery keeps only the past {hours / 24:g} days. Start a new run, which pins the data again; to "
                "read data again later, make a table snapshot."
            )
        return as_of_ms

    def sql(self, relation: PinnedRelation, moments: Mapping[TableName, int]) -> str:
        """Returns the relation's SELECT at the moments of `moments`."""
        clause = {name: f"FOR SYSTEM_TIME AS OF TIMESTAMP '{_format_ms(ms)}'" for name, ms in moments.items() if ms}
        text = QueryText(relation.name, relation.sql).rewritten(clause=lambda name: clause.get(name, ""))
        return f"{text} WHERE {relation.restriction}" if relation.restriction else text


def _read_table(name: TableName, metadata: "bigquery.Table", location: str) -> Table:
    if metadata.table_type == "EXTERNAL":
        files = ", ".join(
            (metadata.external_data_configuration and metadata.external_data_configuration.source_uris) or ()
        )
        raise UserError(
            f"{name.uri} is an external table, and BigQuery keeps no versions of it. "
            + (f"Use its files: {files}." if files.startswith("gs://") else "Copy it into a table.")
        )
    view = metadata.view_query or metadata.mview_query or ""
    if not view and metadata.table_type not in _KINDS:
        raise UserError(f"{name.uri} has the type {metadata.table_type}, which cannot be read as rows: use a table.")
    if view and metadata.view_use_legacy_sql:
        raise UserError(f"the view {name.uri} is in legacy SQL: rewrite it in GoogleSQL.")
    return Table(
        name, metadata.table_type, _ms(metadata.modified), _ms(metadata.created), location, view,
        _build_required_filter(metadata), metadata.streaming_buffer is not None, int(metadata.num_rows or 0),
    )  # fmt: skip


def _build_required_filter(metadata: "bigquery.Table") -> str:
    """Returns the partition filter that the table requires, written to keep all rows, or ""."""
    if not metadata.require_partition_filter:
        return ""
    if metadata.range_partitioning:
        column, kind = metadata.range_partitioning.field, "INTEGER"
    else:
        column = metadata.time_partitioning.field or "_PARTITIONTIME"
        kind = next((field.field_type for field in metadata.schema if field.name == column), "TIMESTAMP")
    return f"(`{column}` >= {_FIRST[kind]} OR `{column}` IS NULL)"


def _ms(moment: datetime) -> int:
    """Returns milliseconds since 1970, rounded down as BigQuery rounds."""
    return (moment - datetime(1970, 1, 1, tzinfo=UTC)) // timedelta(milliseconds=1)


def _format_ms(ms: int) -> str:
    return f"{datetime(1970, 1, 1, tzinfo=UTC) + timedelta(milliseconds=ms):%Y-%m-%d %H:%M:%S.%f}"[:-3] + "+00"
