"""Profiler traces, and the memory of a GPU that ran out of it; there is no GPU, so PyTorch's own part is replaced.

That a trace changes no bit of training: test_fit.py.
"""

import errno
from pathlib import Path

import pytest
import torch

from vgp.train.loop import profiling
from vgp.train.loop.profiling import Profiler, Requests
from vgp.train.loop.sample_order import Plan
from vgp.train.loop.training_request import TrainingRequest
from vgp.train.processes.rank import Rank
from vgp.train.train_config import parse_config


def profiler(folder: Path, steps: int = 20, **settings: object) -> Profiler:
    request = TrainingRequest.model_construct(
        checkpoints=str(folder), run=0, config=parse_config(settings), plan=Plan(steps * 8, 1, 8, 1, 0)
    )
    return Profiler(request, Rank(0, 1, 0, 1, torch.device("cpu")))


def train(profiler: Profiler, done: int, last: int) -> None:
    for step in range(done, last):
        profiler.begin_step(step)
        torch.ones(3).add(1)
        profiler.end_step(step + 1)
    profiler.close()


def steps(folder: Path) -> list[str]:
    return [path.name[7:31] for path in sorted((folder / "profile").glob("*"))]


def test_a_request_is_taken_once_and_goes(tmp_path: Path) -> None:
    requests = Requests(str(tmp_path))
    assert requests.take() == 0
    (tmp_path / profiling.REQUEST).write_text("3")
    requests.looked_at = -10.0
    assert requests.take() == 3 and list(tmp_path.iterdir()) == []
    requests.looked_at = -10.0
    assert requests.take() == 0


@pytest.mark.parametrize("kind", ["words", "folder", "link"])
def test_a_request_that_cannot_be_read_is_a_warning_once(
    tmp_path: Path, kind: str, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / profiling.REQUEST
    if kind == "words":
        path.write_text("all of them")
    elif kind == "folder":
        path.mkdir()
    else:
        (tmp_path / "elsewhere").write_text("3")  # what it leads to would do, in the folder itself
        path.symlink_to(tmp_path / "elsewhere")
    requests = Requests(str(tmp_path))
    for _ in range(3):
        assert requests.take() == 0
        requests.looked_at -= 10.0
    assert capsys.readouterr().err.count(f"warning: {path} ") == 1


def test_what_was_asked_for_at_the_end_is_cut_short_and_what_was_planned_stays(tmp_path: Path) -> None:
    late = profiler(tmp_path / "late")
    late.ask(18, 5)
    train(late, 18, 20)
    assert steps(tmp_path / "late") == ["step000000020-000000020-"]
    planned = profiler(tmp_path / "planned", profile_steps="9-10")
    train(planned, 0, 3)
    planned.ask(3, 2)
    train(planned, 3, 20)
    assert steps(tmp_path / "planned") == ["step000000005-000000006-", "step000000009-000000010-"]


def test_a_run_that_goes_on_within_the_steps_traces_the_rest_and_one_after_them_none(tmp_path: Path) -> None:
    train(profiler(tmp_path, profile_steps="5-9"), 7, 20)
    train(profiler(tmp_path, profile_steps="5-9"), 9, 20)
    assert steps(tmp_path) == ["step000000008-000000009-"]


def test_a_run_that_is_stopped_leaves_the_trace_so_far(tmp_path: Path) -> None:
    stopped = profiler(tmp_path, profile_steps="5-9")
    for step in range(7):
        stopped.begin_step(step)
        stopped.end_step(step + 1)
    stopped.finish(7)
    stopped.close()
    assert steps(tmp_path) == ["step000000005-000000007-"]


@pytest.mark.parametrize("when", ["prepare_trace", "start_trace", "stop_trace"])
def test_a_profiler_that_cannot_begin_or_end_is_a_warning_and_training_goes_on(
    tmp_path: Path, when: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def refused(self: object) -> None:
        raise RuntimeError("CUPTI_ERROR_INSUFFICIENT_PRIVILEGES")

    monkeypatch.setattr(torch.profiler.profile, when, refused)
    train(profiler(tmp_path, profile_steps="2-3"), 0, 5)
    warning = "warning: no profile on rank 0: RuntimeError: CUPTI_ERROR_INSUFFICIENT_PRIVILEGES"
    assert capsys.readouterr().err.count(warning) == 1 and steps(tmp_path) == []


def test_a_trace_that_cannot_be_written_is_a_warning(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "profile").write_text("in the way")
    train(profiler(tmp_path, profile_steps="2-3"), 0, 5)
    assert "warning: no profile on rank 0: FileExistsError" in capsys.readouterr().err


def request(folder: Path, **settings: object) -> TrainingRequest:
    return TrainingRequest.model_construct(checkpoints=str(folder), run=2, config=parse_config(settings))


def rank(device: str = "cuda") -> Rank:
    return Rank(1, 2, 1, 2, torch.device(device))


@pytest.fixture
def allocator(monkeypatch: pytest.MonkeyPatch) -> list[dict[str, object]]:
    """PyTorch's, as far as it is asked; the calls that switch its history on."""
    calls: list[dict[str, object]] = []
    monkeypatch.setattr("torch.cuda.memory_summary", lambda device: f"all of {device}")
    monkeypatch.setattr("torch.cuda.memory._dump_snapshot", lambda path: Path(path).write_bytes(b"blocks"))
    monkeypatch.setattr("torch.cuda.memory._record_memory_history", lambda **how: calls.append(how))
    return calls


def test_a_snapshot_lies_beside_the_checkpoints_and_the_message_says_where(tmp_path: Path, allocator: object) -> None:
    said = profiling.write_memory_snapshot(request(tmp_path), rank(), 11)
    place = tmp_path / "memory" / "run002-step000000011-rank001"
    assert place.with_suffix(".txt").read_text() == "all of cuda"
    assert place.with_suffix(".pickle").read_bytes() == b"blocks"
    assert sorted(path.suffix for path in place.parent.iterdir()) == [".pickle", ".txt"]
    assert f"drop {place}.pickle on https://pytorch.org/memory_viz. Set memory_snapshot=history" in said
    assert said.startswith(f"Memory summary: {place}.txt.")


def test_without_a_gpu_or_where_it_is_off_nothing_is_written(tmp_path: Path, allocator: object) -> None:
    assert profiling.write_memory_snapshot(request(tmp_path, memory_snapshot="off"), rank(), 0) == ""
    assert profiling.write_memory_snapshot(request(tmp_path), rank("cpu"), 0) == ""
    assert list(tmp_path.iterdir()) == []


def test_a_snapshot_that_cannot_be_written_leaves_the_message_as_it_is(
    tmp_path: Path, allocator: object, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(path: str) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr("torch.cuda.memory._dump_snapshot", full)
    said = profiling.write_memory_snapshot(request(tmp_path), rank(), 0)
    assert "No space left on device" in said and "\n" not in said


def test_stacks_are_kept_only_where_they_are_asked_for(tmp_path: Path, allocator: list[dict[str, object]]) -> None:
    profiling.remember_allocations(request(tmp_path), rank())
    profiling.remember_allocations(request(tmp_path, memory_snapshot="history"), rank("cpu"))
    assert allocator == []
    profiling.remember_allocations(request(tmp_path, memory_snapshot="history"), rank())
    assert allocator == [{"stacks": "python", "max_entries": 20_000}]
    assert "memory_snapshot=history" not in profiling.write_memory_snapshot(
        request(tmp_path, memory_snapshot="history"), rank(), 0
    )


@pytest.mark.parametrize(
    ("settings", "helps"),
    [
        ({"precision": "fp32"}, {"activation_checkpointing=true", "precision=auto", "strategy=fsdp with several GPUs"}),
        ({"precision": "bf16"}, {"activation_checkpointing=true", "strategy=fsdp with several GPUs"}),
        ({"precision": "fp32", "exact": True}, {"activation_checkpointing=true", "precision=auto"}),
        ({"precision": "fp16", "strategy": "fsdp"}, {"activation_checkpointing=true", "more GPUs", "cpu_offload=true"}),
        (
            {"precision": "bf16", "strategy": "fsdp", "cpu_offload": True, "activation_checkpointing": True},
            {"more GPUs"},
        ),
    ],
)
def test_what_is_said_to_need_less_memory_is_not_what_is_set_already(
    settings: dict[str, object], helps: set[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("vgp.train.loop.precision.has_bf16", lambda device: True)
    said = profiling.memory_fixes(parse_config(settings), 4, 8, torch.device("cuda"))
    assert said[0] == "microbatches=8 or more (now 4 of 8 rows)"
    assert set(said[1:]) == helps | {"a GPU with more memory"}


def test_a_gpu_that_computes_nothing_in_half_precision_is_not_told_to(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("has_bf16", "has_fp16"):
        monkeypatch.setattr(f"vgp.train.loop.precision.{name}", lambda device: False)
    said = profiling.memory_fixes(parse_config({"precision": "fp32"}), 4, 1, torch.device("cuda"))
    assert said[0] == "activation_checkpointing=true" and "precision=auto" not in said
