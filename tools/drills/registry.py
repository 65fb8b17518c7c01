"""Checks that a hundred runs that end at the same time, with kills, leave one champion and a complete history.

    python -m tools.drills.registry                       # on a disk: 100 processes, up to 50 kills
    python -m tools.drills.registry --bucket              # on a storage server on this machine
    python -m tools.drills.registry --processes 300 --kills 1000

Each process copies the files of its model into the registry, registers the version, and moves the alias if the champion
has not changed. A killed process starts again with its key, as a step of a pipeline does.
"""

import argparse
import hashlib
import os
import random
import signal
import tempfile
import time
from contextlib import ExitStack
from pathlib import Path

from vgp.base.storage import storage
from vgp.registry import changes, registry, versions
from vgp.registry.documents import CHAMPION, Record, Version
from vgp.registry.registry import Registry


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--processes", type=int, default=100)
    parser.add_argument("--kills", type=int, default=50)
    parser.add_argument("--bucket", action="store_true")
    parser.add_argument("--seed", type=int, default=0)
    values = parser.parse_args()
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        root = _bucket(stack) if values.bucket else str(folder / "registry")
        began = time.monotonic()
        kills = run(registry.open(root, "flights"), folder, values.processes, values.kills, random.Random(values.seed))
        record = registry.open(root, "flights").read()
        require_whole(registry.open(root, "flights"), record, values.processes)
        promoted = sum(event.what == "promoted" for event in record.events)
        print(
            f"{root}: {values.processes} processes, {kills} kills, {time.monotonic() - began:.1f} s: "
            f"{len(record.versions)} versions, {len(record.events)} events without a gap, {promoted} champions in turn"
        )


def _bucket(stack: ExitStack) -> str:
    from tools.emulator.storage import storage_server

    os.environ["STORAGE_EMULATOR_HOST"] = stack.enter_context(storage_server())
    from google.cloud.storage import Client

    Client().create_bucket("drill")
    return "gs://drill/registry"


def run(place: Registry, folder: Path, processes: int, kills: int, chance: random.Random) -> int:
    """Starts all processes, kills `kills` of them one after another and restarts them; returns the successful kills."""
    running = {_start(place, folder, number): number for number in range(processes)}
    struck = 0
    for _ in range(kills):
        time.sleep(chance.uniform(0, 0.05))
        if not running:
            break
        os.kill(chance.choice(list(running)), signal.SIGKILL)
        process, status = os.waitpid(-1, 0)
        number = running.pop(process)
        if os.waitstatus_to_exitcode(status):
            struck += 1
            running[_start(place, folder, number)] = number
    while running:
        process, status = os.waitpid(-1, 0)
        number = running.pop(process)
        if os.waitstatus_to_exitcode(status):
            running[_start(place, folder, number)] = number
    return struck


def _start(place: Registry, folder: Path, number: int) -> int:
    process = os.fork()
    if not process:
        code = 1
        try:
            release(place, folder, number)
            code = 0
        finally:
            os._exit(code)
    return process


def release(place: Registry, folder: Path, number: int) -> None:
    """Registers and promotes a model, as the last step of a run does."""
    model, key = folder / f"model-{number}", hashlib.sha256(str(number).encode()).hexdigest()
    model.mkdir(exist_ok=True)
    for name in ("model.json", "model.safetensors"):
        (model / name).write_bytes(name.encode() * number)
    rival = place.read().aliases.get(CHAMPION)
    version = Version(key=key, model=place.version_folder(key), files=versions.add(place, str(model), key))
    mine = place.change(lambda record: changes.register(record, version, who=f"run {number}")).find_key(key)
    assert mine
    words = {"who": f"run {number}", "why": "", "key": key}
    try:
        place.change(lambda record: changes.promote(record, mine.number, expected=rival, **words))
    except changes.Conflict:
        place.change(lambda record: changes.keep(record, **words))


def require_whole(place: Registry, record: Record, many: int) -> None:
    """Raises an error unless every run is registered once, champions form one chain, and all files fit the record."""
    assert len(record.versions) == many, len(record.versions)
    assert [event.number for event in record.events] == list(range(1, len(record.events) + 1))
    for version in record.versions:
        assert sum(event.key == version.key for event in record.events) == 2, version.number
        versions.verify(place, version)
    chain = [event for event in record.events if event.what == "promoted"]
    assert [event.before for event in chain] == [None, *(event.version for event in chain[:-1])]
    assert record.aliases == {CHAMPION: chain[-1].version}


if __name__ == "__main__":
    assert storage, "imported before the forks"
    main()
