"""Several machines, as Vertex AI would start a job of them: one launcher each, here all on loopback addresses."""

import json
import os
import socket
import subprocess
import sys
import time
from datetime import timedelta
from pathlib import Path

SCRIPT = """
import sys
sys.path.insert(0, {here!r})
import warm
from vgp.base.exits import exits
from vgp.train.processes import launch
if {warm}:
    warm.install(launch)
print("value", exits(launch.launch)({target!r}, {argument!r}, nproc=1, **{settings!r}))
"""


class Machine(subprocess.Popen):
    """A launcher's process; `chief`: the address of the store of its job."""

    chief = ""


def await_launchers(address, count, words="alive", first=0, within_s=120):
    """Waits until the launcher of each machine has written its word to the store, and the chief has read it."""
    import torch.distributed as dist

    host, port = address.split(":")
    store = dist.TCPStore(host, int(port), is_master=False, wait_for_workers=False, timeout=timedelta(seconds=within_s))
    store.wait([f"launcher/{words}/{node}" for node in range(first, count)])
    looks, until = {store.get("launcher/alive/0")}, time.monotonic() + within_s
    while len(looks) < 3:  # each look of the chief changes its own word
        assert time.monotonic() < until, "the chief no longer looks"
        looks.add(store.get("launcher/alive/0"))
        time.sleep(0.05)


def nodes(target, argument, count=2, *, is_warm=True, **settings):
    """Their launchers, one rank each; `settings` are those of `launch`.

    A warm launcher is forked from a process that has imported torch, and is no child of the process that is returned.
    """
    from helpers import warm

    shared = warm.shared() if is_warm else {}
    with socket.create_server(("127.0.0.1", 0)) as probe:
        port = probe.getsockname()[1]
    pools = {"workerpool0": [f"127.0.0.1:{port}"], "workerpool1": [f"127.0.0.{2 + i}:2222" for i in range(count - 1)],
             "workerpool2": ["127.0.0.9:2222"]}  # fmt: skip
    text = SCRIPT.format(
        here=str(Path(__file__).parent), target=target, argument=argument, settings=settings, warm=bool(shared)
    )
    processes = []
    for node in range(count):
        task = {"type": f"workerpool{min(node, 1)}", "index": max(0, node - 1)}
        spec = json.dumps({"cluster": pools, "task": task})
        processes.append(Machine([sys.executable, "-c", text], env={**os.environ, **shared, "CLUSTER_SPEC": spec},
                                 stderr=subprocess.PIPE, stdout=subprocess.PIPE, text=True))  # fmt: skip
        processes[-1].chief = f"127.0.0.1:{port}"
        time.sleep(0.1)  # machines come up at different times
    return processes


if __name__ == "__main__":
    await_launchers(sys.argv[1], int(sys.argv[2]))
