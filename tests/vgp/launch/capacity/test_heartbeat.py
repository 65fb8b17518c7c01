import threading
import time
from types import SimpleNamespace

import pytest

from vgp.base.clock import Clock
from vgp.launch.capacity.journal import Heartbeat
from vgp.launch.capacity.outage_retry import Superseded
from vgp.protocol.capacity.control_folder import Document

from .test_journal import Folder


def heartbeat(documents, term=1, every_s=30.0, lines=None):
    folder = Folder(SimpleNamespace(take=lambda: None), documents)
    return Heartbeat(folder, Clock(), (lines if lines is not None else []).append, term, every_s, 600.0)


def wait_for(condition):
    until = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < until
        time.sleep(0.002)


def test_it_goes_on_by_itself_also_while_the_launcher_hangs_and_ends_with_it():
    documents = {}
    beating = heartbeat(documents, every_s=0.002)
    beating.start("1-a")
    wait_for(lambda: documents["heartbeat.json"].generation > 5)
    assert documents["heartbeat.json"].content["attempt"] == "1-a"
    assert {"every_s": 0.002, "orphan_s": 600.0}.items() <= documents["heartbeat.json"].content.items()
    beating.stop()
    last = documents["heartbeat.json"].generation
    time.sleep(0.02)
    assert documents["heartbeat.json"].generation == last


def test_a_newer_launchers_heartbeat_is_left_alone_and_the_older_one_learns_of_it():
    documents = {}
    older, newer = heartbeat(documents, term=1, every_s=0.002), heartbeat(documents, term=2)
    older.start("1-a")
    newer.allow("2-b")
    wait_for(lambda: not older._thread.is_alive())
    assert documents["heartbeat.json"].content["attempt"] == "2-b"
    with pytest.raises(Superseded):
        older.check()
    with pytest.raises(Superseded):
        older.allow("1-c")


def test_a_write_that_fails_is_reported_once_and_tried_again():
    documents, lines = {}, []
    beating = heartbeat(documents, every_s=0.002, lines=lines)
    beating.start("1-a")
    written, failures = beating.folder.write, [ConnectionError()] * 3

    def write(*arguments):
        if failures:
            raise failures.pop()
        return written(*arguments)

    beating.folder.write = write
    wait_for(lambda: not failures)
    before = documents["heartbeat.json"].generation
    wait_for(lambda: documents["heartbeat.json"].generation > before + 2)
    beating.stop()
    assert len([line for line in lines if "retrying" in line]) == 1


def test_one_that_was_stopped_while_it_wrote_leaves_what_the_same_launcher_wrote_since():
    """SIGTERM, and the launcher goes on with another heartbeat, whose attempt may be another one."""
    documents = {}
    hung = heartbeat(documents)
    hung.allow("1-a")
    written = hung.folder.write

    def late(*arguments):
        hung.folder.write = written
        hung.stop()
        heartbeat(documents).allow("2-b")
        return written(*arguments)

    hung.folder.write = late
    hung.beat()
    assert documents["heartbeat.json"].content["attempt"] == "2-b"


def test_one_that_was_stopped_writes_no_more_over_what_comes_after_it():
    """A request that hung when the launcher was stopped, and ends later."""
    documents = {}
    hung = heartbeat(documents)
    hung.allow("1-a")
    hung.stop()
    documents["heartbeat.json"] = Document(documents["heartbeat.json"].content | {"attempt": ""}, 7)
    thread = threading.Thread(target=hung.beat)
    thread.start()
    thread.join()
    assert documents["heartbeat.json"].content["attempt"] == ""
