"""Starts the processes of this machine and writes script.json; see the package."""

from __future__ import annotations

import os
import sys
import time

from vgp.protocol.launching.folders import Folders
from vgp.protocol.launching.following import ELSEWHERE, Following
from vgp.protocol.launching.job import Job
from vgp.protocol.launching.machines import cluster, warn_of_port
from vgp.protocol.launching.meeting import Meeting
from vgp.protocol.launching.project_code import use_code
from vgp.protocol.launching.ranks import ranks_of
from vgp.protocol.launching.request import Mistake, fill, log, parameters, parse


def main(arguments: list[str]) -> int:
    """Runs the command on this machine and returns the exit code."""
    options, command = parse(arguments)
    try:
        nodes, folders = cluster(os.environ), Folders(options, os.environ)
        if uri := os.environ.get("TRAINING_CODE"):
            use_code(uri)
        ranks = [rank for node in nodes for rank in ranks_of(node, options.launch, nodes, os.environ)]
        for rank in ranks:
            rank.prepare(command, folders, parameters(options))
    except Mistake as mistake:
        log(str(mistake))
        return 2
    following = Following(os.environ)
    if why := following.await_turn():
        log(f"{why}. Nothing was started.")
        return ELSEWHERE
    folders.create()
    warn_of_port(nodes[0])
    processes, begin = sum(rank.node.number == 0 for rank in ranks), time.time()
    job = Job(ranks, following, Meeting(ranks, options.launch))
    code = job.run()
    if processes:
        words = fill(command, parameters(options))  # but not of folders, whose paths differ by machine
        facts = {"command": words, "launch": options.launch, "nodes": nodes[0].nodes, "processes": processes}
        facts.update({"warnings": job.warnings} if job.warnings else {})
        folders.write_record({**facts, "seconds": round(time.time() - begin, 1), "exit_code": code})
    return code


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
