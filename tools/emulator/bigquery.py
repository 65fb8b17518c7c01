"""BigQuery on loopback: REST as in its discovery document, Storage Read over gRPC, computing by DuckDB.

    cloud.bigquery.add_dataset("flights", location="EU")
    cloud.bigquery.write("test-project.flights.rows", pa.table(...))      # each time a new version, at the cloud's time
    cloud.bigquery.write("test-project.flights.rows", table, at=moment, partitioned="day")   # asks for a filter
    cloud.bigquery.add_view("test-project.flights.late", "SELECT ...")
    cloud.bigquery.held = True             # jobs run until they are released or cancelled
    cloud.bigquery.broken_streams = 1      # a stream of Storage Read breaks off after its first batch
    cloud.bigquery.environment             # variables that connect Google's clients

Here are the REST methods: https://cloud.google.com/bigquery/docs/reference/rest. Beside it: bigquery_catalog.py
(datasets, tables with their versions, views),
bigquery_loading.py (load jobs), bigquery_sql.py (a query of BigQuery, for DuckDB), bigquery_types.py
(types of BigQuery, of Arrow, rows as JSON), bigquery_reading.py (Storage Read).
"""

import re
import uuid
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from . import bigquery_loading as loading
from . import bigquery_types as types
from .bigquery_catalog import Catalog, Dataset, Table
from .bigquery_reading import ReadServer
from .bigquery_sql import Name, Query, QueryError
from .call import Call
from .errors import ApiError

if TYPE_CHECKING:
    from .cloud import Cloud

#: Job settings that write a query's result into a table.
STATEMENT = re.compile(
    r"CREATE OR REPLACE TABLE `(?P<project>[^`]+)`\.`(?P<dataset>[^`]+)`\.`(?P<table>[^`]+)`\s+"
    r"OPTIONS \(expiration_timestamp = TIMESTAMP '(?P<expires>[^']+)'\) AS\s+(?P<query>.*)",
    re.DOTALL,
)
#: Rows of a page of results at most.
PAGE_ROWS = 10_000


class Refusal(ApiError):
    """An error in BigQuery's form, with a reason in `errors`."""

    def __init__(self, code: int, reason: str, message: str):
        super().__init__(code, message)
        self.reason = reason

    def as_json(self) -> dict[str, Any]:
        answer = super().as_json()
        answer["error"]["errors"] = [{"message": self.message, "domain": "global", "reason": self.reason}]
        return answer


def refusal(code: int, reason: str, message: str) -> ApiError:
    """Returns an error for Fault(answer=refusal(403, "quotaExceeded", "Quota exceeded: ..."))."""
    return Refusal(code, reason, message)


@dataclass
class Job:
    project: str
    name: str
    location: str
    configuration: dict[str, Any]
    created: datetime
    bytes: int = 0
    rows: pa.Table | None = None
    destination: Name | None = None
    error: dict[str, str] | None = None
    done: bool = True
    referenced: list[Name] = field(default_factory=list)

    @property
    def sql(self) -> str:
        return str(self.configuration["query"]["query"])

    @property
    def labels(self) -> dict[str, str]:
        return dict(self.configuration.get("labels", {}))


class BigQuery(Catalog):
    """The state of BigQuery."""

    def __init__(self, cloud: "Cloud"):
        super().__init__(cloud)
        self.jobs: dict[str, Job] = {}
        #: Whether jobs run until `release` or a cancel.
        self.held = False
        #: How many streams break off after their first batch.
        self.broken_streams = 0
        #: Bytes that every dry run reports, in place of the real number.
        self.pretended_bytes: int | None = None
        self._reads: ReadServer | None = None

    @property
    def environment(self) -> dict[str, str]:
        if self._reads is None:
            self._reads = ReadServer(self)
        return {
            "BIGQUERY_EMULATOR_HOST": self.cloud.endpoint("bigquery"),
            "BIGQUERY_STORAGE_EMULATOR_HOST": self._reads.address,
        }

    def close(self) -> None:
        if self._reads is not None:
            self._reads.close()
        super().close()

    def release(self) -> None:
        """Lets held jobs succeed."""
        self.held = False
        for job in self.jobs.values():
            job.done = True

    def require_permission(self, permission: str, what: str) -> None:
        if self.cloud.policies.lacks(permission):
            text = f"Access Denied: {what}: Permission {permission} denied on {what} (or it may not exist)."
            raise Refusal(403, "accessDenied", text)

    def table(self, params: Mapping[str, str]) -> Table:
        name = Name(params["projectId"], params["datasetId"], params["tableId"])
        self.require_permission("bigquery.tables.get", f"Table {name.colon}")
        if table := self.find(name):
            return table
        raise Refusal(404, "notFound", f"Not found: Table {name.colon}")

    def run(self, job: Job) -> None:
        """Computes a job's result; an error is stored in the job."""
        made = STATEMENT.fullmatch(job.sql)
        query = Query(self, made["query"] if made else job.sql, job.location, job.project)
        try:
            sql = query.duckdb()
            job.bytes, job.referenced = query.bytes, query.referenced
            limit = int(job.configuration["query"].get("maximumBytesBilled") or 0)
            if limit and query.bytes > limit:
                text = f"Query exceeded limit for bytes billed: {limit}. {query.bytes} or higher required."
                raise QueryError("bytesBilledLimitExceeded", text)
            job.rows = types.convert_table(self.run_sql(sql))
        except QueryError as error:
            job.error = {"reason": error.reason, "message": error.message, "location": "query"}
            return
        if made:
            job.destination = Name(made["project"], made["dataset"], made["table"])
            if job.destination[:2] not in self.datasets:
                job.error = {"reason": "notFound", "message": f"Not found: Dataset {job.destination[:2]}"}
                return
            self.tables.pop(job.destination, None)
            table = self.write(".".join(job.destination), job.rows)
            table.expires = datetime.fromisoformat(made["expires"])
        else:
            self.datasets.setdefault((job.project, "_results"), Dataset(job.project, "_results", job.location,
                                     job.created))  # fmt: skip
            job.destination = Name(job.project, "_results", f"anon{uuid.uuid4().hex}")
            self.write(".".join(job.destination), job.rows).expires = job.created + timedelta(hours=24)

    def run_sql(self, sql: str) -> pa.Table:
        import duckdb

        try:
            return self.connection.sql(sql).to_arrow_table()
        except duckdb.Error as error:
            raise QueryError("invalidQuery", str(error).partition("\n")[0]) from None


class Jobs:
    prefix = "bigquery.jobs"

    def __init__(self, bigquery: BigQuery):
        self.bigquery = bigquery

    def insert(self, call: Call) -> dict[str, Any]:
        state, project = self.bigquery, call.params["projectId"]
        self._check_caller(project)
        reference = call.body.get("jobReference", {})
        configuration = call.body["configuration"]
        if "load" not in configuration and configuration["query"].get("useLegacySql", True):
            raise Refusal(400, "invalid", "the loopback BigQuery has no legacy SQL")
        name = reference.get("jobId") or f"job_{uuid.uuid4().hex}"
        location = reference.get("location") or "US"
        if name in state.jobs:
            raise Refusal(409, "duplicate", f"Already Exists: Job {project}:{location}.{name}")
        for label, value in configuration.get("labels", {}).items():
            if not re.fullmatch(r"[a-z][a-z0-9_-]{0,62}", label) or not re.fullmatch(r"[a-z0-9_-]{0,63}", value):
                raise Refusal(400, "invalid", f"Label {label}={value} is invalid")
        job = Job(project, name, location, configuration, state.cloud.clock.now())
        if configuration.get("dryRun"):
            return self._dry(job)
        state.jobs[name] = job
        if "load" in configuration:
            loading.load(state, job)
        else:
            state.run(job)
        job.done = not state.held
        return self._resource(job)

    def _dry(self, job: Job) -> dict[str, Any]:
        query = Query(self.bigquery, job.sql, job.location, job.project)
        try:
            result = self.bigquery.run_sql(f"SELECT * FROM ({query.duckdb()}) LIMIT 0")
        except QueryError as error:
            raise Refusal(error.code, error.reason, error.message) from None
        job.bytes, job.rows = query.bytes, types.convert_table(result)
        if self.bigquery.pretended_bytes is not None:
            job.bytes = self.bigquery.pretended_bytes
        return self._resource(job)

    def get(self, call: Call) -> dict[str, Any]:
        return self._resource(self._find_job(call))

    def cancel(self, call: Call) -> dict[str, Any]:
        job = self._find_job(call)
        if not job.done:
            job.done, job.error = True, {"reason": "stopped", "message": "Job execution was cancelled: User requested"}
            if job.destination:
                self.bigquery.tables.pop(job.destination, None)
        return {"kind": "bigquery#jobCancelResponse", "job": self._resource(job)}

    def getQueryResults(self, call: Call) -> dict[str, Any]:
        job = self._find_job(call)
        reference = {"projectId": job.project, "jobId": job.name, "location": job.location}
        answer: dict[str, Any] = {"kind": "bigquery#getQueryResultsResponse", "jobReference": reference}
        if not job.done:
            return {**answer, "jobComplete": False}
        if job.error:
            raise Refusal(400, job.error["reason"], job.error["message"])
        assert job.rows is not None and job.destination is not None
        if self.bigquery.find(job.destination) is None:
            raise Refusal(404, "notFound", f"Not found: Table {job.destination.colon}")
        start = int(call.query.get("pageToken") or call.query.get("startIndex") or 0)
        count = min(PAGE_ROWS, int(call.query.get("maxResults", PAGE_ROWS)))
        micros = call.query.get("formatOptions.useInt64Timestamp", "").lower() == "true"
        rows = job.rows.slice(start, count).to_pylist()
        if start + len(rows) < job.rows.num_rows and rows:
            answer["pageToken"] = str(start + len(rows))
        return {
            **answer, "jobComplete": True, "schema": types.schema(job.rows.schema),
            "totalRows": str(job.rows.num_rows), "totalBytesProcessed": str(job.bytes), "cacheHit": False,
            **({"rows": [types.row(row, micros=micros) for row in rows]} if rows else {}),
        }  # fmt: skip

    def _check_caller(self, project: str) -> None:
        if project not in (self.bigquery.cloud.project, self.bigquery.cloud.project_number):
            raise Refusal(404, "notFound", f"Not found: Project {project}")
        self.bigquery.require_permission("bigquery.jobs.create", f"Project {project}")

    def _find_job(self, call: Call) -> Job:
        job = self.bigquery.jobs.get(call.params["jobId"])
        if job is None or job.location.lower() != call.query.get("location", "US").lower():
            raise Refusal(404, "notFound", f"Not found: Job {call.params['projectId']}:{call.params['jobId']}")
        return job

    def _resource(self, job: Job) -> dict[str, Any]:
        created = str(round(job.created.timestamp() * 1000))
        status: dict[str, Any] = {"state": "DONE" if job.done else "RUNNING"}
        if job.error and job.done:
            status |= {"errorResult": job.error, "errors": [job.error]}
        loads = "load" in job.configuration
        configuration = loading.resource(job) if loads else {
            **job.configuration, "jobType": "QUERY", "query": dict(job.configuration["query"])
        }  # fmt: skip
        if job.destination and not loads:
            project, dataset, table = job.destination
            configuration["query"]["destinationTable"] = {"projectId": project, "datasetId": dataset, "tableId": table}
        figures = {"totalBytesProcessed": str(job.bytes), "statementType": "SELECT"}
        if job.rows is not None:
            figures["schema"] = types.schema(job.rows.schema)  # type: ignore[assignment]
        return {
            "kind": "bigquery#job",
            "id": f"{job.project}:{job.location}.{job.name}",
            "jobReference": {"projectId": job.project, "jobId": job.name, "location": job.location},
            "configuration": configuration,
            "status": status,
            "statistics": {
                "creationTime": created, "startTime": created, "totalBytesProcessed": str(job.bytes), "query": figures,
            },
        }  # fmt: skip


class Datasets:
    prefix = "bigquery.datasets"

    def __init__(self, bigquery: BigQuery):
        self.bigquery = bigquery

    def get(self, call: Call) -> dict[str, Any]:
        project, name = call.params["projectId"], call.params["datasetId"]
        self.bigquery.require_permission("bigquery.datasets.get", f"Dataset {project}:{name}")
        if dataset := self.bigquery.datasets.get((project, name)):
            return self._resource(dataset)
        raise Refusal(404, "notFound", f"Not found: Dataset {project}:{name}")

    def insert(self, call: Call) -> dict[str, Any]:
        reference = call.body["datasetReference"]
        project, name = call.params["projectId"], reference["datasetId"]
        self.bigquery.require_permission("bigquery.datasets.create", f"Project {project}")
        if (project, name) in self.bigquery.datasets:
            raise Refusal(409, "duplicate", f"Already Exists: Dataset {project}:{name}")
        fields = {key: value for key, value in call.body.items() if key not in ("datasetReference", "location")}
        made = self.bigquery.add_dataset(name, location=call.body.get("location", "US"), project=project, **fields)
        return self._resource(made)

    def delete(self, call: Call) -> dict[str, Any]:
        key = (call.params["projectId"], call.params["datasetId"])
        self.bigquery.datasets.pop(key)
        for table in list(self.bigquery.in_dataset(*key)):
            del self.bigquery.tables[table.name]
        return {}

    def _resource(self, dataset: Dataset) -> dict[str, Any]:
        created = str(round(dataset.created.timestamp() * 1000))
        return {
            "kind": "bigquery#dataset", "id": f"{dataset.project}:{dataset.name}", "location": dataset.location,
            "datasetReference": {"projectId": dataset.project, "datasetId": dataset.name},
            "creationTime": created, "lastModifiedTime": created, **dataset.fields,
        }  # fmt: skip


class Tables:
    prefix = "bigquery.tables"

    def __init__(self, bigquery: BigQuery):
        self.bigquery = bigquery

    def get(self, call: Call) -> dict[str, Any]:
        return self._resource(self.bigquery.table(call.params))

    def list(self, call: Call) -> dict[str, Any]:
        tables = [
            self._resource(t) for t in self.bigquery.in_dataset(call.params["projectId"], call.params["datasetId"])
        ]
        kept = ("kind", "id", "tableReference", "type", "creationTime")
        return {"kind": "bigquery#tableList", "totalItems": len(tables),
                "tables": [{key: table[key] for key in kept} for table in tables]}  # fmt: skip

    def delete(self, call: Call) -> dict[str, Any]:
        table = self.bigquery.table(call.params)
        self.bigquery.require_permission("bigquery.tables.delete", f"Table {table.name.colon}")
        del self.bigquery.tables[table.name]
        return {}

    def _resource(self, table: Table) -> dict[str, Any]:
        project, dataset, name = table.name
        answer: dict[str, Any] = {
            "kind": "bigquery#table", "id": table.name.colon, "type": table.kind, "location": table.location,
            "tableReference": {"projectId": project, "datasetId": dataset, "tableId": name},
            "creationTime": _ms(table.created), "lastModifiedTime": _ms(table.modified), **table.fields,
        }  # fmt: skip
        if table.query:
            member = "materializedView" if table.kind == "MATERIALIZED_VIEW" else "view"
            answer[member] = {"query": table.query, **({"useLegacySql": False} if member == "view" else {})}
            return answer
        rows = table.latest.rows
        answer |= {
            "schema": types.schema(rows.schema), "numRows": str(rows.num_rows),
            "numBytes": str(sum(types.logical_bytes(rows[column]) for column in rows.column_names)),
        }  # fmt: skip
        if table.expires:
            answer["expirationTime"] = _ms(table.expires)
        if table.partitioned:
            answer["requirePartitionFilter"] = True
            if types.kind(rows.schema.field(table.partitioned).type) == "INTEGER":
                answer["rangePartitioning"] = {"field": table.partitioned}
            else:
                answer["timePartitioning"] = {"type": "DAY", "field": table.partitioned}
        return answer


def _ms(moment: datetime) -> str:
    return str(int(moment.timestamp() * 1000))


SERVICES = (Jobs, Datasets, Tables)
