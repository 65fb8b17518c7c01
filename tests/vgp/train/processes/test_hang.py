"""A rank that does not come to where the others wait for it."""

import re
import time
from pathlib import Path

import pytest

from vgp.base.exits import ProcessFailed
from vgp.train import fit
from vgp.train.config import parse
from vgp.train.processes import hang
from vgp.train.processes.launch import launch

HANG_AFTER_S = 2.0
#: What the documentation allows beyond it, after a start of a few seconds.
SLACK_S = 10.0


def test_ranks_that_are_caught_in_a_c_call_or_stopped_are_named_and_not_those_that_wait():
    began = time.monotonic()
    with pytest.raises(ProcessFailed) as caught:
        launch("launched:stuck", {"0": "NCCL", "1": "C", "2": "stopped"}, nproc=3, hang_after_s=HANG_AFTER_S)
    assert time.monotonic() - began < HANG_AFTER_S + SLACK_S + 15
    one, two = str(caught.value).split("\nrank 2")
    head = (
        r" of 3 on \S+ hangs: others have waited for it for 2 s \(hang_after_s\)\. It was last seen in step 41, at the "
    )
    assert re.match(f"rank 1{head}forward pass \\(most recent call last\\):\nits main thread:\n", one)
    assert one.rstrip().endswith("in caught_in_c")
    assert "launched.py" in one and "vgp/train/processes/rank.py" not in one
    assert re.fullmatch(f"{head}forward pass; its process is stopped \\(SIGSTOP\\).", two)


def test_a_rank_of_another_machine_that_waits_for_its_loader_is_named_on_both(nodes):
    processes = nodes("launched:stuck", {"1": "loader"}, hang_after_s=HANG_AFTER_S)
    (_, chief), (_, worker) = [process.communicate(timeout=60) for process in processes]
    assert [process.returncode for process in processes] == [1, 1]
    assert worker.startswith("failed: rank 1 of 2 on 127.0.0.2 hangs: others have waited for it for 2 s")
    assert "another thread:" in worker and "in load_for_ever" in worker.partition("its main thread:")[0]
    assert "in wait_for_a_thread" in worker.partition("its main thread:")[2]
    assert re.match(
        r"failed: 127.0.0.1 stops: rank 1 of 2 on 127.0.0.2 hangs: .* step 41, at the forward pass.*", chief
    )
    assert len(chief.splitlines()) == 1


def test_the_time_is_a_setting_that_a_resume_may_change(monkeypatch, digits, tmp_path):
    given = {}
    monkeypatch.setattr(fit, "launch", lambda *arguments, **settings: given.update(settings))
    config = parse({"task": "digits:Digits", "hang_after_s": 7})
    fit.train(config, data=digits, model=tmp_path / "model", checkpoints=tmp_path)
    assert given["hang_after_s"] == 7
    assert "hang_after_s" not in config.mathematical()


def test_of_several_stages_of_a_step_the_first_is_the_furthest_back():
    trace, positions = hang.Trace(), []
    for step, stage in [(3, "its batch"), (3, "the update"), (4, "its batch"), (4, "a checkpoint")]:
        trace.mark(step, stage)
        positions.append(trace.position)
    assert positions == sorted(positions)


@pytest.mark.parametrize("function", ["exchange", "agree", "_leave"])
def test_a_rank_that_waits_in_the_key_value_store_is_known_by_its_innermost_frame(function):
    """Its file has moved once, and then those who waited looked like those who hang."""
    from vgp.train.processes import rank

    assert function in dir(rank.Rank) or hasattr(rank, function)
    assert hang._WAITING.match(f'  File "{rank.__file__}", line 84 in {function}')
    assert not hang._WAITING.match(f'  File "{rank.__file__}", line 84 in call')
    for file in hang._COMMON[:2]:
        assert (Path(hang.__file__).parents[3] / file.lstrip("/")).is_file()
