"""The rows of all files, in order, as typed and checked Arrow batches that know where they lie."""

from collections.abc import Iterator, Sequence
from pathlib import Path

import pyarrow as pa

from training.data.manifest import SourceFile
from training.data.schema import Field
from training.data.sources.reading import Reading
from training.storage.finding import File

#: Columns beside the declared ones: the position of the row's file among all, and the row's among those of its file.
FILE, RECORD = "_file", "_record"


class Files:
    """The declared columns of some files.

    Args:
        fields: The columns; others in the files are passed over.
        scratch: Where objects are kept while they are read: a few at a time.
        threads: At most so many read at the same time; 0 = as many as there are cores. They change no row.
    """

    def __init__(
        self, files: Sequence[File], fields: Sequence[Field], reading: Reading, scratch: Path, *, threads: int = 0
    ):
        self.files, self.fields, self.reading, self.scratch, self.threads = files, fields, reading, scratch, threads
        #: Every file with its checksum, once `batches` has come to its end.
        self.sources: tuple[SourceFile, ...] = ()
        #: What was found in the files and is not usual, one sentence each, once `batches` has come to its end.
        self.notes: tuple[str, ...] = ()

    @property
    def schema(self) -> pa.Schema:
        """Of the batches with all columns: the declared ones in their declared types, `_file` and `_record`."""
        declared = [pa.field(field.name, field.type) for field in self.fields]
        return pa.schema([*declared, (FILE, pa.int32()), (RECORD, pa.int64())])

    def batches(self, columns: Sequence[str] | None = None) -> Iterator[pa.RecordBatch]:
        """The rows of all files, in order; each batch has tens of thousands, the last fewer.

        Missing values are null, of strings "".

        Args:
            columns: Some of the declared ones; None = all. No more is read than they need, and only they are checked.

        Raises:
            UserError: a file is damaged, lacks a column, holds a value of another type or none where one must be;
                names file, line and column. Or it was written to meanwhile, or no file has a row.
        """
        raise NotImplementedError

    def place(self, file: int, record: int) -> str:
        """Where a row lies, such as `flights.csv, line 12`: its `_file` and its `_record`."""
        raise NotImplementedError
