import socket
from contextlib import ExitStack

import pytest

from vgp.base.exits import MachineLost
from vgp.protocol.cluster import Cluster
from vgp.train.processes.launcher_control import await_chief

#: Far beyond what any of it takes.
PATIENCE_S = 30.0


@pytest.fixture
def silent():
    """An address that answers nothing at all, as that of a machine that is gone: it accepts no connection, and no more
    fit into its queue."""
    with ExitStack() as stack:
        listener = stack.enter_context(socket.socket())
        listener.bind(("127.0.0.1", 0))
        listener.listen(0)
        for _ in range(4):
            waiting = stack.enter_context(socket.socket())
            waiting.setblocking(False)
            waiting.connect_ex(listener.getsockname())
        with pytest.raises(TimeoutError):
            socket.create_connection(listener.getsockname(), timeout=0.1)
        yield listener.getsockname()


def named(monkeypatch, *addresses):
    """A chief whose name stands for one address after the other; the last one stays."""
    left = list(addresses)

    def look_up(*_, **__):
        address = left.pop(0) if len(left) > 1 else left[0]
        return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", address)]

    monkeypatch.setattr(socket, "getaddrinfo", look_up)
    return Cluster(nodes=2, node=1, chief="workerpool0-0", port=1)


def test_a_chief_that_comes_up_under_another_address_is_found_there(monkeypatch, silent):
    with socket.create_server(("127.0.0.1", 0)) as chief:
        place = named(monkeypatch, silent, chief.getsockname())
        await_chief(place, PATIENCE_S, try_s=0.1)


def test_a_chief_that_never_answers_is_lost_in_time(monkeypatch, silent):
    with pytest.raises(MachineLost, match=r"the chief workerpool0-0 did not come within 0\.2 s"):
        await_chief(named(monkeypatch, silent), 0.2, try_s=0.1)
