"""docs/python.md: its code runs as it stands. The steps of its runs are not computed: tests/vgp/local does that."""

import json
import re
from pathlib import Path
from typing import Any

import pytest

from training import bundle
from vgp.compiling import workflows
from vgp.local import run as local
from vgp.local.proof import Step
from vgp.vertex.runs import follow, submission

REPOSITORY = Path(__file__).parents[2]
PAGE = (REPOSITORY / "docs/python.md").read_text()
#: Each block of Python, and what stands in the block of text right after it.
BLOCKS = re.findall(r"(?ms)^```python\n(.*?)^```\n(?:\n```\n(.*?)^```\n)?", PAGE)


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> list[Any]:
    """What was asked to be run, with the results of the page in place of the steps' own."""
    requests: list[Any] = []

    def finished(request: Any, tell: Any) -> local.Result:
        requests.append(request)
        told = {"metrics": {"auc": 0.7372}, "model": {}}
        for step, name in (("evaluate", "metrics"), ("train", "model")):
            (request.folder / step).mkdir(exist_ok=True)
            text = json.dumps({"artifacts": {name: {"artifacts": [{"metadata": told[name]}]}}})
            (request.folder / step / "executor_output.json").write_text(text)
        if request.arguments.get("epochs") == 20 and len(requests) == 3:
            request.failed = "train"
        return local.Result(
            request,
            [
                Step("train", "succeeded", artifacts={"model": f"{request.folder}/train/model"}),
                Step("evaluate", "succeeded", artifacts={"metrics": f"{request.folder}/metrics"}),
                Step("decide", "succeeded", parameters={"Output": "promote"}),
            ],
        )

    compiled, specs = workflows.compiled, dict[str, Any]()

    def compiled_once(name: str, *where: Any) -> Any:
        specs[name] = specs.get(name) or compiled(name, *where)
        return specs[name]

    monkeypatch.setattr(workflows, "compiled", compiled_once)
    monkeypatch.setattr(local, "finished", finished)
    there = {"id": "training-1", "name": "projects/1/training-1", "url": "https://console", "state": "running"}
    ended = {**there, "state": "succeeded", "decision": "promote", "metrics": {"evaluate": {"auc": 0.74}}, "usd": 1.9}
    monkeypatch.setattr(submission, "submit", lambda *words, **more: {**there, "started": True})
    monkeypatch.setattr(follow, "follow", lambda *words, **more: follow.Outcome(0, ended))
    monkeypatch.setattr(bundle, "load", lambda folder: (folder, None, None))
    monkeypatch.syspath_prepend(REPOSITORY)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PIPELINES_REGION", "us-central1")
    (tmp_path / "pipelines.toml").write_text("")
    (tmp_path / "pipelines").symlink_to(REPOSITORY / "pipelines")
    (tmp_path / "components").symlink_to(REPOSITORY / "components")
    return requests


def test_the_code_of_the_page_runs_and_prints_what_the_page_says(
    asked: list[Any], capsys: pytest.CaptureFixture[str]
) -> None:
    names: dict[str, Any] = {}
    for code, printed in BLOCKS:
        exec(code, names)
        said = capsys.readouterr().out
        if printed:
            assert _usual(said) == _usual(printed)
    first, digits, failed, resumed = asked
    assert first.arguments == {"epochs": 1.0, "task_options": {"train": "1-2", "test": "3"}}
    assert digits.arguments["task"] == "docs.examples.digits:Digits" and digits.nproc == 2
    assert resumed.folder == failed.folder
    assert names["task"] == names["trained"].model or names["task"] == first.folder / "train/model"
    names["test_digits"]()


def _usual(text: str) -> str:
    return re.sub(r"'[^']*/runs/training-\d{8}-\d{6}[-\d]*'", "'.../runs/training-20261122-080644'", text)


def test_what_the_page_says_of_a_run_is_there() -> None:
    from training.testing import Parts
    from vgp.api import Run

    (table,) = re.findall(r"(?ms)^\| `run\.` \|.*?\n\n", PAGE)
    named = re.findall(r"(?m)^\| (`\w+`(?:, `\w+`)?)", table)
    names = {name for cell in named for name in re.findall(r"\w+", cell)} - {"run"}
    fields = set(Run.__dataclass_fields__) | {name for name in vars(Run) if not name.startswith("_")}
    assert names <= fields and len(names) >= 9
    for call in re.findall(r"(?m)^\| `(\w+)\(", PAGE):
        assert call == "prepared" or hasattr(Parts, call)
