"""The example of docs/your-own-task.md: its page's commands, part by part."""

import json
import re
import shlex
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from sklearn.metrics import accuracy_score

from vgp.steps.__main__ import main
from vgp.train.processes.launch import THREADS

REPOSITORY = Path(__file__).parents[2]
PAGE = (REPOSITORY / "docs/your-own-task.md").read_text()


def lines(program: str) -> list[list[str]]:
    """The arguments of that program, wherever the page starts it in a block of its own."""
    blocks = "".join(text for language, text in re.findall(r"(?ms)^```(\w*)\n(.*?)^```$", PAGE) if not language)
    return [shlex.split(line) for line in re.findall(rf"(?m)^{program} (.*)$", blocks)]


def settings(words: list[str]) -> set[str]:
    return {value for flag, value in zip(words, words[1:], strict=False) if flag == "--set"}


def test_the_digits_example_goes_from_data_to_report(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A project's own task as a pipeline, which the page's first command is: tests/wheel, tests/vgp/workflow/local."""
    prepare, train, evaluate, decide = lines("python -m vgp.steps")
    for name, value in THREADS.items():
        monkeypatch.setenv(name, value)
    monkeypatch.delenv("PYTHONPATH", raising=False)
    monkeypatch.syspath_prepend(REPOSITORY)
    monkeypatch.chdir(tmp_path)
    for words in ([*prepare, "--set", "channels=8"], train, evaluate, decide):
        main([word.replace("/tmp", str(tmp_path)) for word in words])
    table = pq.read_table(tmp_path / "evaluation" / "predictions.parquet").to_pydict()
    guesses = [max(range(10), key=row.__getitem__) for row in table["challenger"]]
    assert accuracy_score(table["label"], guesses) > 0.95
    card = json.loads((tmp_path / "model" / "model.json").read_text())
    assert json.dumps(card["options"]) == '{"channels": 8}'
    assert json.loads((tmp_path / "evaluation" / "decision.json").read_text())["promote"] is True
    assert "confusion" in (tmp_path / "report.html").read_text().lower()


def test_the_parts_are_given_what_the_pipeline_is_given() -> None:
    (run,) = [words for words in lines("vgp") if words[:2] == ["run", "training"]]
    prepare, train, evaluate, _ = lines("python -m vgp.steps")
    task = "docs.examples.digits:Digits"
    assert settings(run) == settings(train) | {f"task={task}"}
    assert all(words[words.index("--task") + 1] == task for words in (prepare, train, evaluate))
    assert "--nproc 2" in " ".join(run) and "--nproc 2" in " ".join(train)
