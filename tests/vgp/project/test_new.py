"""A new project is written whole or not at all, from one source."""

import json
import os
import re
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from vgp.base.errors import RequestError
from vgp.workflow.project import manifest, originals
from vgp.workflow.project.new import contents, write

REPOSITORY = Path(__file__).parents[3]
VGP = "vertex-gpu-pipelines==0.1.0"


@pytest.fixture(scope="module")
def files() -> dict[str, str]:
    return {path: content.decode() for path, content in contents("churn", VGP).items()}


def test_the_folder_has_every_file_and_its_scripts_run(tmp_path: Path, files: dict[str, str]) -> None:
    folder = write("churn", VGP, tmp_path)
    assert {path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file()} == set(files)
    assert os.access(folder / "setup.sh", os.X_OK)
    assert stat.S_IMODE(folder.stat().st_mode) & 0o055, "others may read it, as any folder"
    assert list(tmp_path.iterdir()) == [folder], "nothing is left beside it"
    subprocess.run(["bash", "-n", str(folder / "setup.sh")], check=True)


def test_no_placeholder_and_no_path_of_this_machine_is_left(files: dict[str, str]) -> None:
    template = {path: text for path, text in files.items() if not path.startswith(("training/", "components/"))}
    for path, text in template.items():
        assert not re.findall(r"__[A-Z]{2,}__", text), path
        assert str(REPOSITORY) not in text, path
        assert "docs.examples" not in text, path


def test_the_training_code_is_that_of_this_repository(files: dict[str, str]) -> None:
    for name in ("vgp/train/fit.py", "vgp/decision/report/template.html", "components/train.py"):
        assert files[name] == (REPOSITORY / name).read_text()
    assert files["training/lock/constraints.txt"] == (REPOSITORY / "constraints.txt").read_text()
    assert "training/Dockerfile" not in files, "the project has its own"
    listed = json.loads(files[manifest.PATH])["files"]
    assert set(listed) == {path for path in files if path.startswith(("training/", "components/"))} - {manifest.PATH}


def test_the_image_has_the_same_base_and_what_its_dockerfile_copies_is_there(files: dict[str, str]) -> None:
    assert f"ARG BASE={originals.base_image()}\n" in files["Dockerfile"]
    assert re.fullmatch(r"pytorch/pytorch:\S+@sha256:[0-9a-f]{64}", originals.base_image())
    for source in re.findall(r"(?m)^COPY (\S+) ", files["Dockerfile"]):
        assert source in files or any(path.startswith(f"{source}/") for path in files), source


def test_the_image_of_a_project_is_built_from_its_own_code(tmp_path: Path) -> None:
    from vgp.vertex.images.source import find

    folder = write("churn", VGP, tmp_path)
    subprocess.run(["git", "init", "-q", str(folder)], check=True)
    (folder / "training/.env").write_text("TOKEN=x")
    source = find(folder)
    assert source.dockerfile == "Dockerfile"
    assert {"tasks/digits.py", "vgp/train/fit.py", "requirements.txt"} < set(source.files)
    assert not [name for name in source.files if name.startswith(("pipelines/", "tests/")) or ".env" in name]


@pytest.mark.parametrize("name", ["", "a b", "Churn", "1x", "a--b", "a-", "../x", "a/b", "ü", "x" * 41, "-x", "a\n"])
def test_a_bad_name_is_refused(tmp_path: Path, name: str) -> None:
    with pytest.raises(RequestError, match="is no name for a project"):
        write(name, VGP, tmp_path)
    assert not list(tmp_path.iterdir())


def test_a_folder_that_holds_something_is_left_as_it_is(tmp_path: Path) -> None:
    (tmp_path / "churn").mkdir()
    (tmp_path / "churn/.hidden").write_text("mine")
    with pytest.raises(RequestError, match="churn is there already, and is not empty"):
        write("churn", VGP, tmp_path)
    assert [path.name for path in (tmp_path / "churn").iterdir()] == [".hidden"]
    (tmp_path / "file").write_text("mine")
    with pytest.raises(RequestError, match="file is there already, and is no folder"):
        write("file", VGP, tmp_path)
    (tmp_path / "empty").mkdir()
    assert (write("empty", VGP, tmp_path) / "pipelines.toml").is_file()


@pytest.mark.parametrize("verb", [["new", "project"], ["new", "projekt", "churn"], ["new", "project", "Not a name"]])
def test_a_wrong_request_is_one_message(tmp_path: Path, verb: list[str]) -> None:
    command = [sys.executable, "-P", "-m", "vgp", *verb]
    environment = {**os.environ, "PYTHONPATH": str(REPOSITORY)}
    done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True)
    assert done.returncode == 2
    assert "Traceback" not in done.stderr
    assert not list(tmp_path.iterdir())
