"""Several machines, as Vertex AI would start a job of them: one launcher each, here all on loopback addresses."""

import json
import os
import socket
import subprocess
import sys
import time
from pathlib import Path

SCRIPT = """
import sys
sys.path.insert(0, {here!r})
from training.errors import exits
from training.processes.launch import launch
print("value", exits(launch)({target!r}, {argument!r}, nproc=1, **{settings!r}))
"""


def nodes(target, argument, count=2, **settings):
    """Their launchers, one rank each; `settings` are those of `launch`."""
    with socket.create_server(("127.0.0.1", 0)) as probe:
        port = probe.getsockname()[1]
    pools = {"workerpool0": [f"127.0.0.1:{port}"], "workerpool1": [f"127.0.0.{2 + i}:2222" for i in range(count - 1)],
             "workerpool2": ["127.0.0.9:2222"]}  # fmt: skip
    text = SCRIPT.format(here=str(Path(__file__).parent), target=target, argument=argument, settings=settings)
    processes = []
    for node in range(count):
        task = {"type": f"workerpool{min(node, 1)}", "index": max(0, node - 1)}
        spec = json.dumps({"cluster": pools, "task": task})
        processes.append(subprocess.Popen([sys.executable, "-c", text], env={**os.environ, "CLUSTER_SPEC": spec},
                                          stderr=subprocess.PIPE, stdout=subprocess.PIPE, text=True))  # fmt: skip
        time.sleep(0.3)  # machines come up at different times
    return processes
