import sys
from pathlib import Path

import pytest

HERE = str(Path(__file__).parent)


@pytest.fixture(autouse=True)
def importable(monkeypatch):
    """The training processes import `digits` and `launched` as a user's modules: from the Python path."""
    monkeypatch.syspath_prepend(HERE)
    for name in ("CLUSTER_SPEC", "TRAINING_NPROC", "LOCAL_RANK", "RANK", "WORLD_SIZE"):
        monkeypatch.delenv(name, raising=False)


@pytest.fixture(scope="session")
def digits(tmp_path_factory):
    """The prepared digits: 1200 rows to train, 300 to validate."""
    sys.path.insert(0, HERE)
    from digits import prepare

    sys.path.remove(HERE)
    return prepare(tmp_path_factory.mktemp("digits") / "data")
