"""The preparation as a pipeline, on Beam's local runner."""

import errno
import os
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from vgp.base.exits import ProcessFailed, UserError
from vgp.base.storage import storage
from vgp.data import shards as tree
from vgp.data import tasks
from vgp.data.beam import local_runner
from vgp.data.beam.local_runner import Local
from vgp.data.destination import Destination
from vgp.data.pool import ProcessDied
from vgp.data.shards import Processes


@pytest.fixture
def made(tmp_path):
    """The files of a dataset of the small task."""

    def make(runner, name="letters:Letters", **options) -> dict[str, bytes]:
        work = tasks.load(name, options)
        work.scratch = tmp_path / f"scratch-{len(list(tmp_path.iterdir()))}"
        work.scratch.mkdir()
        folder = tmp_path / f"data-{len(list(tmp_path.iterdir()))}"
        runner.make(name, work, work.shards(""), Destination.checked(folder))
        return {path.name: path.read_bytes() for path in folder.iterdir()}

    return make


def test_beam_and_processes_write_the_same_bytes_of_scans_that_merge_to_one(made, monkeypatch):
    monkeypatch.setattr(tree, "FAN_IN", 2)
    monkeypatch.setattr(sys, "argv", ["mine.py", "--direct_num_workers=many"])  # of a program of the user's
    here = made(Processes(1), "letters:Merging", shards=5)
    assert len(here) == 11 and made(Local(), "letters:Merging", shards=5) == here
    assert b'"scans": 1' in here["manifest.json"]


@pytest.mark.skipif("TRAINING_TEST_KILLS" not in os.environ, reason="a drill: the processes take 9 s to start")
def test_workers_that_are_processes_write_the_same_bytes(made):
    assert made(Local(2)) == made(Processes(1))


@pytest.mark.parametrize("runner", [Processes(1), Local()])
def test_an_id_that_two_shards_give_is_named_with_both(made, runner, tmp_path):
    with pytest.raises(UserError, match=r"row_id \d+ occurs in shard \d \(\('', \d\)\) and in shard \d"):
        made(runner, wrong="ids")
    assert not list(tmp_path.glob("data-*"))


def test_a_record_that_cannot_be_read_is_named_with_its_file(made):
    message = r"scanning of words-1.txt, record 7, shard 1.*ValueError: this word has no letters"
    with pytest.raises(ProcessFailed, match=message):
        made(Local(), wrong="value")
    with pytest.raises(ValueError, match="this word") as failure:
        made(Processes(1), wrong="value")
    assert failure.value.__notes__ == ["while scanning: words-1.txt, record 7"]


def test_what_beam_puts_aside_lies_where_the_next_preparation_removes_it_after_a_kill(made, monkeypatch, tmp_path):
    from vgp.data.beam import beam_pipeline

    build, during = beam_pipeline.build, []

    def looking(pipeline, work, shards):
        during.append((Path(pipeline.local_tempdir).is_dir(), pipeline.local_tempdir.startswith(f"{work.folder}/")))
        build(pipeline, work, shards)

    monkeypatch.setattr(beam_pipeline, "build", looking)
    made(Local())
    assert during == [(True, True)]


@pytest.mark.parametrize("room", ["for the word of it", "none"])
def test_a_full_disk_is_reported_with_the_fix_where_no_log_can_be_written_either(made, monkeypatch, tmp_path, room):
    def full(path, data):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    if room == "none":
        monkeypatch.setattr(storage, "overwrite", full)
    with pytest.raises(UserError, match=r"No space left on device. Free some, or set TMPDIR"):
        made(Local(), wrong="full")
    assert not list(tmp_path.glob("data-*"))


def test_a_record_that_kills_its_process_is_named_with_its_file_by_a_busy_machine(made, monkeypatch):
    waitpid = os.waitpid

    def slowly(pid, options):
        """The pool's own thread learns how the process ended, and records it after this thread has asked."""
        here = threading.current_thread() is threading.main_thread()
        time.sleep(0.1 if here else 0)
        ended = waitpid(pid, options)
        time.sleep(0 if here or not ended[0] else 0.5)
        return ended

    monkeypatch.setattr(os, "waitpid", slowly)
    with pytest.raises(ProcessDied, match=r"died while scanning \(words-1.txt, record 7\), most likely"):
        made(Processes(2), wrong="killed")


def test_without_the_extra_the_error_names_the_package_to_install(made, monkeypatch):
    monkeypatch.setitem(sys.modules, "apache_beam", None)
    with pytest.raises(UserError, match=r"needs the package apache-beam.*pip install"):
        local_runner.require_beam()


def test_beam_is_imported_only_where_it_is_asked_for():
    code = "import sys, vgp.data.prepare, vgp.data.beam.dataflow; print('apache_beam' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "False\n"
