"""A machine that falls silent: frozen, or behind a network that was cut without a word (no reset reaches anyone)."""

import contextlib
import json
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import psutil
import pytest
from helpers import warm
from helpers.machines import await_launchers

from vgp.base.exits import UserError
from vgp.train.train_config import parse_config

LOST_AFTER_S = 4.0
#: What the documentation allows beyond it.
SLACK_S = 30.0
SCRIPT = """
import sys
sys.path.insert(0, {here!r})
import warm
from vgp.base.exits import exits
from vgp.train.processes import launch
if {warm}:
    warm.install(launch)
exits(launch.launch)("launched:waiting", {{"folder": {folder!r}}}, nproc=2, lost_after_s={lost_after_s})
"""


def machine(node, hosts, folder, prefix=(), **environment):
    """The launcher of one machine; each runs two ranks that meet in a collective ten times a second.

    On this machine's own network it is warm (`helpers.warm`), and no child of the process that is returned.
    """
    environment |= {} if prefix else warm.shared()
    folder = folder / str(node)
    folder.mkdir()
    pools = {"workerpool0": [f"{hosts[0]}:29411"], "workerpool1": [f"{hosts[1]}:2222"]}
    spec = json.dumps({"cluster": pools, "task": {"type": f"workerpool{node}", "index": 0}})
    text = SCRIPT.format(here=str(Path(__file__).parents[2] / "helpers"), folder=str(folder),
                         lost_after_s=LOST_AFTER_S, warm=not prefix and bool(environment))  # fmt: skip
    return subprocess.Popen([*prefix, sys.executable, "-c", text], stderr=subprocess.PIPE, text=True,
                            env={**os.environ, "CLUSTER_SPEC": spec, **environment})  # fmt: skip


def wait_for_ranks(folder, processes, chief, prefix=()):
    deadline = time.monotonic() + 90
    while len(pids(folder, 0) + pids(folder, 1)) < 4:
        assert time.monotonic() < deadline and all(process.poll() is None for process in processes)
        time.sleep(0.05)
    if not prefix:
        return await_launchers(f"{chief}:29411", 2)
    machines = str((Path(__file__).parents[2] / "helpers") / "machines.py")
    subprocess.run([*prefix, sys.executable, machines, f"{chief}:29411", "2"], check=True, timeout=120)


def pids(folder, node):
    """The ranks of a machine."""
    return [int(name) for name in os.listdir(folder / str(node))]


def ending(process, began):
    """The last words of the process, which must end in time."""
    _, said = process.communicate(timeout=LOST_AFTER_S + SLACK_S + 10)
    assert LOST_AFTER_S - 1 < time.monotonic() - began < LOST_AFTER_S + SLACK_S
    assert process.returncode == 75
    return said


@pytest.mark.parametrize("frozen", [0, 1])
def test_a_machine_that_freezes_is_named_and_the_other_ends_in_time(tmp_path, frozen):
    hosts = ("127.0.0.1", "127.0.0.2")
    processes = [machine(node, hosts, tmp_path) for node in range(2)]
    wait_for_ranks(tmp_path, processes, hosts[0])
    ranks = [psutil.Process(pid) for pid in pids(tmp_path, frozen)]
    family = [psutil.Process(processes[frozen].pid), ranks[0].parent(), *ranks]
    for process in family:
        process.send_signal(signal.SIGSTOP)
    began = time.monotonic()
    try:
        said = ending(processes[1 - frozen], began)
    finally:
        for process in family:
            with contextlib.suppress(psutil.NoSuchProcess):  # the kill of its parent ended it
                process.kill()
        processes[frozen].communicate()
    silent = ["the chief 127.0.0.1", "machine 1 (127.0.0.2)"][frozen]
    assert said.startswith(f"stopped: {hosts[1 - frozen]}") and f"{silent} has been silent for 4 s" in said


def ip(*words):
    return subprocess.run(["ip", *words], capture_output=True, text=True)


@pytest.fixture
def network():
    """Two network namespaces on a switch, which is a third: (names, addresses, cut)."""
    if not shutil.which("ip"):
        pytest.skip("iproute2 is not installed, so there is no second network; a frozen machine stands in above")
    tag = os.urandom(3).hex()
    names, hosts, switch = (f"a{tag}", f"b{tag}"), ("10.99.77.1", "10.99.77.2"), f"s{tag}"
    made = ip("netns", "add", switch)
    if made.returncode:
        pytest.skip(f"no right to make network namespaces ({made.stderr.strip()}); a frozen machine stands in above")
    try:
        lines = ["link add bridge type bridge", "link set bridge up"]
        for name in names:
            assert not ip("netns", "add", name).returncode
            lines += [f"link add {name} type veth peer name wire netns {name}", f"link set {name} master bridge up"]
        for line in lines:
            done = ip("-n", switch, *line.split())
            assert not done.returncode, (line, done.stderr)
        for name, host in zip(names, hosts, strict=True):
            for line in ("link set lo up", f"addr add {host}/24 dev wire", "link set wire up"):
                assert not ip("-n", name, *line.split()).returncode
        yield names, hosts, lambda: ip("-n", switch, "link", "set", names[1], "nomaster")
    finally:
        for name in (*names, switch):
            ip("netns", "delete", name)


def test_both_sides_of_a_network_that_is_cut_end_in_time_and_name_the_other(network, tmp_path):
    names, hosts, cut = network
    processes = [
        machine(node, hosts, tmp_path, ("ip", "netns", "exec", names[node]), GLOO_SOCKET_IFNAME="wire")
        for node in range(2)
    ]
    try:
        wait_for_ranks(tmp_path, processes, hosts[0], ("ip", "netns", "exec", names[0]))
        assert not cut().returncode
        began = time.monotonic()
        chief, other = (ending(process, began) for process in processes)
    finally:
        for process in processes:
            process.kill()
    assert chief == f"stopped: {hosts[0]} stops: machine 1 ({hosts[1]}) has been silent for 4 s\n"
    assert other == f"stopped: {hosts[1]} stops: the chief {hosts[0]} has been silent for 4 s\n"


def test_a_time_that_would_take_a_pause_for_a_loss_is_refused():
    with pytest.raises(UserError, match="lost_after_s.*greater than or equal to 2"):
        parse_config({"lost_after_s": 0.5})
