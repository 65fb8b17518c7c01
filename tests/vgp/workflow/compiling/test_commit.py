"""A commit becomes a tag only if it is the code."""

import subprocess
from pathlib import Path

import pytest

from vgp.workflow.compiling import source_commit


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    git(tmp_path, "init", "-q")
    (tmp_path / "code.py").write_text("a = 1\n")
    (tmp_path / "more.py").write_text("b = 1\n")
    git(tmp_path, "add", ".")
    git(tmp_path, "-c", "user.name=a", "-c", "user.email=a@example.com", "commit", "-q", "-m", "First")
    return tmp_path


def git(folder: Path, *arguments: str) -> str:
    done = subprocess.run(["git", "-C", str(folder), *arguments], check=True, capture_output=True, text=True)
    return done.stdout.strip()


def test_a_clean_tree_has_the_commit_in_short_and_in_full(checkout: Path) -> None:
    sha = git(checkout, "rev-parse", "HEAD")
    found = source_commit.read_commit(checkout)
    assert found == source_commit.Commit(sha) and found.tags == (sha[:12], sha)


def test_files_that_git_does_not_track_do_not_count(checkout: Path) -> None:
    (checkout / "gha-creds-1.json").write_text("{}")
    assert source_commit.read_commit(checkout).tags


@pytest.mark.parametrize("staged", [False, True])
def test_a_change_leaves_no_tag_and_is_named(checkout: Path, staged: bool) -> None:
    (checkout / "code.py").write_text("a = 2\n")
    (checkout / "more.py").write_text("b = 2\n")
    if staged:
        git(checkout, "add", "code.py", "more.py")
    found = source_commit.read_commit(checkout)
    assert found.tags == ()
    assert found.reason == f"code.py and 1 more changed since {git(checkout, 'rev-parse', 'HEAD')[:12]}"


def test_without_a_repository_git_gives_the_reason(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GIT_CEILING_DIRECTORIES", str(tmp_path.parent))
    found = source_commit.read_commit(tmp_path)
    assert found.tags == () and found.reason.startswith("fatal: not a git repository")


def test_without_git_there_is_no_tag(checkout: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "")
    found = source_commit.read_commit(checkout)
    assert found.tags == () and found.reason.startswith("git did not run")
