"""The cost of a run so far, its cost limit, and the cost of the last runs of a pipeline.

Costs are estimates: the machines of the run's spec, times their list prices, times the steps' durations. Google bills
a step from the start of its machines; the estimate counts from the start of the step, without discounts, disks and
the machine of a launcher of Google's. The cost of BigQuery and Dataflow does not depend on the duration of the step,
so these services are listed as unpriced.

The last runs are counted in two groups: those that ran the most expensive step, and those for which it was a cache
hit. Only the newest runs are read, and reading them takes at most a few seconds.
"""

import statistics
import threading
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from itertools import islice
from typing import TYPE_CHECKING

from vgp.base.documents.document import Document
from vgp.base.documents.json_text import JsonObject
from vgp.base.errors import RequestError, WorkFailed
from vgp.base.text.figures import format_count, format_usd
from vgp.base.text.printable import one_line
from vgp.check.check_finding import StepRow
from vgp.check.checker import check
from vgp.check.cost_bound import Cost
from vgp.check.cost_bound import price_dates as dates_of
from vgp.machines.catalog.catalog import short_name
from vgp.settings import Settings
from vgp.vertex import clients, resource_names
from vgp.vertex.google_errors import explain_errors
from vgp.vertex.runs import run_search
from vgp.vertex.runs.remote_run import Run, Step, read

if TYPE_CHECKING:
    from google.cloud.aiplatform_v1.types import PipelineJob

Rows = Mapping[str, tuple[StepRow, ...]]

#: The number of last runs, and the timeout for reading them, seconds.
NEWEST, WITHIN_S = 10, 5.0
_FIELDS = (
    "name", "state", "create_time", "start_time", "end_time", "labels", "pipeline_spec", "runtime_config", "job_detail",
)  # fmt: skip


def list_machines(run: Run) -> Rows:
    """Returns the machines of every step, for the run's parameters, by the name of the step in the checker."""
    data = {"pipelineSpec": run.spec.content, "runtimeConfig": {"parameterValues": run.arguments}}
    rows: dict[str, tuple[StepRow, ...]] = {}
    for row in check([Document(run.id, data, "")], regions=[run.region]).steps:
        rows[row.step] = (*rows.get(row.step, ()), row)
    return rows


def step_rows(step: Step, rows: Rows) -> tuple[StepRow, ...]:
    """Returns the machines of a step. The checker uses the path as a name only if another step has the task's name."""
    return rows.get(step.path) or rows.get(step.task, ())


def step_cost(step: Step, rows: Rows, now: datetime) -> float | None:
    """Returns the cost of a step so far in USD: duration x machines x price; 0 if it did not run, None if unknown.

    The cost of a ladder comes from the history that its launcher writes (step_jobs.py).
    """
    seconds = step.seconds(now)
    if seconds is None:
        return 0.0
    has_ladder = any(row.rungs for row in step_rows(step, rows))
    if has_ladder and step.ladder_usd is None:
        return None
    hourly = [usd_per_hour(row) for row in step_rows(step, rows)]
    own = None if None in hourly else sum(usd or 0.0 for usd in hourly) * seconds / 3600
    return None if own is None else own + (step.ladder_usd or 0.0)


def sum_costs(run: Run, rows: Rows, now: datetime) -> Cost:
    """Returns the cost so far of all steps."""
    machines = [(step.name, step_cost(step, rows, now)) for step in run.steps]
    ran = [step for step in run.steps if step.seconds(now) is not None]
    services = [
        (f"{service.name} of {step.name}", None)
        for step in ran
        for row in step_rows(step, rows)
        for service in row.services
    ]
    return _sum([*machines, *services])


def cost_limit(run: Run, rows: Rows) -> Cost:
    """Returns the most that all steps can cost, by their timeouts, with the iterations of loops that are known."""
    return _sum((step.name, row.max_usd_a_turn) for step in run.steps for row in step_rows(step, rows))


def price_dates(rows: Rows) -> list[str]:
    """Returns the dates of the prices, the oldest first."""
    return dates_of([row for step_machines in rows.values() for row in step_machines])


def describe_machines(step: Step, rows: Rows) -> str:
    """Returns `2 x g2-standard-24 (2 L4) spot`; empty for a step without a machine of its own."""
    return " + ".join(_describe_machine(row) for row in step_rows(step, rows))


def _sum(amounts: Iterable[tuple[str, float | None]]) -> Cost:
    pairs = list(amounts)
    unpriced = dict.fromkeys(name for name, amount in pairs if amount is None)
    return Cost(sum(amount or 0.0 for _, amount in pairs), tuple(unpriced))


def usd_per_hour(row: StepRow) -> float | None:
    """Returns the price of all replicas, or None if it is unknown."""
    return None if row.usd_per_hour is None or row.replicas is None else row.usd_per_hour * row.replicas


def _describe_machine(row: StepRow) -> str:
    if row.rungs:
        first = " + ".join(map(_describe_machine, row.rungs[0].rows))
        return f"ladder of {len(row.rungs)}: {first} ..."
    nodes = "" if row.replicas == 1 else f"{'?' if row.replicas is None else row.replicas} x "
    kind = short_name(row.accelerator_type or "")
    gpus = f" ({row.count_text} {kind})" if kind else ""
    strategy = "" if row.strategy in ("STANDARD", "") else f" {row.strategy.lower().replace('_', '-')}"
    return f"{nodes}{row.machine_type or 'machine ?'}{gpus}{strategy}"


@dataclass(frozen=True)
class Amounts:
    """The costs of several runs, in USD by list prices."""

    usd: tuple[float, ...]
    #: Whether the cost of at least one run lacks a step whose price is unknown.
    partly: bool = False

    @property
    def words(self) -> str:
        """Returns `$1.83 to $2.10, median $1.95`."""
        low, high = format_usd(min(self.usd)), format_usd(max(self.usd))
        text = low if low == high else f"{low} to {high}"
        text = f"at least {text}" if self.partly else text
        return (
            f"{text}, median {format_usd(statistics.median(self.usd))}" if len(self.usd) > 2 and low != high else text
        )

    def as_json(self) -> JsonObject:
        figures = {"min": min(self.usd), "median": statistics.median(self.usd), "max": max(self.usd)}
        return {
            "runs": len(self.usd),
            **{f"usd_{name}": round(value, 4) for name, value in figures.items()},
            "partly_priced": self.partly,
        }


@dataclass(frozen=True)
class LastRuns:
    """The costs of the last runs that succeeded, by whether they ran the most expensive step."""

    #: The step with the highest price per hour.
    step: str = ""
    ran: Amounts | None = None
    without: Amounts | None = None
    #: The reason why the costs are unknown, else empty.
    unknown: str = ""

    @property
    def words(self) -> str:
        """Returns `last 5 runs that ran train: $1.83 to $2.10, median $1.95 (list prices); 2 that did not: $0.02`."""
        if self.unknown:
            return f"the cost of the last runs is unknown: {self.unknown}"
        if not self.ran and not self.without:
            return "no earlier run of this pipeline has succeeded"
        if self.ran is None or self.without is None:
            amounts = self.ran or self.without
            assert amounts is not None
            which = f" that {'ran' if self.ran else 'did not run'} {one_line(self.step)}" if self.step else ""
            return f"last {format_count(len(amounts.usd), 'run')}{which}: {amounts.words} (list prices)"
        return f"{replace(self, without=None).words}; {len(self.without.usd)} that did not: {self.without.words}"

    def as_json(self) -> JsonObject:
        parts = {"ran": self.ran, "without": self.without}
        return {
            "step": self.step,
            **{name: amounts.as_json() if amounts else None for name, amounts in parts.items()},
            "unknown": self.unknown,
        }


def last_runs(settings: Settings, pipeline: str, *, without: str = "") -> LastRuns:
    """Returns the costs of the newest runs of a pipeline that succeeded.

    Takes at most WITHIN_S seconds and raises no error; without an answer, `unknown` has the reason.

    Args:
        without: The id of a run to leave out.
    """
    answer: list[LastRuns] = []
    thread = threading.Thread(target=lambda: answer.append(_read_last_runs(settings, pipeline, without)), daemon=True)
    thread.start()
    thread.join(WITHIN_S)
    return answer[0] if answer else LastRuns(unknown=f"no answer from Google within {WITHIN_S:g} s.")


def _read_last_runs(settings: Settings, pipeline: str, without: str) -> LastRuns:
    try:
        with explain_errors("list the last runs", settings):
            runs = [read(job) for job in _newest_jobs(settings, pipeline) if resource_names.short(job.name) != without]
        return summarize_costs(runs)
    except (RequestError, WorkFailed) as error:
        return LastRuns(unknown=one_line(str(error).splitlines()[0], 200))
    except Exception as error:  # no error here may fail the command, which has started a run
        return LastRuns(unknown=one_line(f"{type(error).__name__}: {error}", 200))


def _newest_jobs(settings: Settings, pipeline: str) -> list["PipelineJob"]:
    """Returns the newest jobs that succeeded, with their tasks, which a list may lack."""
    client = clients.pipeline_service(settings)
    conditions = run_search.Filter(pipeline=pipeline, states=("succeeded",))
    expression = run_search.filter_expression(conditions, datetime.now(UTC))
    options = clients.CallOptions(retry=None, timeout=WITHIN_S)
    request = run_search.newest_first(settings, expression, _FIELDS, NEWEST)
    newest = islice(client.list_pipeline_jobs(request=request, **options), NEWEST)
    return [job if job.job_detail.task_details else client.get_pipeline_job(name=job.name, **options) for job in newest]


def summarize_costs(runs: Sequence[Run]) -> LastRuns:
    """Returns the costs of the runs, by whether they ran the step with the highest price per hour."""
    if not runs:
        return LastRuns()
    with_machines = [(run, list_machines(run)) for run in runs]
    step = _most_expensive_step(with_machines[0][1])
    groups: dict[bool, list[Cost]] = {True: [], False: []}
    for run, rows in with_machines:
        now = run.ended or datetime.now(UTC)
        ran = not step or any(step in (other.path, other.task) and other.seconds(now) for other in run.steps)
        groups[ran].append(sum_costs(run, rows, now))
    return LastRuns(step, _sum_amounts(groups[True]), _sum_amounts(groups[False]))


def _most_expensive_step(rows: Rows) -> str:
    """Returns the step with the highest price per hour; empty if no price is known."""
    hourly = {step: sum(usd_per_hour(row) or 0.0 for row in machines) for step, machines in rows.items()}
    step = max(hourly, key=lambda step: hourly[step], default="")
    return step if hourly.get(step) else ""


def _sum_amounts(costs: Sequence[Cost]) -> Amounts | None:
    return Amounts(tuple(cost.usd for cost in costs), any(cost.unpriced for cost in costs)) if costs else None
