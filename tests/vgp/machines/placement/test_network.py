"""The network between the GPUs of several machines, as Google's page wants it configured."""

import subprocess
from pathlib import Path

import pytest

from vgp.check.spec import container_settings
from vgp.machines.catalog.catalog import machines
from vgp.machines.placement import combination
from vgp.machines.placement.placing import place
from vgp.machines.placement.step_request import Request

SCRIPT = "/usr/local/gib/scripts/set_nccl_env.sh"


def pools(machine: str, nodes: int, **settings: object) -> list[dict[str, object]]:
    request = Request(machine=machine, nodes=nodes, strategy="spot", **settings)  # type: ignore[arg-type]
    placed = place(request, region="us-central1", kind="custom_job", name="train")
    return [pool["container_spec"] for pool in placed.worker_pool_specs("image", ["python", "train.py"])]


@pytest.mark.parametrize("machine", ["a3-ultragpu-8g", "a4-highgpu-8g"])
def test_the_command_of_several_machines_with_rdma_begins_with_googles_script(machine: str) -> None:
    chief, worker = pools(machine, 2)
    assert chief["command"] == worker["command"]
    assert chief["command"][3:] == [SCRIPT, "python", "train.py"]
    assert combination.without_network(chief["command"]) == ["python", "train.py"]


@pytest.mark.parametrize(
    ("machine", "nodes", "env"),
    [
        ("a4-highgpu-8g", 1, {}),
        ("a3-megagpu-8g", 2, {}),  # comes configured
        ("a3-highgpu-8g", 2, {}),
        ("g2-standard-96", 2, {}),
        ("a4-highgpu-8g", 2, {"NCCL_NET": "Socket"}),  # chosen in the settings
    ],
)
def test_every_other_command_stays_as_it_is(machine: str, nodes: int, env: dict[str, str]) -> None:
    assert all(pool["command"] == ["python", "train.py"] for pool in pools(machine, nodes, env=env))


def test_what_nccl_needs_to_be_told_on_g4_is_set_unless_the_settings_do() -> None:
    assert {"name": "NCCL_P2P_LEVEL", "value": "PHB"} in pools("g4-standard-96", 1)[0]["env"]
    assert pools("g4-standard-96", 1, env={"NCCL_P2P_LEVEL": "LOC"})[0]["env"][0]["value"] == "LOC"
    alone = pools("g4-standard-48", 1)[0].get("env", [])
    assert all("NCCL" not in pair["name"] for pair in alone), "one GPU has no peer"


def run(tmp_path: Path, words: list[str], text: str | None) -> "subprocess.CompletedProcess[str]":
    """Runs a command that begins with a script, which the container has if it has a text."""
    nccl = tmp_path / "set_nccl_env.sh"
    if text is not None:
        nccl.write_text(text)
    full = [
        word.replace(SCRIPT, str(nccl))
        for word in combination.network_command(words, machines()["a4-highgpu-8g"], 2, {})
    ]
    return subprocess.run(full, capture_output=True, text=True)


SHOW = ["sh", "-c", 'echo "$NCCL_NET $1"; exit 7', "sh", "a b"]


def test_the_command_has_what_the_script_sets_and_ends_as_it_ends(tmp_path: Path) -> None:
    ended = run(tmp_path, SHOW, "declare -A a\nexport NCCL_NET=gIB\n")  # bash, as Google's is
    assert (ended.returncode, ended.stdout, ended.stderr) == (7, "gIB a b\n", "")


@pytest.mark.parametrize(("text", "words"), [(None, "goes by TCP"), ("return 3", "set_nccl_env.sh failed")])
def test_without_the_script_the_command_starts_all_the_same_and_says_so(
    tmp_path: Path, text: str | None, words: str
) -> None:
    ended = run(tmp_path, SHOW, text)
    assert (ended.returncode, ended.stdout) == (7, " a b\n") and words in ended.stderr


def test_a_users_command_is_known_below_it() -> None:
    started = [*container_settings.START, "text"]
    words = combination.network_command(started, machines()["a4-highgpu-8g"], 2, {})
    arguments = ["--launch", "plain", "--", "python", "train.py"]
    assert words != started
    assert container_settings.read({"command": words, "args": arguments}) == container_settings.read(
        {"command": started, "args": arguments}
    )
