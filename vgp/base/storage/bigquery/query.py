"""The text of a query: parsed for its tables, and refused if a rerun could give other rows.

The text stays as written, except that the names of tables are replaced at the offsets that the parser reports.
"""

import logging
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from vgp.base.exits import UserError
from vgp.base.storage.bigquery import names
from vgp.base.storage.bigquery.names import TableName
from vgp.base.text.printable import quote

if TYPE_CHECKING:
    from sqlglot import exp

#: Maximum length of a query in BigQuery, in characters: https://cloud.google.com/bigquery/quotas#query_jobs (2026-11).
MOST_LETTERS = 1 << 20
#: Prefixes of BigQuery's built-in functions; other dotted functions are user-defined and may change.
OWN_FUNCTIONS = ("safe", "net", "keys", "hll_count", "aead", "d3a_count", "hll_sketch")
_DRAWN = (
    "draws rows at random, so a rerun would read other rows. Filter by a hash of a key: "
    "MOD(ABS(FARM_FINGERPRINT(CAST(id AS STRING))), 100) < 10"
)
_CLOCK = (
    "has another value in each run, so a rerun would read other rows. Write the date itself, or "
    "leave it out: the windows `train` and `test` follow the data, and as_of reads the past"
)
#: Forbidden constructs, by the name in the parser or in BigQuery, and the reason.
MOVING = {
    "RAND": _DRAWN, "GENERATE_UUID": _DRAWN.replace("draws rows", "draws values"), "TABLESAMPLE": _DRAWN,
    "CURRENT_DATE": _CLOCK, "CURRENT_TIMESTAMP": _CLOCK, "CURRENT_DATETIME": _CLOCK, "CURRENT_TIME": _CLOCK,
    "SESSION_USER": "depends on the account that runs it. Write the name itself",
    "EXTERNAL_QUERY": "reads another database, which has no versions. Copy it into a table",
    "PREDICT": "calls a model, which may be replaced at any time. Store its predictions in a table",
}  # fmt: skip


@dataclass(frozen=True)
class Reference:
    """A table in the text of a query."""

    name: TableName
    #: Offsets of its name, and of a clause about it, behind its alias.
    start: int
    end: int
    clause: int
    has_alias: bool


class QueryText:
    """One SELECT of BigQuery; `title` names it in messages."""

    def __init__(self, title: str, text: str, project: str = ""):
        """Parses the text.

        Args:
            project: Default project of table names, inside a view.

        Raises:
            UserError: it does not parse, is not a single SELECT, or a rerun could give other rows.
        """
        self.title, self.text, self.project = title, text, project
        if len(text) > MOST_LETTERS:
            raise UserError(f"{title} has {len(text):,} characters; the maximum is {MOST_LETTERS:,}.")
        self.tree = self._parse()
        self.text = _without_semicolon(text)
        self._check()
        self.references = sorted(self._list_references(), key=lambda reference: reference.start)

    @property
    def tables(self) -> list[TableName]:
        """Returns the distinct tables and views that the query reads, sorted."""
        return sorted({reference.name for reference in self.references})

    def rewritten(
        self, expanded: Callable[[TableName], str] = lambda name: "", clause: Callable[[TableName], str] = lambda n: ""
    ) -> str:
        """Returns the text with tables replaced and clauses added.

        Args:
            expanded: Returns the query that replaces a table, in parentheses; "" = keep the table.
            clause: Returns the clause after a table and its alias, such as FOR SYSTEM_TIME AS OF; "" = none.
        """
        text = self.text
        for reference in reversed(self.references):
            if behind := clause(reference.name):
                text = f"{text[: reference.clause]} {behind}{text[reference.clause :]}"
            inner = expanded(reference.name)
            alias = "" if reference.has_alias else f" AS `{reference.name.table}`"
            own = f"(\n{inner}\n){alias}" if inner else reference.name.sql
            text = text[: reference.start] + own + text[reference.end :]
        return text

    def _parse(self) -> "exp.Query":
        import sqlglot
        from sqlglot import exp

        logging.getLogger("sqlglot").setLevel(logging.ERROR)  # the errors below replace its warnings
        try:
            statements = [tree for tree in sqlglot.parse(self.text, dialect="bigquery") if tree is not None]
        except sqlglot.errors.SqlglotError as error:
            raise UserError(f"{self.title} does not parse: {_format_parse_error(error)}") from None
        except RecursionError:
            raise UserError(f"{self.title} does not parse: it is nested too deeply.") from None
        if not statements:
            raise UserError(f"{self.title} has no query: write one SELECT.")
        if len(statements) != 1 or not isinstance(statements[0], exp.Query):
            if len(statements) == 1 and not isinstance(statements[0], (exp.Command, exp.DDL, exp.DML)):
                begins = quote(self.text.strip()[:40])
                raise UserError(f"{self.title} must be one SELECT, but begins with {begins}.")
            kinds = ", ".join(_first_keyword(statement) for statement in statements)
            raise UserError(f"{self.title} must be one SELECT, but has {kinds}: move the declarations into WITH.")
        return statements[0]

    def _check(self) -> None:
        for name in filter(None, map(_find_moving_function, self.tree.walk())):
            raise UserError(f"{self.title}: {name} {MOVING[name]}.")
        for function in map(_own_function, self.tree.walk()):
            if function:
                raise UserError(
                    f"{self.title} calls the function {function}, which may change at any time: write its "
                    "expression into the query, or store its results in a table."
                )
        if any(node.args.get("limit") and not node.args.get("order") for node in self.tree.walk()):
            raise UserError(
                f"{self.title}: LIMIT without ORDER BY returns other rows in each run. Add an ORDER BY of a unique "
                "column."
            )
        for parameter in map(_describe_parameter, self.tree.walk()):
            if parameter:
                raise UserError(f"{self.title} has the parameter {parameter}, which has no value: write the value.")

    def _list_references(self) -> Iterator[Reference]:
        from sqlglot import exp
        from sqlglot.errors import SqlglotError
        from sqlglot.optimizer.scope import traverse_scope

        try:
            scopes = traverse_scope(self.tree)
        except SqlglotError as error:
            raise UserError(f"{self.title} does not parse: {_format_parse_error(error)}") from None
        tables = {id(table): table for scope in scopes for table in scope.tables}
        common = {id(table) for scope in scopes for table in scope.tables if _is_common(scope, table)}
        for key, table in tables.items():
            if key not in common:
                if not isinstance(table.this, exp.Identifier):
                    raise UserError(
                        f"{self.title} reads from the function {table.sql('bigquery')}, which may change at any "
                        "time: write its query instead."
                    )
                yield self._build_reference(table)

    def _build_reference(self, table: "exp.Table") -> Reference:
        parts = [part for part in (table.args.get("catalog"), table.args.get("db"), table.this) if part]
        name = ".".join(part.name for part in parts)
        if table.args.get("version"):
            raise UserError(f"{self.title}: remove FOR SYSTEM_TIME AS OF {name}; as_of = DAY reads the past.")
        if "information_schema" in name.lower():
            raise UserError(f"{self.title} reads {name}, which changes by itself: copy it into a table.")
        if len(parts) == 2 and self.project:
            name = f"{self.project}.{name}"
        elif len(parts) < 3:
            raise UserError(
                f"{self.title} reads {name}, which is not a full name: write `PROJECT.DATASET.TABLE`, which means one "
                "table in every project."
            )
        start = min(part.meta["start"] for part in parts)
        end = max(part.meta["end"] for part in parts) + 1
        alias = table.args.get("alias")
        last = alias.this.meta["end"] + 1 if alias and alias.this else end
        return Reference(names.parse(name), start, end, last, bool(alias))


def _is_common(scope: object, table: "exp.Table") -> bool:
    """Whether the name is a common table expression, or an array of a row, and not a table."""
    from sqlglot import exp
    from sqlglot.optimizer.scope import Scope

    assert isinstance(scope, Scope)
    if table.args.get("db"):
        database = table.args["db"].name
        return not table.args.get("catalog") and database in scope.sources and database != table.alias_or_name
    return isinstance(scope.sources.get(table.alias_or_name), Scope) or (
        isinstance(table.this, exp.Identifier) and table.name in scope.cte_sources
    )


def _find_moving_function(node: "exp.Expr") -> str:
    """Returns the key in `MOVING` of a forbidden node, or ""."""
    from sqlglot import exp

    kinds = {
        exp.Rand: "RAND", exp.Uuid: "GENERATE_UUID", exp.TableSample: "TABLESAMPLE", exp.Predict: "PREDICT",
        exp.CurrentDate: "CURRENT_DATE", exp.CurrentTimestamp: "CURRENT_TIMESTAMP", exp.CurrentTime: "CURRENT_TIME",
        exp.CurrentDatetime: "CURRENT_DATETIME", exp.SessionUser: "SESSION_USER", exp.CurrentUser: "SESSION_USER",
    }  # fmt: skip
    if isinstance(node, exp.Anonymous):
        return node.name.upper() if node.name.upper() in MOVING else ""
    return kinds.get(type(node), "")


def _own_function(node: "exp.Expr") -> str:
    from sqlglot import exp

    if not isinstance(node, exp.Dot) or not isinstance(node.expression, exp.Anonymous | exp.Func):
        return ""
    path = node.sql("bigquery").partition("(")[0]
    return "" if path.partition(".")[0].lower().strip("`") in OWN_FUNCTIONS else path


def _without_semicolon(text: str) -> str:
    """Replaces semicolons, which parentheses cannot contain, by blanks, so that offsets stay."""
    import sqlglot

    ends = (token.start for token in sqlglot.tokenize(text, dialect="bigquery") if token.text == ";")
    for end in ends:
        text = f"{text[:end]} {text[end + 1 :]}"
    return text


def _describe_parameter(node: "exp.Expr") -> str:
    from sqlglot import exp

    return node.sql("bigquery") if isinstance(node, exp.Parameter | exp.Placeholder) else ""


def _first_keyword(statement: "exp.Expr") -> str:
    """Returns the first keyword of a statement; for unparsed statements the parser keeps only that."""
    from sqlglot import exp

    return str(statement.this if isinstance(statement, exp.Command) else statement.key).upper()


def _format_parse_error(error: Exception) -> str:
    """Returns the parser's first error, without its terminal colours."""
    details = getattr(error, "errors", [])
    if details:
        first = details[0]
        where, near = f"line {first['line']}, column {first['col']}", repr(first["highlight"])
        if first["description"].startswith("Required keyword"):
            return f"{where}: something is missing after {near}."
        if "Unexpected token" in first["description"]:
            return f"{where}: {near} is not expected there."
        what = first["description"].partition(" but got <")[0]  # names of the parser's own
        return f"{where}: {what} near {near}."
    return f"{str(error).splitlines()[0][:300]}."
