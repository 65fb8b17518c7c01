"""A step imports the archive of its run before the code in its image, and nothing of an archive that was changed."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from vgp.protocol.code_archive import file_name, pack

ROOT = Path(__file__).parents[3]
PROGRAM = """
from vgp import steps
steps.evaluate
import json, os, subprocess, sys, mine
child = subprocess.run([sys.executable, "-P", "-c", "import mine; print(mine.WHERE)"], capture_output=True, text=True)
print(json.dumps([mine.WHERE, child.stdout.strip()]))
"""


@pytest.fixture
def archive(tmp_path: Path) -> Path:
    for folder, where in (("image", "image"), ("edited", "archive")):
        (tmp_path / folder / "mine").mkdir(parents=True)
        (tmp_path / folder / "mine/__init__.py").write_text(f"WHERE = {where!r}\n")
    content = pack(tmp_path / "edited", ["mine/__init__.py"])
    path = tmp_path / file_name(content)
    path.write_bytes(content)
    return path


def run(image: Path, **variables: str) -> subprocess.CompletedProcess[str]:
    """Runs a step that starts where the image's code is."""
    environment = {**os.environ, "PYTHONPATH": f"{image}{os.pathsep}{ROOT}", "TRAINING_SPEC": "0.1/1", **variables}
    return subprocess.run([sys.executable, "-c", PROGRAM], cwd=image, env=environment, capture_output=True, text=True)


def test_the_archive_comes_first_in_the_step_and_its_children(archive: Path, tmp_path: Path) -> None:
    assert json.loads(run(tmp_path / "image").stdout) == ["image", "image"]
    done = run(tmp_path / "image", TRAINING_CODE=str(archive))
    assert json.loads(done.stdout) == ["archive", "archive"] and f"code: {archive}" in done.stderr


def test_of_an_archive_that_was_changed_nothing_is_imported(archive: Path, tmp_path: Path) -> None:
    archive.write_bytes(archive.read_bytes().replace(b"archive", b"altered"))
    done = run(tmp_path / "image", TRAINING_CODE=str(archive))
    assert (done.returncode, done.stdout) == (2, "")
    assert "was changed after its upload" in done.stderr and "Traceback" not in done.stderr


def test_an_archive_that_is_gone_ends_the_step_with_its_name(archive: Path, tmp_path: Path) -> None:
    archive.unlink()
    done = run(tmp_path / "image", TRAINING_CODE=str(archive))
    assert done.returncode and not done.stdout and archive.name in done.stderr
    assert "Traceback" not in done.stderr
