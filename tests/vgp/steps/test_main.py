"""The steps from a shell write their outputs, and nothing else into the working folder."""

from pathlib import Path

import pytest

from vgp.evaluation.evaluate import evaluate
from vgp.protocol import manifest
from vgp.steps.__main__ import main


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


def test_options_of_the_task_are_set_by_name(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = ["prepare", str(tmp_path / "data"), "--task", "language_model", "--data", str(corpus(tmp_path))]
    main([*words, "--options", '{"depth": 1}', "--set", "sequence_length=32", "--set", "test_share=0.4"])
    made = manifest.load(tmp_path / "data")
    assert made.options == {"depth": 1, "sequence_length": 32, "test_share": 0.4}
    assert made.split == {"by": "file", "test_share": "0.4", "validation_share": "0.05"}
    with pytest.raises(SystemExit) as refusal:
        main([*words, "--set", "train=1-6"])
    assert refusal.value.code == 2
    error = capsys.readouterr().err
    assert "LanguageModel has no option 'train'" in error and "depth" in error
    with pytest.raises(SystemExit) as refusal:
        main([*words, "--options", "train=1-6"])
    assert refusal.value.code == 2
    assert "train=1-6 is not JSON; write it as" in capsys.readouterr().err


def corpus(folder: Path) -> Path:
    (folder / "texts").mkdir()
    for number in range(20):
        (folder / "texts" / f"{number}.txt").write_text(f"text {number} " * 200)
    return folder / "texts"
