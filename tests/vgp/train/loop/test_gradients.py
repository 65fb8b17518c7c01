"""Gradients of several microbatches, in each way that they cross processes."""

import pytest

from vgp.train.processes.launch import launch

FSDP = {"strategy": "fsdp"}
WAYS = {
    "ddp": ({}, True),
    "fsdp": (FSDP, True),
    "fsdp that has no room": (FSDP, False),
    "exact": ({"exact": True}, True),
}


def test_a_sharded_transformer_is_gathered_once_a_step_and_every_way_has_the_gradients_of_a_plain_one():
    """Two blocks and the rest are gathered; without room for all, the blocks twice and the rest once a microbatch."""
    results = launch("accumulated:added", WAYS, nproc=2)
    expected = results.pop("plain")
    for name, result in results.items():
        for parameter, values in result["grads"].items():
            assert values == pytest.approx(expected[parameter], rel=1e-3, abs=1e-6), (name, parameter)
    roomy, tight = results["fsdp"], results["fsdp that has no room"]
    assert roomy["grads"] == tight["grads"]
    assert roomy["messages"] == {"_allgather_base_": 3, "_reduce_scatter_base_": 3}
    assert tight["messages"] == {"_allgather_base_": 4 * (2 * 2 + 1), "_reduce_scatter_base_": 3}
