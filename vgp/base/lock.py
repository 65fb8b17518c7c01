"""The part of constraints.txt that extras of pyproject.toml need, as pip's hash mode takes it: pinned and complete.

python3 -m vgp.base.lock --build > build.txt && pip install --require-hashes -r build.txt
python3 -m vgp.base.lock vertex training > all.txt && pip install --require-hashes --no-build-isolation -r all.txt
python3 vgp/base/lock.py --only torch

What has no wheel is built with what --build names: in an environment of its own pip would fetch that without a hash.
Both files lie in the
wheel, or in the repository that it is built from. What needs what stands in the comments that uv wrote (`# via kfp`);
a distribution that is installed already, in its locked version, speaks for itself: PyTorch's builds for CPUs need no
CUDA.
"""

import re
import sys
import tomllib
from collections.abc import Iterable
from importlib import metadata
from pathlib import Path
from typing import Any

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")


def main(words: list[str]) -> None:
    folder = originals()
    entries = read((folder / "constraints.txt").read_text())
    project = tomllib.loads((folder / "pyproject.toml").read_text())
    if words[:1] == ["--only"]:
        names = {canonical(word) for word in words[1:]}
    elif words == ["--build"]:
        names = asked(project["build-system"]["requires"])
    else:
        names = closure(roots(project, words), entries)
    unknown = names - entries.keys()
    if unknown:
        sys.exit(f"error: constraints.txt lacks {', '.join(sorted(unknown))}. Write it anew: scripts/lock.sh")
    print("".join(entries[name] for name in sorted(names)), end="")


def originals() -> Path:
    """The folder with the paths of the library's repository: in a wheel the files that it brings, else that one."""
    package = Path(__file__).resolve().parents[1]
    return package / "originals" if (package / "originals").is_dir() else package.parent


def read(text: str) -> dict[str, str]:
    """Name -> its lines: requirement, hashes, and the comment with what needs it; several where Pythons differ."""
    entries: dict[str, str] = {}
    for entry in re.findall(r"(?m)^[A-Za-z0-9].*\n(?:[ \t]+.*\n)*", text):
        name = named(entry)
        entries[name] = entries.get(name, "") + entry
    return entries


def roots(project: dict[str, Any], extras: list[str]) -> set[str]:
    """What this package itself asks for, without or with some extras, and what builds it."""
    known = project["project"]["optional-dependencies"]
    for extra in extras:
        if extra not in known:
            sys.exit(f"error: pyproject.toml has no extra '{extra}'. Choices: {', '.join(known)}.")
    own = [*project["build-system"]["requires"], *project["project"]["dependencies"]]
    return asked([*own, *(requirement for extra in extras for requirement in known[extra])])


def closure(names: set[str], entries: dict[str, str]) -> set[str]:
    """The names, and all that they need."""
    needs: dict[str, set[str]] = {}
    for name, entry in entries.items():
        for user in users(entry):
            needs.setdefault(user, set()).add(name)
    found, waiting = set(), list(names)
    while waiting:
        name = waiting.pop()
        if name not in found:
            found.add(name)
            own = installed(name, entries)
            waiting += [need for need in needs.get(name, ()) if own is None or need in own]
    return found


def users(entry: str) -> list[str]:
    """`# via a`, or `# via` and then one name a line."""
    return [canonical(name) for name in re.findall(r"(?m)^ +#(?: via)? +([A-Za-z0-9][\w.-]*)$", entry)]


def installed(name: str, entries: dict[str, str]) -> set[str] | None:
    """What the installed distribution of this name asks for; None if there is none of the locked version."""
    try:
        found = metadata.distribution(name)
    except metadata.PackageNotFoundError:
        return None
    pin = re.escape(f"{name}=={found.version.partition('+')[0]} ")
    if not re.search(f"(?m)^{pin}", entries.get(name, "")):
        return None
    return asked(found.requires or ())


def asked(requirements: Iterable[str]) -> set[str]:
    """The names in requirements: `torch` of `torch>=2; python_version > "3"`."""
    return {named(requirement) for requirement in requirements}


def named(requirement: str) -> str:
    """The name that a requirement begins with."""
    found = _NAME.match(requirement)
    return canonical(found[0]) if found else ""


def canonical(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


if __name__ == "__main__":
    main(sys.argv[1:])
