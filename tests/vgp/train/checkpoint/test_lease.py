"""Two runs never write one folder: processes that are killed and paused, on a real storage server and on a disk."""

import fcntl
import os
import signal
import subprocess
import sys
import threading
import time
from contextlib import ExitStack
from datetime import timedelta
from types import SimpleNamespace

import pytest

from vgp.base.exits import UserError
from vgp.base.storage import slot as slots
from vgp.base.storage import storage
from vgp.base.storage.slot import Slot
from vgp.train.checkpoint import lease, lease_holder
from vgp.train.checkpoint.lease import BucketLease, hold_lease
from vgp.train.checkpoint.lease_holder import FILE_NAME, Fence, Holder, Owner, parse_holder

# The client leaves broken connections to the garbage collector.
pytestmark = pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")

#: Of a lease that is renewed, every quarter of it: a busy machine runs each process at least so often.
LENGTH_S = 6.0
#: Long after a lease has ended.
LATER_S = 60.0
PATIENCE_S = 60

#: Holds folders until it is ended, or has lost one.
SCRIPT = """
import sys, threading
from contextlib import ExitStack
from vgp.train.checkpoint.lease_holder import Owner
from vgp.train.checkpoint.lease import hold_lease
lost = threading.Event()
with ExitStack() as stack:
    for folder in sys.argv[3:]:
        owner = Owner("first", sys.argv[1])
        lease = stack.enter_context(hold_lease(folder, owner, length_s=float(sys.argv[2]), patience_s=60))
        lease.on_loss(lost.set)
    print("held", flush=True)
    lost.wait()
    print(lease.loss, flush=True)
"""


@pytest.fixture
def other():
    """Another process, of run `first`, that holds these folders."""
    started = []

    def start(*folders, task="train_1"):
        words = [sys.executable, "-c", SCRIPT, task, str(LENGTH_S), *map(str, folders)]
        started.append(subprocess.Popen(words, stdout=subprocess.PIPE, text=True))
        assert started[-1].stdout.readline() == "held\n"
        return started[-1]

    yield start
    for process in started:
        process.kill()
        process.wait()
        process.stdout.close()


def hold(folder, owner=None):
    return hold_lease(folder, owner or Owner("second", "train_9"), length_s=LENGTH_S, patience_s=PATIENCE_S)


def await_true(condition):
    until = time.monotonic() + PATIENCE_S
    while not condition():
        assert time.monotonic() < until
        time.sleep(0.02)


def pass_on_the_server(monkeypatch, *, after_looks=0):
    """The server's clock is much later than when the lease was renewed, but for the first looks at it."""
    real, looks = slots.parsedate_to_datetime, []

    def date(text):
        looks.append(text)
        return real(text) + timedelta(seconds=LATER_S if len(looks) > after_looks else 0)

    monkeypatch.setattr(slots, "parsedate_to_datetime", date)


def pass_here(monkeypatch):
    """This machine's clock is much later from now on."""
    for module in (lease_holder, lease):
        monkeypatch.setattr(module, "clock", lambda real=module.clock: real() + LATER_S)


def lease_of(folder):
    seen = Slot(f"{folder}/{FILE_NAME}", deadline_s=PATIENCE_S).read()
    return seen and parse_holder(seen.data)


def put_old(folder, length_s=0.01):
    """The lease of a run that is gone."""
    old = Holder.new(Owner("gone", "train_0"), length_s)
    assert Slot(f"{folder}/{FILE_NAME}", deadline_s=PATIENCE_S).put(old.encode(), 0)


def test_a_run_that_was_killed_keeps_its_folder_for_a_lease_and_not_from_itself(bucket, other, capfd, monkeypatch):
    process = other(f"{bucket}/again", f"{bucket}/taken")
    process.kill()
    process.wait()
    with hold(f"{bucket}/again", Owner("first", "train_1")):  # a wait would be logged
        assert lease_of(f"{bucket}/again").pid == os.getpid()
    assert lease_of(f"{bucket}/again") is None  # given back
    pass_on_the_server(monkeypatch, after_looks=1)
    with hold(f"{bucket}/taken"):
        assert lease_of(f"{bucket}/taken").run == "second"
    waiting, taking = capfd.readouterr().err.splitlines()
    assert (
        waiting.startswith(f"{bucket}/taken is held by run first (process {process.pid} on ") and "since 20" in waiting
    )
    assert f"waiting up to {LENGTH_S:.0f} s to see whether it is gone" in waiting
    assert "this run takes the folder over" in taking


def test_a_run_that_was_paused_loses_its_folder_and_says_so_when_it_wakes_up(bucket, other, monkeypatch):
    process = other(f"{bucket}/paused")
    with pytest.raises(UserError) as refusal, hold(f"{bucket}/paused"):
        pass  # it is seen to renew, and not waited for
    words = str(refusal.value)
    assert "is held by run first (process" in words and "since 20" in words and "vgp cancel first" in words
    process.send_signal(signal.SIGSTOP)
    pass_on_the_server(monkeypatch)
    with hold(f"{bucket}/paused"):
        process.send_signal(signal.SIGCONT)
        process.wait(PATIENCE_S)
        loss = process.stdout.readline()
        assert loss.startswith(f"the lease of {bucket}/paused is lost: run second (process {os.getpid()} on ")
        assert lease_of(f"{bucket}/paused").run == "second"  # its end takes nothing away


def test_of_eight_that_want_the_folder_of_a_run_that_is_gone_one_gets_it(bucket, monkeypatch):
    """All have seen the old lease before the first replaces it: the generation decides."""
    put_old(f"{bucket}/race")
    seen, put = threading.Barrier(8), Slot.put
    first = threading.local()

    def together(slot, data, generation):
        if vars(first).pop("put", None):
            seen.wait(PATIENCE_S)
        return put(slot, data, generation)

    monkeypatch.setattr(Slot, "put", together)
    outcomes, done = [], threading.Barrier(8)

    def want(number):
        first.put = True
        with ExitStack() as stack:
            try:
                stack.enter_context(hold(f"{bucket}/race", Owner(f"run-{number}", f"train_{number}")))
                outcomes.append(number)
            except UserError as error:
                assert "is held by run run-" in str(error)
            done.wait(PATIENCE_S)

    threads = [threading.Thread(target=want, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(outcomes) == 1


def test_a_lease_outlasts_a_store_that_is_down_and_nothing_is_written_meanwhile(bucket, proxy, capfd, monkeypatch):
    with hold(f"{bucket}/down") as lease:
        fence = Fence(lease.fence)
        assert fence.is_open()
        proxy.fail(503, float("inf"))
        pass_here(monkeypatch)
        assert not fence.is_open() and not lease.loss
        with pytest.raises(OSError, match="not renewed"):
            fence.require_open(within_s=0.01)
        await_true(lambda: "no checkpoint is saved" in capfd.readouterr().err)
        proxy.faults.clear()
        fence.require_open(within_s=PATIENCE_S)
    assert lease_of(f"{bucket}/down") is None and not os.path.exists(lease.fence)


def test_an_answer_that_is_lost_loses_no_lease(bucket, proxy, monkeypatch):
    monkeypatch.setattr(Slot, "first_pause_s", 0.01)
    proxy.fail("lost", 1, method="POST", path="upload")
    with hold(f"{bucket}/lost") as lease:
        proxy.fail("lost", 1, method="POST", path="upload")
        before = lease.generation
        await_true(lambda: lease.generation != before)
        assert proxy.hit() == 2 and not lease.loss and Fence(lease.fence).is_open()


def test_a_store_that_takes_a_third_of_a_lease_to_answer_keeps_it_renewed(bucket, proxy):
    """Else no checkpoint would ever be saved, and a run that is started again begin at step 0."""
    with hold(f"{bucket}/slow") as lease:
        proxy.late_s = LENGTH_S / 3
        proxy.fail("late", float("inf"), method="POST")
        for _ in range(2):
            before = lease.generation
            await_true(lambda before=before: lease.generation != before)
            assert Fence(lease.fence).is_open()


def test_a_lease_that_ran_out_in_an_outage_stays_with_a_holder_that_renews_it(bucket, proxy, monkeypatch):
    """During the outage no holder could renew its lease, so an old lease does not prove that its holder is gone."""
    folder, refusals, renewed = f"{bucket}/outage-of-both", [], threading.Event()
    monkeypatch.setattr(lease, "time", SimpleNamespace(sleep=lambda seconds: renewed.wait(PATIENCE_S)))

    def take():
        with pytest.raises(UserError, match="held by run gone") as refusal:
            BucketLease(folder, Holder.new(Owner("second", "train_9"), 80 * LENGTH_S), PATIENCE_S).acquire()
        refusals.append(refusal)

    put_old(folder)
    pass_on_the_server(monkeypatch)
    seen = len(proxy.seen)
    taker = threading.Thread(target=take)
    taker.start()
    await_true(lambda: any("alt=media" in path for _, path, _ in proxy.seen[seen:]))
    slot = Slot(f"{folder}/{FILE_NAME}", deadline_s=PATIENCE_S)
    assert slot.put(Holder.new(Owner("gone", "train_0"), LENGTH_S).encode(), slot.generation())
    renewed.set()
    taker.join(PATIENCE_S)
    assert refusals


def test_what_no_program_of_ours_wrote_is_waited_for_and_replaced(bucket):
    storage.overwrite(f"{bucket}/odd/{FILE_NAME}", b'{"length_s": 1e99}')
    lease = BucketLease(f"{bucket}/odd", Holder.new(Owner(), 0.05), 5)
    lease.acquire()
    lease.release()


def test_two_tasks_of_a_run_that_compute_the_same_come_one_after_the_other(bucket, tmp_path, capfd):
    """Such as the iterations of a loop over something else."""
    for folder in (f"{bucket}/loop", str(tmp_path)):
        with hold(folder, Owner("run", "train_1")):
            entered = threading.Event()
            thread = threading.Thread(target=lambda: enter(folder, entered))  # noqa: B023 (joined in this turn)
            thread.start()
            await_true(lambda: "another task of this run" in capfd.readouterr().err)
            assert not entered.wait(0.4)
        assert entered.wait(PATIENCE_S)
        thread.join()
        assert "another task of this run" not in capfd.readouterr().err  # it is said once


def enter(folder, entered):
    with hold(folder, Owner("run", "train_2")):
        entered.set()


def test_on_a_disk_the_kernel_gives_the_folder_back(tmp_path, other):
    process = other(tmp_path)
    with pytest.raises(UserError, match=rf"held by run first \(process {process.pid} on .* since 20"), hold(tmp_path):
        pass
    process.kill()
    process.wait()
    with hold(tmp_path), pytest.raises(UserError, match=rf"process {os.getpid()}"), hold(tmp_path, Owner("third")):
        pass
    with hold(tmp_path):
        pass
    assert list(tmp_path.iterdir()) == []


def test_on_a_disk_a_file_that_its_last_holder_deleted_is_nobodys_lease(tmp_path, monkeypatch):
    """Opened before that, and locked after it."""
    first, flock = ExitStack(), fcntl.flock
    first.enter_context(hold(tmp_path))

    def late(descriptor, operation):
        first.close()
        flock(descriptor, operation)

    monkeypatch.setattr(fcntl, "flock", late)
    with hold(tmp_path, Owner("third")):
        assert parse_holder((tmp_path / FILE_NAME).read_bytes()).run == "third"


def test_a_fence_opens_by_the_clock_and_one_that_is_missing_is_closed():
    fence = Fence.create()
    assert not fence.is_open() and Fence().is_open()
    fence.close()
    assert not fence.is_open()
    with pytest.raises(OSError):
        fence.require_open(within_s=0)
