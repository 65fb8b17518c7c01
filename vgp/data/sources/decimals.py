"""Which mark the decimals of a CSV file follow: told by its first numbers."""

import re
from collections.abc import Iterator, Sequence

import pyarrow as pa

from vgp.base.exits import UserError
from vgp.base.printable import listed, quoted
from vgp.data.schema import Field
from vgp.data.sources import records
from vgp.data.sources.delimited import Delimited

SAMPLE_BYTES = 8 << 10
WITH_COMMA = re.compile(r"[+-]?\d+,\d+")
WITH_THOUSANDS = re.compile(r"[+-]?[1-9]\d{0,2}(,\d{3})+")
WITH_POINT = re.compile(r"[+-]?\d*\.\d+")


def found(name: str, text: bytes, layout: Delimited, fields: Sequence[Field]) -> str:
    """The decimal mark of a text that begins so, behind its header.

    Raises:
        UserError: a comma may also part thousands.
    """
    text = text[:SAMPLE_BYTES]
    broken = [field.name for field in fields if pa.types.is_floating(field.type) or pa.types.is_decimal(field.type)]
    if not broken or not _may_have_commas(text, layout):
        return "."
    shown = dict(_numbers(text, layout, broken))
    commas = [value for value in shown if WITH_COMMA.fullmatch(value)]
    if not commas or any(WITH_POINT.fullmatch(value) for value in shown):
        return "."
    if all(WITH_THOUSANDS.fullmatch(value) for value in commas):
        whole, parted = commas[0].replace(",", ""), commas[0].replace(",", ".", 1)
        raise UserError(
            f"{name}, column {listed([shown[commas[0]]])}: {quoted(commas[0])} may be {whole} or {parted}. For the "
            'latter give task_options={"decimal": ","}; for the former write thousands without a comma.'
        )
    return ","


def _may_have_commas(text: bytes, layout: Delimited) -> bool:
    """Whether a field may be such a number. Between commas it stands in quotes; of thousands of files that have other
    quotes, none is then parted into fields for it."""
    quote = re.escape(layout.quote.encode())
    if layout.separator != ",":
        return re.search(rb"\d,\d", text) is not None
    return bool(quote) and re.search(quote + rb"\s*[+-]?\d+,\d+\s*" + quote, text) is not None


def _numbers(text: bytes, layout: Delimited, columns: Sequence[str]) -> Iterator[tuple[str, str]]:
    """What is written in the columns, and in which one."""
    places = {layout.columns.index(name): name for name in columns}
    for row, _ in records.of(text[: layout.last_end(text)] or text, layout.separator, layout.quote):
        yield from ((row[place].strip(), name) for place, name in places.items() if place < len(row))
