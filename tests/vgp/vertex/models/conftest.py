import hashlib
import json
from collections.abc import Callable
from pathlib import Path

import pytest

from vgp.__main__ import main
from vgp.registry import changes, registry, versions
from vgp.registry.documents import Version

ROOT = Path(__file__).parents[4]
Result = tuple[int, str, str]


@pytest.fixture
def models(capsys: pytest.CaptureFixture[str]) -> Callable[..., Result]:
    """Calls `vgp models` in our repository; returns the exit code, what was printed, and what went wrong."""

    def call(*words: str) -> Result:
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
