import os
import signal

import pytest

from vgp.data import place
from vgp.data.pool import ProcessDied, WorkerPool


def test_how_a_process_ended_is_told_as_it_was_and_lack_of_memory_only_where_that_may_be(tmp_path):
    with WorkerPool(1, tmp_path) as pool:
        for function, value, says in (
            (signal.raise_signal, signal.SIGSEGV, "died while reading, by SIGSEGV: a library crashed there"),
            (os._exit, 3, "died while reading, with exit code 3: the task's code ended it"),
            (signal.raise_signal, signal.SIGKILL, "most likely for lack of memory: try smaller shards"),
        ):
            with pytest.raises(ProcessDied, match=says):
                pool.call("reading", function, value)


def _asks_to_end(number: int) -> int:
    place.at("mail.txt", number)
    if number == 3:
        signal.raise_signal(signal.SIGTERM)
    return number


def test_a_process_that_is_asked_to_end_is_told_with_its_record_and_not_as_lacking_memory(tmp_path):
    with WorkerPool(2, tmp_path) as pool, pytest.raises(ProcessDied) as died:
        list(pool.map("reading", _asks_to_end, range(8)))
    assert "mail.txt, record 3" in str(died.value) and "by SIGTERM: somebody ended it" in str(died.value)
