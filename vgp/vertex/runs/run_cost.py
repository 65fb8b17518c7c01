"""What a run has cost so far and can cost at most: the machines of its spec, their list prices, its steps' times.

An estimate: Google bills a step from when its machines are there, we count from when it started; discounts, disks and
the machine on which one of Google's launchers waits are not in it. What a step used of BigQuery or Dataflow its time
does not tell: it is named as having no price.
"""

from collections.abc import Iterable, Mapping
from datetime import datetime

from vgp.base.documents.document import Document
from vgp.check.check_finding import StepRow
from vgp.check.checker import check
from vgp.check.cost_bound import Cost
from vgp.check.cost_bound import price_dates as dates_of
from vgp.machines.catalog.catalog import short_name
from vgp.vertex.runs.remote_run import Run
from vgp.vertex.runs.run_steps import Step

Rows = Mapping[str, tuple[StepRow, ...]]


def machines(run: Run) -> Rows:
    """The machines of every step of the run's spec with the run's own parameters, by the step's name there."""
    data = {"pipelineSpec": run.spec.content, "runtimeConfig": {"parameterValues": run.arguments}}
    rows: dict[str, tuple[StepRow, ...]] = {}
    for row in check([Document(run.id, data, "")], regions=[run.region]).steps:
        rows[row.step] = (*rows.get(row.step, ()), row)
    return rows


def of(step: Step, rows: Rows) -> tuple[StepRow, ...]:
    """The machines of one step. The checker names a step by its way only where its own name is taken."""
    return rows.get(step.path) or rows.get(step.task, ())


def spent(step: Step, rows: Rows, now: datetime) -> float | None:
    """What the step cost until now: time x machines x price; 0 if it did not run, None if the price is not known.

    Of a step with a ladder its time does not tell on which rung it was: its launcher has written that down.
    """
    seconds = step.seconds(now)
    if seconds is None:
        return 0.0
    climbs = any(row.rungs for row in of(step, rows))
    if climbs and step.ladder_usd is None:
        return None
    hourly = [usd_per_hour(row) for row in of(step, rows)]
    own = None if None in hourly else sum(usd or 0.0 for usd in hourly) * seconds / 3600
    return None if own is None else own + (step.ladder_usd or 0.0)


def so_far(run: Run, rows: Rows, now: datetime) -> Cost:
    """The sum over the steps that ran or run."""
    machines = [(step.name, spent(step, rows, now)) for step in run.steps]
    ran = [step for step in run.steps if step.seconds(now) is not None]
    used = [(f"{used.name} of {step.name}", None) for step in ran for row in of(step, rows) for used in row.services]
    return _sum([*machines, *used])


def at_most(run: Run, rows: Rows) -> Cost:
    """The most that all steps can cost, by their timeouts. A loop counts as often as it is known to turn."""
    return _sum((step.name, row.max_usd_a_turn) for step in run.steps for row in of(step, rows))


def price_dates(rows: Rows) -> list[str]:
    """The days of the prices that are reckoned with, the oldest first."""
    return dates_of([row for each in rows.values() for row in each])


def machine(step: Step, rows: Rows) -> str:
    """`2 x g2-standard-24 (2 L4) spot`; empty for a step without a machine of its own."""
    return " + ".join(_words(row) for row in of(step, rows))


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
