"""Datasets, tables with all their versions, and views."""

from bisect import bisect_right
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from . import bigquery_types as types
from .bigquery_sql import Name

if TYPE_CHECKING:
    from .cloud import Cloud


#: Functions of BigQuery that the translation leaves as they are.
MACROS = ("ieee_divide(x, y) AS x::DOUBLE / y::DOUBLE",)


@dataclass
class Dataset:
    project: str
    name: str
    location: str
    created: datetime
    #: Of the REST resource: description, labels, defaultTableExpirationMs, maxTimeTravelHours...
    fields: dict[str, Any] = field(default_factory=dict)


@dataclass
class Version:
    at: datetime
    #: Name of the table in DuckDB.
    stored: str
    rows: pa.Table


@dataclass
class Table:
    name: Name
    created: datetime
    location: str
    versions: list[Version] = field(default_factory=list)
    expires: datetime | None = None
    #: Column whose filter every query must name.
    partitioned: str = ""
    #: Of a view.
    query: str = ""
    kind: str = "TABLE"
    #: Besides, of the REST resource.
    fields: dict[str, Any] = field(default_factory=dict)

    @property
    def latest(self) -> Version:
        return self.versions[-1]

    @property
    def modified(self) -> datetime:
        return self.latest.at if self.versions else self.created

    def at(self, moment: datetime | None) -> Version | None:
        """Returns the version at the moment, or None before the first one."""
        if moment is None:
            return self.latest
        position = bisect_right([version.at for version in self.versions], moment)
        return self.versions[position - 1] if position else None


class Catalog:
    def __init__(self, cloud: "Cloud"):
        self.cloud = cloud
        self.datasets: dict[tuple[str, str], Dataset] = {}
        self.tables: dict[Name, Table] = {}
        #: Versions of tables, ever.
        self.written = 0
        #: Translated queries with their bytes and tables, by text and state.
        self.translated: dict[Any, tuple[str, int, list[Name]]] = {}
        self._connection: Any = None

    @property
    def connection(self) -> Any:
        """The connection to DuckDB, opened at its first use."""
        if self._connection is None:
            import duckdb

            self._connection = duckdb.connect(config={"threads": 2})
            self._connection.execute("SET TimeZone = 'UTC'")
            for macro in MACROS:
                self._connection.execute(f"CREATE MACRO {macro}")
        return self._connection.cursor()

    def close(self) -> None:
        if self._connection is not None:
            self._connection.close()

    def add_dataset(self, name: str, *, location: str = "US", project: str = "", **fields: Any) -> Dataset:
        project = project or self.cloud.project
        made = Dataset(project, name, location, self.cloud.clock.now(), fields)
        self.datasets[(project, name)] = made
        return made

    def write(self, name: str, rows: pa.Table, *, at: datetime | None = None, **more: Any) -> Table:
        """Writes a new version of a table; creates the table if needed."""
        path, moment = Name.parse(name), at or self.cloud.clock.now()
        dataset = self.datasets[path[:2]]
        table = self.tables.setdefault(path, Table(path, moment, dataset.location))
        for key, value in more.items():
            setattr(table, key, value)
        self.written += 1
        stored = f"version_{self.written}"
        table.versions.append(Version(moment, stored, types.convert_table(rows)))
        cursor = self.connection
        cursor.register("incoming", table.latest.rows)
        cursor.execute(f'CREATE TABLE "{stored}" AS SELECT * FROM incoming')
        cursor.unregister("incoming")
        if lasting := dataset.fields.get("defaultTableExpirationMs"):
            table.expires = moment + timedelta(milliseconds=int(lasting))
        return table

    def add_view(self, name: str, query: str, *, kind: str = "VIEW") -> None:
        path = Name.parse(name)
        location = self.datasets[path[:2]].location
        self.tables[path] = Table(path, self.cloud.clock.now(), location, query=query, kind=kind)

    def find(self, name: Name) -> Table | None:
        """Returns the table, or None if there is none or it has expired."""
        table = self.tables.get(name)
        if table and table.expires and table.expires <= self.cloud.clock.now():
            return None
        return table

    def in_dataset(self, project: str, dataset: str) -> Iterator[Table]:
        return (table for name, table in self.tables.items() if name[:2] == (project, dataset) and self.find(name))
