"""What the last runs cost: those that did the work apart from those that took it from the cache, and never an error."""

import json
import time
from collections.abc import Callable
from typing import Any

import pytest
from loopback import faults
from loopback.cloud import Cloud

from vgp.__main__ import main
from vgp.settings import Settings
from vgp.vertex.runs import run_cost

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
        amounts.append(run_cost.so_far(run, run_cost.machines(run), cloud.clock.now()).usd)
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
    assert run_cost.last_runs(settings, "another").words == "no other run of it has succeeded yet"


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
    assert last.words.startswith("what the last runs cost is not known: ") and "\n" not in last.words
    assert last.as_json()["ran"] is None and last.as_json()["unknown"]


def test_submit_and_show_tell_it_and_go_on_without(
    settings: Settings, cloud: Cloud, capsys: pytest.CaptureFixture[str]
) -> None:
    def told(*words: str) -> tuple[str, dict[str, Any]]:
        with pytest.raises(SystemExit) as ended:
            main([*words, "--json"])
        assert not ended.value.code
        out, err = capsys.readouterr()
        return err, json.loads(out)

    assert "no other run of it has succeeded yet" in told("submit", "training")[0]
    cloud.clock.advance(86_400)
    assert told("show", "latest")[1]["last_runs"]["ran"] is None
    shown, first = told("submit", "training", "--set", "epochs=2")
    assert "last 1 run that ran train: $" in shown and first["last_runs"]["ran"]["runs"] == 1
    assert told("show", "latest")[1]["last_runs"] == first["last_runs"]
    cloud.fail(DETAILED, faults.status(403), forever=True)
    assert told("show", first["id"])[1]["last_runs"]["unknown"]
