import json
from datetime import UTC, datetime
from pathlib import Path

import pytest

from vgp.data import task_names
from vgp.protocol.pins import Request
from vgp.steps.pins.resolve import resolve

NOW = datetime(2026, 3, 1, 4, tzinfo=UTC)


@pytest.fixture
def now():
    return NOW


@pytest.fixture
def visits():
    import visits

    return visits


@pytest.fixture
def pin(tmp_path):
    """Pins a request: its parameters by name, into `folder`."""

    def pinned(data="", *, folder=None, task="visits:Visits", options=None, champion="", **others):
        request = Request(
            data=str(data), task=task_names.spec(task), task_options=options or {}, champion=str(champion)
        )
        return resolve(request, folder or f"{tmp_path}/runs/pins", **{"pipeline": "training", "now": NOW, **others})

    return pinned


@pytest.fixture
def read():
    """A document on this machine."""

    def document(uri):
        return json.loads(Path(uri).read_text())

    return document


@pytest.fixture
def champion(tmp_path):
    """A folder with the two files of a model."""
    folder = tmp_path / "champion"
    folder.mkdir()
    for name in ("model.json", "model.safetensors"):
        (folder / name).write_text("{}")
    return folder
