"""Each framework finds what it expects in the environment of its processes."""

import json

from vgp.protocol.launching.machines import Node, host_and_port
from vgp.protocol.launching.ranks import tensorflow_variables

from .conftest import ranks, spec


def test_torchrun_starts_each_process_of_each_node_with_torchruns_variables() -> None:
    processes = ranks("torchrun", TRAINING_NODES="2", TRAINING_NPROC="2")
    variables = [rank.variables for rank in processes]
    assert [(v["RANK"], v["LOCAL_RANK"], v["GROUP_RANK"]) for v in variables] == [
        ("0", "0", "0"), ("1", "1", "0"), ("2", "0", "1"), ("3", "1", "1"),
    ]  # fmt: skip
    assert {(v["WORLD_SIZE"], v["LOCAL_WORLD_SIZE"], v["MASTER_ADDR"]) for v in variables} == {("4", "2", "127.0.0.1")}
    assert len({v["MASTER_PORT"] for v in variables}) == 1
    assert all("TORCHELASTIC_RUN_ID" in v and int(v["OMP_NUM_THREADS"]) >= 1 for v in variables)
    tasks = [json.loads(rank.node.text)["task"] for rank in processes]
    assert [task["type"] for task in tasks] == ["workerpool0"] * 2 + ["workerpool1"] * 2
    [alone] = ranks("torchrun")
    assert alone.variables["WORLD_SIZE"] == "1" and "OMP_NUM_THREADS" not in alone.variables


def test_on_vertex_the_ranks_of_a_replica_are_counted_from_its_place_in_the_cluster() -> None:
    cluster = {"workerpool0": ["c:2222"], "workerpool1": ["a:2222", "b:2222"]}
    second = ranks("torchrun", CLUSTER_SPEC=spec("workerpool1", 1, **cluster), TRAINING_NPROC="2")
    assert [rank.variables["RANK"] for rank in second] == ["4", "5"] and second[0].variables["WORLD_SIZE"] == "6"
    assert (second[0].variables["MASTER_ADDR"], second[0].variables["MASTER_PORT"]) == ("c", "2222")


def test_tensorflow_gets_chief_workers_and_servers_as_on_vertex() -> None:
    processes = ranks("tensorflow", TRAINING_NODES="3", TRAINING_PARAMETER_SERVERS="1")
    configs = [json.loads(rank.variables["TF_CONFIG"]) for rank in processes]
    tasks = sorted((config["task"]["type"], config["task"]["index"]) for config in configs)
    assert tasks == [("chief", 0), ("ps", 0), ("worker", 0), ("worker", 1)]
    assert {name: len(hosts) for name, hosts in configs[0]["cluster"].items()} == {"chief": 1, "worker": 2, "ps": 1}
    assert all(config["cluster"] == configs[0]["cluster"] for config in configs)


def test_an_evaluator_has_its_role_but_is_no_part_of_the_cluster() -> None:
    node = Node(spec("workerpool3", workerpool0=["a:1"], workerpool1=["b:1"], workerpool3=["c:1"]))
    assert json.loads(tensorflow_variables(node)["TF_CONFIG"]) == {
        "cluster": {"chief": ["a:1"], "worker": ["b:1"]},
        "task": {"type": "evaluator", "index": 0},
    }


def test_a_single_node_is_a_worker_for_tensorflow() -> None:
    [rank] = ranks("tensorflow", CLUSTER_SPEC=spec(workerpool0=["host:2222"]))
    config = json.loads(rank.variables["TF_CONFIG"])
    assert config == {"cluster": {"worker": ["host:2222"]}, "task": {"type": "worker", "index": 0}}


def test_jax_gets_its_coordinator_and_numbers_in_a_form_it_reads() -> None:
    cluster = {"workerpool0": ["[fd00::1]:2222"], "workerpool1": ["[fd00::2]:2222"]}
    [rank] = ranks("jax", CLUSTER_SPEC=spec("workerpool1", **cluster))
    values = rank.variables
    assert values["JAX_COORDINATOR_ADDRESS"] == "[fd00::1]:2222"
    assert (values["JAX_NUM_PROCESSES"], values["JAX_PROCESS_ID"]) == ("2", "1")
    assert (values["OMPI_COMM_WORLD_SIZE"], values["OMPI_COMM_WORLD_RANK"]) == ("2", "1")
    assert values["OMPI_MCA_orte_hnp_uri"] == "0.0;tcp6://[fd00::1]:2222"


def test_plain_names_the_machines_in_the_variables_of_xgboost_and_lightgbm() -> None:
    first, second = (rank.variables for rank in ranks("plain", TRAINING_NODES="2"))
    machines = [host_and_port(machine) for machine in second["TRAINING_MACHINES"].split(",")]
    assert machines == [("127.0.0.1", int(first["TRAINING_PORT"])), ("127.0.0.1", int(second["TRAINING_PORT"]))]
    assert second["DMLC_TRACKER_PORT"] == second["MASTER_PORT"] == first["TRAINING_PORT"]
    assert (second["DMLC_TASK_ID"], second["DMLC_NUM_WORKER"], second["NODE_RANK"]) == ("1", "2", "1")
