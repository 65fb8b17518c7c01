import contextlib
import hashlib
import io
import json
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from vgp.__main__ import main
from vgp.registry import changes, registry, versions
from vgp.registry.documents import Version
from vgp.steps.__main__ import main as training
from vgp.workflow.local import training_code

ROOT = Path(__file__).parents[4]
Told = tuple[int, str, str]


@pytest.fixture
def here(monkeypatch: pytest.MonkeyPatch) -> None:
    """The training code answers in this process, in which it is imported already."""

    def run(command: list[str], **_: Any) -> subprocess.CompletedProcess[str]:
        out, err, code = io.StringIO(), io.StringIO(), 0
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
            try:
                training(command[command.index("vgp.steps") + 1 :])
            except SystemExit as ended:
                code = int(ended.code or 0)
        return subprocess.CompletedProcess(command, code, out.getvalue(), err.getvalue())

    monkeypatch.setattr(training_code.subprocess, "run", run)


@pytest.fixture
def models(capsys: pytest.CaptureFixture[str]) -> Callable[..., Told]:
    """Calls `vgp models` in our repository; returns the exit code, what was printed, and what went wrong."""

    def call(*words: str) -> Told:
        code = 0
        try:
            main(["models", words[0], "--settings", str(ROOT / "pipelines.toml"), *words[1:]])
        except SystemExit as ended:
            code = int(ended.code or 0)
        return code, *capsys.readouterr()

    return call


def filled(root: str, folder: Path, *, many: int = 3, promoted: int = 2) -> registry.Registry:
    """A registry of flights with so many versions, of which the first so many were promoted in turn."""
    place = registry.open(root, "flights")
    (folder / "model").mkdir(exist_ok=True)
    (folder / "model" / "model.json").write_text(json.dumps({}))
    for number in range(1, many + 1):
        key = hashlib.sha256(str(number).encode()).hexdigest()
        version = Version(
            key=key, model=place.version_folder(key), files=versions.add(place, str(folder / "model"), key),
            run=f"training-{number}", data=f"month {number}", metrics={"roc_auc": 0.7 + number / 100},
            reason=f"better by {number}", task="training.tasks.flights:Flights",
        )  # fmt: skip
        place.change(lambda record, version=version: changes.register(record, version, who="the run"))
    for number in range(1, promoted + 1):
        place.change(
            lambda record, number=number: changes.promote(
                record, number, expected=record.aliases.get("champion"), who="the run", why=f"better by {number}",
                key=str(number),
            )
        )  # fmt: skip
    return place
