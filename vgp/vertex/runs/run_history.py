"""What the last runs of a pipeline cost: what a ceiling cannot tell.

A run that took its dearest step from the cache cost next to nothing, and says nothing of one that does the work: they
are counted apart. Asked within seconds and for the newest runs only; where Google does not answer, that is said, and
nothing else waits for it.
"""

import statistics
import threading
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from itertools import islice
from typing import Any

from vgp.base.errors import RequestError, WorkFailed
from vgp.base.text.figures import plural, usd
from vgp.base.text.printable import one_line
from vgp.check.cost_bound import Cost
from vgp.settings import Settings
from vgp.vertex import clients, resource_names
from vgp.vertex.google_errors import explained
from vgp.vertex.runs import run_cost, run_search
from vgp.vertex.runs.remote_run import Run, read

#: Runs that are looked at, and seconds that it may take.
NEWEST, WITHIN_S = 10, 5.0
_FIELDS = (
    "name", "state", "create_time", "start_time", "end_time", "labels", "pipeline_spec", "runtime_config", "job_detail",
)  # fmt: skip


@dataclass(frozen=True)
class Amounts:
    """What several runs cost, in USD by list prices."""

    usd: tuple[float, ...]
    #: Whether a step without a known price is missing in one of them.
    partly: bool = False

    @property
    def words(self) -> str:
        """`$1.83 to $2.10, median $1.95`."""
        low, high = usd(min(self.usd)), usd(max(self.usd))
        text = low if low == high else f"{low} to {high}"
        text = f"at least {text}" if self.partly else text
        return f"{text}, median {usd(statistics.median(self.usd))}" if len(self.usd) > 2 and low != high else text

    def as_json(self) -> dict[str, Any]:
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
            return f"what the last runs cost is not known: {self.unknown}"
        if not self.ran and not self.without:
            return "no other run of it has succeeded yet"
        if self.ran is None or self.without is None:
            amounts = self.ran or self.without
            assert amounts is not None
            which = f" that {'ran' if self.ran else 'did not run'} {one_line(self.step)}" if self.step else ""
            return f"last {plural(len(amounts.usd), 'run')}{which}: {amounts.words} (list prices)"
        return f"{replace(self, without=None).words}; {len(self.without.usd)} that did not: {self.without.words}"

    def as_json(self) -> dict[str, Any]:
        parts = {"ran": self.ran, "without": self.without}
        return {
            "step": self.step,
            **{name: amounts.as_json() if amounts else None for name, amounts in parts.items()},
            "unknown": self.unknown,
        }


def last_runs(settings: Settings, pipeline: str, *, without: str = "") -> LastRuns:
    """What the newest runs of the pipeline cost that succeeded, but for the run called `without`.

    Never an error, and never longer than WITHIN_S: what cannot be told is told to be so.
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
        return of(runs)
    except (RequestError, WorkFailed) as error:
        return LastRuns(unknown=one_line(str(error).splitlines()[0], 200))
    except Exception as error:  # in a thread: whatever it is, the run has been started
        return LastRuns(unknown=one_line(f"{type(error).__name__}: {error}", 200))


def _jobs(settings: Settings, pipeline: str) -> list[Any]:
    """The newest jobs with their tasks: most lists have them, else each is asked for."""
    client = clients.pipeline_service(settings)
    only = run_search.expression(run_search.Filter(pipeline=pipeline, states=("succeeded",)), datetime.now(UTC))
    quickly = {"retry": None, "timeout": WITHIN_S}
    request = run_search.newest_first(settings, only, _FIELDS, NEWEST)
    newest = islice(client.list_pipeline_jobs(request=request, **quickly), NEWEST)
    return [job if job.job_detail.task_details else client.get_pipeline_job(name=job.name, **quickly) for job in newest]


def of(runs: Sequence[Run]) -> LastRuns:
    """What these runs cost, by whether they ran the step that costs most an hour."""
    if not runs:
        return LastRuns()
    priced = [(run, run_cost.machines(run)) for run in runs]
    step = _dearest(priced[0][1])
    groups: dict[bool, list[Cost]] = {True: [], False: []}
    for run, rows in priced:
        now = run.ended or datetime.now(UTC)
        ran = not step or any(step in (other.path, other.task) and other.seconds(now) for other in run.steps)
        groups[ran].append(run_cost.so_far(run, rows, now))
    return LastRuns(step, _amounts(groups[True]), _amounts(groups[False]))


def _dearest(rows: run_cost.Rows) -> str:
    """The step that costs most an hour; empty where no price is known."""
    hourly = {step: sum(run_cost.usd_per_hour(row) or 0.0 for row in machines) for step, machines in rows.items()}
    step = max(hourly, key=lambda step: hourly[step], default="")
    return step if hourly.get(step) else ""


def _amounts(costs: Sequence[Cost]) -> Amounts | None:
    return Amounts(tuple(cost.usd for cost in costs), any(cost.unpriced for cost in costs)) if costs else None
