"""The example of docs/your-own-task.md, run as its page says."""

import json
import subprocess
import sys
from pathlib import Path

import pyarrow.parquet as pq
from sklearn.metrics import accuracy_score

REPOSITORY = Path(__file__).parents[2]


def test_the_digits_example_goes_from_data_to_report(tmp_path: Path) -> None:
    settings = ["task=docs.examples.digits:Digits", "epochs=40", "global_batch_size=64", "learning_rate=5e-3"]
    settings.append('task_options={"channels": 8}')
    command = [sys.executable, "-m", "vgp", "run", "training", "--json", "--nproc", "2", "--out", str(tmp_path)]
    for setting in settings:
        command += ["--set", setting]
    done = subprocess.run(command, capture_output=True, text=True, cwd=REPOSITORY, timeout=300)
    assert done.returncode == 0, done.stderr
    folder = Path(json.loads(done.stdout)["folder"])
    table = pq.read_table(folder / "evaluate" / "evaluation" / "predictions.parquet").to_pydict()
    guesses = [max(range(10), key=row.__getitem__) for row in table["challenger"]]
    assert accuracy_score(table["label"], guesses) > 0.95
    card = json.loads((folder / "train" / "model" / "model.json").read_text())
    assert json.dumps(card["options"]) == '{"channels": 8}'
    assert json.loads((folder / "run.json").read_text())["steps"][-2]["parameters"] == {"Output": "promote"}
    assert "confusion" in (folder / "report.html").read_text().lower()
