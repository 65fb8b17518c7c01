"""What the tests of every room share: the loopback cloud (tools/emulator/cloud.py), and its fixture `cloud`."""

import atexit
import functools
import gc
import inspect
import os
import signal
import sys
from collections.abc import Iterator
from pathlib import Path

import hypothesis
import pytest

# Threads of several workers would spin while they wait for each other's cores: half of what arithmetic took. Read when
# torch and numpy are loaded. Ranks of a training share the cores out themselves (vgp/train/processes/rank.py).
os.environ["OMP_NUM_THREADS"] = os.environ["OPENBLAS_NUM_THREADS"] = "1"
os.environ["OMP_WAIT_POLICY"] = "PASSIVE"

sys.path.insert(0, str(Path(__file__).parents[1]))
sys.path.insert(0, str(Path(__file__).parent))

from isolation import as_found

from tools.emulator.fixture import cloud, sdk, without_lookups

__all__ = ["cloud", "sdk", "without_lookups"]

# Until all is imported, which leaves no garbage: looking for some took a third of the collection of tests.
gc.disable()

#: Examples of a property test that names no number of its own; a drill has more: HYPOTHESIS_EXAMPLES=1000. None has a
#: deadline: 200 ms of a clock pass on a busy machine while nothing of it runs.
hypothesis.settings.register_profile(
    "suite", max_examples=int(os.environ.get("HYPOTHESIS_EXAMPLES", 40)), deadline=None
)
hypothesis.settings.load_profile("suite")

#: Files that take half a minute and more, longest first: begun last, they would run on alone while a core waits.
SLOW = (
    "wheel/test_wheel.py", "components/test_dockerfile.py", "tools/gpu_hour/test_on_cpu.py", "vgp/train/test_fit.py",
    "vgp/train/processes/test_launch.py", "vgp/train/test_outage.py", "vgp/workflow/local/test_run.py",
    "vgp/train/checkpoint/test_bucket.py", "vgp/cli/test_templates.py", "vgp/train/test_scale.py",
    "vgp/train/test_fit_bucket.py", "docs/test_outputs.py", "vgp/train/test_lost.py",
)  # fmt: skip


def pytest_configure(config: pytest.Config) -> None:
    """A worker of xdist leaves at once: to take apart what was imported takes 4 s of a core.

    Its results are printed by then; every function that is registered later to run at the end is run before.
    """
    if hasattr(config, "workerinput"):
        atexit.register(os._exit, 0)
    _hear_signals()


def _hear_signals() -> None:
    """A suite in the background, or under nohup, ignores these signals, and so would all that its tests start."""
    for number, usual in ((signal.SIGINT, signal.default_int_handler), (signal.SIGHUP, signal.SIG_DFL)):
        if signal.getsignal(number) == signal.SIG_IGN:
            signal.signal(number, usual)


def pytest_collection_finish() -> None:
    """What is there by now stays: the collector need not look through it in every test."""
    gc.freeze()
    gc.enable()


def pytest_unconfigure(config: pytest.Config) -> None:
    if not hasattr(config, "workerinput"):
        gc.unfreeze()


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    root = Path(__file__).parent
    items.sort(key=lambda item: _turn(item.path.relative_to(root).as_posix()))


def _turn(file: str) -> int:
    return SLOW.index(file) if file in SLOW else len(SLOW)


@pytest.fixture(scope="session", autouse=True)
def own_cache(tmp_path_factory: pytest.TempPathFactory) -> None:
    os.environ["PIPELINES_CACHE_DIR"] = str(tmp_path_factory.mktemp("cache"))


@pytest.fixture(scope="module", autouse=True)
def left_as_found(own_cache: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """A file leans on nothing that the file before it in the same worker has left, whichever that was."""
    with as_found(tmp_path_factory.getbasetemp()):
        yield


@pytest.fixture(scope="session", autouse=True)
def stacks_without_source() -> None:
    """kfp looks at the stack in every setter of a step, for the caller's name alone.

    Below pytest a stack is deep, and the source lines of all its frames made a compilation five times as long.
    """
    inspect.stack = functools.partial(inspect.stack, 0)
