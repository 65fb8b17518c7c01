"""What a run has cost so far and can cost at most, and what the last runs of its pipeline cost.

An estimate from the machines of the run's spec, their list prices and the steps' times. Google bills a step from when
its machines are there, we count from when it started; discounts, disks and the machine on which one of Google's
launchers waits are not in what was spent so far. The cost of BigQuery or Dataflow does not follow from a step's time:
it is named as having no price.

A run that took its dearest step from the cache cost next to nothing, and does not tell what one costs that does the
work: the last runs are counted in two groups. Only the newest runs are read, within seconds; no answer delays no
command.
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
from vgp.vertex.google_errors import explained
from vgp.vertex.runs import run_search
from vgp.vertex.runs.remote_run import Run, Step, read

if TYPE_CHECKING:
    from google.cloud.aiplatform_v1.types import PipelineJob

Rows = Mapping[str, tuple[StepRow, ...]]

#: Runs that are looked at, and seconds that it may take.
NEWEST, WITHIN_S = 10, 5.0
_FIELDS = (
    "name", "state", "create_time", "start_time", "end_time", "labels", "pipeline_spec", "runtime_config", "job_detail",
)  # fmt: skip


def machines(run: Run) -> Rows:
    """The machines of every step of the run's spec with the run's own parameters, by the step's name there."""
    data = {"pipelineSpec": run.spec.content, "runtimeConfig": {"parameterValues": run.arguments}}
    rows: dict[str, tuple[StepRow, ...]] = {}
    for row in check([Document(run.id, data, "")], regions=[run.region]).steps:
        rows[row.step] = (*rows.get(row.step, ()), row)
    return rows


def step_rows(step: Step, rows: Rows) -> tuple[StepRow, ...]:
    """The machines of one step. The checker names a step by its way only where its own name is taken."""
    return rows.get(step.path) or rows.get(step.task, ())


def step_cost(step: Step, rows: Rows, now: datetime) -> float | None:
    """What the step cost until now: time x machines x price; 0 if it did not run, None if the price is not known.

    Of a step with a ladder its time does not tell on which rung it was: its launcher has written that down.
    """
    seconds = step.seconds(now)
    if seconds is None:
        return 0.0
    climbs = any(row.rungs for row in step_rows(step, rows))
    if climbs and step.ladder_usd is None:
        return None
    hourly = [usd_per_hour(row) for row in step_rows(step, rows)]
    own = None if None in hourly else sum(usd or 0.0 for usd in hourly) * seconds / 3600
    return None if own is None else own + (step.ladder_usd or 0.0)


def sum_costs(run: Run, rows: Rows, now: datetime) -> Cost:
    """The sum over the steps that ran or run."""
    machines = [(step.name, step_cost(step, rows, now)) for step in run.steps]
    ran = [step for step in run.steps if step.seconds(now) is not None]
    used = [
        (f"{used.name} of {step.name}", None) for step in ran for row in step_rows(step, rows) for used in row.services
    ]
    return _sum([*machines, *used])


def cost_limit(run: Run, rows: Rows) -> Cost:
    """The most that all steps can cost, by their timeouts. A loop counts as often as it is known to turn."""
    return _sum((step.name, row.max_usd_a_turn) for step in run.steps for row in step_rows(step, rows))


def price_dates(rows: Rows) -> list[str]:
    """The days of the prices that are reckoned with, the oldest first."""
    return dates_of([row for each in rows.values() for row in each])


def machine(step: Step, rows: Rows) -> str:
    """`2 x g2-standard-24 (2 L4) spot`; empty for a step without a machine of its own."""
    return " + ".join(_words(row) for row in step_rows(step, rows))


def _sum(amounts: Iterable[tuple[str, float | None]]) -> Cost:
    listed = list(amounts)
    unpriced = dict.fromkeys(name for name, amount in listed if amount is None)
    return Cost(sum(amount or 0.0 for _, amount in listed), tuple(unpriced))


def usd_per_hour(row: StepRow) -> float | None:
    """Of all its machines."""
    return None if row.usd_per_hour is None or row.replicas is None else row.usd_per_hour * row.replicas


def _words(row: StepRow) -> str:
    if row.rungs:
        first = " + ".join(_words(each) for each in row.rungs[0].rows)
        return f"ladder of {len(row.rungs)}: {first} ..."
    nodes = "" if row.replicas == 1 else f"{'?' if row.replicas is None else row.replicas} x "
    kind = short_name(row.accelerator_type or "")
    gpus = f" ({row.count_text} {kind})" if kind else ""
    way = "" if row.strategy in ("STANDARD", "") else f" {row.strategy.lower().replace('_', '-')}"
    return f"{nodes}{row.machine_type or 'machine ?'}{gpus}{way}"


@dataclass(frozen=True)
class Amounts:
    """What several runs cost, in USD by list prices."""

    usd: tuple[float, ...]
    #: Whether a step without a known price is missing in one of them.
    partly: bool = False

    @property
    def words(self) -> str:
        """`$1.83 to $2.10, median $1.95`."""
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
    """What the last runs cost that succeeded: those that ran the dearest step, and those that did not."""

    step: str = ""
    ran: Amounts | None = None
    without: Amounts | None = None
    #: Why it is not known.
    unknown: str = ""

    @property
    def words(self) -> str:
        """`last 5 runs that ran train: $1.83 to $2.10, median $1.95 (list prices); 2 that did not: $0.02`."""
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
    """What the newest runs of the pipeline cost that succeeded, but for the run called `without`.

    Raises nothing and takes at most WITHIN_S; an unknown cost is reported as unknown.
    """
    answer: list[LastRuns] = []
    asking = threading.Thread(target=lambda: answer.append(_asked(settings, pipeline, without)), daemon=True)
    asking.start()
    asking.join(WITHIN_S)
    return answer[0] if answer else LastRuns(unknown=f"no answer from Google within {WITHIN_S:g} s.")


def _asked(settings: Settings, pipeline: str, without: str) -> LastRuns:
    try:
        with explained("list the last runs", settings):
            runs = [read(job) for job in _jobs(settings, pipeline) if resource_names.short(job.name) != without]
        return summarize_costs(runs)
    except (RequestError, WorkFailed) as error:
        return LastRuns(unknown=one_line(str(error).splitlines()[0], 200))
    except Exception as error:  # in a thread: whatever it is, the run has been started
        return LastRuns(unknown=one_line(f"{type(error).__name__}: {error}", 200))


def _jobs(settings: Settings, pipeline: str) -> list["PipelineJob"]:
    """The newest jobs with their tasks: most lists have them, else each is asked for."""
    client = clients.pipeline_service(settings)
    only = run_search.expression(run_search.Filter(pipeline=pipeline, states=("succeeded",)), datetime.now(UTC))
    quickly = clients.CallOptions(retry=None, timeout=WITHIN_S)
    request = run_search.newest_first(settings, only, _FIELDS, NEWEST)
    newest = islice(client.list_pipeline_jobs(request=request, **quickly), NEWEST)
    return [job if job.job_detail.task_details else client.get_pipeline_job(name=job.name, **quickly) for job in newest]


def summarize_costs(runs: Sequence[Run]) -> LastRuns:
    """What these runs cost, by whether they ran the step that costs most an hour."""
    if not runs:
        return LastRuns()
    priced = [(run, machines(run)) for run in runs]
    step = _dearest(priced[0][1])
    groups: dict[bool, list[Cost]] = {True: [], False: []}
    for run, rows in priced:
        now = run.ended or datetime.now(UTC)
        ran = not step or any(step in (other.path, other.task) and other.seconds(now) for other in run.steps)
        groups[ran].append(sum_costs(run, rows, now))
    return LastRuns(step, _amounts(groups[True]), _amounts(groups[False]))


def _dearest(rows: Rows) -> str:
    """The step that costs most an hour; empty where no price is known."""
    hourly = {step: sum(usd_per_hour(row) or 0.0 for row in machines) for step, machines in rows.items()}
    step = max(hourly, key=lambda step: hourly[step], default="")
    return step if hourly.get(step) else ""


def _amounts(costs: Sequence[Cost]) -> Amounts | None:
    return Amounts(tuple(cost.usd for cost in costs), any(cost.unpriced for cost in costs)) if costs else None
