"""Reads JSON lines, one object per line, as typed columns, and explains the mistake in a line that cannot be read."""

import json
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.json

from vgp.base.documents.json_text import JsonObject
from vgp.base.exits import UserError
from vgp.base.text.printable import join_names, quote
from vgp.data import schema
from vgp.data.schema import Field
from vgp.data.sources.records import suggest_windows
from vgp.data.sources.values import Mistake, fill_missing, find_first_missing, format_advice


@dataclass(frozen=True)
class JsonLines:
    """The layout of JSON lines: one object per line; dates and times are strings."""

    doubt = "is it one object a line?"

    def last_end(self, block: bytes) -> int:
        return block.rfind(b"\n") + 1

    def is_open(self, text: bytes) -> bool:
        return False

    def count(self, data: bytes) -> int:
        return data.count(b"\n")

    def find_filled_end(self, data: bytes) -> int:
        return len(data)

    def line(self, data: bytes, record: int) -> int:
        number = -1
        for number, (line, _) in enumerate(_number_lines(data)):
            if number == record:
                return line
        return -2 - number

    def read(self, data: bytes, fields: Sequence[Field]) -> pa.Table:
        """Reads the fields of all lines. Raises pa.ArrowInvalid, without the line."""
        if not data.strip():
            return pa.schema([(field.name, field.type) for field in fields]).empty_table()
        table = pyarrow.json.read_json(
            pa.BufferReader(data),
            pyarrow.json.ReadOptions(use_threads=False, block_size=len(data) + 1),
            pyarrow.json.ParseOptions(
                explicit_schema=pa.schema([(field.name, _find_json_type(field.type)) for field in fields]),
                unexpected_field_behavior="ignore",
            ),
        )
        if table.num_rows != sum(map(bool, map(bytes.strip, data.split(b"\n")))):
            raise pa.ArrowInvalid("a line does not hold one object")
        columns = {field.name: _convert_column(table[field.name], field) for field in fields}
        if _has_other_case(data, [field.name for field in fields if table[field.name].null_count]):
            raise pa.ArrowInvalid("a member has another name")
        return pa.table(columns)

    def mistake(self, data: bytes, message: str, last: bool, fields: Sequence[Field]) -> Mistake:
        """Finds the first line that cannot be read, by bisection, and explains its mistake."""
        lines = [text for _, text in _number_lines(data)]
        good, bad = 0, len(lines)
        while bad - good > 1:
            middle = (good + bad) // 2
            if self._is_readable(b"\n".join(lines[good:middle]), fields):
                good = middle
            else:
                bad = middle
        cut_off = " The file seems to be cut off there." if last and bad == len(lines) and data[-1:] != b"\n" else ""
        return Mistake(good, self._explain(lines[good], fields, message, cut_off))

    def _is_readable(self, data: bytes, fields: Sequence[Field]) -> bool:
        try:
            self.read(data, fields)
        except (pa.ArrowException, UnicodeDecodeError):
            return False
        return True

    def _explain(self, line: bytes, fields: Sequence[Field], message: str, cut_off: str) -> str:
        try:
            line.decode()
            members = json.loads(line)
        except UnicodeDecodeError as error:
            return f": the text is not UTF-8{suggest_windows(line, error.start)}"
        except RecursionError:
            return " is nested too deeply: write one object on each line, with the columns as its members."
        except ValueError as error:
            return f" is not one JSON object ({str(error)[:100]}): write one on each line, and each on one.{cut_off}"
        if not isinstance(members, dict):
            return f" is {_format(members)}, and not a JSON object with the columns as its members."
        if "too big" in message and (
            name := next((key for key, value in members.items() if isinstance(value, float) and math.isinf(value)), "")
        ):
            return f", column {join_names([name])}: the number is beyond 1.8e308, the largest that a float64 holds."
        if name := next((key for key, value in members.items() if not _is_text(key, value)), ""):
            return (
                f", column {join_names([name])}: it holds half a character (\\ud800 to \\udfff alone), which is "
                "no text."
            )
        for field in fields:
            if not self._is_readable(line, [field]):
                return self._describe_error(members, field, message)
        return f": {message[:300]}"

    def _describe_error(self, members: JsonObject, field: Field, message: str) -> str:
        name, value = join_names([field.name]), members.get(field.name)
        if field.name not in members:
            return f" {schema.missing_columns_message(list(members), [field.name])}"
        if value is None or value == "":
            return f": column {name} is empty, but the schema does not allow missing values."
        if "twice" in message:
            return f", column {name} occurs twice."
        return f", column {name}: {_format(value)} is not of type {field.type}.{_suggest_type(value, field)}"


def require_lines(name: str, head: bytes) -> None:
    """Raises UserError if the text is a JSON array instead of JSON lines."""
    if head.lstrip().startswith(b"["):
        raise UserError(f"{name} is one JSON array: write one object a line, such as by jq -c '.[]' OLD > NEW.")


def _has_other_case(data: bytes, names: Sequence[str]) -> bool:
    """Whether an object lacks one of the names but has a member that differs from it only in case."""
    lower = data.lower() if names else b""
    for name in names:
        written = json.dumps(name, ensure_ascii=False).encode()
        if lower.count(written.lower()) == data.count(written):  # true of nearly all blocks
            continue
        texts = (text for _, text in _number_lines(data) if written not in text and written.lower() in text.lower())
        if any(
            name not in members and name.casefold() in map(str.casefold, members) for members in map(json.loads, texts)
        ):
            return True
    return False


def _number_lines(data: bytes) -> Iterator[tuple[int, bytes]]:
    """Yields the non-blank lines with their numbers from 0."""
    return ((number, text) for number, text in enumerate(data.split(b"\n")) if text.strip())


def _is_text(*values: object) -> bool:
    try:
        json.dumps(values, ensure_ascii=False).encode()
    except UnicodeEncodeError:
        return False
    return True


def _suggest_type(value: object, field: Field) -> str:
    if isinstance(value, dict | list):
        return f" Write its parts as members of their own.{field.fix}"
    if isinstance(value, str) and not field.declared and not pa.types.is_temporal(field.type):
        return " It is text: write it without quotes, or declare pa.string()."
    return format_advice(json.dumps(value), field)


def _format(value: object) -> str:
    if isinstance(value, dict | list):
        return f"{'an object' if isinstance(value, dict) else 'a list'} {quote(json.dumps(value))}"
    return quote(value) if isinstance(value, str) else quote(json.dumps(value))[1:-1]


def _find_json_type(declared: pa.DataType) -> pa.DataType:
    """Returns the type in which JSON writes values of a declared type."""
    kinds = pa.types
    if kinds.is_integer(declared) or kinds.is_floating(declared) or kinds.is_boolean(declared):
        return declared
    return declared if kinds.is_decimal(declared) else pa.string()


def _convert_column(written: pa.ChunkedArray, field: Field) -> pa.ChunkedArray:
    if pa.types.is_time(field.type):
        day = pc.binary_join_element_wise("1970-01-01T", written, "")
        written = day.cast(pa.timestamp(field.type.unit))
    values = fill_missing(written if written.type == field.type else written.cast(field.type))
    if not field.nullable and find_first_missing(values) >= 0:
        raise pa.ArrowInvalid("a value is missing")
    return values
