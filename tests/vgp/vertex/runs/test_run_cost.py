"""What a run costs: time x machines x price, never less as time goes on, and honest where a price is not known. What
the last runs cost: those that did the work apart from those that took it from the cache, and never an error."""

import json
import time
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tools.emulator import faults
from tools.emulator.cloud import Cloud
from vgp.__main__ import main
from vgp.check.check_finding import StepRow
from vgp.check.container_facts import Service
from vgp.settings import Settings
from vgp.vertex.runs import run_cost
from vgp.vertex.runs.remote_run import Run, Step

BEGIN = datetime(2026, 11, 20, tzinfo=UTC)
STATES = ("waiting", "pending", "running", "succeeded", "cached", "failed", "cancelled", "not triggered", "not run")

rows = st.builds(
    StepRow, st.just("s"), st.just("g2-standard-24"), st.none(), st.just(0), st.none() | st.integers(1, 64),
    st.just("STANDARD"), st.none() | st.floats(0, 500), st.none(), st.none() | st.floats(0, 7e5),
)  # fmt: skip


@st.composite
def steps(draw: Any) -> Step:
    start = draw(st.none() | st.integers(0, 10**6))
    lasted = draw(st.none() | st.integers(0, 10**6))
    begin = None if start is None else BEGIN + timedelta(seconds=start)
    end = None if begin is None or lasted is None else begin + timedelta(seconds=lasted)
    name = draw(st.sampled_from("abc"))
    return Step(name, draw(st.sampled_from(STATES)), name, name, begin, end)


def run(*several: Step) -> Run:
    return SimpleNamespace(steps=several, ways=())  # type: ignore[return-value]


@given(
    st.lists(steps(), max_size=8),
    st.dictionaries(st.sampled_from("abc"), st.lists(rows, max_size=3)),
    st.integers(0, 10**6),
)
def test_the_sum_is_that_of_its_steps_and_grows_with_time(
    listed: list[Step], priced: dict[str, list[StepRow]], later: int
) -> None:
    table = {name: tuple(each) for name, each in priced.items()}
    now = BEGIN + timedelta(days=12)
    total = run_cost.sum_costs(run(*listed), table, now)
    spent = [run_cost.step_cost(step, table, now) for step in listed]
    assert total.usd == pytest.approx(sum(each for each in spent if each is not None))
    assert all(each is None or each >= 0 for each in spent)
    assert set(total.unpriced) == {step.name for step, each in zip(listed, spent, strict=True) if each is None}
    afterwards = run_cost.sum_costs(run(*listed), table, now + timedelta(seconds=later))
    assert afterwards.usd >= total.usd and afterwards.unpriced == total.unpriced
    running = [step for step in listed if step.start and step.end is None and step.seconds(now) is not None]
    hourly = sum((row.usd_per_hour or 0) * (row.replicas or 0) for step in running for row in _priced(step, table))
    assert afterwards.usd - total.usd == pytest.approx(hourly * later / 3600, abs=1e-6 * max(1, total.usd))


def _priced(step: Step, table: dict[str, tuple[StepRow, ...]]) -> tuple[StepRow, ...]:
    """A step of which one machine has no price counts for nothing."""
    found = table.get(step.name, ())
    return () if any(row.usd_per_hour is None or row.replicas is None for row in found) else found


@given(st.lists(steps(), min_size=1, max_size=8), st.lists(rows, max_size=4))
def test_no_more_than_the_most_is_spent_within_the_timeouts(listed: list[Step], priced: list[StepRow]) -> None:
    whole = tuple(row for row in priced if row.max_usd is not None)
    table = {name: whole for name in "abc"}
    limit = min((row.timeout_s or 0 for row in whole), default=0)
    kept = [step for step in listed if (step.seconds(BEGIN + timedelta(days=30)) or 0) <= limit]
    now = BEGIN + timedelta(days=30)
    assert run_cost.sum_costs(run(*kept), table, now).usd <= run_cost.cost_limit(run(*kept), table).usd + 1e-6


def test_what_a_step_used_of_other_services_is_named_as_having_no_price() -> None:
    used = (Service("BigQuery", "100 GB", "EU", 0.61), Service("Dataflow", "10 x n2-standard-4 for 24 h", "", None))
    row = StepRow("a", "e2-standard-4", None, 0, 1, "STANDARD", 2.0, "us-central1", 3600.0, services=used)
    ended = Step("a", "succeeded", "a", "a", BEGIN, BEGIN + timedelta(hours=1))
    waiting = Step("a", "waiting", "a", "a", None, None)
    total = run_cost.sum_costs(run(ended), {"a": (row,)}, BEGIN)
    assert total.words == "at least $2.00 (no price: BigQuery of a, Dataflow of a)"
    assert run_cost.sum_costs(run(waiting), {"a": (row,)}, BEGIN) == run_cost.Cost(0.0)
    assert run_cost.cost_limit(run(ended), {"a": (row,)}).unpriced == ("a",)


def test_a_clock_that_is_behind_googles_gives_no_negative_cost() -> None:
    step = Step("a", "running", "a", "a", BEGIN + timedelta(hours=1))
    row = StepRow("a", "x", None, 0, 1, "STANDARD", 3.0)
    assert run_cost.step_cost(step, {"a": (row,)}, BEGIN) == 0.0


def test_a_run_costs_what_its_machines_cost_for_as_long_as_they_ran(
    cloud: Cloud, start: Callable[..., str], look: Callable
) -> None:
    cloud.script("resolve", seconds=0)
    cloud.script("prepare", seconds=1800)
    cloud.script("train", seconds=7200)
    run = look(start())
    assert run_cost.sum_costs(run, run_cost.list_machines(run), cloud.clock.now()) == run_cost.Cost(0.0)
    cloud.clock.advance(10 + 1800 + 3600)
    run = look(run.name)
    machines = run_cost.list_machines(run)
    (step,) = [step for step in run.steps if step.task == "train"]
    (train,) = run_cost.step_rows(step, machines)
    hourly = train.combination.price("standard", "us-central1")
    assert hourly and train.strategy == "STANDARD"
    assert run_cost.step_cost(step, machines, cloud.clock.now()) == pytest.approx(hourly.usd_per_hour)
    assert run_cost.describe_machines(step, machines).startswith(f"{train.machine_type} (")
    assert run_cost.cost_limit(run, machines).usd > run_cost.sum_costs(run, machines, cloud.clock.now()).usd


def test_machines_that_are_parameters_are_those_of_this_run(
    start: Callable, look: Callable, compiled: Callable
) -> None:
    from kfp import dsl

    @dsl.component(base_image="python", install_kfp_package=False)
    def work():
        pass

    @dsl.pipeline(name="sized")
    def sized(gpu: str = "NVIDIA_TESLA_T4"):
        work().set_accelerator_type(gpu).set_accelerator_limit(1)

    spec = compiled(sized)
    kinds = [
        run_cost.describe_machines(run.steps[0], run_cost.list_machines(run))
        for run in (look(start(spec)), look(start(spec, {"gpu": "NVIDIA_L4"})))
    ]
    assert [kind.rpartition("(")[2] for kind in kinds] == ["1 T4)", "1 L4)"]


def test_an_unknown_price_is_reported() -> None:
    row = StepRow("a", None, None, 0, None, "SPOT", None)
    step = Step("a", "running", "a", "a", BEGIN)
    found = run_cost.sum_costs(run(step), {"a": (row,)}, BEGIN + timedelta(hours=1))
    assert str(found) == "at least $0.00" and found.unpriced == ("a",)
    assert run_cost.describe_machines(step, {"a": (row,)}) == "? x machine ? spot"


def test_the_way_to_a_step_decides_where_two_have_one_name() -> None:
    first, second = (StepRow(name, "m", None, 0, 1, "STANDARD", 1.0) for name in ("work", "loop/work"))
    table = {"work": (first,), "loop/work": (second,)}
    assert run_cost.step_rows(Step("loop/work[3]", "running", "loop/work", "work"), table) == (second,)
    assert run_cost.step_rows(Step("work", "running", "work", "work"), table) == (first,)
    assert run_cost.step_rows(Step("importer", "running", "importer", "importer"), table) == ()


DETAILED = "aiplatform.projects.locations.pipelineJobs.list"


@pytest.fixture
def worked(compiled: Callable[[Any], dict[str, Any]]) -> dict[str, Any]:
    """A pipeline of a cheap step that always runs, and a dear one that may come from the cache."""
    from kfp import dsl

    @dsl.component(base_image="python", install_kfp_package=False)
    def look(night: str) -> str:
        return night

    @dsl.component(base_image="python", install_kfp_package=False)
    def fit(data: str):
        print(data)

    @dsl.pipeline(name="nights")
    def nights(night: str, data: str):
        look(night=night)
        fit(data=data).set_accelerator_type("NVIDIA_TESLA_T4").set_accelerator_limit(1)

    return compiled(nights)


@pytest.fixture
def nights(cloud: Cloud, start: Callable[..., str], look: Callable, worked: dict[str, Any]) -> list[float]:
    """Six nights, two of them without new data, one that failed; what the first three that ran all cost."""
    amounts = []
    cloud.script("look", seconds=60)
    for number, (data, seconds) in enumerate([("a", 3600), ("b", 7200), ("b", 0), ("c", 5400), ("c", 0)]):
        cloud.script("fit", seconds=seconds)
        name = start(worked, {"night": str(number), "data": data}, id=f"night-{number}", caching=None)
        cloud.clock.advance(3 * 3600)
        run = look(name)
        amounts.append(run_cost.sum_costs(run, run_cost.list_machines(run), cloud.clock.now()).usd)
    cloud.script("fit", seconds=60, fail="broken")
    start(worked, {"night": "6", "data": "d"}, id="night-6")
    cloud.clock.advance(3600)
    return [amounts[0], amounts[1], amounts[3]]


def test_runs_that_took_the_dear_step_from_the_cache_are_counted_apart(
    settings: Settings, nights: list[float], cloud: Cloud
) -> None:
    last = run_cost.last_runs(settings, "nights")
    assert last.ran and last.without and last.step == "fit"
    assert sorted(last.ran.usd) == pytest.approx(sorted(nights))
    assert len(last.without.usd) == 2 and max(last.without.usd) < 0.01
    low, middle, high = (f"${amount:.2f}" for amount in sorted(nights))
    assert last.words == (
        f"last 3 runs that ran fit: {low} to {high}, median {middle} (list prices); 2 that did not: <$0.01"
    )
    shown = last.as_json()
    assert shown["ran"]["runs"] == 3 and shown["ran"]["usd_median"] == pytest.approx(sorted(nights)[1], abs=1e-4)
    assert len(run_cost.last_runs(settings, "nights", without="night-3").ran.usd) == 2  # type: ignore[union-attr]
    assert run_cost.last_runs(settings, "another").words == "no earlier run of this pipeline has succeeded"


def test_lists_without_details_are_completed(
    settings: Settings, nights: list[float], monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = run_cost.last_runs(settings, "nights")
    monkeypatch.setattr(run_cost, "_FIELDS", ("name", "state"))
    assert run_cost.last_runs(settings, "nights") == whole


@pytest.mark.parametrize("fault", [faults.status(503), faults.status(403), faults.reset(), faults.slow(30)])
def test_an_api_that_is_slow_or_refuses_breaks_nothing(
    settings: Settings, cloud: Cloud, fault: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(run_cost, "WITHIN_S", 0.3)
    cloud.fail(DETAILED, fault, forever=True)
    began = time.monotonic()
    last = run_cost.last_runs(settings, "training")
    assert time.monotonic() - began < 25
    assert last.words.startswith("the cost of the last runs is unknown: ") and "\n" not in last.words
    assert last.as_json()["ran"] is None and last.as_json()["unknown"]


def test_submit_and_show_report_last_runs_and_continue_without(
    settings: Settings, cloud: Cloud, capsys: pytest.CaptureFixture[str]
) -> None:
    def run_json(*words: str) -> tuple[str, dict[str, Any]]:
        with pytest.raises(SystemExit) as ended:
            main([*words, "--json"])
        assert not ended.value.code
        out, err = capsys.readouterr()
        return err, json.loads(out)

    assert "no earlier run of this pipeline has succeeded" in run_json("submit", "training")[0]
    cloud.clock.advance(86_400)
    assert run_json("show", "latest")[1]["last_runs"]["ran"] is None
    shown, first = run_json("submit", "training", "--set", "epochs=2")
    assert "last 1 run that ran train: $" in shown and first["last_runs"]["ran"]["runs"] == 1
    assert run_json("show", "latest")[1]["last_runs"] == first["last_runs"]
    cloud.fail(DETAILED, faults.status(403), forever=True)
    assert run_json("show", first["id"])[1]["last_runs"]["unknown"]
