"""The scripts in a folder of any name: the environment that they make, and the commands in it."""

import os
import shutil
import site
import subprocess
import venv
from pathlib import Path

REPOSITORY = Path(__file__).parents[2]
ODD = "my dir 'q' \"d\" $(touch pwned) `touch pwned`; & \\ [bold]"
#: What the set-up installs beside our own packages is here already.
OFFLINE = {"PIP_NO_INDEX": "1", "PIP_NO_DEPS": "1", "PIP_NO_BUILD_ISOLATION": "0"}


def test_a_clone_may_lie_in_a_folder_of_any_name(tmp_path: Path) -> None:
    clone = tmp_path / ODD
    clone.mkdir()
    for name in (
        "pyproject.toml",
        "setup.py",
        "constraints.txt",
        "README.md",
        "LICENSE",
        "pipelines.toml",
        "compile.sh",
    ):
        shutil.copy(REPOSITORY / name, clone)
    for name in ("vgp", "pipelines", "components", "training", "scripts", "docs/examples"):
        shutil.copytree(REPOSITORY / name, clone / name)
    venv.create(clone / ".venv", symlinks=True)
    (library,) = (clone / ".venv" / "lib").glob("python3*")
    (library / "site-packages" / "all.pth").write_text("\n".join(site.getsitepackages()))
    environment = {key: value for key, value in os.environ.items() if key != "PYTHONPATH"}
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    for command in ([f"{clone}/compile.sh"], [f"{clone}/.venv/bin/vgp", "config"]):
        done = subprocess.run(command, env=environment | OFFLINE, cwd=elsewhere, capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
    assert (clone / "build" / "training.json").exists()
    assert not list(tmp_path.rglob("pwned")), "a shell read the name of the folder"
