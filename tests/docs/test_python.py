"""docs/python.md: its code runs as it stands, on this machine and against the Google Cloud on loopback.

Its first run, of flights, is that of tests/vgp/workflow/local/test_run.py.
"""

import builtins
import io
import re
from pathlib import Path
from typing import Any

import pytest

from tools.emulator.cloud import Cloud
from vgp.api import Run, RunFailed, run
from vgp.base.clock import Clock

REPOSITORY = Path(__file__).parents[2]
PAGE = (REPOSITORY / "docs/python.md").read_text()
#: Each block of Python, and what stands in the block of text right after it.
BLOCKS = re.findall(r"(?ms)^```python\n(.*?)^```\n(?:\n```\n(.*?)^```\n)?", PAGE)
THERE, HERE = ([block for block in BLOCKS if ("submit(" in block[0]) is wanted] for wanted in (True, False))


@pytest.fixture
def project(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """A folder with the workflows of this repository, in which the page's code is run."""
    monkeypatch.syspath_prepend(REPOSITORY)
    monkeypatch.setenv("PYTHONPATH", str(REPOSITORY))
    monkeypatch.chdir(tmp_path)
    (tmp_path / "pipelines.toml").write_text('region = "us-central1"\nimage = "example.com/training:1"\n')
    for name in ("pipelines", "components"):
        (tmp_path / name).symlink_to(REPOSITORY / name)
    return tmp_path


def test_the_code_of_the_page_runs_and_prints_what_the_page_says(project: Path) -> None:
    """The run that fails finds a record of its registry that is damaged, which is mended once its message is read.

    What the code prints is held to the page, without the lines of progress between.
    """
    record, failures = project / "runs/registry/digits/registry.json", list[RunFailed]()
    said = io.StringIO()

    def show(*values: Any) -> None:
        if values and isinstance(values[0], RunFailed):
            failures.append(values[0])
            record.unlink()
        builtins.print(*values, file=said)

    names: dict[str, Any] = {"print": show, "run": run}
    for code, printed in HERE[1:]:
        if "RunFailed" in code:
            record.parent.mkdir(parents=True)
            record.write_text("{")
        said.seek(said.truncate(0))
        exec(code, names)
        if printed:
            assert _usual(said.getvalue()) == _usual(printed)
        if "bundle.load" in code:
            assert names["card"].task.endswith(":Digits") and names["trained"].model
    (failure,), resumed = failures, names["trained"]
    assert "registry.json" in str(failure) and failure.run is not None
    assert isinstance(resumed, Run) and resumed.succeeded and resumed.folder == failure.run.folder
    assert resumed.model and resumed.model.is_dir() and resumed.report and resumed.report.is_file()
    names["test_digits"]()


def test_the_code_that_runs_on_vertex_ai_runs_against_the_loopback_cloud(
    project: Path, cloud: Cloud, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(Clock, "now", lambda self: cloud.clock.now().timestamp())
    monkeypatch.setattr(Clock, "sleep", lambda self, seconds: cloud.clock.advance(seconds))
    cloud.script("evaluate", metrics={"auc": 0.71})
    cloud.script("decide", outputs={"Output": "candidate"})
    (block,) = THERE
    names: dict[str, Any] = {}
    exec(block[0], names)
    assert names["ended"].state == "succeeded" and names["ended"].told["decision"] == "candidate"
    assert "candidate {'evaluate.auc': 0.71} " in capsys.readouterr().out


def _usual(text: str) -> str:
    return re.sub(r"'[^']*/runs/training-\d{8}-\d{6}[-\d]*'", "'.../runs/training-20261122-080644'", text)


def test_what_the_page_says_of_a_run_is_there() -> None:
    from vgp.testing import Parts

    (table,) = re.findall(r"(?ms)^\| `run\.` \|.*?\n\n", PAGE)
    named = re.findall(r"(?m)^\| (`\w+`(?:, `\w+`)?)", table)
    names = {name for cell in named for name in re.findall(r"\w+", cell)} - {"run"}
    fields = set(Run.__dataclass_fields__) | {name for name in vars(Run) if not name.startswith("_")}
    assert names <= fields and len(names) >= 9
    for call in re.findall(r"(?m)^\| `(\w+)\(", PAGE):
        assert call == "prepared" or hasattr(Parts, call)
