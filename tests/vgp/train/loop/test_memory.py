"""What is written when a GPU runs out of memory; PyTorch's own part is replaced, since there is no GPU."""

import errno
from pathlib import Path

import pytest
import torch

from vgp.train.config import parse
from vgp.train.loop import memory
from vgp.train.loop.training_request import TrainingRequest
from vgp.train.processes.rank import Rank


def request(folder: Path, **settings: object) -> TrainingRequest:
    return TrainingRequest.model_construct(checkpoints=str(folder), run=2, config=parse(settings))


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
    said = memory.snapshot(request(tmp_path), rank(), 11)
    place = tmp_path / "memory" / "run002-step000000011-rank001"
    assert place.with_suffix(".txt").read_text() == "all of cuda"
    assert place.with_suffix(".pickle").read_bytes() == b"blocks"
    assert sorted(path.suffix for path in place.parent.iterdir()) == [".pickle", ".txt"]
    assert f"drop {place}.pickle on https://pytorch.org/memory_viz; with memory_snapshot=history" in said
    assert said.startswith(f"What lay in memory: {place}.txt;")


def test_without_a_gpu_or_where_it_is_off_nothing_is_written(tmp_path: Path, allocator: object) -> None:
    assert memory.snapshot(request(tmp_path, memory_snapshot="off"), rank(), 0) == ""
    assert memory.snapshot(request(tmp_path), rank("cpu"), 0) == ""
    assert list(tmp_path.iterdir()) == []


def test_a_snapshot_that_cannot_be_written_leaves_the_message_as_it_is(
    tmp_path: Path, allocator: object, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(path: str) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr("torch.cuda.memory._dump_snapshot", full)
    said = memory.snapshot(request(tmp_path), rank(), 0)
    assert said == "No snapshot of the memory could be written: [Errno 28] No space left on device"


def test_stacks_are_kept_only_where_they_are_asked_for(tmp_path: Path, allocator: list[dict[str, object]]) -> None:
    memory.remember_allocations(request(tmp_path), rank())
    memory.remember_allocations(request(tmp_path, memory_snapshot="history"), rank("cpu"))
    assert allocator == []
    memory.remember_allocations(request(tmp_path, memory_snapshot="history"), rank())
    assert allocator == [{"stacks": "python", "max_entries": 20_000}]
    assert "memory_snapshot=history" not in memory.snapshot(request(tmp_path, memory_snapshot="history"), rank(), 0)


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
    said = memory.what_needs_less(parse(settings), 4, 8, torch.device("cuda"))
    assert said[0] == "microbatches=8 or more (now 4 of 8 rows)"
    assert set(said[1:]) == helps | {"a GPU with more memory"}


def test_a_gpu_that_computes_nothing_in_half_precision_is_not_told_to(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("has_bf16", "has_fp16"):
        monkeypatch.setattr(f"vgp.train.loop.precision.{name}", lambda device: False)
    said = memory.what_needs_less(parse({"precision": "fp32"}), 4, 1, torch.device("cuda"))
    assert said[0] == "activation_checkpointing=true" and "precision=auto" not in said
