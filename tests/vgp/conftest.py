"""Small pipelines that exercise kfp's control flow, compiled once for the session."""

import contextlib
import io
import json
import subprocess
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from vgp.machines.catalog import prices, skus

REPOSITORY = Path(__file__).parents[2]
#: A repository of one workflow, of seconds.
SMALL = Path(__file__).parent / "small" / "pipelines.toml"
#: A repository of one workflow that pins first.
NIGHTLY = Path(__file__).parent / "nightly" / "pipelines.toml"


@pytest.fixture
def b200_without_price(monkeypatch: pytest.MonkeyPatch) -> None:
    """A catalog that lacks the prices of B200 and GB200, whatever a refresh has found."""
    known = {key: row for key, row in prices._table().items() if key[0] != "a4-highgpu-8g"}
    parts = {key: row for key, row in skus._read_table().items() if "B200" not in key[0]}
    monkeypatch.setattr(prices, "_table", lambda: known)
    monkeypatch.setattr(skus, "_read_table", lambda: parts)


@pytest.fixture
def training_here(monkeypatch: pytest.MonkeyPatch) -> None:
    """The steps of the library answer in this process, in which they are imported already."""
    from vgp.steps.__main__ import main as training
    from vgp.workflow.local import training_code

    def run(command: list[str], **_: Any) -> subprocess.CompletedProcess[str]:
        out, err, code = io.StringIO(), io.StringIO(), 0
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
            try:
                training(command[command.index("vgp.steps") + 1 :])
            except SystemExit as ended:
                code = int(ended.code or 0)
        return subprocess.CompletedProcess(command, code, out.getvalue(), err.getvalue())

    monkeypatch.setattr(training_code.subprocess, "run", run)


@pytest.fixture(scope="session")
def compiled(tmp_path_factory: pytest.TempPathFactory) -> Callable[[Any], dict[str, Any]]:
    """The JSON of a kfp pipeline."""
    from kfp.compiler import Compiler

    def compile_(pipeline: Any) -> dict[str, Any]:
        path = tmp_path_factory.mktemp("spec") / "pipeline.json"
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            Compiler().compile(pipeline, str(path))
        return json.loads(path.read_text())

    return compile_


@pytest.fixture(scope="session")
def branching(compiled: Callable[[Any], dict[str, Any]]) -> dict[str, Any]:
    """A branch on an unnamed output, a loop, an exit handler: what kfp.local does right."""
    from kfp import dsl

    step = dsl.component(base_image="python", install_kfp_package=False)

    @step
    def flip(side: str = "heads") -> str:
        return side

    @step
    def say(text: str):
        print(f"they say {text}")

    @dsl.pipeline(name="branching")
    def branching(side: str = "heads", times: int = 1):
        bye = say(text="bye")
        with dsl.ExitHandler(bye):
            flipped = flip(side=side)
            with dsl.If(flipped.output == "heads"):
                say(text='it\'s "heads"')
            with dsl.Elif(times > 5):
                say(text="often")
            with dsl.Else():
                say(text="tails")
        with dsl.ParallelFor([1, 2]) as item:
            flip(side=f"{item}")

    return compiled(branching)


@pytest.fixture(scope="session")
def skipping(compiled: Callable[[Any], dict[str, Any]]) -> dict[str, Any]:
    """A branch on a *named* output, which kfp.local 2.17 skips while it reports success."""
    from kfp import dsl

    step = dsl.component(base_image="python", install_kfp_package=False)

    @step
    def score() -> NamedTuple("Scores", [("auc", float)]):  # type: ignore[valid-type]
        from collections import namedtuple

        return namedtuple("Scores", ["auc"])(0.9)  # type: ignore[return-value]

    @step
    def register(auc: float):
        print(auc)

    @dsl.pipeline(name="skipping")
    def skipping():
        scored = score()
        with dsl.If(scored.outputs["auc"] > 0.5):
            register(auc=scored.outputs["auc"])

    return compiled(skipping)


@pytest.fixture(scope="session")
def failing(compiled: Callable[[Any], dict[str, Any]]) -> dict[str, Any]:
    """A step that prints and fails, and one that would come after it."""
    from kfp import dsl

    step = dsl.component(base_image="python", install_kfp_package=False)

    @step
    def broken() -> str:
        import sys

        print("about to fail")
        print("error: the disk is full", file=sys.stderr)
        raise SystemExit(2)

    @step
    def after(text: str):
        print(text)

    @dsl.pipeline(name="failing")
    def failing():
        after(text=broken().output)

    return compiled(failing)


@pytest.fixture(scope="session")
def sleeping(compiled: Callable[[Any], dict[str, Any]]) -> dict[str, Any]:
    """A step that starts a process of its own and sleeps for a minute."""
    from kfp import dsl

    @dsl.component(base_image="python", install_kfp_package=False)
    def sleeper(pids: str):
        import os
        import subprocess

        child = subprocess.Popen(["sleep", "60"])
        with open(pids + ".partial", "w") as file:
            file.write(f"{os.getpid()} {child.pid}")
        os.replace(pids + ".partial", pids)
        child.wait()

    @dsl.pipeline(name="sleeping")
    def sleeping(pids: str):
        sleeper(pids=pids)

    return compiled(sleeping)


@pytest.fixture(scope="session")
def nightly() -> dict[str, Any]:
    """What pins first, as it runs here: a step that moves with a file, one that is pinned, an exit handler."""
    from vgp.settings import find_repository
    from vgp.workflow.compiling import workflow_files
    from vgp.workflow.compiling.compile_target import Local

    return workflow_files.compile_workflow("nightly", Local(), find_repository(NIGHTLY)).content


@pytest.fixture(scope="session")
def small() -> Any:
    """The pipeline of small.py as it runs here."""
    from vgp.settings import find_repository
    from vgp.workflow.compiling import workflow_files
    from vgp.workflow.compiling.compile_target import Local

    return workflow_files.compile_workflow("small", Local(), find_repository(SMALL)).content


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    """An empty folder with the workflows of this repository: what is missing is its pipelines.toml."""
    (tmp_path / "pipelines").symlink_to(REPOSITORY / "pipelines")
    return tmp_path


def write_run(folder: Path, spec: dict[str, Any]) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "pipeline.json").write_text(json.dumps(spec))
