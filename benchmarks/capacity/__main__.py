"""What does a job cost under the launcher's policy, against Uniform Progress and simpler ones, as a share of on demand?

    python -m benchmarks.capacity                              # 1,000 seeded traces
    python -m benchmarks.capacity --traces FOLDER              # public traces, in the form of skypilot-org/spot-traces
    python -m benchmarks.capacity --zones 3 --on-demand-stockout 0.3 --believed 0.7 --json

There is one rung on Spot for each zone and one on demand; a job has so many hours of work and a deadline of so many
times that. With *sight*, the supply is always known and a preemption loses nothing, as in the paper. With *asking*, as
on Vertex AI, a policy must request machines: a refusal takes five minutes, the launcher learns of every event 30
seconds late, and a preemption loses the steps since the last checkpoint, which are ten minutes apart. A change-over is
billed, and so are the machines of a job that waits beside one on demand, from their start. The parameters of the policy
were chosen on the seeds 5000 to 5079, after first trials on 0 to 59; the report uses 0 to 999.
"""

import argparse
import json
import math
import sys
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Executor, ProcessPoolExecutor
from dataclasses import replace
from functools import partial
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.capacity import rivals, supply
from benchmarks.capacity.optimum import compute_optimum, find_ticks
from benchmarks.capacity.simulation import Outcome, Policy, World, simulate
from benchmarks.capacity.supply import ALWAYS, HOUR, Supply
from vgp.launch.capacity.policy import Offer

DEMAND_USD, TICK_S = 10.0, 300.0
#: A new policy object for each job, because Uniform Progress stores the job's start.
POLICIES: dict[str, Callable[[], Policy]] = {
    "ours": lambda: rivals.ours,
    "Uniform Progress": rivals.UniformProgress,
    "Uniform Progress, no hysteresis": lambda: rivals.UniformProgress(hysteresis=False),
    "greedy": lambda: rivals.greedy,
    "Spot, then on demand": lambda: rivals.switches,
    "on demand": lambda: rivals.on_demand,
    "Spot, then failure": lambda: rivals.fails,
}


def offers(zones: int, change_over_s: float, spot_price: float) -> tuple[Offer, ...]:
    usd = spot_price * DEMAND_USD
    spots = [Offer(index=zone, strategy="spot", usd_per_hour=usd, change_over_s=change_over_s) for zone in range(zones)]
    demand = Offer(index=zones, strategy="standard", usd_per_hour=DEMAND_USD, change_over_s=change_over_s)
    return (*spots, demand)


def world(given: argparse.Namespace, slack: float, over_s: float, sees: bool) -> World:
    work_s = given.hours * HOUR
    return World(
        offers=offers(given.zones, over_s, given.spot_price),
        supplies=(),
        work_s=work_s,
        deadline_s=work_s * slack,
        checkpoint_s=0.0 if sees else given.checkpoint_minutes * 60,
        lag_s=0.0 if sees else 30.0,
        sees=sees,
        believed=given.believed,
        can_ask_beside=not given.blind,
        limit_s=4 * work_s * slack,
    )


def traces(given: argparse.Namespace, until_s: float) -> list[tuple[Supply, ...]]:
    """Returns the supplies of each job's Spot zones, and of on demand."""
    if given.traces:
        known = [
            supply.cut_windows(points, gap, given.windows, until_s) for _, points, gap in supply.read(given.traces)
        ]
        return [(each, ALWAYS) for windows in known for each in windows]
    seeds = range(given.first_seed, given.first_seed + given.seeds)
    return [(*supply.draw_supplies(seed, given.zones, until_s), _demand(given, seed, until_s)) for seed in seeds]


def _demand(given: argparse.Namespace, seed: int, until_s: float) -> Supply:
    """Returns the supply of on-demand machines: always, except for outages of an hour on average, if requested."""
    if not given.on_demand_stockout:
        return ALWAYS
    random, time_s, changes = np.random.default_rng([7, seed]), 0.0, list[float]()
    first = bool(random.random() >= given.on_demand_stockout)
    there = first
    while time_s < until_s:
        share = given.on_demand_stockout
        time_s += float(random.exponential(HOUR * (1 - share) / share if there else HOUR))
        changes, there = [*changes, time_s], not there
    return Supply(tuple(changes), first)


def row(name: str, outcomes: list[Outcome], base: float, late: int) -> dict[str, Any]:
    """Returns a row of a policy; `base` is the cost of on demand, times are in hours."""
    done = [outcome for outcome in outcomes if outcome.finished_s < math.inf]
    costs = np.array([outcome.usd / base for outcome in (done or outcomes)])
    return {
        "policy": name,
        "mean": float(costs.mean()),
        "p10": float(np.quantile(costs, 0.1)),
        "p50": float(np.quantile(costs, 0.5)),
        "p90": float(np.quantile(costs, 0.9)),
        "late": late,
        "failed": len(outcomes) - len(done),
        "change_overs": float(np.mean([outcome.change_overs for outcome in outcomes])),
        "most_change_overs": max(outcome.change_overs for outcome in outcomes),
        "asked_beside": float(np.mean([outcome.asked_beside for outcome in outcomes])),
    }


def outcomes(pool: Executor, asked: World, found: list[tuple[Supply, ...]], name: str) -> list[Outcome]:
    worlds = [replace(asked, supplies=each) for each in found]
    return list(pool.map(partial(_outcome, name), worlds, chunksize=max(len(worlds) // 16, 1)))


def _outcome(name: str, asked: World) -> Outcome:
    return simulate(asked, POLICIES[name]())


def measured(pool: Executor, given: argparse.Namespace, slack: float, over_s: float) -> Iterator[dict[str, Any]]:
    work_s = given.hours * HOUR
    deadline_s = work_s * slack
    found = traces(given, deadline_s * 1.5)
    base = DEMAND_USD * (work_s + over_s) / HOUR
    ticks = int(deadline_s // TICK_S)
    there = np.array([find_ticks(each[:-1], ticks, TICK_S) for each in found])
    least = [
        compute_optimum(part, work_s, over_s, given.spot_price * DEMAND_USD, DEMAND_USD, TICK_S)
        for part in np.array_split(there, math.ceil(len(there) / 50))
    ]
    known = {"slack": slack, "change_over_h": over_s / HOUR, "jobs": len(found)}
    yield {
        **known,
        "information": "all",
        "policy": "optimum (bound)",
        "mean": float(np.concatenate(least).mean() / base),
    }
    for sees in (True, False):
        asked = world(given, slack, over_s, sees)
        reached = [each.finished_s <= deadline_s for each in outcomes(pool, asked, found, "on demand")]
        for name in given.policies or POLICIES:
            ended = outcomes(pool, asked, found, name)
            late = sum(each.finished_s > deadline_s and could for each, could in zip(ended, reached, strict=True))
            yield {**known, "information": "sight" if sees else "asking", **row(name, ended, base, late)}


def show(result: dict[str, Any]) -> str:
    text = f"{result['information']:7} {result['policy']:32} {result['mean']:6.3f}"
    if "p10" in result:
        text += f"  {result['p10']:.3f} {result['p50']:.3f} {result['p90']:.3f}  late {result['late']}"
        text += f"  change-overs {result['change_overs']:.1f} (at most {result['most_change_overs']})"
        text += f"  asked beside {result['asked_beside']:.0f}" + (
            f"  failed {result['failed']}" if result["failed"] else ""
        )
    return text


def means(results: list[dict[str, Any]]) -> str:
    """Returns a line for each policy: its mean over all slacks and change-overs, with sight and asking."""
    names = list(dict.fromkeys(each["policy"] for each in results))
    lines = [f"{'mean of all':32}  sight  asking   late"]
    for name in names:
        mine = [each for each in results if each["policy"] == name]
        values = [
            [each["mean"] for each in mine if each["information"] in (information, "all")]
            for information in ("sight", "asking")
        ]
        late = sum(each.get("late", 0) for each in mine)
        lines.append(f"{name:32}  {np.mean(values[0]):.3f}  {np.mean(values[1]):.3f}   {late}")
    return "\n".join(lines)


def arguments() -> argparse.Namespace:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--traces", type=Path, help="a folder of public traces, instead of seeds")
    options.add_argument("--windows", type=int, default=20, help="beginnings in each public trace")
    options.add_argument("--seeds", type=int, default=1000)
    options.add_argument("--first-seed", type=int, default=0)
    options.add_argument("--zones", type=int, default=1, help="rungs on Spot, of one region (seeded traces)")
    options.add_argument("--hours", type=float, default=24.0, help="the job, without change-overs")
    options.add_argument("--slacks", type=float, nargs="+", default=[1.15, 1.5, 2.0], help="deadline / work")
    options.add_argument("--change-overs", type=float, nargs="+", default=[12.0], help="minutes each")
    options.add_argument("--spot-price", type=float, default=0.35, help="as a share of on demand")
    options.add_argument("--checkpoint-minutes", type=float, default=10.0)
    options.add_argument("--believed", type=float, default=1.0, help="the estimate of the work, as a share of it")
    options.add_argument("--on-demand-stockout", type=float, default=0.0, help="share of time in outages of on demand")
    options.add_argument("--blind", action="store_true", help="a launcher that asks for no machines beside a job")
    options.add_argument("--policies", nargs="+", choices=list(POLICIES))
    options.add_argument("--processes", type=int, default=2)
    options.add_argument("--json", action="store_true")
    given = options.parse_args()
    if given.traces and given.zones > 1:
        options.error("--zones is for seeded traces: each public trace is a zone by itself.")
    if given.traces and not any(given.traces.rglob("*.json")):
        options.error(f"--traces {given.traces}: no .json file in it.")
    return given


def main() -> None:
    given = arguments()
    began, results = time.monotonic(), list[dict[str, Any]]()
    stream = sys.stderr if given.json else sys.stdout
    with ProcessPoolExecutor(given.processes) as pool:
        for over, slack in product(given.change_overs, given.slacks):
            print(f"change-over {over:g} min, deadline {slack:g} x work", file=stream)
            for result in measured(pool, given, slack, over * 60):
                results.append(result)
                print(show(result), file=stream, flush=True)
    if given.json:
        print(json.dumps(results, indent=1))
    else:
        print(f"\n{means(results)}\n\n{results[0]['jobs']} jobs each; {time.monotonic() - began:.0f} s.")


if __name__ == "__main__":
    main()
