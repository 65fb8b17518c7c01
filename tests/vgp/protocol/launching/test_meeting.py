"""Processes that never connect to each other are warned of; those that do, in whatever way, never are."""

import pytest

from vgp.protocol.launching.meeting import end_of, is_private

from .conftest import Launcher, script

NEVER = "never connected to each other"
#: Each process as PyTorch's store would: the first listens, the others connect; `hold` keeps the link.
MEET = """
import os, socket, sys, time
first, port, hold = os.environ[sys.argv[1]] == "0", int(sys.argv[2] or os.environ["MASTER_PORT"]), float(sys.argv[3])
if first:
    server = socket.create_server(("127.0.0.1", port))
    other, _ = server.accept()
    other.recv(1)
else:
    while True:
        try:
            other = socket.create_connection(("127.0.0.1", port))
            break
        except ConnectionRefusedError:
            time.sleep(0.05)
    other.send(b"x")
time.sleep(hold)
"""
#: Talks to a server of its own, as a process with a dashboard does.
ALONE = """
import os, socket, time
server = socket.create_server(("127.0.0.1", 0))
one = socket.create_connection(server.getsockname())
other, _ = server.accept()
time.sleep(1)
"""


@pytest.mark.parametrize(
    ("launch", "variables", "who"),
    [
        ("torchrun", {"TRAINING_NPROC": 2}, "the 2 processes"),
        ("torchrun", {"TRAINING_NODES": 2, "TRAINING_NPROC": 2}, "the 2 nodes"),
        ("jax", {"TRAINING_NODES": 2}, "the 2 nodes"),
        ("plain", {"TRAINING_NODES": 3}, "the 3 nodes"),
    ],
)
def test_processes_that_never_met_are_warned_of_in_the_terminal_and_on_record(
    launcher: Launcher, launch: str, variables: dict[str, int], who: str
) -> None:
    code, _, err = launcher.run(script(ALONE), launch, **variables)
    assert code == 0 and f"launch: warning: {who} {NEVER}" in err
    (warning,) = launcher.left()["warnings"]
    assert warning in err and "each works alone on purpose" in warning


def test_a_connection_that_ended_at_once_is_one(launcher: Launcher) -> None:
    for _ in range(2):
        code, _, err = launcher.run(script(MEET, "RANK", "", "0"), "torchrun", TRAINING_NPROC=2)
        assert (code, err) == (0, "") and "warnings" not in launcher.left()


@pytest.mark.parametrize(
    ("name", "launch", "variables"),
    [("RANK", "torchrun", {"TRAINING_NPROC": 2}), ("NODE_RANK", "plain", {"TRAINING_NODES": 2})],
)
def test_a_connection_at_another_port_is_one(
    launcher: Launcher, free_port: int, name: str, launch: str, variables: dict[str, int]
) -> None:
    code, _, err = launcher.run(script(MEET, name, str(free_port), "3"), launch, **variables)
    assert (code, err) == (0, "")


def test_nodes_whose_processes_met_each_other_alone_are_warned_of(launcher: Launcher, free_port: int) -> None:
    """Each node of two processes trains by itself."""
    text = MEET.replace("int(sys.argv[2]", "int(os.environ['GROUP_RANK']) + int(sys.argv[2]")
    variables = {"TRAINING_NODES": 2, "TRAINING_NPROC": 2}
    code, _, err = launcher.run(script(text, "LOCAL_RANK", str(free_port), "3"), "torchrun", **variables)
    assert code == 0 and f"the 2 nodes {NEVER}" in err


def test_a_single_process_and_a_job_that_failed_are_not_warned_of(launcher: Launcher) -> None:
    assert launcher.run(script("pass"), "torchrun")[2] == ""
    code, _, err = launcher.run(script("raise SystemExit(3)"), "torchrun", TRAINING_NPROC=2)
    assert code == 3 and NEVER not in err


def test_ends_are_read_and_other_machines_are_distinguished_from_the_internet() -> None:
    assert end_of("0100007F:1F90") == ("127.0.0.1", 8080)
    assert end_of("0000000000000000FFFF00000100007F:0050") == ("127.0.0.1", 80)
    assert end_of("00000000000000000000000001000000:0016") == ("::1", 22)
    assert is_private("10.128.0.3") and not any(map(is_private, ("127.0.0.1", "169.254.169.254", "142.250.1.1", "::1")))
