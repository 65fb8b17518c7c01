"""Storage Read over gRPC: https://cloud.google.com/bigquery/docs/reference/storage/rpc."""

import threading
import uuid
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from .bigquery_sql import Name, Query, QueryError

if TYPE_CHECKING:
    from .bigquery import BigQuery

SERVICE = "google.cloud.bigquery.storage.v1.BigQueryRead"
#: Rows of one message.
BATCH_ROWS = 4096
CODES = {"notFound": "NOT_FOUND", "accessDenied": "PERMISSION_DENIED"}


class ReadServer:
    """A gRPC server on its own port, which starts at the first read."""

    def __init__(self, bigquery: "BigQuery"):
        import grpc
        from google.cloud.bigquery_storage_v1 import types

        self.bigquery, self.types = bigquery, types
        self.streams: dict[str, tuple[pa.Table, bool]] = {}
        self._lock = threading.Lock()
        self._server = grpc.server(ThreadPoolExecutor(8))
        handlers = {
            "CreateReadSession": grpc.unary_unary_rpc_method_handler(
                self.create, types.CreateReadSessionRequest.deserialize, types.ReadSession.serialize
            ),
            "ReadRows": grpc.unary_stream_rpc_method_handler(
                self.read, types.ReadRowsRequest.deserialize, types.ReadRowsResponse.serialize
            ),
        }
        self._server.add_generic_rpc_handlers([grpc.method_handlers_generic_handler(SERVICE, handlers)])
        self.address = f"127.0.0.1:{self._server.add_insecure_port('127.0.0.1:0')}"
        self._server.start()

    def close(self) -> None:
        self._server.stop(None)

    def create(self, request: Any, context: Any) -> Any:
        import grpc

        asked = request.read_session
        _, project, _, dataset, _, table = asked.table.split("/")
        try:
            rows = self._rows(Name(project, dataset, table), asked)
        except QueryError as error:
            context.abort(getattr(grpc.StatusCode, CODES.get(error.reason, "INVALID_ARGUMENT")), error.message)
        session = f"projects/{project}/locations/us/sessions/{uuid.uuid4().hex}"
        compressed = bool(asked.read_options.arrow_serialization_options.buffer_compression)
        count = min(request.max_stream_count or 1, 3) if rows.num_rows else 0
        names = [f"{session}/streams/{number}" for number in range(count)]
        share = -(-rows.num_rows // max(1, count))
        for number, name in enumerate(names):
            self.streams[name] = (rows.slice(number * share, share), compressed)
        return self.types.ReadSession(
            name=session, table=asked.table, data_format=asked.data_format, read_options=asked.read_options,
            arrow_schema={"serialized_schema": rows.schema.serialize().to_pybytes()},
            streams=[self.types.ReadStream(name=name) for name in names], estimated_row_count=rows.num_rows,
        )  # fmt: skip

    def _rows(self, name: Name, asked: Any) -> pa.Table:
        """Returns the rows of a session, through a query, so that the rules of time travel apply."""
        if self.bigquery.cloud.policies.lacks("bigquery.readsessions.create"):
            text = (
                f"request failed: the user does not have 'bigquery.readsessions.create' permission for {name.project}"
            )
            raise QueryError("accessDenied", text)
        columns = ", ".join(f"`{column}`" for column in asked.read_options.selected_fields) or "*"
        moment = asked.table_modifiers.snapshot_time if asked.table_modifiers else None
        clause = f" FOR SYSTEM_TIME AS OF TIMESTAMP '{moment:%Y-%m-%d %H:%M:%S.%f}+00'" if moment else ""
        where = f" WHERE {asked.read_options.row_restriction}" if asked.read_options.row_restriction else ""
        known = self.bigquery.find(name)
        sql = f"SELECT {columns} FROM `{name.project}`.`{name.dataset}`.`{name.table}`{clause}{where}"
        query = Query(self.bigquery, sql, known.location if known else "US", name.project)
        with self.bigquery.cloud.lock:
            return self.bigquery.run_sql(query.duckdb()).combine_chunks()

    def read(self, request: Any, context: Any) -> Iterator[Any]:
        import grpc

        rows, compressed = self.streams[request.read_stream]
        schema = {"serialized_schema": rows.schema.serialize().to_pybytes()}
        start = request.offset
        for number, batch in enumerate(rows.slice(start).to_batches(BATCH_ROWS)):
            yield self.types.ReadRowsResponse(
                arrow_record_batch={"serialized_record_batch": _message(batch, compressed)},
                row_count=batch.num_rows, **({"arrow_schema": schema} if not number else {}),
            )  # fmt: skip
            with self._lock:
                broken = self.bigquery.broken_streams > 0
                self.bigquery.broken_streams -= broken
            if broken:
                context.abort(grpc.StatusCode.UNAVAILABLE, "the stream broke off")


def _message(batch: pa.RecordBatch, compressed: bool) -> bytes:
    """Serializes a batch as an IPC message without the schema of a stream."""
    sink = pa.BufferOutputStream()
    options = pa.ipc.IpcWriteOptions(compression="lz4" if compressed else None)
    with pa.ipc.new_stream(sink, batch.schema, options=options) as writer:
        writer.write_batch(batch)
    reader = pa.ipc.MessageReader.open_stream(sink.getvalue())
    reader.read_next_message()
    return bytes(reader.read_next_message().serialize())
