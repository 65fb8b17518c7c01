import gc
import os
import sys
import warnings
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


@pytest.fixture
def nodes():
    """What starts several machines."""
    from machines import nodes

    return nodes


@pytest.fixture(scope="module")
def bucket():
    """A bucket on a real Cloud Storage server of this machine."""
    from loopback.storage import storage_server

    from training.storage import storage

    with storage_server() as url:
        os.environ["STORAGE_EMULATOR_HOST"] = url
        forget_client()
        storage._client(os.getpid()).create_bucket("runs")
        yield "gs://runs"
        forget_client()


def forget_client():
    """Google's client is made anew at its next use, as the environment is then."""
    from training.storage import storage

    if storage._client.cache_info().currsize:
        storage._client(os.getpid()).close()
        storage._client.cache_clear()
        with warnings.catch_warnings():  # it leaves connections that broke to the garbage collector
            warnings.simplefilter("ignore", ResourceWarning)
            gc.collect()


@pytest.fixture
def proxy(bucket, monkeypatch):
    """What stands between the client and the server of `bucket`."""
    from faulty_proxy import FaultyProxy

    proxy = FaultyProxy(os.environ["STORAGE_EMULATOR_HOST"])
    monkeypatch.setenv("STORAGE_EMULATOR_HOST", proxy.url)
    forget_client()
    yield proxy
    forget_client()
    proxy.close()
