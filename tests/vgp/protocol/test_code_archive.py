"""Archives of code: equal bytes for equal files, and nothing unpacked that differs from the name."""

import os
from pathlib import Path

import pytest

from vgp.base.exits import UserError
from vgp.protocol.code_archive import digest_of, file_name, pack, unpack


@pytest.fixture
def root(tmp_path: Path) -> Path:
    (tmp_path / "code").mkdir()
    (tmp_path / "code" / "a.py").write_text("A = 1\n")
    (tmp_path / "run.sh").write_text("echo\n")
    (tmp_path / "run.sh").chmod(0o755)
    return tmp_path


def test_the_bytes_follow_from_names_contents_and_executable_bits_alone(root: Path) -> None:
    first = pack(root, ["run.sh", "code/a.py"])
    os.utime(root / "run.sh", (0, 0))
    assert pack(root, ["code/a.py", "run.sh"]) == first
    (root / "run.sh").chmod(0o644)
    assert pack(root, ["code/a.py", "run.sh"]) != first


def test_an_archive_is_unpacked_as_it_was(root: Path, tmp_path: Path) -> None:
    content = pack(root, ["run.sh", "code/a.py"])
    unpack(content, f"gs://b/code/{file_name(content)}", tmp_path / "out")
    assert (tmp_path / "out/code/a.py").read_text() == "A = 1\n"
    assert os.access(tmp_path / "out/run.sh", os.X_OK)


def test_changed_bytes_are_refused_before_anything_is_written(root: Path, tmp_path: Path) -> None:
    content = pack(root, ["code/a.py"])
    with pytest.raises(UserError, match="was changed after its upload"):
        unpack(content + b"\0", f"gs://b/code/{file_name(content)}", tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_bytes_that_are_no_tar_file_are_refused(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="cannot be unpacked"):
        unpack(b"text", f"gs://b/code/{file_name(b'text')}", tmp_path / "out")


@pytest.mark.parametrize("uri", ["gs://b/code/x.tar", f"gs://b/{'0' * 64}.tar.gz", f"gs://b/{'0' * 63}.tar", ""])
def test_a_name_without_a_digest_is_refused(uri: str) -> None:
    with pytest.raises(UserError, match="<sha256>.tar"):
        digest_of(uri)
