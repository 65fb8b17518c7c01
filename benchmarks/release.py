"""`kill -9` at every step between the gate's word and the alias; then the step is tried again, as its retry would be.

    python -m benchmarks.release            # a line for each point, and what was found after the kill and the retry
    python -m benchmarks.release --bucket   # the registry in a bucket, on a storage server of this machine

A fork releases a model into a registry that has a champion, and kills itself before or after one of its effects: every
copy, every flush to the disk, every rename, every object that is put, the check of the artifact. What must hold is in
`judged`. The model is a file of random bytes, so the check, a process of its own, is taken as passed; where it fails
nothing follows it.
"""

import argparse
import io
import os
import shutil
import signal
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager, redirect_stderr
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from vgp.base.storage import storage
from vgp.base.storage.objects import Folder
from vgp.base.storage.slot import Slot
from vgp.data import bundle
from vgp.data.bundle import ModelCard
from vgp.decision import decision
from vgp.decision.decision import Decision, EvidenceCheck
from vgp.decision.release import release as releases
from vgp.decision.release.release import Inputs, release
from vgp.decision.report import card
from vgp.evaluation import record
from vgp.evaluation.record import Evaluation
from vgp.protocol import manifest
from vgp.protocol import pins as store
from vgp.registry import registry as registries
from vgp.registry import reigning, versions
from vgp.registry.documents import Record
from vgp.registry.evidence import Day

#: What changes something outside of the process.
EFFECTS: tuple[tuple[Any, str], ...] = (
    (shutil, "copyfile"), (os, "fsync"), (os, "replace"), (os, "mkdir"), (releases, "check_copy"),
    (Folder, "replace"), (Slot, "put"),
)  # fmt: skip
MODEL = "flights"
DAYS = tuple(Day(name=f"2026-10-{day:02}", gain=day % 3, rows=1.0) for day in range(1, 32))


@dataclass(frozen=True)
class Life:
    """A release that was killed at one point, and what was found."""

    point: int
    effect: str
    #: What the record told after the kill: nothing of the release, or all of it.
    after_kill: str
    #: What is wrong after the kill or the retry; empty if nothing is.
    wrong: str


def night(folder: Path, run: str, *, weights: bytes, champion: str) -> Inputs:
    """What a run leaves for the step `register`."""
    for name in ("data", "model", "evaluation"):
        (folder / run / name).mkdir(parents=True)
    there = folder / run
    manifest.save(manifest.Manifest(task="m:T", columns=(), splits={}, fingerprint="f"), there / "data")
    bundle.save_card(there / "model", ModelCard(task="m:T", columns=(), config={}, steps=1, parameters=1))
    (there / "model" / "model.safetensors").write_bytes(weights)
    empty = Evaluation(
        task="m:T", split="test", classes=(), rows=0, label_counts=(), group="", groups=0, models={},
        confusion_matrix=[], slices=(), notes=(),
    )  # fmt: skip
    record.save(empty, there / "evaluation")
    better = Decision(
        promote=True,
        reason="Promote.",
        margin=0,
        confidence=0.95,
        level=0.01,
        rows=9,
        groups=9,
        reference="champion" if champion else "baseline",
        evidence=EvidenceCheck(days=DAYS, new_days=31, total=1, needed=40, ahead=True) if champion else None,
        lower_bound=0.1,
    )
    decision.write(better, there / "decision")
    (there / "report").write_text("<!doctype html>")
    paths = (str(there / name) for name in ("data", "model", "evaluation", "decision", "report"))
    return Inputs(*paths, champion=champion, run=run, pipeline="training")


def begun(folder: Path, root: str) -> Inputs:
    """Makes a registry with a champion; a run whose model is better."""
    release(night(folder, "first", weights=b"1" * 70_000, champion=""), root, MODEL)
    registry = registries.open(root, MODEL)
    reigns = registry.read().champion()
    assert reigns
    pins = store.save(f"{folder}/pins", reigning.pin(registry, registry.read(), reigns, 1))
    return night(folder, "second", weights=b"2" * 70_000, champion=pins)


def lives(folder: Path, every: int = 1, bucket: str = "") -> Iterator[Life]:
    """Kills a release at each point, or at one of so many and at the last ones, each time from the same beginning.

    Args:
        bucket: gs:// of an empty bucket, where the registry is then.
    """
    top = bucket or str(folder)
    with passing():
        asked = begun(folder, root := f"{top}/registry")
        expected = told(after(asked, copied(root, f"{top}/undisturbed")))
        point, life = 1, lived(root, asked, f"{top}/life-1", 1, expected)
        while life:
            yield life
            point += every
            life = lived(root, asked, f"{top}/life-{point}", point, expected)
        for last in range(point - every + 1, point):
            if life := lived(root, asked, f"{top}/life-{last}", last, expected):
                yield life


def copied(root: str, place: str) -> str:
    """The place, with a copy of the registry."""
    if not storage.is_remote(root):
        shutil.copytree(root, place)
        return place
    for file in storage.below(root):
        storage.overwrite(file.path.replace(root, place, 1), storage.read(file.path, most=1 << 20))
    return place


def lived(root: str, asked: Inputs, place: str, point: int, expected: list[Any]) -> Life | None:
    """A release that is killed at the point and tried again; None if it ends before."""
    copied(root, place)
    effect, killed = fork(point, lambda: release(asked, place, MODEL))
    if not killed:
        return None
    found = registries.open(place, MODEL).read()
    wrong = judged(place, found)
    retried = after(asked, place)
    wrong = wrong or judged(place, retried) or ("" if told(retried) == expected else "the retry ended otherwise")
    return Life(point, effect, "champion" if found.aliases["champion"] == 2 else "nothing", wrong)


def after(asked: Inputs, place: str) -> Record:
    """The record once the release has been tried to its end."""
    release(asked, place, MODEL)
    return registries.open(place, MODEL).read()


def told(found: Record) -> list[Any]:
    """The record without its times and places."""
    events = [(one.number, one.what, one.version, one.before, one.who, one.key) for one in found.events]
    return [events, found.aliases, [(v.number, v.state, sorted(v.files)) for v in found.versions],
            [(spent.key, spent.level) for spent in found.spent], found.evidence]  # fmt: skip


def judged(root: str, found: Record) -> str:
    """What is wrong: a champion that is not whole, half of a release, a gap, a level that is spent twice, or days that
    are counted without the promotion or twice."""
    registry, champion = registries.open(root, MODEL), found.champion()
    if champion is None:
        return "no champion"
    versions.verify(registry, champion)
    if found.aliases["champion"] != len(found.versions):
        return "a version without its alias"
    if max(Counter((one.what, one.key) for one in found.events).values()) > 1:
        return "an event twice"
    counted = found.evidence.all_days if found.evidence else 0
    if counted != (len(DAYS) if len(found.versions) > 1 else 0):
        return "days counted without the promotion, or twice"
    replaced = len(found.versions) - 1  # the first model replaced none
    return "" if len(found.spent) == replaced else "a level not spent, or twice"


@contextmanager
def passing() -> Iterator[None]:
    """The check of the artifact passes, and its card is a line: there is no model in the random bytes."""
    kept, written = releases.check_copy, card.write
    releases.check_copy = lambda *words: releases.Checked(0, 0, 0, 0.0)  # type: ignore[assignment]
    card.write = lambda path, **facts: Path(path).write_text("a card")  # type: ignore[assignment]
    try:
        yield
    finally:
        releases.check_copy, card.write = kept, written


def fork(point: int, work: Callable[[], object]) -> tuple[str, bool]:
    """Runs the work in a fork that kills itself at the point; the effect there, and whether it came to it."""
    reading, writing = os.pipe()
    process = os.fork()
    if not process:
        code = 1
        try:
            _armed(point, writing)
            with redirect_stderr(io.StringIO()):
                work()
            code = 0
        finally:
            os._exit(code)
    os.close(writing)
    with os.fdopen(reading) as pipe:
        effect = pipe.read()
    _, status = os.waitpid(process, 0)
    ended = os.waitstatus_to_exitcode(status)
    assert ended in (0, -signal.SIGKILL), f"the release itself failed with {ended}"
    return effect, ended != 0


def _armed(point: int, writing: int) -> None:
    """From here on every effect counts as two points, and the process does not survive one of them."""
    passed = 0

    def at(effect: str) -> None:
        nonlocal passed
        passed += 1
        if passed == point:
            os.write(writing, effect.encode())
            os.kill(os.getpid(), signal.SIGKILL)

    def counted(name: str, effect: Callable[..., Any]) -> Callable[..., Any]:
        def wrapped(*args: Any, **kwargs: Any) -> Any:
            at(f"before {name}")
            result = effect(*args, **kwargs)
            at(f"after {name}")
            return result

        return wrapped

    for module, name in EFFECTS:
        setattr(module, name, counted(name, getattr(module, name)))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--bucket", action="store_true", help="the registry in a bucket")
    values = parser.parse_args()
    print(f"{'point':>5}  {'killed':<18}{'record after it':<18}after the retry")
    counts: Counter[str] = Counter()
    with tempfile.TemporaryDirectory() as folder, served(values.bucket) as bucket, redirect_stderr(io.StringIO()):
        for life in lives(Path(folder), bucket=bucket):
            counts[life.after_kill] += 1
            counts["wrong"] += bool(life.wrong)
            print(f"{life.point:>5}  {life.effect:<18}{life.after_kill:<18}{life.wrong or 'as undisturbed'}")
    print(f"{counts.total() - counts['wrong']} kills, {counts['wrong']} wrong")


@contextmanager
def served(wanted: bool) -> Iterator[str]:
    """gs:// of a bucket on a storage server of this machine; "" if none is wanted."""
    if not wanted:
        yield ""
        return
    from google.cloud.storage import Client

    from tools.emulator.storage import storage_server

    with storage_server() as url:
        os.environ["STORAGE_EMULATOR_HOST"] = url
        Client().create_bucket("drill")
        yield "gs://drill"


if __name__ == "__main__":
    main()
