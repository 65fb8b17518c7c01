"""The containers that a run starts, as docs/explanation/how-a-run-works.md lists them, counted in compiled specs."""

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs/explanation/how-a-run-works.md").read_text()


def tasks(name: str) -> Iterator[tuple[str, bool, bool, bool]]:
    """Yields each step of a golden spec: name, whether it is conditional, may be a cache hit, and is a custom job."""
    spec = json.loads((ROOT / f"tests/golden/{name}.json").read_text())

    def walk(component: Any, conditional: bool) -> Iterator[tuple[str, bool, bool, bool]]:
        for task, content in component["dag"]["tasks"].items():
            inner = spec["components"][content["componentRef"]["name"]]
            if "dag" in inner:
                yield from walk(inner, conditional or "condition" in content.get("triggerPolicy", {}))
            else:
                is_job = "worker_pool_specs" in inner.get("inputDefinitions", {}).get("parameters", {})
                yield task, conditional, bool(content.get("cachingOptions", {}).get("enableCache")), is_job

    return walk(spec["root"], False)


def counted(row: str) -> int:
    """Returns the number of containers in the row of the page."""
    match = re.search(rf"(?m)^\| {re.escape(row)} \| (\d+) \|", PAGE)
    assert match, row
    return int(match[1])


@pytest.mark.parametrize(("name", "row"), [("training", "`training`, trains"), ("batch_prediction",) * 2])
def test_a_run_that_works_starts_each_step_and_one_launcher_for_each_job(name: str, row: str) -> None:
    steps = list(tasks(name))
    assert len(steps) + sum(job for *_, job in steps) == counted(row if " " in row else f"`{row}`")


def test_an_idle_night_starts_two_containers() -> None:
    steps = [name for name, conditional, *_ in tasks("training") if not conditional]
    assert sorted(steps) == ["notify", "resolve"] and counted('`training` with `when = "drift"`, nothing new') == 2


def test_an_idle_run_that_always_trains_starts_the_steps_with_effects_alone() -> None:
    steps = [name for name, _, cached, _ in tasks("training") if not cached]
    assert sorted(steps) == ["notify", "register", "resolve"]
    assert counted('`training` with `when = "always"`, nothing new') == 3
