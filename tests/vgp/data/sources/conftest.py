"""Files read as a task's data is read."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from vgp.data.schema import Field
from vgp.data.sources.data_files import Reading, resolve
from vgp.data.sources.table_files import Files

FIELDS = (Field("n", pa.int32()), Field("when", pa.timestamp("s", tz="UTC")), Field("word", pa.string()))


@pytest.fixture
def opened(tmp_path: Path) -> Callable[..., Files]:
    """The files of `data`, a text with {} for the test's folder, or of contents by their names."""

    def make(
        data: str | dict[str, bytes] = "{}", fields: Sequence[Field] = FIELDS, threads: int = 2, **reading: str
    ) -> Files:
        if not isinstance(data, str):
            for name, content in data.items():
                (tmp_path / name).parent.mkdir(exist_ok=True, parents=True)
                (tmp_path / name).write_bytes(content)
            data = ",".join(f"{tmp_path}/{name}" for name in data)
        return Files(resolve(data.format(tmp_path)), fields, Reading(**reading), tmp_path / "scratch", threads=threads)

    return make


@pytest.fixture
def read(opened: Callable[..., Files]) -> Callable[..., pa.Table]:
    def table(*args: Any, columns: Sequence[str] | None = None, **kwargs: Any) -> pa.Table:
        files = opened(*args, **kwargs)
        batches = list(files.batches(columns))
        return pa.Table.from_batches(batches, files.schema if columns is None else None)

    return table
