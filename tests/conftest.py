"""What the tests of every room share: the loopback cloud (tests/loopback/cloud.py), and its fixture `cloud`."""

import functools
import inspect
import os
import sys
from pathlib import Path

import hypothesis
import pytest

sys.path.insert(0, str(Path(__file__).parent))

from loopback.fixture import cloud, sdk, without_lookups

__all__ = ["cloud", "sdk", "without_lookups"]

#: Examples of a property test that names no number of its own; a drill has more: HYPOTHESIS_EXAMPLES=1000.
hypothesis.settings.register_profile("suite", max_examples=int(os.environ.get("HYPOTHESIS_EXAMPLES", 40)))
hypothesis.settings.load_profile("suite")

#: Files that take half a minute and more, longest first: begun last, they would run on alone while a core waits.
SLOW = (
    "wheel/test_wheel.py", "training/test_image.py", "training/test_fit.py", "training/processes/test_launch.py",
    "training/test_outage.py", "vgp/local/test_run.py", "training/checkpoint/test_bucket.py",
    "vgp/cli/test_templates.py", "training/test_scale.py", "training/test_fit_bucket.py",
    "docs/test_your_own_task.py", "training/test_lost.py",
)  # fmt: skip


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    root = Path(__file__).parent
    items.sort(key=lambda item: _turn(item.path.relative_to(root).as_posix()))


def _turn(file: str) -> int:
    return SLOW.index(file) if file in SLOW else len(SLOW)


@pytest.fixture(scope="session", autouse=True)
def own_cache(tmp_path_factory: pytest.TempPathFactory) -> None:
    os.environ["PIPELINES_CACHE_DIR"] = str(tmp_path_factory.mktemp("cache"))


@pytest.fixture(scope="session", autouse=True)
def stacks_without_source() -> None:
    """kfp looks at the stack in every setter of a step, for the caller's name alone.

    Below pytest a stack is deep, and the source lines of all its frames made a compilation five times as long.
    """
    inspect.stack = functools.partial(inspect.stack, 0)
