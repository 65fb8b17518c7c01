"""Machines with their GPUs against Google's table of 2026-08-20, typed in here once more by hand."""

import subprocess
from pathlib import Path

import pytest

from vgp.check.spec import container_settings
from vgp.machines.catalog import catalog
from vgp.machines.catalog.catalog import machines
from vgp.machines.placement import combination
from vgp.machines.placement.combination import Combination, combinations, find_combination, without_gpus
from vgp.machines.placement.placing import place
from vgp.machines.placement.step_request import Request

BUILT_IN = """
a2-highgpu-1g NVIDIA_TESLA_A100 1 | a2-highgpu-2g NVIDIA_TESLA_A100 2 | a2-highgpu-4g NVIDIA_TESLA_A100 4
a2-highgpu-8g NVIDIA_TESLA_A100 8 | a2-megagpu-16g NVIDIA_TESLA_A100 16
a2-ultragpu-1g NVIDIA_A100_80GB 1 | a2-ultragpu-2g NVIDIA_A100_80GB 2 | a2-ultragpu-4g NVIDIA_A100_80GB 4
a2-ultragpu-8g NVIDIA_A100_80GB 8
a3-highgpu-1g NVIDIA_H100_80GB 1 | a3-highgpu-2g NVIDIA_H100_80GB 2 | a3-highgpu-4g NVIDIA_H100_80GB 4
a3-highgpu-8g NVIDIA_H100_80GB 8 | a3-megagpu-8g NVIDIA_H100_MEGA_80GB 8 | a3-ultragpu-8g NVIDIA_H200_141GB 8
a4-highgpu-8g NVIDIA_B200 8 | a4x-highgpu-4g NVIDIA_GB200 4
g2-standard-4 NVIDIA_L4 1 | g2-standard-8 NVIDIA_L4 1 | g2-standard-12 NVIDIA_L4 1 | g2-standard-16 NVIDIA_L4 1
g2-standard-24 NVIDIA_L4 2 | g2-standard-32 NVIDIA_L4 1 | g2-standard-48 NVIDIA_L4 4 | g2-standard-96 NVIDIA_L4 8
g4-standard-48 NVIDIA_RTX_PRO_6000 1 | g4-standard-96 NVIDIA_RTX_PRO_6000 2
g4-standard-192 NVIDIA_RTX_PRO_6000 4 | g4-standard-384 NVIDIA_RTX_PRO_6000 8
"""

# machine: counts of P4; P100; T4; V100
N1 = """
n1-standard-4: 1 2 4; 1 2 4; 1 2 4; 1 2 4 8
n1-standard-8: 1 2 4; 1 2 4; 1 2 4; 1 2 4 8
n1-standard-16: 1 2 4; 1 2 4; 1 2 4; 2 4 8
n1-standard-32: 2 4; 2 4; 2 4; 4 8
n1-standard-64: 4; ; 4; 8
n1-standard-96: 4; ; 4; 8
n1-highmem-2: 1 2 4; 1 2 4; 1 2 4; 1 2 4 8
n1-highmem-4: 1 2 4; 1 2 4; 1 2 4; 1 2 4 8
n1-highmem-8: 1 2 4; 1 2 4; 1 2 4; 1 2 4 8
n1-highmem-16: 1 2 4; 1 2 4; 1 2 4; 2 4 8
n1-highmem-32: 2 4; 2 4; 2 4; 4 8
n1-highmem-64: 4; ; 4; 8
n1-highmem-96: 4; ; 4; 8
n1-highcpu-16: 1 2 4; 1 2 4; 1 2 4; 2 4 8
n1-highcpu-32: 2 4; 2 4; 2 4; 4 8
n1-highcpu-64: 4; 4; 4; 8
n1-highcpu-96: 4; ; 4; 8
"""


def published() -> set[tuple[str, str, int]]:
    rows = {tuple(row.split()) for line in BUILT_IN.split("\n") for row in line.split("|") if row.strip()}
    found = {(name, gpu, int(count)) for name, gpu, count in rows}
    for line in N1.strip().split("\n"):
        name, _, cells = line.partition(":")
        for gpu, counts in zip(("P4", "P100", "T4", "V100"), cells.split(";"), strict=True):
            found |= {(name, f"NVIDIA_TESLA_{gpu}", int(count)) for count in counts.split()}
    return found


def test_the_combinations_are_exactly_the_173_that_are_published():
    assert len(published()) == 173
    ours = {(row.machine_type, row.accelerator_type, row.count) for row in combinations()}
    assert ours == published() and len(combinations()) == len(ours)


def test_a_combination_is_asked_for_its_sizes_price_and_quota():
    t4s = find_combination("n1-standard-8", "NVIDIA_TESLA_T4", 4)
    assert t4s is not None
    assert (str(t4s), t4s.vcpu, t4s.memory_gb) == ("4 x NVIDIA_TESLA_T4 on n1-standard-8", 8, 30)
    assert t4s.gpu_memory_gb == 4 * 16
    assert t4s.with_prices("us-central1").startswith(f"{t4s} (us-central1, $")
    standard, spot = t4s.quota(preemptible=False), t4s.quota(preemptible=True)
    assert standard is not None and spot is not None and standard.metric != spot.metric
    assert (standard.amount, spot.amount) == (4, 4)


def test_a_machine_without_gpus_draws_on_the_quota_of_vcpu_however_it_is_got():
    machine = Combination(catalog.machines()["n2-standard-8"])
    assert machine.quota(preemptible=False) == machine.quota(preemptible=True)
    draw = machine.quota(preemptible=False)
    assert draw is not None and draw.metric.endswith("cpus") and draw.amount == 8


def test_equal_combinations_are_one_key():
    assert len({*combinations(), *combinations()}) == 173
    assert {find_combination(row.machine_type, row.accelerator_type, row.count) for row in combinations()} == set(
        combinations()
    )


@pytest.mark.parametrize("names", [("z9-mega", None, 0), ("n1-standard-8", "NVIDIA_T5", 1), (None, None, 0)])
def test_names_that_the_catalog_lacks_are_no_combination(names):
    assert find_combination(*names) is None


def test_without_a_region_the_price_is_that_of_the_default_region_or_the_lowest(b200_without_price):
    l4 = find_combination("g2-standard-4", "NVIDIA_L4", 1)
    assert l4 is not None and l4.price("standard") == l4.price("standard", catalog.DEFAULT_REGION)
    elsewhere = [row for row in (*combinations(), *without_gpus()) if not row.price("standard", catalog.DEFAULT_REGION)]
    assert elsewhere
    for row in elsewhere:
        assert row.price("standard") == next(iter(row.prices("standard")), None)


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
