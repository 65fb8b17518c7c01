"""A command starts in the code that came with the run, on top of the files in the image."""

from pathlib import Path

import pytest

from vgp.protocol.code_archive import file_name, pack

from .conftest import Launcher, Script

COMMAND: Script = ["python3", "train.py"]


@pytest.fixture
def archive(launcher: Launcher, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("edited")
    (folder / "train.py").write_text("import beside; print('edited', beside.NAME, open('data.txt').read())")
    (folder / "beside.py").write_text("NAME = 'edited'")
    content = pack(folder, ["train.py", "beside.py"])
    (launcher.folder / "train.py").write_text("print('image')")
    (launcher.folder / "data.txt").write_text("of the image")
    (folder / file_name(content)).write_bytes(content)
    return folder / file_name(content)


def test_the_edited_files_run_beside_those_that_only_the_image_has(launcher: Launcher, archive: Path) -> None:
    assert launcher.run(COMMAND)[:2] == (0, "image\n")
    assert launcher.run(COMMAND, TRAINING_CODE=archive) == (0, "edited edited of the image\n", "")


def test_a_changed_or_missing_archive_starts_nothing(launcher: Launcher, archive: Path) -> None:
    archive.write_bytes(archive.read_bytes().replace(b"edited", b"hacked"))
    code, out, err = launcher.run(COMMAND, TRAINING_CODE=archive)
    assert (code, out) == (2, "") and "was changed after its upload" in err
    archive.unlink()
    code, out, err = launcher.run(COMMAND, TRAINING_CODE=archive)
    assert (code, out) == (2, "") and "cannot be read" in err
