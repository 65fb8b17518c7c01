"""scripts/setup.sh in a small project with an index of its own: what it takes, and what it refuses."""

import base64
import hashlib
import os
import shutil
import subprocess
import venv
import zipfile
from importlib import metadata
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
#: Builds the small project: a wheel that is empty, but for its name.
BACKEND = """
import base64, hashlib, pathlib, zipfile

def build_editable(folder, config_settings=None, metadata_directory=None):
    name = "small-1-py3-none-any.whl"
    files = {"METADATA": "Metadata-Version: 2.1\\nName: small\\nVersion: 1\\n",
             "WHEEL": "Wheel-Version: 1.0\\nGenerator: x\\nRoot-Is-Purelib: true\\nTag: py3-none-any\\n"}
    with zipfile.ZipFile(pathlib.Path(folder) / name, "w") as wheel:
        for file, text in files.items():
            wheel.writestr(f"small-1.dist-info/{file}", text)
        wheel.writestr("small-1.dist-info/RECORD", "".join(f"small-1.dist-info/{f},,\\n" for f in [*files, "RECORD"]))
    return name
"""


def wheel(folder: Path, name: str, version: str, requires: str = "", code: str = "") -> str:
    """A wheel in the folder; returns its hash."""
    info, needs = f"{name}-{version}.dist-info", f"Requires-Dist: {requires}\n" if requires else ""
    files = {
        f"{name}.py": code,
        f"{info}/METADATA": f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n{needs}",
        f"{info}/WHEEL": "Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
    }
    path = folder / f"{name}-{version}-py3-none-any.whl"
    with zipfile.ZipFile(path, "w") as packed:
        for file, text in files.items():
            packed.writestr(file, text)
        rows = [f"{file},sha256={_record(text)},{len(text)}\n" for file, text in files.items()]
        packed.writestr(f"{info}/RECORD", "".join([*rows, f"{info}/RECORD,,\n"]))
    return hashlib.sha256(path.read_bytes()).hexdigest()


def _record(text: str) -> str:
    return base64.urlsafe_b64encode(hashlib.sha256(text.encode()).digest()).decode().rstrip("=")


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """Returns a project that needs torch, whose build for CPUs requires auth[tls], and its build for CUDA cublas.

    The index has a newer release of auth than the locked one.
    """
    for name in ("scripts", "pipelines", "components", "training", "index"):
        (tmp_path / name).mkdir()
    for name in ("scripts/setup.sh", "vgp/base/lock.py"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / name, tmp_path / name)
    index = tmp_path / "index"
    wheel(index, "auth", "2")
    hashes = {
        "auth==1": [wheel(index, "auth", "1")],
        "backend==1": [wheel(index, "backend", "1", code=BACKEND)],
        "cublas==3": [wheel(index, "cublas", "3")],
        "torch==2.13.0": [
            wheel(index, "torch", "2.13.0", "cublas==3"),
            wheel(index, "torch", "2.13.0+cpu", "auth[tls]"),
        ],
    }
    lines = [f"{pin} \\\n" + " \\\n".join(f"    --hash=sha256:{each}" for each in hashes[pin]) for pin in hashes]
    lines[0] += "\n    # via torch"
    lines[2] += "\n    # via torch"
    (tmp_path / "constraints.txt").write_text("\n".join(lines) + "\n")
    (tmp_path / "pyproject.toml").write_text(
        '[build-system]\nrequires = ["backend==1"]\nbuild-backend = "backend"\n'
        '[project]\nname = "small"\nversion = "1"\ndependencies = []\n'
        '[project.optional-dependencies]\ntraining = ["torch==2.13.0"]\n'
    )
    environment(tmp_path)
    return tmp_path


def environment(project: Path) -> None:
    """A new .venv with this one's pip, which is quicker than to unpack another."""
    venv.create(project / ".venv", symlinks=True)
    (packages,) = (project / ".venv/lib").glob("python*/site-packages")
    for each in Path(str(metadata.distribution("pip").locate_file(""))).glob("pip*"):
        (packages / each.name).symlink_to(each)


def setup(project: Path, *extras: str) -> subprocess.CompletedProcess[str]:
    keep = {name: value for name, value in os.environ.items() if not name.startswith("PIP_")}
    sources = {"PIP_CONFIG_FILE": os.devnull, "PIP_NO_INDEX": "1", "PIP_FIND_LINKS": str(project / "index")}
    command = ["bash", "scripts/setup.sh", *extras]
    return subprocess.run(command, cwd=project, env={**keep, **sources}, capture_output=True, text=True)


def installed(project: Path) -> set[str]:
    (packages,) = (project / ".venv/lib").glob("python*/site-packages")
    return {each.name.removesuffix(".dist-info") for each in packages.glob("*.dist-info")}


def test_the_build_for_cpus_is_installed_as_locked_and_an_altered_file_is_refused(project: Path) -> None:
    done = setup(project, "training")
    assert done.returncode == 0, done.stderr
    assert {"torch-2.13.0+cpu", "auth-1", "backend-1", "small-1"} <= installed(project) and "cublas-3" not in installed(
        project
    )
    assert setup(project, "training").stderr == "", "the second time there is nothing to do"

    (project / "index/torch-2.13.0+cpu-py3-none-any.whl").unlink()
    (project / ".venv/.installed").unlink()
    shutil.rmtree(next((project / ".venv/lib").glob("python*/site-packages/torch-*")))
    wheel(project / "index", "cublas", "3", code="import this")
    done = setup(project, "training")
    assert done.returncode == 1
    assert "DO NOT MATCH THE HASHES" in done.stderr and "cublas" in done.stderr
    assert not (project / ".venv/.installed").exists()
