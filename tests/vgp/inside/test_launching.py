"""The launching text starts, watches and ends real processes, as a shell in an image starts it."""

import ast
import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from pathlib import Path

import pytest

from vgp.inside import launching

TEXT = Path(launching.__file__).read_text()
SHELL = ["sh", "-c", 'exec "$(command -v python3 || command -v python)" -c "$0" "$@"', TEXT]
#: What may come from the machine that runs the tests.
OURS = ("TRAINING_", "CLUSTER_SPEC", "AIP_", "RANK", "WORLD_SIZE", "MASTER_", "CUDA_VISIBLE")
#: A process of the command: python, and its text.
Script = list[str]


def script(text: str, *words: str) -> Script:
    return [sys.executable, "-S", "-c", text, *words]


def spec(type_: str = "workerpool0", index: int = 0, **pools: list[str]) -> str:
    return json.dumps({"cluster": pools, "task": {"type": type_, "index": index}})


class Launcher:
    """Starts the text in a folder of its own, with `python3` found by its name."""

    def __init__(self, folder: Path):
        self.folder = folder
        path = folder / "bin"
        path.mkdir()
        (path / "python3").symlink_to(sys.executable)
        kept = {name: value for name, value in os.environ.items() if not name.startswith(OURS)}
        self.environment = {**kept, "PATH": f"{path}:/usr/bin:/bin"}
        self.started: list[subprocess.Popen[bytes]] = []

    def start(
        self, command: Script, launch: str = "plain", *, options: Script | None = None, **variables: object
    ) -> subprocess.Popen[bytes]:
        folder = str(self.folder)
        words = [
            "--data",
            f"{folder}/data",
            "--model",
            f"{folder}/model",
            "--checkpoints",
            f"{folder}/train/out",
        ]
        child = subprocess.Popen(
            [*SHELL, "--launch", launch, *words, "--pins", "p", "--key", "k", *(options or []), "--", *command],
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, cwd=folder,
            env=self.environment | {name: str(value) for name, value in variables.items()},
        )  # fmt: skip
        self.started.append(child)
        return child

    def run(
        self, command: Script, launch: str = "plain", *, options: Script | None = None, **variables: object
    ) -> tuple[int, str, str]:
        child = self.start(command, launch, options=options, **variables)
        out, err = child.communicate(timeout=60)
        return child.returncode, out.decode(errors="replace"), err.decode(errors="replace")

    def left(self) -> dict[str, object]:
        return dict(json.loads((self.folder / "train/out/script.json").read_text()))


@pytest.fixture
def launcher(tmp_path: Path) -> Iterator[Launcher]:
    launcher = Launcher(tmp_path)
    yield launcher
    for child in launcher.started:
        with suppress(ProcessLookupError):
            child.kill()
        child.communicate()


def waited(condition: Callable[[], object], seconds: float = 10) -> bool:
    end = time.monotonic() + seconds
    while time.monotonic() < end and not condition():
        time.sleep(0.02)
    return bool(condition())


def runs(pid: int) -> bool:
    """Whether it does; a zombie does not."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


def ranks(launch: str, **environment: str) -> list[launching.Rank]:
    """The processes that a launcher would start."""
    nodes = launching.cluster(environment)
    return [rank for node in nodes for rank in launching.ranks_of(node, launch, nodes, environment)]


def test_the_text_is_python_3_8_and_of_the_standard_library_alone() -> None:
    tree = ast.parse(TEXT, feature_version=(3, 8))
    modules = {node.module for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)}
    modules |= {alias.name for node in ast.walk(tree) if isinstance(node, ast.Import) for alias in node.names}
    assert {str(module).partition(".")[0] for module in modules} <= set(sys.stdlib_module_names)
    assert len(TEXT) < 100_000, "one argument of a command may have 128 KiB"
    assert "{{$" not in TEXT, "Vertex AI and kfp would replace it"


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
    node = launching.Node(spec("workerpool3", workerpool0=["a:1"], workerpool1=["b:1"], workerpool3=["c:1"]))
    assert json.loads(node.tf_config()) == {
        "cluster": {"chief": ["a:1"], "worker": ["b:1"]},
        "task": {"type": "evaluator", "index": 0},
    }


def test_a_single_node_is_a_worker_for_tensorflow() -> None:
    [rank] = ranks("tensorflow", CLUSTER_SPEC=spec(workerpool0=["host:2222"]))
    config = json.loads(rank.variables["TF_CONFIG"])
    assert config == {"cluster": {"worker": ["host:2222"]}, "task": {"type": "worker", "index": 0}}


def test_jax_is_told_of_its_coordinator_and_numbers_in_a_form_it_reads() -> None:
    cluster = {"workerpool0": ["[fd00::1]:2222"], "workerpool1": ["[fd00::2]:2222"]}
    [rank] = ranks("jax", CLUSTER_SPEC=spec("workerpool1", **cluster))
    values = rank.variables
    assert values["JAX_COORDINATOR_ADDRESS"] == "[fd00::1]:2222"
    assert (values["JAX_NUM_PROCESSES"], values["JAX_PROCESS_ID"]) == ("2", "1")
    assert (values["OMPI_COMM_WORLD_SIZE"], values["OMPI_COMM_WORLD_RANK"]) == ("2", "1")
    assert values["OMPI_MCA_orte_hnp_uri"] == "0.0;tcp6://[fd00::1]:2222"


def test_a_role_that_a_launch_does_not_have_starts_nothing(capfd: pytest.CaptureFixture[str]) -> None:
    cluster = {"workerpool0": ["a:1"], "workerpool2": ["b:1"]}
    assert ranks("torchrun", CLUSTER_SPEC=spec("workerpool2", **cluster)) == []
    assert "ps 0 starts nothing: launch = 'torchrun' has no such role." in capfd.readouterr().err


def test_plain_tells_of_the_machines_in_the_words_of_xgboost_and_lightgbm() -> None:
    first, second = (rank.variables for rank in ranks("plain", TRAINING_NODES="2"))
    machines = [launching.host_and_port(machine) for machine in second["TRAINING_MACHINES"].split(",")]
    assert machines == [("127.0.0.1", int(first["TRAINING_PORT"])), ("127.0.0.1", int(second["TRAINING_PORT"]))]
    assert second["DMLC_TRACKER_PORT"] == second["MASTER_PORT"] == first["TRAINING_PORT"]
    assert (second["DMLC_TASK_ID"], second["DMLC_NUM_WORKER"], second["NODE_RANK"]) == ("1", "2", "1")


@pytest.mark.parametrize(
    "address, parts",
    [("host:2222", ("host", 2222)), ("host", ("host", 2222)), ("[::1]:5", ("::1", 5)), ("[::1]", ("::1", 2222))],
)
def test_a_host_may_have_a_port_or_be_of_ipv6(address: str, parts: tuple[str, int]) -> None:
    assert launching.host_and_port(address) == parts


def test_folders_and_words_are_those_of_this_machine(launcher: Launcher) -> None:
    text = "import os, json, sys; print(json.dumps(dict(os.environ, ARGV=sys.argv[1:])))"
    words = [
        "{data}",
        "{model}/x",
        "{nodes}{node}{processes}",
        "{other} {}",
        "{checkpoints}",
        "{logs}",
        "{epochs}{who}",
    ]
    options = ["--number", "epochs=3.0", "--text", "who={nodes}=a b"]
    code, out, err = launcher.run(script(text, *words), options=options, TRAINING_CHECKPOINTS=launcher.folder / "kept")
    values, folder = json.loads(out), str(launcher.folder)
    kept = values["AIP_CHECKPOINT_DIR"].rstrip("/")
    assert (code, err) == (0, "")
    assert values["AIP_MODEL_DIR"] == f"{folder}/model/" and values["TRAINING_DATA"] == f"{folder}/data"
    assert Path(kept).parent == launcher.folder / "kept" and Path(kept).name.startswith("train-")
    assert values["ARGV"] == [
        f"{folder}/data",
        f"{folder}/model/x",
        "101",
        "{other} {}",
        kept,
        f"{kept}-logs",
        "3{nodes}=a b",
    ]
    assert all(Path(place).is_dir() for place in (values["AIP_MODEL_DIR"], kept, f"{kept}-logs"))
    assert launcher.left() | {"seconds": 0, "command": []} == {
        "command": [], "launch": "plain", "nodes": 1, "processes": 1, "checkpoint_folder": kept, "seconds": 0,
        "exit_code": 0,
    }  # fmt: skip


def folders(run: str, key: str = "k", pins: str = "p", task: str = "-45678901234") -> launching.Folders:
    output = f"gs://bucket/root/123456789/{run}/train_{task}/checkpoints"
    words = ["--data", "gs://b/data", "--model", "/gcs/b/model/", "--checkpoints", output, "--key", key, "--pins", pins]
    return launching.Folders(launching.parsed([*words, "--", "x"])[0], {"CLUSTER_SPEC": "{}"})


def test_on_vertex_folders_are_gs_and_every_attempt_finds_the_same_checkpoints() -> None:
    first = folders("training-f00")
    kept = first.variables["AIP_CHECKPOINT_DIR"]
    assert kept.startswith("gs://bucket/root/checkpoints/train-") and kept.endswith("/")
    assert first.variables["AIP_MODEL_DIR"] == "gs://b/model/" and first.paths["model"] == "/gcs/b/model"
    assert first.variables["AIP_TENSORBOARD_LOG_DIR"] == f"{kept.rstrip('/')}-logs/"
    assert first.output == "/gcs/bucket/root/123456789/training-f00/train_-45678901234/checkpoints"
    same = folders("training-f00-a3", task="99999999").variables["AIP_CHECKPOINT_DIR"]
    assert same == kept
    others = [folders("training-f01"), folders("training-f00", key="other"), folders("training-f00", pins="q")]
    assert len({other.variables["AIP_CHECKPOINT_DIR"] for other in others} | {kept}) == 4


@pytest.mark.parametrize(
    "command, variables, sentence",
    [
        (["no-such-program"], {}, "the command 'no-such-program' is not there"),
        (["true"], {"TRAINING_NODES": "two"}, "TRAINING_NODES='two': write a whole number from 1 on"),
        (["true"], {"TRAINING_NPROC": "0"}, "TRAINING_NPROC='0'"),
        (["true"], {"CLUSTER_SPEC": '{"cluster": {}}'}, "CLUSTER_SPEC cannot be read (KeyError: 'task')"),
        (["true"], {"CLUSTER_SPEC": spec(index=1, workerpool0=["a:1"])}, "there is no task 1 of workerpool0"),
        ([], {}, "no command is given"),
    ],
)
def test_a_wrong_request_is_one_sentence_before_anything_starts(
    launcher: Launcher, command: Script, variables: Mapping[str, str], sentence: str
) -> None:
    code, out, err = launcher.run(command, "torchrun", **variables)
    assert (code, out) == (2, "") and sentence in err and "Traceback" not in err
    assert not (launcher.folder / "model").exists()


def test_a_script_without_a_first_line_is_named_with_its_cure(launcher: Launcher) -> None:
    text = launcher.folder / "train.sh"
    text.write_text("echo hello\n")
    text.chmod(0o755)
    code, _, err = launcher.run([str(text)])
    assert code == 2 and 'it has no first line "#!..."; write ["sh", ...]' in err


def test_the_first_to_fail_is_named_ends_the_others_and_gives_the_exit_code(launcher: Launcher) -> None:
    text = """
import os, sys, time
rank = int(os.environ["RANK"])
if rank == 1:
    print("before")
    sys.stderr.write("[rank1]: Traceback (most recent call last)\\n  ...\\nValueError: bad row 17\\n")
    sys.stderr.flush()
    open("raised", "w")
    time.sleep(0.3)  # torch closes its sockets before the process has ended
    sys.exit(7)
while rank == 2 or not os.path.exists("raised"):
    time.sleep(0.02)
sys.stderr.write("Traceback (most recent call last)\\nConnectionError: peer\\n")
sys.exit(3)
"""
    code, out, err = launcher.run(script(text), "torchrun", TRAINING_NPROC=3)
    assert code == 7
    assert out == "[rank 1] before\n" and "[rank 1] ValueError: bad row 17\n" in err
    assert "launch: rank 1 failed with exit code 7; its last lines:\n    before\n" in err
    assert err.count("    ValueError: bad row 17") == 1
    assert launcher.left()["exit_code"] == 7


def test_a_killed_process_is_named_and_gives_128_and_its_signal(launcher: Launcher) -> None:
    text = "import os, signal; os.kill(os.getpid(), signal.SIGKILL)"
    code, _, err = launcher.run(script(text))
    assert code == 137 and "node 0 was killed by SIGKILL (often: out of memory)." in err


def test_one_that_ends_early_ends_nobody_else(launcher: Launcher) -> None:
    text = "import os, time; time.sleep(0.6 * (os.environ['RANK'] == '1')); print('done')"
    code, out, _ = launcher.run(script(text), "torchrun", TRAINING_NPROC=2)
    assert (code, out) == (0, "done\n[rank 1] done\n")


def test_servers_end_with_their_chief_and_the_job_is_done(launcher: Launcher) -> None:
    text = "import os, time; time.sleep(0.3 if '\"chief\"' in os.environ['TF_CONFIG'].partition('task')[2] else 600)"
    begin = time.monotonic()
    code, _, err = launcher.run(script(text), "tensorflow", TRAINING_NODES=2, TRAINING_PARAMETER_SERVERS=1)
    assert (code, err) == (0, "") and time.monotonic() - begin < 5


def test_a_server_that_fails_fails_the_job(launcher: Launcher) -> None:
    text = "import os, time, sys; sys.exit(4) if '\"ps\", \"index\"' in os.environ['TF_CONFIG'] else time.sleep(600)"
    code, _, err = launcher.run(script(text), "tensorflow", TRAINING_PARAMETER_SERVERS=1)
    assert code == 4 and "ps 0 failed with exit code 4" in err


STUBBORN = """
import signal, time
signal.signal(signal.SIGTERM, signal.SIG_IGN)
signal.signal(signal.SIGINT, signal.SIG_IGN)
print("up", flush=True)
time.sleep(600)
"""


def test_a_stop_is_passed_on_and_is_no_success(launcher: Launcher) -> None:
    text = """
import signal, sys, time
signal.signal(signal.SIGTERM, lambda *_: (print("saved"), sys.exit(0)))
print("up", flush=True)
time.sleep(600)
"""
    child = launcher.start(script(text))
    assert child.stdout and child.stdout.readline() == b"up\n"
    child.send_signal(signal.SIGTERM)
    out, err = child.communicate(timeout=10)
    assert (child.returncode, out) == (143, b"saved\n") and b"stopped by SIGTERM." in err


def test_a_second_signal_kills_at_once_but_not_one_that_came_with_the_first(launcher: Launcher) -> None:
    child = launcher.start(script(STUBBORN))
    assert child.stdout and child.stdout.readline() == b"up\n"
    child.send_signal(signal.SIGTERM)
    time.sleep(0.05)
    child.send_signal(signal.SIGTERM)
    time.sleep(0.5)
    assert child.poll() is None
    child.send_signal(signal.SIGTERM)
    _, err = child.communicate(timeout=5)
    assert child.returncode == 143 and b"stopped by SIGTERM; killed, since it went on: node 0." in err


def test_a_port_that_is_taken_is_named(launcher: Launcher) -> None:
    with socket.create_server(("", 0)) as server:
        port = server.getsockname()[1]
        code, _, err = launcher.run(["true"], CLUSTER_SPEC=spec(workerpool0=[f"127.0.0.1:{port}"]))
    assert code == 0 and f"port {port} of this machine, at which the processes would meet, is taken" in err


def test_who_ignores_a_stop_is_killed_before_vertex_does_it(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    assert 20 <= launching.STOP_S < 30
    text = TEXT.replace(f"STOP_S = {launching.STOP_S}", "STOP_S = 0.5")
    launcher = Launcher(tmp_path)
    monkeypatch.setitem(globals(), "SHELL", [*SHELL[:3], text])
    child = launcher.start(script(STUBBORN))
    assert child.stdout and child.stdout.readline() == b"up\n"
    child.send_signal(signal.SIGTERM)
    child.communicate(timeout=5)
    assert child.returncode == 143


def test_a_program_that_a_shell_waits_for_is_stopped_too(launcher: Launcher) -> None:
    text = "import signal, sys, time; signal.signal(signal.SIGTERM, lambda *_: (print('saved'), sys.exit(0))); "
    text += "print('up', flush=True); time.sleep(600)"
    child = launcher.start(["sh", "-c", f'{sys.executable} -S -c "{text}"; echo after'])
    assert child.stdout and child.stdout.readline() == b"up\n"
    child.send_signal(signal.SIGTERM)
    out, _ = child.communicate(timeout=10)
    assert child.returncode == 143 and b"saved\n" in out


def test_children_of_a_process_end_with_it_and_do_not_hold_the_job(launcher: Launcher) -> None:
    text = "import subprocess, sys; print(subprocess.Popen(['sleep', '600']).pid); sys.exit(5)"
    begin = time.monotonic()
    code, out, _ = launcher.run(script(text))
    assert code == 5 and time.monotonic() - begin < 6 and not runs(int(out))


def test_a_killed_launcher_takes_its_processes_and_theirs_with_it(launcher: Launcher) -> None:
    text = "import os, subprocess, time; print(os.getpid(), subprocess.Popen(['sleep', '600']).pid, flush=True); "
    text += "time.sleep(600)"
    child = launcher.start(script(text))
    assert child.stdout
    pids = list(map(int, child.stdout.readline().split()))
    assert all(map(runs, pids))
    child.kill()
    assert waited(lambda: not any(map(runs, pids)), 5)
    child.communicate(timeout=5)  # nobody holds its output


def test_output_is_whole_whatever_it_is(launcher: Launcher) -> None:
    text = """
import os
if os.environ["RANK"] == "0":
    os.write(1, b"x" * 2_000_000)
    os.write(2, bytes(range(256)) * 40)
else:
    for number in range(3000):
        print("line", number)
    print("unfinished", end="")
"""
    code, out, err = launcher.run(script(text), "torchrun", TRAINING_NPROC=2)
    assert code == 0 and out.count("x") == 2_000_000
    assert [line for line in out.replace("x", "").splitlines() if line] == [
        *(f"[rank 1] line {number}" for number in range(3000)), "[rank 1] unfinished",
    ]  # fmt: skip
    assert "ABC" in err


def test_the_last_bytes_of_one_process_pass_as_they_are(launcher: Launcher) -> None:
    child = launcher.start(script("import os; os.write(1, bytes(range(256)) * 4000 + b'end')"))
    out, _ = child.communicate(timeout=20)
    assert out == bytes(range(256)) * 4000 + b"end"


def test_a_reader_that_goes_away_stops_nothing(launcher: Launcher) -> None:
    text = "import time\nfor _ in range(20): print('x' * 9999, flush=True); time.sleep(0.01)\nopen('done', 'w')"
    child = launcher.start(script(text))
    assert child.stdout
    child.stdout.close()
    child.stdout = None
    assert child.wait(timeout=20) == 0 and (launcher.folder / "done").exists()


def test_a_reader_that_reads_slowly_loses_nothing(launcher: Launcher) -> None:
    child = launcher.start(script("import os\nfor _ in range(40): os.write(1, b'x' * 9999 + b'\\n')"))
    assert child.stdout
    time.sleep(0.5)
    assert child.stdout.read() == (b"x" * 9999 + b"\n") * 40 and child.wait(timeout=10) == 0


def test_gpus_are_counted_without_torch_as_cuda_would_show_them(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(launching, "gpus_present", lambda: 4)
    visible = {None: 4, "": 0, "-1": 0, "0,1": 2, "0,-1,1": 1, "GPU-8932f937": 1, "2, 3": 2, "0,1,2,3,4": 4}
    for text, count in visible.items():
        assert len(launching.gpus({} if text is None else {"CUDA_VISIBLE_DEVICES": text})) == count, text


def test_nodes_on_one_machine_share_its_gpus(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(launching, "gpus_present", lambda: 4)
    shown = [rank.variables["CUDA_VISIBLE_DEVICES"] for rank in ranks("torchrun", TRAINING_NODES="2")]
    assert shown == ["0,1", "0,1", "2,3", "2,3"]
    with pytest.raises(launching.Mistake, match="TRAINING_NPROC=3, but a node has 2 GPUs"):
        ranks("torchrun", TRAINING_NODES="2", TRAINING_NPROC="3")
