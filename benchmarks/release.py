"""Does the registry survive `kill -9` at every step of a release, and does the retry complete it?

    python -m benchmarks.release            # a line for each point, with the states after the kill and the retry
    python -m benchmarks.release --bucket   # the registry in a bucket, on a storage server of this machine

A fork releases a model into a registry that has a champion, and kills itself before or after one of its effects: every
copy, flush, rename, object write, and check of the artifact. `find_fault` has the conditions that must hold. The model
is a file of random bytes, so the check, a process of its own, is replaced by success; after a failed check nothing
follows.
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

#: Calls that change something outside of the process.
EFFECTS: tuple[tuple[Any, str], ...] = (
    (shutil, "copyfile"), (os, "fsync"), (os, "replace"), (os, "mkdir"), (releases, "check_copy"),
    (Folder, "replace"), (Slot, "put"),
)  # fmt: skip
MODEL = "flights"
DAYS = tuple(Day(name=f"2026-10-{day:02}", gain=day % 3, rows=1.0) for day in range(1, 32))


@dataclass(frozen=True)
class Life:
    """A release that was killed at one point, and the states after it."""

    point: int
    effect: str
    #: Whether the record had nothing of the release after the kill, or all of it.
    after_kill: str
    #: The fault after the kill or the retry; "" for none.
    wrong: str


def write_outputs(folder: Path, run: str, *, weights: bytes, champion: str) -> Inputs:
    """Writes the outputs of a run that the step `register` reads."""
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


def create_registry(folder: Path, root: str) -> Inputs:
    """Creates a registry with a champion, and a run whose model is better."""
    release(write_outputs(folder, "first", weights=b"1" * 70_000, champion=""), root, MODEL)
    registry = registries.open(root, MODEL)
    reigns = registry.read().champion()
    assert reigns
    pins = store.save(f"{folder}/pins", reigning.pin(registry, registry.read(), reigns, 1))
    return write_outputs(folder, "second", weights=b"2" * 70_000, champion=pins)


def kill_releases(folder: Path, every: int = 1, bucket: str = "") -> Iterator[Life]:
    """Kills a release at each point, or at every n-th and the last ones, each time from an equal beginning.

    Args:
        folder: The folder of the registries.
        every: The distance between points.
        bucket: gs:// of an empty bucket for the registry; "" for the folder.
    """
    top = bucket or str(folder)
    with pass_checks():
        asked = create_registry(folder, root := f"{top}/registry")
        expected = summarize(release_again(asked, copy_place(root, f"{top}/undisturbed")))
        point, life = 1, kill_release(root, asked, f"{top}/life-1", 1, expected)
        while life:
            yield life
            point += every
            life = kill_release(root, asked, f"{top}/life-{point}", point, expected)
        for last in range(point - every + 1, point):
            if life := kill_release(root, asked, f"{top}/life-{last}", last, expected):
                yield life


def copy_place(root: str, place: str) -> str:
    """Returns the place, with a copy of the registry."""
    if not storage.is_remote(root):
        shutil.copytree(root, place)
        return place
    for file in storage.below(root):
        storage.overwrite(file.path.replace(root, place, 1), storage.read(file.path, most=1 << 20))
    return place


def kill_release(root: str, asked: Inputs, place: str, point: int, expected: list[Any]) -> Life | None:
    """Kills a release at the point and repeats it; returns None if the release ends before the point."""
    copy_place(root, place)
    effect, killed = fork(point, lambda: release(asked, place, MODEL))
    if not killed:
        return None
    found = registries.open(place, MODEL).read()
    wrong = find_fault(place, found)
    retried = release_again(asked, place)
    wrong = (
        wrong or find_fault(place, retried) or ("" if summarize(retried) == expected else "the retry ended otherwise")
    )
    return Life(point, effect, "champion" if found.aliases["champion"] == 2 else "nothing", wrong)


def release_again(asked: Inputs, place: str) -> Record:
    """Repeats the release to its end and returns the record."""
    release(asked, place, MODEL)
    return registries.open(place, MODEL).read()


def summarize(found: Record) -> list[Any]:
    """Returns the record without its times and places."""
    events = [(one.number, one.what, one.version, one.before, one.who, one.key) for one in found.events]
    return [events, found.aliases, [(v.number, v.state, sorted(v.files)) for v in found.versions],
            [(spent.key, spent.level) for spent in found.spent], found.evidence]  # fmt: skip


def find_fault(root: str, found: Record) -> str:
    """Returns the fault of the registry; "" for none.

    Faults are an incomplete champion or release, a gap, a level spent twice, and days counted twice or without the
    promotion.
    """
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
    replaced = len(found.versions) - 1  # the first model replaced no other
    return "" if len(found.spent) == replaced else "a level not spent, or twice"


@contextmanager
def pass_checks() -> Iterator[None]:
    """Replaces the check of the artifact by success, with a one-line card, because the random bytes hold no model."""
    kept, written = releases.check_copy, card.write
    releases.check_copy = lambda *words: releases.Checked(0, 0, 0, 0.0)  # type: ignore[assignment]
    card.write = lambda path, **facts: Path(path).write_text("a card")  # type: ignore[assignment]
    try:
        yield
    finally:
        releases.check_copy, card.write = kept, written


def fork(point: int, work: Callable[[], object]) -> tuple[str, bool]:
    """Runs the work in a fork that kills itself at the point; returns the effect there, and whether it was reached."""
    reading, writing = os.pipe()
    process = os.fork()
    if not process:
        code = 1
        try:
            _arm(point, writing)
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


def _arm(point: int, writing: int) -> None:
    """Counts every effect as two points from now on, and kills the process at one of them."""
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
    with tempfile.TemporaryDirectory() as folder, serve_bucket(values.bucket) as bucket, redirect_stderr(io.StringIO()):
        for life in kill_releases(Path(folder), bucket=bucket):
            counts[life.after_kill] += 1
            counts["wrong"] += bool(life.wrong)
            print(f"{life.point:>5}  {life.effect:<18}{life.after_kill:<18}{life.wrong or 'as undisturbed'}")
    print(f"{counts.total() - counts['wrong']} kills, {counts['wrong']} wrong")


@contextmanager
def serve_bucket(wanted: bool) -> Iterator[str]:
    """Yields gs:// of a bucket on a storage server of this machine; "" if none is wanted."""
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
