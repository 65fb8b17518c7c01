"""A rank that does not come to where the others wait for it."""

import os
import pickle
import re
import stat
import time
from pathlib import Path

import pytest
import torch
import torch.distributed as dist

from vgp.base.exits import ProcessFailed
from vgp.train import fit
from vgp.train.processes import hang_diagnosis
from vgp.train.processes.launch import launch
from vgp.train.train_config import parse_config

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
    assert worker.startswith("failed: rank 1 of 2 on 127.0.0.2 hangs") and "for 2 s" in worker
    assert "another thread:" in worker and "in load_for_ever" in worker.partition("its main thread:")[0]
    assert "in wait_for_a_thread" in worker.partition("its main thread:")[2]
    assert re.match(
        r"failed: 127.0.0.1 stops: rank 1 of 2 on 127.0.0.2 hangs: .* step 41, at the forward pass.*", chief
    )
    assert len(chief.splitlines()) == 1


def test_the_time_is_a_setting_that_a_resume_may_change(monkeypatch, digits, tmp_path):
    given = {}
    monkeypatch.setattr(fit, "launch", lambda *arguments, **settings: given.update(settings))
    config = parse_config({"task": "digits:Digits", "hang_after_s": 7})
    fit.train(config, data=digits, model=tmp_path / "model", checkpoints=tmp_path)
    assert given["hang_after_s"] == 7
    assert "hang_after_s" not in config.decisive_fields()


def test_of_several_stages_of_a_step_the_first_is_the_furthest_back():
    trace, positions = hang_diagnosis.Trace(), []
    for step, stage in [(3, "its batch"), (3, "the update"), (4, "its batch"), (4, "a checkpoint")]:
        trace.mark(step, stage)
        positions.append(trace.position)
    assert positions == sorted(positions)


@pytest.mark.parametrize("function", ["exchange", "agree", "_leave"])
def test_a_rank_that_waits_in_the_key_value_store_is_known_by_its_innermost_frame(function):
    """Its file has moved once, and then those who waited looked like those who hang."""
    from vgp.train.processes import rank

    assert function in dir(rank.Rank) or hasattr(rank, function)
    assert hang_diagnosis._WAITING.match(f'  File "{rank.__file__}", line 84 in {function}')
    assert not hang_diagnosis._WAITING.match(f'  File "{rank.__file__}", line 84 in call')
    for file in hang_diagnosis._COMMON[:2]:
        assert (Path(hang_diagnosis.__file__).parents[3] / file.lstrip("/")).is_file()


def test_the_record_that_pytorch_keeps_is_left_and_read_once(tmp_path, monkeypatch):
    for name in (*hang_diagnosis._FILE_VARIABLES, "TORCH_FR_BUFFER_SIZE", "TORCH_NCCL_TRACE_BUFFER_SIZE"):
        monkeypatch.setenv(name, "100")
    monkeypatch.setenv("TORCH_NCCL_DUMP_ON_TIMEOUT", "1")
    recorder = hang_diagnosis.Recorder()
    recorder.switch_on()
    monkeypatch.setenv("GLOO_SOCKET_IFNAME", "lo")
    dist.init_process_group("gloo", store=dist.FileStore(str(tmp_path / "store"), 1), rank=0, world_size=1)
    try:
        dist.all_reduce(torch.ones(3, 5))
        hang_diagnosis.dump_flight(4)
    finally:
        dist.destroy_process_group()
    assert stat.S_IMODE(os.stat(f"{recorder.prefix}4").st_mode) == 0o600
    dumps = recorder.take([3, 4])
    said = r"Last collective: rank 4 in gloo:all_reduce of Float \[3, 5\] \(test_hang_diagnosis.py:\d+, test_.*\)\."
    assert list(dumps) == [4] and re.fullmatch(said, hang_diagnosis.explain_flight(dumps))
    assert not Path(f"{recorder.prefix}4").exists() and recorder.take([4]) == {}


def entry(number, name="nccl:all_reduce", size=4, line=7, group="0"):
    """As PyTorch 2.13 records a collective."""
    frames = [{"name": "all_reduce", "filename": "/x/torch/distributed/distributed_c10d.py", "line": 1},
              {"name": "loss", "filename": "/x/mine.py", "line": line}]  # fmt: skip
    return {
        "collective_seq_id": number, "process_group": (group, "default_pg"), "profiling_name": name, "is_p2p": False,
        "input_sizes": [[size]], "input_dtypes": ["Float"], "frames": frames, "state": "started",
    }  # fmt: skip


def test_a_rank_that_has_not_called_what_the_others_wait_in_is_named():
    dumps = {0: [entry(1), entry(2, size=9)], 1: [entry(1)], 2: [entry(1), entry(2, size=9)]}
    said = hang_diagnosis.explain_flight(dumps)
    facts = ("Rank 0, 2 waited", "number 2", "nccl:all_reduce of Float [9] (mine.py:7, loss)", "rank 1 has not")
    assert all(fact in said for fact in facts)


def test_the_first_collective_that_differs_is_the_cause_whatever_came_later():
    dumps = {0: [entry(1), entry(2, "nccl:all_gather"), entry(3)], 1: [entry(1), entry(2, line=9), entry(3, size=8)]}
    said = hang_diagnosis.explain_flight(dumps)
    calls = (
        "rank 0 called nccl:all_gather of Float [4] (mine.py:7, loss)",
        "rank 1 called nccl:all_reduce of Float [4]",
    )
    assert "number 2" in said and all(call in said for call in calls)
    shapes = hang_diagnosis.explain_flight({0: [entry(1, size=3)], 1: [entry(1, size=5)]})
    assert "rank 0 called nccl:all_reduce of Float [3]" in shapes and "Float [5]" in shapes


def test_every_group_is_looked_at_and_the_ring_buffer_may_have_lost_the_first_calls():
    both = [entry(n) for n in (1, 2)]
    assert "number 6" in hang_diagnosis.explain_flight({0: [*both, entry(5, group="1"), entry(6, group="1")],
                                         1: [*both, entry(5, group="1")]})  # fmt: skip
    assert "number 12" in hang_diagnosis.explain_flight(
        {0: [entry(n) for n in range(8, 13)], 1: [entry(n) for n in range(5, 12)]}
    )
    assert hang_diagnosis.explain_flight({}) == ""


def test_a_dump_is_read_without_calling_anything(tmp_path):
    class Trap:
        def __reduce__(self):
            return (tmp_path.joinpath("sprung").touch, ())

    good = {"entries": [entry(2), entry(1)], "version": "2.10"}
    assert [e["collective_seq_id"] for e in hang_diagnosis.parse_flight(pickle.dumps(good, protocol=2))] == [1, 2]
    assert hang_diagnosis.parse_flight(pickle.dumps({"entries": [Trap()]})) == []
    assert not (tmp_path / "sprung").exists()
    whole = pickle.dumps(good, protocol=2)
    assert all(hang_diagnosis.parse_flight(whole[:length]) == [] for length in range(0, len(whole) - 1, 7))
