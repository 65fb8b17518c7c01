import errno
import os
import subprocess
import sys
import time
from pathlib import Path

import pytest
import torch

from vgp.train.checkpoint import recovery
from vgp.train.checkpoint.checkpoint_store import DiskStore


def equal(one, other):
    return one.keys() == other.keys() and all(torch.equal(one[name], other[name]) for name in one)


def test_what_was_saved_comes_back_bit_for_bit(subject):
    subject.train()
    saved = subject.tensors()
    subject.save(4)
    subject.train()
    step, loaded = subject.load()
    assert step == 4
    assert equal(loaded, saved)
    assert loaded["model/0.weight"].dtype == torch.float64
    assert "optimizer/0.weight/exp_avg_sq" in loaded


def test_the_copy_is_of_the_moment_of_saving(subject):
    """Training goes on while the thread writes: the next forward pass at once, the next change when it has released."""
    subject.train()
    saved = subject.tensors()
    subject.store.write = slowly(subject.store.write)
    subject.begin(1)
    subject.model(torch.randn(4, 5).double())  # moves batch norm's statistics
    subject.wait_copied()
    with torch.no_grad():
        for parameter in subject.model.parameters():
            parameter.zero_()
    subject.finish()
    assert equal(subject.load()[1], saved)


def test_a_save_before_the_end_copies_nothing_reads_nothing_back_and_deletes_nothing(
    make, tmp_path, monkeypatch, capfd
):
    """Also the first of a run: first use of fresh memory costs more than writing it."""
    subject = make(tmp_path, keep=1)
    for step in (1, 2):
        subject.train()
        subject.save(step)
    subject.train()
    for part in ("snapshot.Arena", "recovery.read_back", "recovery.prune"):
        monkeypatch.setattr(f"vgp.train.checkpoint.{part}", lambda *_: pytest.fail("what no hurry allows"))
    for writer in subject.writers:
        monkeypatch.setattr(writer.snapshot, "_copy", lambda tensors: [pytest.fail("a copy") for _ in tensors])
    subject.begin(3, hurried=True)
    subject.finish()
    monkeypatch.undo()
    assert capfd.readouterr().err == ""
    assert recovery.list_manifests(subject.store, 0) == [f"run000-step{step:09d}.json" for step in (3, 2)]
    step, loaded = subject.load()
    assert step == 3 and equal(loaded, subject.tensors())


def slowly(write):
    def slow(name, chunks):
        time.sleep(0.2)
        write(name, chunks)

    return slow


def test_a_task_that_writes_to_its_weights_elsewhere_loses_one_checkpoint_and_no_more(subject, capfd):
    subject.train()
    for step in (1, 2):
        saved = subject.tensors()
        subject.begin(step)
        with torch.no_grad():
            subject.model[0].weight.add_(1)
        subject.finish()
        assert bool(recovery.list_manifests(subject.store, 0)) == (step == 2)
    assert equal(subject.load()[1], saved)
    (warning,) = capfd.readouterr().err.splitlines()
    assert warning.startswith("warning: checkpoint of step 1 was not saved: ")
    assert "model/0.weight changed outside the optimizer's step" in warning


def test_the_newest_three_stay(subject):
    for step in range(1, 7):
        subject.train()
        subject.save(step)
    assert recovery.list_manifests(subject.store, 0) == [f"run000-step{step:09d}.json" for step in (6, 5, 4)]
    assert len(subject.store.names()) == 3 * 4


def test_loose_parts_of_a_dead_attempt_go_when_they_are_old(subject, tmp_path):
    dead = tmp_path / "run000-step000000001-deadbeef-0.safetensors"
    dead.write_bytes(b"half")
    newer = tmp_path / "run000-step000000099-deadbeef-0.safetensors"
    newer.write_bytes(b"half")
    for step in range(2, 7):
        subject.train()
        subject.save(step)
    assert not dead.exists()
    assert newer.exists()  # another attempt may be writing it


def test_of_two_attempts_at_a_step_one_wins_and_the_other_goes_on(make, tmp_path):
    first, second = make(tmp_path), make(tmp_path)
    for subject in (first, second):
        subject.train()
        subject.save(1)
    assert len(recovery.list_manifests(first.store, 0)) == 1
    assert equal(second.load()[1], first.tensors())
    assert len(first.store.names()) == 1 + 3  # the loser has taken its parts away
    second.train()
    second.save(2)
    assert second.load()[0] == 2


class Full(DiskStore):
    """A disk that is full for the first few writes of rank 1."""

    refusals = 2

    def write(self, name, chunks):
        if name.endswith("-1.safetensors") and self.refusals:
            self.refusals -= 1
            list(chunks)
            raise OSError(errno.ENOSPC, "No space left on device")
        super().write(name, chunks)


def test_a_full_disk_is_warned_about_and_training_goes_on(make, tmp_path, capfd):
    subject = make(tmp_path, store=Full(tmp_path))
    for step in (1, 2, 3):
        subject.train()
        subject.save(step)
    assert subject.load()[0] == 3
    assert recovery.list_manifests(subject.store, 0) == ["run000-step000000003.json"]
    warnings = capfd.readouterr().err.splitlines()
    assert len(warnings) == 2
    assert warnings[0].startswith("warning: checkpoint of step 1 was not saved: run000-step000000001-")
    assert warnings[0].endswith("No space left on device")


def test_after_the_stated_time_a_full_disk_is_an_error(make, tmp_path):
    store = Full(tmp_path)
    store.refusals = 9
    subject = make(tmp_path, store=store, patience_s=0.05)
    subject.train()
    subject.save(1)
    time.sleep(0.1)
    with pytest.raises(OSError, match="No space left"):
        subject.save(2)


#: As many as show in a few seconds that nothing is wrong at each of them; a drill has more.
KILLS = int(os.environ.get("TRAINING_TEST_KILLS", "4"))

DRILL = """
import os, random, signal, sys, time
sys.path.insert(0, {here!r})
from conftest import Subject
from vgp.train.checkpoint import recovery
from vgp.train.checkpoint.checkpoint_store import DiskStore

def save_forever(pipe):
    subject = Subject({directory!r})
    found = subject.load()
    for step in range(found[0] + 1 if found else 1, 10**6):
        subject.save(step)
        os.write(pipe, b"%d\\n" % step)

dice, last = random.Random(7), 0
for kill in range({kills}):
    read, write = os.pipe()
    child = os.fork()
    if not child:
        save_forever(write)
    os.close(write)
    with os.fdopen(read) as lines:
        lines.readline()
        time.sleep(dice.uniform(0, 0.1))
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
        saved = [int(line) for line in lines]
    damage = []
    found = recovery.find_newest(DiskStore({directory!r}), 0, damage.append)
    assert not damage, damage
    assert found.step >= max([*saved, last]), (found.step, saved, last)
    last = found.step
print(last)
"""


def test_a_kill_at_any_moment_of_saving_leaves_the_newest_readable_and_loses_nothing_committed(tmp_path):
    """Each process goes on from the newest checkpoint and saves as fast as it can, until SIGKILL."""
    text = DRILL.format(here=str(Path(__file__).parent), directory=str(tmp_path / "checkpoints"), kills=KILLS)
    done = subprocess.run([sys.executable, "-c", text], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert int(done.stdout) >= KILLS
