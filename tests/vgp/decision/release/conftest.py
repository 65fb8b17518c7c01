import sys
from pathlib import Path

import pytest

HERE = str(Path(__file__).parent)
sys.path.insert(0, HERE)
sys.path.insert(0, str(Path(__file__).parents[3] / "helpers"))

import nights as harness  # noqa: E402

sys.path.remove(HERE)


@pytest.fixture(scope="session")
def challengers(digits, tmp_path_factory):
    """Three models, each better than the one before."""
    folder = tmp_path_factory.mktemp("challengers")
    return [harness.challenger(digits, folder / str(steps), steps) for steps in (5, 20, 60)]


@pytest.fixture
def nights(tmp_path):
    return harness.Nights(tmp_path, str(tmp_path / "registry"))


@pytest.fixture
def here(monkeypatch):
    """The artifact is checked in this process, and its card is a line: both take long, and have tests."""
    from vgp.decision.release import artifact, release
    from vgp.decision.report import card

    monkeypatch.setattr(card, "write", lambda path, **facts: Path(path).write_text("a card"))
    monkeypatch.setattr(release, "check_copy", lambda *words: release.Checked(**artifact.artifact.__wrapped__(*words)))
