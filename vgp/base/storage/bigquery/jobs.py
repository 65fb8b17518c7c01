"""Queries as jobs: estimated first, limited, found again after a kill, cancelled when the step is stopped."""

import hashlib
import re
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from vgp.base.engine_settings import BigQuery
from vgp.base.exits import ProcessFailed, UserError
from vgp.base.retry import Pauses
from vgp.base.storage.bigquery import client
from vgp.base.storage.bigquery.names import TableName

if TYPE_CHECKING:
    from types import FrameType

    from google.cloud import bigquery
    from google.cloud.bigquery import QueryJob

#: Dollars for a TiB that queries read on demand, in the US: https://cloud.google.com/bigquery/pricing (2026-11-22).
#: Other locations cost up to twice as much; with reserved slots a query has no price of its own.
DOLLARS_PER_TIB = 6.25
#: Least that BigQuery bills for each table of a query, times the tables that one of ours may name: a limit below it
#: would refuse what costs a cent. https://cloud.google.com/bigquery/pricing (2026-11-22)
LEAST_BILLED = 16 * (10 << 20)
#: Jobs of one text in one run: each that failed, was cancelled, or whose result is gone makes room for the next.
MOST_ATTEMPTS = 50
#: Seconds between two looks at a job, growing up to the second.
PAUSE_S, LONGEST_PAUSE_S = 0.1, 5.0
#: Seconds after which a job that runs is talked about.
NOTICE_S = 15.0


@dataclass(frozen=True)
class Owner:
    """In whose name jobs run: with the text of a query it decides the name of the job."""

    #: Of Vertex AI, or the folder of a local one.
    run: str
    step: str

    @property
    def labels(self) -> dict[str, str]:
        """https://cloud.google.com/bigquery/docs/labels-intro#requirements"""
        words = {"tool": "vertex-gpu-pipelines", "run": self.run, "step": self.step}
        labels = {key: re.sub(r"[^a-z0-9_-]+", "-", value.lower()).strip("-")[-63:] for key, value in words.items()}
        return {key: value for key, value in labels.items() if value}


@dataclass(frozen=True)
class Estimate:
    """What a query would read, by BigQuery's own word, and the columns that it would give."""

    bytes: int
    #: google.cloud.bigquery.SchemaField
    fields: "tuple[bigquery.SchemaField, ...]"

    @property
    def words(self) -> str:
        return size(self.bytes)


def size(amount: int) -> str:
    """`3.1 GB ($0.02)`."""
    dollars = amount / (1 << 40) * DOLLARS_PER_TIB
    shown = f"${dollars:,.2f}" if dollars >= 0.005 or not amount else "less than a cent"
    kilobytes, gigabytes = amount / (1 << 10), amount / (1 << 30)
    return f"{kilobytes:,.0f} kB ({shown})" if 0 < gigabytes < 0.005 else f"{gigabytes:,.2f} GB ({shown})"


@dataclass
class Jobs:
    """The queries of one step, all in one location; what they read is added up against one limit."""

    settings: BigQuery
    location: str
    owner: Owner
    project: str = ""
    #: Bytes of the jobs so far.
    read_bytes: int = 0
    #: Tables of ours that hold results.
    made: list[str] = field(default_factory=list)
    _ready: bool = False

    def __post_init__(self) -> None:
        self.project = client.project(self.settings.project)

    def estimate(self, what: str, sql: str) -> Estimate:
        """A dry run, which costs nothing. Raises UserError if BigQuery does not take the query."""
        from google.cloud import bigquery

        config = bigquery.QueryJobConfig(dry_run=True, use_query_cache=False, labels=self.owner.labels)
        with client.explained(what):
            job = client.client(self.project).query(
                sql, job_config=config, location=self.location, retry=client.patient(), timeout=60
            )
        return Estimate(int(job.total_bytes_processed or 0), tuple(job.schema or ()))

    def check(self, what: str, needed: int) -> None:
        """Raises UserError if a query of that many bytes is more than may be read."""
        limit = int(self.settings.max_gb * (1 << 30))
        if self.read_bytes + needed > limit:
            before = f" after {size(self.read_bytes)} by the queries before it" if self.read_bytes else ""
            raise UserError(
                f"{what} would read {size(needed)}{before}, and a step may read {self.settings.max_gb:g} GB. Raise "
                "max_gb of [steps.prepare.bigquery], or read less: fewer columns, or a .sql file with a WHERE."
            )

    def table(self, what: str, sql: str, name: str) -> TableName:
        """Runs a query into a table of ours, unless this run has done so; the table.

        Args:
            what: The query, for people.
            name: The beginning of the table's name.
        """
        self._check_dataset()
        target = TableName(self.project, self.settings.dataset, f"{name}_{self._digest(sql, name)[:20]}")
        self._run(what, sql, target)
        self.made.append(str(target))
        return target

    def rows(self, what: str, sql: str) -> pa.Table:
        """A small result."""
        job = self._run(what, sql, None)
        with client.explained(what):
            result = job.result(retry=client.patient(), job_retry=None, timeout=client.DEADLINE_S)
            return result.to_arrow(create_bqstorage_client=False)

    def drop(self) -> None:
        """Deletes the tables of ours: for the end of a step that has done its work."""
        from google.api_core.exceptions import GoogleAPIError

        for name in self.made:
            try:
                client.client(self.project).delete_table(name, not_found_ok=True, retry=client.patient(), timeout=60)
            except GoogleAPIError as error:  # it expires by itself
                print(f"note: {name} was not deleted: {client.sentence(error)}", file=sys.stderr, flush=True)
        self.made.clear()

    # ---- one job

    def _digest(self, sql: str, name: str) -> str:
        text = "\0".join((self.owner.run, self.owner.step, name, sql))
        return hashlib.sha256(text.encode()).hexdigest()

    def _run(self, what: str, sql: str, target: TableName | None) -> "QueryJob":
        estimate = self.estimate(what, sql)
        self.check(what, estimate.bytes)
        base = f"vgp-{self._digest(sql, str(target or ''))[:40]}"
        for attempt in range(MOST_ATTEMPTS):
            job = self._inserted(what, sql, target, f"{base}-{attempt}")
            if job is not None:
                self.read_bytes += estimate.bytes
                return self._finished(what, job)
        raise ProcessFailed(f"{what} failed {MOST_ATTEMPTS} times in BigQuery: its jobs are {base}-0 and so on.")

    def _inserted(self, what: str, sql: str, target: TableName | None, job_id: str) -> Any:
        """The job of that name: made, or found if an answer was lost or a step killed; None if it is spent."""
        from google.api_core.exceptions import Conflict

        asked = client.client(self.project)
        with client.explained(what):
            try:
                return asked.query(
                    self._statement(sql, target), job_config=self._config(), job_id=job_id, location=self.location,
                    retry=client.patient(), job_retry=None, timeout=60,
                )  # fmt: skip
            except Conflict:
                job = asked.get_job(job_id, location=self.location, retry=client.patient(), timeout=60)
        return job if self._is_of_use(job, target) else None

    def _is_of_use(self, job: Any, target: TableName | None) -> bool:
        """Whether an earlier job runs, or has left a result that is still there."""
        from google.api_core.exceptions import NotFound

        if job.state != "DONE":
            return True
        if job.error_result:
            return False
        with client.explained("a result"):
            try:
                name = job.destination if target is None else str(target)
                client.client(self.project).get_table(name, retry=client.patient(), timeout=60)
            except NotFound:  # it expired
                return False
        return True

    def _statement(self, sql: str, target: TableName | None) -> str:
        """The query, into a table that expires by itself, whatever its dataset says."""
        if target is None:
            return sql
        expires = datetime.now(UTC) + timedelta(days=self.settings.expiry_days)
        options = f"OPTIONS (expiration_timestamp = TIMESTAMP '{expires:%Y-%m-%d %H:%M:%S}+00')"
        return f"CREATE OR REPLACE TABLE {target.sql}\n{options} AS\n{sql}"

    def _config(self) -> "bigquery.QueryJobConfig":
        from google.cloud import bigquery

        config = bigquery.QueryJobConfig(use_legacy_sql=False, labels=self.owner.labels)
        limit = int(self.settings.max_gb * (1 << 30)) - self.read_bytes
        config.maximum_bytes_billed = max(limit, LEAST_BILLED)
        return config

    def _finished(self, what: str, job: "QueryJob") -> "QueryJob":
        """The job, when it is done. Whatever ends the wait, such as SIGTERM, ends the job."""
        try:
            with client.explained(what):
                self._wait(what, job)
        except BaseException as stop:
            if job.state != "DONE":
                self._cancel(job)
                print(f"BigQuery's job {job.job_id} was cancelled.", file=sys.stderr, flush=True)
            raise stop
        if job.error_result:
            with client.explained(what):
                raise job.exception()
        return job

    def _wait(self, what: str, job: "QueryJob") -> None:
        notice = iter([f"{what}: {self.link(job.job_id)}"])

        def log_link(lasted_s: float) -> None:
            if lasted_s > NOTICE_S and (line := next(notice, "")):
                print(line, file=sys.stderr, flush=True)

        client.wait(job, Pauses(PAUSE_S, LONGEST_PAUSE_S, factor=1.5), log_link)

    def link(self, job_id: str) -> str:
        """The job in the console."""
        return (
            f"https://console.cloud.google.com/bigquery?project={self.project}"
            f"&j=bq:{self.location}:{job_id}&page=queryresults"
        )

    def _cancel(self, job: "QueryJob") -> None:
        from google.api_core.exceptions import GoogleAPIError

        try:
            job.cancel(retry=client.patient(), timeout=10)
        except GoogleAPIError as error:
            print(f"note: {job.job_id} could not be cancelled: {client.sentence(error)}", file=sys.stderr, flush=True)

    # ---- the dataset of ours

    def _check_dataset(self) -> None:
        """Makes the dataset of ours where it is missing. Raises UserError if it lies elsewhere than the data."""
        if self._ready:
            return
        from google.api_core.exceptions import Conflict, NotFound

        asked, name = client.client(self.project), f"{self.project}.{self.settings.dataset}"
        with client.explained(f"the dataset {name}"):
            try:
                dataset = asked.get_dataset(name, retry=client.patient(), timeout=60)
            except NotFound:
                try:
                    dataset = asked.create_dataset(self._dataset(name), retry=client.patient(), timeout=60)
                except Conflict:  # another step has just made it
                    dataset = asked.get_dataset(name, retry=client.patient(), timeout=60)
        if dataset.location.lower() != self.location.lower():
            raise UserError(
                f"the dataset {name}, for what is computed on the way, lies in {dataset.location}, and the data in "
                f"{self.location}: give [steps.prepare.bigquery] another dataset, such as "
                f'dataset = "{self.settings.dataset}_{re.sub("[^a-z0-9]", "_", self.location.lower())}".'
            )
        self._ready = True

    def _dataset(self, name: str) -> "bigquery.Dataset":
        from google.cloud import bigquery

        dataset = bigquery.Dataset(name)
        dataset.location = self.location
        dataset.default_table_expiration_ms = self.settings.expiry_days * 86_400_000
        dataset.description = "What vertex-gpu-pipelines computes while it prepares data. Its tables expire."
        dataset.labels = {"tool": "vertex-gpu-pipelines"}
        return dataset


@contextmanager
def stoppable() -> Iterator[None]:
    """Inside, SIGTERM unwinds the program as Ctrl-C does, so that what runs elsewhere is cancelled; exit code 143."""
    import signal
    import threading

    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def stop(number: int, frame: "FrameType | None") -> None:
        raise SystemExit(128 + number)

    before = signal.signal(signal.SIGTERM, stop)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)
