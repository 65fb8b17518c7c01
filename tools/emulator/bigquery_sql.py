"""Translates a query of BigQuery for DuckDB: versions of tables, views, partition filters, billed bytes."""

from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, NamedTuple

from . import bigquery_types as types

if TYPE_CHECKING:
    from .bigquery_catalog import Catalog, Table

PAST_HOURS = 168


class Name(NamedTuple):
    project: str
    dataset: str
    table: str

    @classmethod
    def parse(cls, text: str) -> "Name":
        return cls(*text.rsplit(".", 2))

    @property
    def colon(self) -> str:
        return f"{self.project}:{self.dataset}.{self.table}"


class QueryError(Exception):
    """An error with which BigQuery refuses a query."""

    def __init__(self, reason: str, message: str, code: int = 400):
        super().__init__(message)
        self.reason, self.message, self.code = reason, message, code


@dataclass
class Query:
    """One SELECT on the tables of a catalog."""

    catalog: "Catalog"
    text: str
    location: str
    default_project: str
    bytes: int = 0
    referenced: list[Name] = field(default_factory=list)
    _schemas: dict[str, Any] = field(default_factory=dict)

    def duckdb(self) -> str:
        """Returns the query for DuckDB. An equal query, as after a dry run, is not translated again."""
        key = (self.text, self.location, self.default_project, self.catalog.written, self.catalog.cloud.clock.now())
        if (known := self.catalog.translated.get(key)) is None or self.catalog.cloud.policies.missing:
            known = self.catalog.translated[key] = (self._translate(), self.bytes, self.referenced)
        sql, self.bytes, self.referenced = known
        return sql

    def _translate(self) -> str:
        tree = self._replace_tables(self.text, self.default_project)
        self.bytes = self._read_bytes(tree)
        tree = tree.transform(_weekday)
        return str(tree.sql(dialect="duckdb"))

    def _parse(self, text: str) -> Any:
        import sqlglot

        try:
            statements = [tree for tree in sqlglot.parse(text, dialect="bigquery") if tree]
        except sqlglot.errors.ParseError as error:
            first = error.errors[0]
            where = f"at [{first['line']}:{first['col']}]"
            raise QueryError("invalidQuery", f"Syntax error: {first['description']} {where}") from None
        if len(statements) != 1 or not isinstance(statements[0], sqlglot.exp.Query):
            raise QueryError("invalidQuery", "the loopback BigQuery runs one SELECT at a time")
        return statements[0]

    def _replace_tables(self, text: str, project: str) -> Any:
        """Returns the query with BigQuery's tables replaced by DuckDB's."""
        from sqlglot import exp
        from sqlglot.optimizer.scope import Scope, traverse_scope

        tree = self._parse(text)
        for scope in traverse_scope(tree):
            for table in scope.tables:
                common = isinstance(scope.sources.get(table.alias_or_name), Scope) or table.name in scope.cte_sources
                if common and not table.args.get("db"):
                    continue
                name = Name(table.catalog or project, table.db, table.name)
                known = self._find_table(name)
                self._check_filter(known, scope)
                alias = table.alias_or_name
                if known.query:
                    if table.args.get("version"):
                        raise QueryError("invalidQuery", f"FOR SYSTEM_TIME AS OF is not supported for views: {name}")
                    inner = self._replace_tables(known.query, name.project)
                    table.replace(exp.Subquery(this=inner, alias=exp.TableAlias(this=exp.to_identifier(alias, True))))
                else:
                    version = known.at(self._moment(table, known))
                    if version is None:
                        raise QueryError("invalid", f"Invalid snapshot time for table {name.colon}@.")
                    self._schemas[version.stored] = version.rows
                    table.replace(exp.alias_(exp.to_table(version.stored), exp.to_identifier(alias, True), table=True))
        return tree

    def _find_table(self, name: Name) -> "Table":
        table = self.catalog.find(name)
        if table is None:
            what = f"Table {name.colon}" if name[:2] in self.catalog.datasets else f"Dataset {name[0]}:{name[1]}"
            raise QueryError("notFound", f"Not found: {what} was not found in location {self.location}", 404)
        if table.location.lower() != self.location.lower():
            text = f"Not found: Dataset {name[0]}:{name[1]} was not found in location {self.location}"
            raise QueryError("notFound", text, 404)
        if self.catalog.cloud.policies.lacks("bigquery.tables.getData"):
            raise QueryError(
                "accessDenied", f"Access Denied: Table {name.colon}: User does not have permission to query table "
                f"{name.colon}, or perhaps it does not exist.", 403,
            )  # fmt: skip
        self.referenced.append(name)
        return table

    def _check_filter(self, table: "Table", scope: Any) -> None:
        from sqlglot import exp

        if not table.partitioned:
            return
        where = scope.expression.args.get("where")
        if not where or table.partitioned.lower() not in {c.name.lower() for c in where.find_all(exp.Column)}:
            raise QueryError(
                "invalidQuery", f"Cannot query over table '{table.name.project}.{table.name.dataset}."
                f"{table.name.table}' without a filter over column(s) '{table.partitioned}' that can be used for "
                "partition elimination",
            )  # fmt: skip

    def _moment(self, table: Any, known: "Table") -> datetime | None:
        """Returns the time at which a table is read. Raises QueryError in the future or beyond BigQuery's history."""
        if not (version := table.args.get("version")):
            return None
        text = version.expression.sql("duckdb")
        moment = self.catalog.connection.execute(f"SELECT ({text})::TIMESTAMPTZ").fetchone()[0].astimezone(UTC)
        now = self.catalog.cloud.clock.now()
        dataset = self.catalog.datasets[known.name[:2]]
        first = now - timedelta(hours=int(dataset.fields.get("maxTimeTravelHours", PAST_HOURS)))
        colon, ms = known.name.colon, round(moment.timestamp() * 1000)
        if moment > now + timedelta(seconds=5):
            raise QueryError("invalid", f"Invalid snapshot time {ms} for table {colon}@{ms}. It is in the future.")
        if moment < max(first, known.created):
            least = round(max(first, known.created).timestamp() * 1000)
            text = f"Invalid snapshot time {ms} for table {colon}@{ms}. Cannot read before {least}."
            raise QueryError("invalid", text)
        return moment

    def _read_bytes(self, tree: Any) -> int:
        """Returns the billed bytes: those of the columns that the query reads."""
        from sqlglot import exp
        from sqlglot.errors import SqlglotError
        from sqlglot.optimizer.pushdown_projections import pushdown_projections
        from sqlglot.optimizer.qualify import qualify
        from sqlglot.optimizer.scope import traverse_scope

        schema = {name: dict.fromkeys(rows.column_names, "TEXT") for name, rows in self._schemas.items()}
        total = 0
        try:
            narrow = qualify(tree.copy(), schema=schema, dialect="duckdb", validate_qualify_columns=False)
            narrow = pushdown_projections(narrow)
            scopes = list(traverse_scope(narrow))
        except SqlglotError:
            return sum(types.logical_bytes(rows[name]) for rows in self._schemas.values() for name in rows.column_names)
        for scope in scopes:
            for alias, source in scope.sources.items():
                if isinstance(source, exp.Table) and (rows := self._schemas.get(source.name)) is not None:
                    names = {column.name.lower() for column in scope.columns if column.table == alias}
                    total += sum(types.logical_bytes(rows[n]) for n in rows.column_names if n.lower() in names)
        return total


def _weekday(node: Any) -> Any:
    """Shifts weekdays, which the translation leaves out: Sunday is 1 in BigQuery and 0 in DuckDB."""
    from sqlglot import exp

    if isinstance(node, exp.Extract) and node.name.upper() == "DAYOFWEEK" and not isinstance(node.parent, exp.Paren):
        return exp.paren(exp.Add(this=exp.paren(node.copy()), expression=exp.Literal.number(1)), copy=False)
    return node
