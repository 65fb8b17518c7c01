"""`vgp list` compiles what has changed, and only then imports kfp."""

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from vgp.__main__ import main

REPOSITORY = Path(__file__).parents[4]
FLOW = """
from pathlib import Path
from kfp import dsl
from parts import DEFAULT

TEXT = (Path(__file__).parent / "text.txt").read_text()
print("not JSON")

def build(target):
    @dsl.component(base_image="example.com/own:1", install_kfp_package=False)
    def say(text: str):
        print(text)

    @dsl.pipeline(name="flow", description=TEXT)
    def flow(text: str = DEFAULT, times: int = 1024):
        target.step(say)(text=text)

    return flow
"""
LIST = """
import sys
from vgp.__main__ import main
try: main(["list", "--json"])
finally: print("kfp" in sys.modules, file=sys.stderr)
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A repository that was written a while ago."""
    (tmp_path / "pipelines").mkdir()
    texts = {
        "pipelines.toml": "",
        "pipelines/flow.py": FLOW,
        "pipelines/text.txt": "Prints.",
        "parts.py": "DEFAULT = 'a'",
    }
    for name, text in texts.items():
        write(tmp_path / name, text)
    return tmp_path


def write(path: Path, text: str) -> None:
    path.write_text(text)
    os.utime(path, (time.time() - 60, time.time() - 60 + len(text) / 1000))


@pytest.fixture
def listed(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> Callable[[Path], dict[str, object]]:
    """Lists the one workflow with the cache in a folder, and adds whether it was compiled."""
    monkeypatch.chdir(folder)

    def call(cache: Path) -> dict[str, object]:
        monkeypatch.setenv("PIPELINES_CACHE_DIR", str(cache))
        with pytest.raises(SystemExit):
            main(["list", "--json"])
        out, err = capfd.readouterr()
        (row,) = json.loads(out)
        defaults = {parameter["name"]: parameter["default"] for parameter in row["parameters"]}
        return {"description": row["description"], "compiled": "not JSON" in err, **defaults}

    return call


def test_a_workflow_is_compiled_again_when_something_that_it_reads_has_changed(
    folder: Path, tmp_path: Path, listed: Callable[[Path], dict[str, object]]
) -> None:
    cache = tmp_path / "cache"
    first = {"description": "Prints.", "text": "a", "times": 1024, "compiled": True}
    assert listed(cache) == first
    assert listed(cache) == {**first, "compiled": False}
    write(folder / "parts.py", "DEFAULT = 'bc'")  # of another length: bytecode knows a source by second and length
    assert listed(cache) == {**first, "text": "bc"}
    write(folder / "pipelines" / "text.txt", "Speaks.")
    assert listed(cache) == {**first, "text": "bc", "description": "Speaks."}
    assert listed(cache)["compiled"] is False
    for entry in cache.rglob("*.json"):
        entry.write_text(entry.read_text()[:100])
    assert listed(cache)["compiled"] is True, "half an entry is none"


def test_the_command_itself_never_imports_kfp(folder: Path, tmp_path: Path) -> None:
    environment = {**os.environ, "PYTHONPATH": str(REPOSITORY), "PIPELINES_CACHE_DIR": str(tmp_path / "cache")}
    command = [sys.executable, "-W", "ignore", "-c", LIST]
    done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True)
    assert done.stderr.endswith("False\n"), f"kfp was imported, or: {done.stderr}"


def test_a_file_that_changes_while_it_is_compiled_is_not_remembered(
    folder: Path, tmp_path: Path, listed: Callable[[Path], dict[str, object]]
) -> None:
    write(folder / "parts.py", "DEFAULT = 'a'\nopen(__file__, 'a').write('\\n')")
    assert [listed(tmp_path / "cache")["compiled"] for _ in range(2)] == [True, True]


def test_where_nothing_can_be_remembered_it_is_compiled_each_time(
    tmp_path: Path, listed: Callable[[Path], dict[str, object]]
) -> None:
    (tmp_path / "file").write_text("")
    assert [listed(tmp_path / "file")["compiled"] for _ in range(2)] == [True, True]


def test_code_that_fails_is_reported_by_file_and_line(folder: Path, tmp_path: Path) -> None:
    write(folder / "parts.py", "\n1 / 0")
    environment = {**os.environ, "PYTHONPATH": str(REPOSITORY), "PIPELINES_CACHE_DIR": str(tmp_path / "cache")}
    command = [sys.executable, "-W", "ignore", "-m", "vgp", "list"]
    done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (2, "error: parts.py:2: ZeroDivisionError: division by zero\n")
