import os
import signal

import pytest

from training.data.pool import ProcessDied, WorkerPool


def test_how_a_process_ended_is_told_as_it_was_and_lack_of_memory_only_where_that_may_be(tmp_path):
    with WorkerPool(1, tmp_path) as pool:
        for function, value, says in (
            (signal.raise_signal, signal.SIGSEGV, "died while reading, by SIGSEGV: a library crashed there"),
            (os._exit, 3, "died while reading, with exit code 3: the task's code ended it"),
            (signal.raise_signal, signal.SIGKILL, "most likely for lack of memory: try smaller shards"),
        ):
            with pytest.raises(ProcessDied, match=says):
                pool.call("reading", function, value)
