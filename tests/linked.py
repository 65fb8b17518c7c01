"""Environments for tests that install something: what they would download is linked from this one."""

import os
import re
import shutil
import subprocess
import sys
from contextlib import suppress
from importlib.metadata import Distribution, PackageNotFoundError, distribution
from pathlib import Path

REPOSITORY = Path(__file__).parents[1]
#: What the base image brings: PyTorch, in its own version.
BASE_HAS = ("torch", "torchgen", "functorch")


def packages_of(python: Path) -> Path:
    """The folder of packages of a Python."""
    command = [str(python), "-c", "import sysconfig; print(sysconfig.get_path('purelib'))"]
    return Path(subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip())


def link_torch(packages: Path) -> None:
    torch = distribution("torch")
    for name in (*BASE_HAS, Path(str(torch._path)).name):  # type: ignore[attr-defined]
        source = Path(str(torch.locate_file(name)))
        if source.exists():
            (packages / name).symlink_to(source)


def link_pip(packages: Path) -> None:
    """Links pip, which `python -m venv` would unpack for seconds."""
    _link(distribution("pip"), packages)


def link_locked(packages: Path, *words: str) -> None:
    """Links what vgp/base/lock.py names for `words`, but for PyTorch, into the folder `packages`."""
    for shipped in packages.glob("setuptools*"):  # with Python 3.11's venv
        shutil.rmtree(shipped)
    for name in locked(*words) | locked("--build"):
        with suppress(PackageNotFoundError):  # of another system; what is missed here, pip cannot find either
            if name != "torch":
                _link(distribution(name), packages)


def locked(*words: str) -> set[str]:
    """The names that vgp/base/lock.py prints."""
    command = [sys.executable, "vgp/base/lock.py", *words]
    text = subprocess.run(command, cwd=REPOSITORY, check=True, capture_output=True, text=True).stdout
    return set(re.findall(r"(?m)^([a-z0-9._-]+)==", text))


def _link(installed: Distribution, packages: Path) -> None:
    """Links each file of a distribution; folders such as google/ are shared by several."""
    for file in installed.files or ():
        place = packages / file
        if ".." not in file.parts and "__pycache__" not in file.parts and not place.exists():
            place.parent.mkdir(parents=True, exist_ok=True)
            place.symlink_to(installed.locate_file(file))


def clean() -> dict[str, str]:
    """The environment of a process that shall find nothing of this repository."""
    return {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
