"""GPUs are counted without a framework, and shared by nodes on one machine."""

import pytest

from vgp.protocol.launching import ranks as node_ranks
from vgp.protocol.launching.request import Mistake

from .conftest import ranks


def test_gpus_are_counted_without_torch_as_cuda_would_show_them(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(node_ranks, "count_gpus", lambda: 4)
    visible = {None: 4, "": 0, "-1": 0, "0,1": 2, "0,-1,1": 1, "GPU-8932f937": 1, "2, 3": 2, "0,1,2,3,4": 4}
    for text, count in visible.items():
        assert len(node_ranks.gpus({} if text is None else {"CUDA_VISIBLE_DEVICES": text})) == count, text


def test_nodes_on_one_machine_share_its_gpus(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(node_ranks, "count_gpus", lambda: 4)
    shown = [rank.variables["CUDA_VISIBLE_DEVICES"] for rank in ranks("torchrun", TRAINING_NODES="2")]
    assert shown == ["0,1", "0,1", "2,3", "2,3"]
    with pytest.raises(Mistake, match="TRAINING_NPROC=3, but a node has 2 GPUs"):
        ranks("torchrun", TRAINING_NODES="2", TRAINING_NPROC="3")
