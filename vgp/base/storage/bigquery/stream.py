"""Rows of a table by the Storage Read API, from several parallel streams, with a few batches in memory."""

import queue
import threading
from collections.abc import Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

import pyarrow as pa

from vgp.base.storage.bigquery import client
from vgp.base.storage.bigquery.names import TableName

#: Number of parallel streams, and maximum of batches (about 1 MB each) in the queue.
STREAMS = 4
WAITING = 8


@dataclass(frozen=True)
class Rows:
    """A session of the Storage Read API, whose rows do not change."""

    what: str
    schema: pa.Schema
    streams: tuple[str, ...]

    def batches(self) -> Iterator[pa.RecordBatch]:
        """Yields all rows, unordered. Raises the errors of `client.explain_errors`."""
        if not self.streams:
            return
        lanes = min(STREAMS, len(self.streams))
        with closing(_Readers(self, lanes)) as readers:
            yield from readers


def open_rows(
    title: str, project: str, table: TableName, columns: Sequence[str], *, as_of_ms: int = 0, restriction: str = ""
) -> Rows:
    """Opens a session that reads columns of a table.

    Args:
        title: The table, for messages.
        project: The project that pays.
        columns: Names; the session returns them in the table's order.
        as_of_ms: The moment, in milliseconds since 1970; 0 = now.
        restriction: SQL condition on rows; "" = all rows.
    """
    from google.cloud.bigquery_storage_v1 import types

    session = types.ReadSession(
        table=f"projects/{table.project}/datasets/{table.dataset}/tables/{table.table}",
        data_format=types.DataFormat.ARROW,
        read_options=types.ReadSession.TableReadOptions(
            selected_fields=list(columns),
            row_restriction=restriction,
            arrow_serialization_options=types.ArrowSerializationOptions(
                buffer_compression=types.ArrowSerializationOptions.CompressionCodec.LZ4_FRAME
            ),
        ),
    )
    if as_of_ms:
        session.table_modifiers = types.ReadSession.TableModifiers(
            snapshot_time=datetime.fromtimestamp(as_of_ms / 1000, UTC)
        )
    with client.explain_errors(title):
        session = client.reader().create_read_session(
            parent=f"projects/{project}", read_session=session, max_stream_count=STREAMS
        )
    schema = pa.ipc.read_schema(pa.py_buffer(session.arrow_schema.serialized_schema))
    return Rows(title, schema, tuple(stream.name for stream in session.streams))


class _Readers:
    """Threads that read streams into one queue of batches."""

    def __init__(self, rows: Rows, lanes: int):
        self._what, self._schema = rows.what, rows.schema
        self._queue: queue.Queue[Any] = queue.Queue(WAITING)
        self._streams: queue.SimpleQueue[str] = queue.SimpleQueue()
        for stream in rows.streams:
            self._streams.put(stream)
        self._stopped = threading.Event()
        self._threads = [threading.Thread(target=self._work, daemon=True) for _ in range(lanes)]
        for thread in self._threads:
            thread.start()

    def __iter__(self) -> Iterator[pa.RecordBatch]:
        running = len(self._threads)
        while running:
            item = self._queue.get()
            if isinstance(item, pa.RecordBatch):
                yield item
            elif item is None:
                running -= 1
            else:
                with client.explain_errors(self._what):
                    raise item

    def close(self) -> None:
        """Ends the threads and drops the batches in the queue."""
        self._stopped.set()
        for thread in self._threads:
            while thread.is_alive():
                self._drain()
                thread.join(0.05)

    def _drain(self) -> None:
        while not self._queue.empty():
            self._queue.get_nowait()

    def _work(self) -> None:
        try:
            while not self._stopped.is_set():
                try:
                    stream = self._streams.get_nowait()
                except queue.Empty:
                    break
                self._read(stream)
            self._put(None)
        except BaseException as error:
            self._put(error)

    def _read(self, stream: str) -> None:
        for message in client.reader().read_rows(stream):  # the client resumes a broken stream
            if self._stopped.is_set():
                return
            data = message.arrow_record_batch.serialized_record_batch
            self._put(pa.ipc.read_record_batch(pa.py_buffer(data), self._schema))

    def _put(self, item: object) -> None:
        while not self._stopped.is_set():
            try:
                return self._queue.put(item, timeout=0.1)
            except queue.Full:
                continue
