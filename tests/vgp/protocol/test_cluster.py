import json

import pytest

from vgp.base.exits import UserError
from vgp.protocol.cluster import cluster, gpu_count, process_count, started_by_torchrun

POOLS = {
    "workerpool0": ["chief-0:2222"],
    "workerpool1": ["worker-0:2222", "worker-1:2222"],
    "workerpool2": ["reducer-0:2222", "reducer-1:2222"],
    "workerpool3": ["evaluator-0:2222"],
}


def place(kind, index, pools=POOLS):
    return cluster({"CLUSTER_SPEC": json.dumps({"cluster": pools, "task": {"type": kind, "index": index}})})


@pytest.mark.parametrize(
    ("kind", "index", "node", "host"),
    [("workerpool0", 0, 0, "chief-0"), ("workerpool1", 0, 1, "worker-0"), ("workerpool1", 1, 2, "worker-1")],
)
def test_chief_and_workers_become_nodes_in_order(kind, index, node, host):
    found = place(kind, index)
    assert (found.nodes, found.node, found.host, found.trains) == (3, node, host, True)
    assert (found.chief, found.port) == ("chief-0", 2222)


@pytest.mark.parametrize("kind", ["workerpool2", "workerpool3"])
def test_servers_and_evaluators_do_not_train(kind):
    assert not place(kind, 0).trains


def test_a_single_replica_is_one_node():
    assert place("workerpool0", 0, {"workerpool0": ["only:2222"]}).nodes == 1


def test_without_a_cluster_specification_there_is_one_node():
    assert cluster({}).nodes == 1


@pytest.mark.parametrize("text", ["{", "[]", "{}", '{"cluster": {}, "task": {}}', '{"cluster": 3, "task": 4}'])
def test_an_unreadable_specification_is_refused(text):
    with pytest.raises(UserError, match="CLUSTER_SPEC cannot be read"):
        cluster({"CLUSTER_SPEC": text})


def test_only_a_local_rank_means_torchrun():
    per_machine = {"RANK": "0", "WORLD_SIZE": "2", "MASTER_ADDR": "a", "MASTER_PORT": "1"}
    assert not started_by_torchrun(per_machine)
    assert started_by_torchrun({**per_machine, "LOCAL_RANK": "0"})


def test_the_argument_comes_before_the_environment_and_one_is_the_default(monkeypatch):
    monkeypatch.setattr("vgp.protocol.cluster._count_with_nvml", lambda: 0)
    assert process_count(3, {"TRAINING_NPROC": "2"}) == 3
    assert process_count(None, {"TRAINING_NPROC": "2"}) == 2
    assert process_count(None, {}) == 1


def test_each_gpu_gets_one_process_and_no_more(monkeypatch):
    monkeypatch.setattr("vgp.protocol.cluster._count_with_nvml", lambda: 8)
    assert process_count(None, {}) == 8
    assert process_count(2, {}) == 2
    assert gpu_count({"CUDA_VISIBLE_DEVICES": "1,3"}) == 2
    assert gpu_count({"CUDA_VISIBLE_DEVICES": ""}) == 0
    with pytest.raises(UserError, match="nproc=9, but this machine has 8 GPUs"):
        process_count(9, {})


@pytest.mark.parametrize(("given", "message"), [("zero", "not a whole number"), ("0", "at least 1 process")])
def test_a_wrong_number_in_the_environment_is_named(given, message):
    with pytest.raises(UserError, match=f"TRAINING_NPROC=.*{message}"):
        process_count(None, {"TRAINING_NPROC": given})
