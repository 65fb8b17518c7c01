"""A folder of its own with no variable of ours set."""

import os
from collections.abc import Callable
from pathlib import Path

import pytest


@pytest.fixture(autouse=True)
def _no_variables(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [name for name in os.environ if name.startswith("PIPELINES_")]:
        monkeypatch.delenv(name)


@pytest.fixture
def write(tmp_path: Path) -> Callable[[str], Path]:
    """Writes a settings file beside the workflows of this repository, and returns its path."""
    (tmp_path / "pipelines").symlink_to(Path(__file__).parents[3] / "pipelines")

    def write_(text: str) -> Path:
        path = tmp_path / "pipelines.toml"
        path.write_text(text, encoding="utf-8")
        return path

    return write_
