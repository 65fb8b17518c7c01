"""How large the texts of a Parquet file become: a dictionary writes one once, and a bit for each time it occurs."""

import pyarrow as pa
import pyarrow.compute as pc

from vgp.base.exits import UserError
from vgp.base.storage import inflate
from vgp.data.sources.values import is_text


class Texts:
    """Those of one file, held to the limits of packed files."""

    def __init__(self, name: str, packed_bytes: int):
        self.name, self.packed_bytes = name, packed_bytes
        self.bytes, self.most = 0, max(inflate.MAX_BYTES, inflate.MAX_RATIO * packed_bytes)

    def counted(self, table: pa.Table) -> pa.Table:
        """The table. Raises UserError: with those before it, its texts are beyond the limits.

        Of a small table, as thousands of small files have, what it cannot exceed counts: to add up takes as long as to
        read it.
        """
        most = table.num_rows * table.get_total_buffer_size()
        self.bytes += most if most <= self.most >> 10 else sum(map(_size, table.columns))
        if self.bytes > self.most:
            raise UserError(
                f"{self.name} holds more than {self.most >> 20:,} MiB of text ({self.packed_bytes:,} bytes packed): if "
                "that is right, write it as several files."
            )
        return table


def _size(column: pa.ChunkedArray) -> int:
    """Bytes of its texts, each as often as it occurs; of another column nothing."""
    if pa.types.is_dictionary(column.type):
        if not _variable(column.type.value_type):
            return 0
        return sum(map(_occurring, column.chunks))
    return int(column.nbytes) if _variable(column.type) else 0


def _occurring(chunk: pa.DictionaryArray) -> int:
    lengths = pc.binary_length(chunk.dictionary).cast(pa.int64())
    return pc.sum(lengths.take(chunk.indices)).as_py() or 0


def _variable(kind: pa.DataType) -> bool:
    return is_text(kind) or pa.types.is_binary(kind) or pa.types.is_large_binary(kind)
