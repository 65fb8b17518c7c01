"""Reads the git commit of a repository's code, and whether the code has uncommitted changes."""

import subprocess
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Commit:
    """The commit of a repository's code."""

    #: The full hash; None if there is no commit.
    sha: str | None
    #: Why the hash does not describe the code; "" if it does.
    reason: str = ""

    @property
    def clean_sha(self) -> str:
        """The hash in full; "" if the code differs from it."""
        return "" if self.reason else self.sha or ""

    @property
    def tags(self) -> tuple[str, ...]:
        """The hash in short and in full; nothing if the code differs from it."""
        return (self.clean_sha[:12], self.clean_sha) if self.clean_sha else ()


def read_commit(folder: Path) -> Commit:
    """Returns the commit of the git repository that contains `folder`.

    Untracked files do not count as changes, because CI writes credentials and results beside the code.
    """
    try:
        sha = run_git(folder, "rev-parse", "--verify", "HEAD").strip()
    except GitError as error:
        return Commit(None, str(error))
    try:
        changed = run_git(folder, "status", "--porcelain", "--untracked-files=no").splitlines()
    except GitError as error:
        return Commit(sha, str(error))
    more = f" and {len(changed) - 1} more" if len(changed) > 1 else ""
    return Commit(sha, f"{changed[0][2:].strip()}{more} changed since {sha[:12]}" if changed else "")


class GitError(Exception):
    """An error that holds git's own message."""


def run_git(folder: Path, *arguments: str) -> str:
    """Runs git in a folder and returns its output. Raises GitError."""
    # Without the lock, `git status` writes nothing and disturbs no other git command.
    command = ["git", "--no-optional-locks", "-C", str(folder), *arguments]
    try:
        # Names of files can be other bytes than UTF-8.
        done = subprocess.run(command, capture_output=True, text=True, errors="surrogateescape", timeout=60)
    except (OSError, subprocess.TimeoutExpired) as error:
        raise GitError(f"git did not run: {error}") from None
    if done.returncode:
        raise GitError((done.stderr.splitlines() or [f"git failed with exit code {done.returncode}"])[0])
    return done.stdout
