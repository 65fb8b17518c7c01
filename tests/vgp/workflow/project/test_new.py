"""A new project is small, written whole or not at all, and holds our own workflows, steps and Dockerfile."""

import io
import os
import re
import stat
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from vgp.base.errors import RequestError
from vgp.workflow.project import originals
from vgp.workflow.project.project_files import PIN, build_files, write

REPOSITORY = Path(__file__).parents[4]


@pytest.fixture(scope="module")
def files() -> dict[str, bytes]:
    return build_files("churn")


def texts(files: dict[str, bytes]) -> dict[str, str]:
    return {path: content.decode() for path, content in files.items() if not path.endswith(".whl")}


def test_the_folder_has_every_file_and_its_scripts_run(tmp_path: Path, files: dict[str, bytes]) -> None:
    folder = write("churn", tmp_path)
    assert {path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file()} == set(files)
    assert os.access(folder / "setup.sh", os.X_OK)
    assert stat.S_IMODE(folder.stat().st_mode) & 0o055, "others may read it, as any folder"
    assert list(tmp_path.iterdir()) == [folder], "nothing is left beside it"
    subprocess.run(["bash", "-n", str(folder / "setup.sh")], check=True)


def test_a_project_is_small_enough_to_read_in_an_hour(files: dict[str, bytes]) -> None:
    assert len(files) <= 25
    assert sum(text.count("\n") for text in texts(files).values()) <= 1500


def test_no_placeholder_and_no_path_of_this_machine_is_left(files: dict[str, bytes]) -> None:
    for path, text in texts(files).items():
        assert not re.findall(r"__[A-Z]{2,}__", text), path
        assert str(REPOSITORY) not in text, path
        assert "docs.examples" not in text, path


def test_workflows_steps_and_dockerfile_are_our_own_but_for_the_task(files: dict[str, bytes]) -> None:
    own = [path for path in files if path.startswith(("pipelines/", "components/")) or path == "training/Dockerfile"]
    assert len(own) > 10
    for path in own:
        assert files[path].decode().replace('"digits"', '"flights"') == (REPOSITORY / path).read_text(), path
    ours = [*REPOSITORY.glob("pipelines/*.py"), *REPOSITORY.glob("components/*.py")]
    assert {path.relative_to(REPOSITORY).as_posix() for path in ours} <= set(files)


def test_the_wheel_is_this_library_and_the_pin_is_its_hash(files: dict[str, bytes], tmp_path: Path) -> None:
    assert files[PIN].decode() == originals.format_requirement(files[originals.WHEEL_NAME])
    with zipfile.ZipFile(io.BytesIO(files[originals.WHEEL_NAME])) as archive:
        names = archive.namelist()
        assert archive.read("vgp/train/fit.py") == (REPOSITORY / "vgp/train/fit.py").read_bytes()
        assert archive.read("vgp/originals/constraints.txt") == (REPOSITORY / "constraints.txt").read_bytes()
    assert {"vgp/machines/catalog/data/machines.json", "vgp/originals/pipelines/training.py"} <= set(names)
    assert not [name for name in names if "__pycache__" in name]
    (tmp_path / originals.WHEEL_NAME).write_bytes(files[originals.WHEEL_NAME])
    (tmp_path / PIN).write_bytes(files[PIN])
    command = [sys.executable, "-m", "pip", "download", "-q", "--no-index", "--no-deps", "--require-hashes"]
    done = subprocess.run(
        [*command, "-r", PIN, "-d", str(tmp_path / "out")], cwd=tmp_path, capture_output=True, text=True
    )
    assert done.returncode == 0, "pip takes it for a wheel of that hash: " + done.stderr


def test_the_wheel_has_the_same_bytes_every_time(files: dict[str, bytes]) -> None:
    assert originals.build_wheel() == files[originals.WHEEL_NAME]
    with zipfile.ZipFile(io.BytesIO(files[originals.WHEEL_NAME])) as archive:
        made = {entry.date_time for entry in archive.infolist()}
    assert made == {(1980, 1, 1, 0, 0, 0)}, "no entry holds the time of its making"


def test_the_image_of_a_project_is_built_from_its_own_code_and_the_wheel(tmp_path: Path) -> None:
    from vgp.vertex.images.source import find_source

    folder = write("churn", tmp_path)
    subprocess.run(["git", "init", "-q", str(folder)], check=True)
    (folder / "training/.env").write_text("TOKEN=x")
    source = find_source(folder)
    assert source.dockerfile == "training/Dockerfile"
    assert {"training/tasks/digits.py", originals.WHEEL_NAME, PIN, "requirements.txt"} < set(source.files)
    assert not [name for name in source.files if name.startswith(("pipelines/", "tests/")) or ".env" in name]


@pytest.mark.parametrize("name", ["", "a b", "Churn", "1x", "a--b", "a-", "../x", "a/b", "ü", "x" * 41, "-x", "a\n"])
def test_a_bad_name_is_refused(tmp_path: Path, name: str) -> None:
    with pytest.raises(RequestError, match="is not a valid project name"):
        write(name, tmp_path)
    assert not list(tmp_path.iterdir())


def test_a_folder_that_holds_something_is_left_as_it_is(tmp_path: Path) -> None:
    (tmp_path / "churn").mkdir()
    (tmp_path / "churn/.hidden").write_text("mine")
    with pytest.raises(RequestError, match="churn already exists and is not empty"):
        write("churn", tmp_path)
    assert [path.name for path in (tmp_path / "churn").iterdir()] == [".hidden"]
    (tmp_path / "file").write_text("mine")
    with pytest.raises(RequestError, match="file already exists and is not a folder"):
        write("file", tmp_path)
    (tmp_path / "empty").mkdir()
    assert (write("empty", tmp_path) / "pipelines.toml").is_file()


@pytest.mark.parametrize("verb", [["new", "project"], ["new", "projekt", "churn"], ["new", "project", "Not a name"]])
def test_a_wrong_request_is_one_message(tmp_path: Path, verb: list[str]) -> None:
    command = [sys.executable, "-P", "-m", "vgp", *verb]
    environment = {**os.environ, "PYTHONPATH": str(REPOSITORY)}
    done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True)
    assert done.returncode == 2
    assert "Traceback" not in done.stderr
    assert not list(tmp_path.iterdir())
