"""Checks that training resumes on other machines with equal bits, and that no machine waits for a lost one.

    python -m tools.drills.landing                  # all, about five minutes on two cores
    python -m tools.drills.landing --only lost

exact    1 process, then 4, then 2, then 2 machines with one each, stopped by SIGTERM or killed: model, card and state
         have the bits of an uninterrupted run
default  2 processes, then 3, then 1: resumes, and prints the differences
lost     two machines, of which one is killed and never replaced: prints the exit code and the delay of the other
"""

import argparse
import json
import os
import signal
import socket
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import psutil

from benchmarks.chaos import compute_fingerprint

TESTS = Path(__file__).parents[2] / "tests" / "helpers"
PROGRAM = """
import json, sys
sys.path.insert(0, {tests!r})
from vgp.train.train_config import parse_config
from vgp.base.exits import exits
from vgp.train.fit import train
settings = json.loads({settings!r})
places = {{name: {folder!r} + "/" + name for name in ("model", "checkpoints")}}
exits(train)(parse_config(settings), data={data!r}, nproc={nproc}, **places)
"""
SETTINGS = {"task": "digits:Digits", "epochs": 30, "global_batch_size": 96, "checkpoint_every_steps": 10}
LOST_AFTER_S, RENDEZVOUS_S = 3.0, 8.0


class Machines:
    """A job of `machines` machines with `nproc` processes each."""

    def __init__(self, data: Path, folder: Path, machines: int, nproc: int, signal_at: str = "", **settings: Any):
        text = PROGRAM.format(tests=str(TESTS), settings=json.dumps(SETTINGS | settings), folder=str(folder),
                              data=str(data), nproc=nproc)  # fmt: skip
        with socket.create_server(("127.0.0.1", 0)) as probe:
            port = probe.getsockname()[1]
        hosts = [f"127.0.0.1:{port}", *(f"127.0.0.{2 + n}:2222" for n in range(machines - 1))]
        self.processes = []
        for node in range(machines):
            environment = {**os.environ, "DIGITS_SIGNAL": signal_at or "-1:0:0"}
            if machines > 1:
                task = {"type": f"workerpool{min(node, 1)}", "index": max(0, node - 1)}
                pools = {"workerpool0": hosts[:1], "workerpool1": hosts[1:]}
                environment["CLUSTER_SPEC"] = json.dumps({"cluster": pools, "task": task})
            self.processes.append(
                subprocess.Popen([sys.executable, "-c", text], env=environment, stderr=subprocess.PIPE, text=True)
            )

    def end(self) -> list[tuple[int, str]]:
        """Waits for all machines; returns the exit code and the last output of each."""
        return [(process.returncode, said) for process in self.processes for said in [process.communicate()[1]]]

    def kill(self, node: int) -> None:
        """Kills all processes of a machine at once."""
        process = psutil.Process(self.processes[node].pid)
        for one in [process, *process.children(recursive=True)]:
            one.kill()


def lines(said: str, *beginnings: str) -> list[str]:
    return [line for line in said.splitlines() if line.startswith(beginnings)]


def exact(data: Path, folder: Path) -> None:
    (code, said), *_ = Machines(data, folder / "whole", 1, 1, exact=True).end()
    assert code == 0, said
    ways = [(1, 1, f"0:120:{signal.SIGTERM}"), (1, 4, f"2:60:{signal.SIGKILL}"), (1, 2, f"1:120:{signal.SIGTERM}"),
            (2, 1, f"1:120:{signal.SIGTERM}"), (2, 2, "")]  # fmt: skip
    for machines, nproc, signal_at in ways:
        ended = Machines(data, folder / "moved", machines, nproc, signal_at, exact=True).end()
        codes = [code for code, _ in ended]
        print(f"  {machines} x {nproc}: exit {codes}", *lines(ended[0][1], "resuming", "saved by"), sep="\n    ")
    assert all(code == 0 for code, _ in ended), ended
    assert compute_fingerprint(folder / "moved") == compute_fingerprint(folder / "whole"), "other bits"
    print("  model, card and state: bit-identical to the run that stayed")


def default(data: Path, folder: Path) -> None:
    for nproc, signal_at in ((2, f"1:60:{signal.SIGTERM}"), (3, f"0:60:{signal.SIGTERM}"), (1, "")):
        ((code, said),) = Machines(data, folder / "default", 1, nproc, signal_at).end()
        print(f"  1 x {nproc}: exit {code}", *lines(said, "resuming", "saved by", "microbatches"), sep="\n    ")
    assert code == 0, said


def lost(data: Path, folder: Path) -> None:
    times = {"lost_after_s": LOST_AFTER_S, "rendezvous_timeout_s": RENDEZVOUS_S, "epochs": 100000}
    for name, victim, after_s in (("the second machine", 1, None), ("the first machine", 0, None),
                                  ("the second machine, before all had met", 1, 0.2),
                                  ("the first machine, before all had met", 0, 0.2)):  # fmt: skip
        place = folder / name.replace(" ", "-").replace(",", "")
        job = Machines(data, place, 2, 1, **times)
        if after_s is None:
            while not list((place / "checkpoints").glob("run*.json")):
                time.sleep(0.1)
        else:
            time.sleep(after_s)
        job.kill(victim)
        began = time.monotonic()
        code, said = job.end()[1 - victim]
        print(f"  {name}: exit {code} after {time.monotonic() - began:.1f} s: {said.strip().splitlines()[-1]}")
        assert code == 75, said


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    drills = {drill.__name__: drill for drill in (exact, default, lost)}
    parser.add_argument("--only", choices=drills)
    given = parser.parse_args()
    sys.path.insert(0, str(TESTS))
    from digits import prepare

    with tempfile.TemporaryDirectory() as scratch:
        data = prepare(Path(scratch) / "data")
        for name, drill in drills.items():
            if given.only in (None, name):
                print(name)
                drill(Path(data), Path(scratch) / name)


if __name__ == "__main__":
    main()
