"""The steps from a shell write what they were told to write, and nothing into the working folder besides."""

from pathlib import Path

import pytest

from training.__main__ import main
from training.evaluation.evaluate import evaluate


def test_a_decision_overwrites_nothing_in_the_working_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    import coins

    data, own = coins.dataset(tmp_path / "data"), tmp_path / "own"
    model = coins.trained(tmp_path / "model", data)
    evaluate(data, model, tmp_path / "evaluation", baseline=True)
    own.mkdir()
    for name in ("report.html", "summary.md"):
        (own / name).write_text("mine")
    monkeypatch.chdir(own)
    words = ["decide", str(data), str(tmp_path / "evaluation"), "--model", str(model)]
    main(words)
    assert {path.name: path.read_text() for path in own.iterdir()} == {"report.html": "mine", "summary.md": "mine"}
    assert f"report: {tmp_path / 'evaluation' / 'report.html'}" in capsys.readouterr().out
    assert (tmp_path / "evaluation" / "summary.md").read_text().startswith("#")
    main([*words, "--report", "mine.html"])
    assert sorted(path.name for path in own.iterdir()) == ["mine.html", "report.html", "summary.md"]
