"""Queries as jobs: estimated first, limited, resumed after a kill, cancelled when the step stops."""

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

#: US dollars per TiB read by on-demand queries in the US: https://cloud.google.com/bigquery/pricing (2026-11-22).
#: Other locations cost up to twice as much; with reserved slots queries have no price.
DOLLARS_PER_TIB = 6.25
#: BigQuery's minimum bill per table times 16 tables; a lower limit would refuse queries that cost a cent.
#: https://cloud.google.com/bigquery/pricing (2026-11-22)
LEAST_BILLED = 16 * (10 << 20)
#: Maximum number of jobs per query and run, with those that failed, were cancelled or lost their result.
MOST_ATTEMPTS = 50
#: First and longest pause in seconds between two polls of a job.
PAUSE_S, LONGEST_PAUSE_S = 0.1, 5.0
#: Seconds after which the link to a running job is printed.
NOTICE_S = 15.0


@dataclass(frozen=True)
class Owner:
    """The run and step of a job; with the query they decide the job's id."""

    #: Id of a run on Vertex AI, or the folder of a local run.
    run: str
    step: str

    @property
    def labels(self) -> dict[str, str]:
        """Returns the labels of jobs: https://cloud.google.com/bigquery/docs/labels-intro#requirements"""
        words = {"tool": "vertex-gpu-pipelines", "run": self.run, "step": self.step}
        labels = {key: re.sub(r"[^a-z0-9_-]+", "-", value.lower()).strip("-")[-63:] for key, value in words.items()}
        return {key: value for key, value in labels.items() if value}


@dataclass(frozen=True)
class Estimate:
    """BigQuery's estimate of a query: bytes that it would read, and its columns."""

    bytes: int
    #: google.cloud.bigquery.SchemaField
    fields: "tuple[bigquery.SchemaField, ...]"

    @property
    def words(self) -> str:
        return size(self.bytes)


def size(amount: int) -> str:
    """Formats bytes and their price, such as `3.1 GB ($0.02)`."""
    dollars = amount / (1 << 40) * DOLLARS_PER_TIB
    price = f"${dollars:,.2f}" if dollars >= 0.005 or not amount else "less than a cent"
    kilobytes, gigabytes = amount / (1 << 10), amount / (1 << 30)
    return f"{kilobytes:,.0f} kB ({price})" if 0 < gigabytes < 0.005 else f"{gigabytes:,.2f} GB ({price})"


@dataclass
class Jobs:
    """The queries of one step, in one location, with one limit for their bytes."""

    settings: BigQuery
    location: str
    owner: Owner
    project: str = ""
    #: Bytes that jobs have read so far.
    read_bytes: int = 0
    #: Temporary tables with results.
    made: list[str] = field(default_factory=list)
    _ready: bool = False

    def __post_init__(self) -> None:
        self.project = client.project(self.settings.project)

    def estimate(self, title: str, sql: str) -> Estimate:
        """Estimates a query with a dry run, which is free. Raises UserError if BigQuery refuses the query."""
        from google.cloud import bigquery

        config = bigquery.QueryJobConfig(dry_run=True, use_query_cache=False, labels=self.owner.labels)
        with client.explain_errors(title):
            job = client.client(self.project).query(
                sql, job_config=config, location=self.location, retry=client.default_retry(), timeout=60
            )
        return Estimate(int(job.total_bytes_processed or 0), tuple(job.schema or ()))

    def check(self, title: str, needed: int) -> None:
        """Raises UserError if a query of `needed` bytes exceeds the limit."""
        limit = int(self.settings.max_gb * (1 << 30))
        if self.read_bytes + needed > limit:
            before = f" after {size(self.read_bytes)} by earlier queries" if self.read_bytes else ""
            raise UserError(
                f"{title} would read {size(needed)}{before}, but a step may read {self.settings.max_gb:g} GB. Raise "
                "max_gb in [steps.prepare.bigquery], or read less: fewer columns, or a .sql file with a WHERE."
            )

    def table(self, title: str, sql: str, name: str) -> TableName:
        """Runs a query into a temporary table, unless this run has already done so, and returns the table.

        Args:
            title: The query, for messages.
            name: Prefix of the table's name.
        """
        self._check_dataset()
        target = TableName(self.project, self.settings.dataset, f"{name}_{self._digest(sql, name)[:20]}")
        self._run(title, sql, target)
        self.made.append(str(target))
        return target

    def rows(self, title: str, sql: str) -> pa.Table:
        """Runs a query and returns its small result."""
        job = self._run(title, sql, None)
        with client.explain_errors(title):
            result = job.result(retry=client.default_retry(), job_retry=None, timeout=client.DEADLINE_S)
            return result.to_arrow(create_bqstorage_client=False)

    def drop(self) -> None:
        """Deletes the temporary tables, at the end of a successful step."""
        from google.api_core.exceptions import GoogleAPIError

        for name in self.made:
            try:
                client.client(self.project).delete_table(
                    name, not_found_ok=True, retry=client.default_retry(), timeout=60
                )
            except GoogleAPIError as error:  # the table expires anyway
                print(f"note: {name} was not deleted: {client.sentence(error)}", file=sys.stderr, flush=True)
        self.made.clear()

    # ---- one job

    def _digest(self, sql: str, name: str) -> str:
        text = "\0".join((self.owner.run, self.owner.step, name, sql))
        return hashlib.sha256(text.encode()).hexdigest()

    def _run(self, title: str, sql: str, target: TableName | None) -> "QueryJob":
        estimate = self.estimate(title, sql)
        self.check(title, estimate.bytes)
        base = f"vgp-{self._digest(sql, str(target or ''))[:40]}"
        for attempt in range(MOST_ATTEMPTS):
            job = self._insert_job(title, sql, target, f"{base}-{attempt}")
            if job is not None:
                self.read_bytes += estimate.bytes
                return self._wait_for(title, job)
        raise ProcessFailed(f"{title} failed {MOST_ATTEMPTS} times in BigQuery: its jobs are {base}-0 and so on.")

    def _insert_job(self, title: str, sql: str, target: TableName | None, job_id: str) -> Any:
        """Creates the job, or finds it after a lost answer or a killed step; returns None if its result is unusable."""
        from google.api_core.exceptions import Conflict

        asked = client.client(self.project)
        with client.explain_errors(title):
            try:
                return asked.query(
                    self._build_statement(sql, target), job_config=self._build_config(), job_id=job_id,
                    location=self.location, retry=client.default_retry(), job_retry=None, timeout=60,
                )  # fmt: skip
            except Conflict:
                job = asked.get_job(job_id, location=self.location, retry=client.default_retry(), timeout=60)
        return job if self._is_of_use(job, target) else None

    def _is_of_use(self, job: Any, target: TableName | None) -> bool:
        """Whether an earlier job is running, or has a result that still exists."""
        from google.api_core.exceptions import NotFound

        if job.state != "DONE":
            return True
        if job.error_result:
            return False
        with client.explain_errors("a result"):
            try:
                name = job.destination if target is None else str(target)
                client.client(self.project).get_table(name, retry=client.default_retry(), timeout=60)
            except NotFound:  # it expired
                return False
        return True

    def _build_statement(self, sql: str, target: TableName | None) -> str:
        """Returns the query as a statement that creates an expiring table, whatever the dataset's default."""
        if target is None:
            return sql
        expires = datetime.now(UTC) + timedelta(days=self.settings.expiry_days)
        options = f"OPTIONS (expiration_timestamp = TIMESTAMP '{expires:%Y-%m-%d %H:%M:%S}+00')"
        return f"CREATE OR REPLACE TABLE {target.sql}\n{options} AS\n{sql}"

    def _build_config(self) -> "bigquery.QueryJobConfig":
        from google.cloud import bigquery

        config = bigquery.QueryJobConfig(use_legacy_sql=False, labels=self.owner.labels)
        limit = int(self.settings.max_gb * (1 << 30)) - self.read_bytes
        config.maximum_bytes_billed = max(limit, LEAST_BILLED)
        return config

    def _wait_for(self, title: str, job: "QueryJob") -> "QueryJob":
        """Waits for the job and returns it; cancels it if the wait is interrupted, for example by SIGTERM."""
        try:
            with client.explain_errors(title):
                self._wait(title, job)
        except BaseException as stop:
            if job.state != "DONE":
                self._cancel(job)
                print(f"The BigQuery job {job.job_id} was cancelled.", file=sys.stderr, flush=True)
            raise stop
        if job.error_result:
            with client.explain_errors(title):
                raise job.exception()
        return job

    def _wait(self, title: str, job: "QueryJob") -> None:
        notice = iter([f"{title}: {self.link(job.job_id)}"])

        def log_link(lasted_s: float) -> None:
            if lasted_s > NOTICE_S and (line := next(notice, "")):
                print(line, file=sys.stderr, flush=True)

        client.wait(job, Pauses(PAUSE_S, LONGEST_PAUSE_S, factor=1.5), log_link)

    def link(self, job_id: str) -> str:
        """Returns the URL of the job in the console."""
        return (
            f"https://console.cloud.google.com/bigquery?project={self.project}"
            f"&j=bq:{self.location}:{job_id}&page=queryresults"
        )

    def _cancel(self, job: "QueryJob") -> None:
        from google.api_core.exceptions import GoogleAPIError

        try:
            job.cancel(retry=client.default_retry(), timeout=10)
        except GoogleAPIError as error:
            print(f"note: {job.job_id} could not be cancelled: {client.sentence(error)}", file=sys.stderr, flush=True)

    # ---- the dataset of temporary tables

    def _check_dataset(self) -> None:
        """Creates the dataset if it is missing. Raises UserError if its location differs from the data's."""
        if self._ready:
            return
        from google.api_core.exceptions import Conflict, NotFound

        asked, name = client.client(self.project), f"{self.project}.{self.settings.dataset}"
        with client.explain_errors(f"the dataset {name}"):
            try:
                dataset = asked.get_dataset(name, retry=client.default_retry(), timeout=60)
            except NotFound:
                try:
                    dataset = asked.create_dataset(self._dataset(name), retry=client.default_retry(), timeout=60)
                except Conflict:  # another step has just created it
                    dataset = asked.get_dataset(name, retry=client.default_retry(), timeout=60)
        if dataset.location.lower() != self.location.lower():
            raise UserError(
                f"the dataset {name}, for intermediate results, is in {dataset.location}, but the data is in "
                f"{self.location}: set another dataset in [steps.prepare.bigquery], such as "
                f'dataset = "{self.settings.dataset}_{re.sub("[^a-z0-9]", "_", self.location.lower())}".'
            )
        self._ready = True

    def _dataset(self, name: str) -> "bigquery.Dataset":
        from google.cloud import bigquery

        dataset = bigquery.Dataset(name)
        dataset.location = self.location
        dataset.default_table_expiration_ms = self.settings.expiry_days * 86_400_000
        dataset.description = "Intermediate results of vertex-gpu-pipelines. The tables expire."
        dataset.labels = {"tool": "vertex-gpu-pipelines"}
        return dataset


@contextmanager
def stoppable() -> Iterator[None]:
    """Makes SIGTERM raise SystemExit(143) inside the block, as Ctrl-C unwinds, so that remote jobs are cancelled."""
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
