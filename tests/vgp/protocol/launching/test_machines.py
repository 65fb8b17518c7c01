"""The machines of a job, and where they meet."""

import socket

import pytest

from vgp.protocol.launching.machines import host_and_port

from .conftest import Launcher, spec


@pytest.mark.parametrize(
    "address, parts",
    [("host:2222", ("host", 2222)), ("host", ("host", 2222)), ("[::1]:5", ("::1", 5)), ("[::1]", ("::1", 2222))],
)
def test_a_host_may_have_a_port_or_be_of_ipv6(address: str, parts: tuple[str, int]) -> None:
    assert host_and_port(address) == parts


def test_a_port_that_is_taken_is_named(launcher: Launcher) -> None:
    with socket.create_server(("", 0)) as server:
        port = server.getsockname()[1]
        code, _, err = launcher.run(["true"], CLUSTER_SPEC=spec(workerpool0=[f"127.0.0.1:{port}"]))
    assert code == 0 and f"port {port} of this machine, the rendezvous of the processes, is taken" in err
