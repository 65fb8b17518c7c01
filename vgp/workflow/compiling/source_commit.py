"""The commit that the code is at, if the code is what was committed."""

import subprocess
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Commit:
    """A full hash, and why it does not describe the code, if it does not."""

    sha: str | None
    #: Empty: the code is what was committed.
    because: str = ""

    @property
    def of_the_code(self) -> str:
        """The hash in full; "" if the code differs from it."""
        return "" if self.because else self.sha or ""

    @property
    def tags(self) -> tuple[str, ...]:
        """The hash in short and in full; nothing if the code differs from it."""
        return (self.of_the_code[:12], self.of_the_code) if self.of_the_code else ()


def current(folder: Path) -> Commit:
    """The commit of the git repository that `folder` is in.

    Files that git does not track do not count: CI writes credentials and results beside the code, and code that is
    used but not tracked shows as a change of the tracked file that uses it.
    """
    try:
        sha = git(folder, "rev-parse", "--verify", "HEAD").strip()
    except Refused as error:
        return Commit(None, str(error))
    try:
        changed = git(folder, "status", "--porcelain", "--untracked-files=no").splitlines()
    except Refused as error:
        return Commit(sha, str(error))
    more = f" and {len(changed) - 1} more" if len(changed) > 1 else ""
    return Commit(sha, f"{changed[0][2:].strip()}{more} changed since {sha[:12]}" if changed else "")


class Refused(Exception):
    """git's own words."""


def git(folder: Path, *arguments: str) -> str:
    """What git prints, asked in that folder. Raises Refused."""
    # Without the lock, `git status` writes nothing and so disturbs nobody.
    command = ["git", "--no-optional-locks", "-C", str(folder), *arguments]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=60)
    except (OSError, subprocess.TimeoutExpired) as error:
        raise Refused(f"git does not run: {error}") from None
    if done.returncode:
        raise Refused(f"git says: {(done.stderr.splitlines() or ['nothing'])[0]}")
    return done.stdout
