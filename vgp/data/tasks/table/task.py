"""The task whose columns, target and splits stand in a TOML text of the user's: no Python.

vgp new table titanic.csv --target survived        # proposes titanic.toml
vgp run training --set task=titanic.toml --set data=titanic.csv
"""

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any, ClassVar, cast

import ibis.expr.types as ir

from vgp.base.exits import UserError
from vgp.data import splits
from vgp.data.schema import Field
from vgp.data.sources.reading import Reading
from vgp.data.tabular import TabularTask
from vgp.data.tasks.table import features, parsing
from vgp.data.tasks.table.declaration import Declared, Network
from vgp.data.tasks.table.features import date_of, number_of, stored, text_of
from vgp.data.tasks.table.parsing import parse

#: What the options of a run may change, and the table of the TOML that says it otherwise.
_TABLES = ("split", "reading", "network")


class Table(TabularTask):
    """A table as a task.toml declares it: the option `declaration` is the whole text of the file."""

    settings: ClassVar[Mapping[str, Any]] = {**TabularTask.settings, "declaration": "", **Network().model_dump()}

    def __init__(self, options: Mapping[str, Any] | None = None):
        text = (options or {}).get("declaration", "")
        if not isinstance(text, str) or not text.strip():
            raise UserError(
                "the task table needs its declaration: give a file, --set task=FILE.toml. To have one written: "
                "vgp new table DATA --target COLUMN."
            )
        self.declared = parse(text)
        # In place of the class's own attributes, which are those of all objects.
        self.__dict__.update(_attributes(self.declared, text))
        super().__init__(options)
        self._check_split(text)

    def _check_split(self, text: str) -> None:
        """Raises UserError for a line of [split] that would do nothing."""
        told = self.declared.split.model_dump(exclude_unset=True)
        try:
            splits.choose(self.declaration, self.unlabelled, TabularTask.settings, told)
        except UserError as error:
            raise UserError(f"the task's TOML, line {parsing.line_of(text, ['split'])}: [split]: {error}") from None

    def default_data(self) -> str:
        raise UserError(
            "the task table has no data of its own: give files, folders or globs, --set data=FILES, or bq://..."
        )

    @property
    def reading(self) -> Reading:
        return replace(super().reading, missing=tuple(self.declared.missing))

    def days(self, rows: ir.Table) -> ir.DateValue:
        return date_of(rows[self.time], self.declared.kinds[self.time], self.declared.missing)

    def labels(self, rows: ir.Table) -> Any:
        """The code of a class; of a regression the number itself."""
        target, kind = rows[self.target], self.declared.kinds[self.target]
        if self.regression:
            return number_of(target, kind, self.declared.missing, self.declared.reading.decimal).cast("float64")
        if kind.word == "bool":
            return target.cast("int64")
        text = text_of(target, kind, self.declared.missing)
        codes = [(title, code) for code, title in enumerate(self.classes)]
        unknown = [(value, None) for value in ("", *self.declared.left_out)]
        return cast(ir.IntegerValue, text.cases(*codes, *unknown, else_=-1).cast("int64"))

    def features(self, rows: ir.Table) -> Mapping[str, ir.Value]:
        return features.of(self.declared, rows)


def _attributes(declared: Declared, text: str) -> dict[str, Any]:
    """What a class of a tabular task declares by its attributes."""
    fixed = {*declared.key, declared.time}
    made = features.names(declared)
    schema = tuple(
        Field(
            name, stored(kind), nullable=name not in fixed, known="after" if name == declared.target else "before",
            declared=_line(text, name),
        )
        for name, kind in declared.kinds.items()
    )  # fmt: skip
    told = {name: value for table in _TABLES for name, value in getattr(declared, table).model_dump().items()}
    regression = declared.kind == "regression"
    return {
        "schema": schema,
        "key": tuple(declared.key),
        "time": declared.time,
        "group": declared.groups,
        "target": declared.target,
        "classes": () if regression else tuple(declared.classes),
        "quantiles": tuple(declared.quantiles) if regression else (),
        "decided_by": declared.decided_by,
        "slices": tuple(made[column][0] for column in declared.slices),
        "trusted": tuple(name for column in declared.trusted for name in made.get(column, ())),
        "unlabelled": f"no {declared.target}",
        "remarks": tuple(_repeating(declared)),
        "settings": {**Table.settings, **told},
    }


def _repeating(declared: Declared) -> Iterator[str]:
    """What rows have in common that share a value of a column, and what that means for the figures."""
    by_hash = declared.groups[:1] if not declared.time else ()
    uses = {
        "All rows of one value are in one split, so the figures are those of new ones": by_hash,
        "The decision counts the rows of one value as one; they train and test, so the figures are not of new ones":
            [name for name in declared.groups if name not in by_hash],
        "It is learned from, and rows of one value train and test: the figures are not of new ones":
            declared.features,
    }  # fmt: skip
    rest = "It is not learned from, but rows of one value train and test: the figures are not of new ones"
    for use in (*uses, rest):
        named = [
            f"{name} ({words})" for name, words in declared.repeats.items()
            if next((said for said, columns in uses.items() if name in columns), rest) == use
        ]  # fmt: skip
        if named:
            yield f"Values that come again, of {', '.join(named)}. {use if len(named) == 1 else 'Of each: ' + use}."


def _line(text: str, column: str) -> str:
    """Where a column's type is declared, for who has to change it."""
    number = parsing.line_of(text, ("columns", column))
    return f"line {number} of the task's TOML, {parsing.written_line(text, number)}"
