"""The text as it travels, started as a shell in an image starts it."""

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from vgp.check.spec.container_settings import START
from vgp.protocol import launching
from vgp.protocol.launching.machines import cluster
from vgp.protocol.launching.rank import Rank
from vgp.protocol.launching.ranks import ranks_of
from vgp.workflow.compiling.script_step import compact_source, join_package

TEXT = compact_source(join_package(launching))
#: What may come from the machine that runs the tests.
OURS = ("TRAINING_", "CLUSTER_SPEC", "AIP_", "RANK", "WORLD_SIZE", "MASTER_", "CUDA_VISIBLE")
#: A process of the command: python, and its text.
Script = list[str]


def script(text: str, *words: str) -> Script:
    return [sys.executable, "-S", "-c", text, *words]


def spec(type_: str = "workerpool0", index: int = 0, **pools: list[str]) -> str:
    return json.dumps({"cluster": pools, "task": {"type": type_, "index": index}})


class Launcher:
    """Starts the text in a folder of its own, with `python3` found by its name."""

    def __init__(self, folder: Path, text: str = TEXT):
        self.folder, self.text = folder, text
        path = folder / "bin"
        path.mkdir()
        (path / "python3").symlink_to(sys.executable)
        kept = {name: value for name, value in os.environ.items() if not name.startswith(OURS)}
        self.environment = {**kept, "PATH": f"{path}:/usr/bin:/bin"}
        self.started: list[subprocess.Popen[bytes]] = []

    def start(
        self, command: Script, launch: str = "plain", *, options: Script | None = None, **variables: object
    ) -> subprocess.Popen[bytes]:
        folder = str(self.folder)
        words = ["--data", f"{folder}/data", "--model", f"{folder}/model", "--checkpoints", f"{folder}/train/out"]
        words += ["--launch", launch, "--pins", "p", "--key", "k", *(options or [])]
        child = subprocess.Popen(
            [*START, self.text, *words, "--", *command],
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, cwd=folder,
            env=self.environment | {name: str(value) for name, value in variables.items()},
        )  # fmt: skip
        self.started.append(child)
        return child

    def run(
        self, command: Script, launch: str = "plain", *, options: Script | None = None, **variables: object
    ) -> tuple[int, str, str]:
        child = self.start(command, launch, options=options, **variables)
        out, err = child.communicate(timeout=300)
        return child.returncode, out.decode(errors="replace"), err.decode(errors="replace")

    def left(self) -> dict[str, Any]:
        return dict(json.loads((self.folder / "train/out/script.json").read_text()))


@pytest.fixture
def launcher(tmp_path: Path) -> Iterator[Launcher]:
    launcher = Launcher(tmp_path)
    yield launcher
    for child in launcher.started:
        with suppress(ProcessLookupError):
            child.kill()
        child.communicate()


def runs(pid: int) -> bool:
    """Whether it does; a zombie does not."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


def ranks(launch: str, **environment: str) -> list[Rank]:
    """The processes that a launcher would start."""
    nodes = cluster(environment)
    return [rank for node in nodes for rank in ranks_of(node, launch, nodes, environment)]


@pytest.fixture
def free_port() -> int:
    from vgp.protocol.launching.machines import free_ports

    return free_ports(1)[0]
