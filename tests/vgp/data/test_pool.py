import signal
from dataclasses import dataclass

import pytest

from vgp.data import current_place, pool
from vgp.data.pool import ProcessDied, WorkerPool


@dataclass
class Ended:
    """A process that has ended."""

    exitcode: int


@pytest.mark.parametrize(
    ("exitcode", "workers", "message"),
    [
        (-signal.SIGSEGV, 2, "by SIGSEGV: a library or"),
        (3, 2, "exit code 3: the task's code"),
        (-signal.SIGTERM, 2, "by SIGTERM"),
        (-signal.SIGKILL, 1, "memory: try smaller shards"),
        (-signal.SIGKILL, 4, "memory: try fewer than 4 workers"),
    ],
)
def test_the_end_of_a_process_is_explained_and_lack_of_memory_only_where_it_is_possible(exitcode, workers, message):
    assert message in pool._explain_death([Ended(exitcode)], workers)


def test_a_crash_of_a_process_is_reported_with_the_work_that_it_did(tmp_path):
    with WorkerPool(1, tmp_path) as workers, pytest.raises(ProcessDied, match="died while reading, by SIGSEGV"):
        workers.call("reading", signal.raise_signal, signal.SIGSEGV)


def _asks_to_end(number: int) -> int:
    current_place.record_place("mail.txt", number)
    if number == 3:
        signal.raise_signal(signal.SIGTERM)
    return number


def test_a_process_that_is_asked_to_end_is_reported_with_its_record_and_not_as_lacking_memory(tmp_path):
    with WorkerPool(2, tmp_path) as workers, pytest.raises(ProcessDied) as died:
        list(workers.map("reading", _asks_to_end, range(8)))
    assert "mail.txt, record 3" in str(died.value) and "by SIGTERM" in str(died.value)
