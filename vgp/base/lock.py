"""The part of constraints.txt that extras of pyproject.toml need: pinned and complete, for pip's hash mode.

python3 -m vgp.base.lock --build > build.txt && pip install --require-hashes --no-deps -r build.txt
python3 -m vgp.base.lock vertex training > all.txt
pip install --require-hashes --no-deps --no-build-isolation -r all.txt
python3 vgp/base/lock.py --only torch

Packages without a wheel are built with the tools that --build prints, because pip would fetch build tools without a
hash. Both files are in the wheel, or in the repository. The comments of uv (`# via kfp`) hold the dependencies; for an
installed distribution of the locked version its own metadata does: PyTorch's builds for CPUs need no CUDA.
"""

import re
import sys
import tomllib
from collections.abc import Iterable, Iterator
from importlib import metadata
from pathlib import Path
from typing import Any

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")


def main(words: list[str]) -> None:
    folder = originals()
    entries = read((folder / "constraints.txt").read_text())
    project = tomllib.loads((folder / "pyproject.toml").read_text())
    if words[:1] == ["--only"]:
        names = {canonicalize(word) for word in words[1:]}
    elif words == ["--build"]:
        names = parse_names(project["build-system"]["requires"])
    else:
        names = collect_dependencies(list_roots(project, words), entries)
    unknown = names - entries.keys()
    if unknown:
        sys.exit(f"error: constraints.txt lacks {', '.join(sorted(unknown))}. Regenerate it: scripts/lock.sh")
    print("".join(entries[name] for name in sorted(names)), end="")


def originals() -> Path:
    """Returns the folder with the repository's files: the copies in the wheel, or the repository itself."""
    package = Path(__file__).resolve().parents[1]
    return package / "originals" if (package / "originals").is_dir() else package.parent


def read(text: str) -> dict[str, str]:
    """Returns each package's lines: requirement, hashes and `# via` comment, several for different Pythons."""
    entries: dict[str, str] = {}
    for entry in re.findall(r"(?m)^[A-Za-z0-9].*\n(?:[ \t]+.*\n)*", text):
        name = parse_name(entry)
        entries[name] = entries.get(name, "") + entry
    return entries


def list_roots(project: dict[str, Any], extras: list[str]) -> set[str]:
    """Returns the names that this package, the extras and the build require."""
    known = project["project"]["optional-dependencies"]
    for extra in extras:
        if extra not in known:
            sys.exit(f"error: pyproject.toml has no extra '{extra}'. Choices: {', '.join(known)}.")
    own = [*project["build-system"]["requires"], *project["project"]["dependencies"]]
    return parse_names([*own, *requirements(project, extras)])


def requirements(project: dict[str, Any], extras: Iterable[str]) -> Iterator[str]:
    """Yields the requirements of the extras; one like `vgp[clients]` stands for those of another extra."""
    for extra in extras:
        for requirement in project["project"]["optional-dependencies"][extra]:
            match = re.fullmatch(rf"{project['project']['name']}\[([\w,-]+)\]", requirement)
            yield from requirements(project, match[1].split(",")) if match else (requirement,)


def collect_dependencies(names: set[str], entries: dict[str, str]) -> set[str]:
    """Returns the names with all their dependencies."""
    needs: dict[str, set[str]] = {}
    for name, entry in entries.items():
        for user in list_dependents(entry):
            needs.setdefault(user, set()).add(name)
    needed, waiting = set(), list(names)
    while waiting:
        name = waiting.pop()
        if name not in needed:
            needed.add(name)
            own = read_installed_needs(name, entries)
            waiting += [need for need in needs.get(name, ()) if own is None or need in own]
    return needed


def list_dependents(entry: str) -> list[str]:
    """Returns the dependents in the comment: `# via a`, or `# via` and then one name per line."""
    return [canonicalize(name) for name in re.findall(r"(?m)^ +#(?: via)? +([A-Za-z0-9][\w.-]*)$", entry)]


def read_installed_needs(name: str, entries: dict[str, str]) -> set[str] | None:
    """Returns the names that the installed distribution requires; None unless it has the locked version."""
    try:
        distribution = metadata.distribution(name)
    except metadata.PackageNotFoundError:
        return None
    pin = re.escape(f"{name}=={distribution.version.partition('+')[0]} ")
    if not re.search(f"(?m)^{pin}", entries.get(name, "")):
        return None
    return parse_names(distribution.requires or ())


def parse_names(requirements: Iterable[str]) -> set[str]:
    """Returns the names in requirements: `torch` for `torch>=2; python_version > "3"`."""
    return {parse_name(requirement) for requirement in requirements}


def parse_name(requirement: str) -> str:
    """Returns the name that a requirement begins with."""
    match = _NAME.match(requirement)
    return canonicalize(match[0]) if match else ""


def canonicalize(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


if __name__ == "__main__":
    main(sys.argv[1:])
