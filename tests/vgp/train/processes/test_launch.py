import json
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import psutil
import pytest
from helpers import warm

from tests.helpers.machines import await_launchers
from vgp.base.exits import Preempted, ProcessFailed, UserError
from vgp.train.processes.launch import launch


def test_every_process_takes_part_and_rank_0_answers():
    assert launch("launched:add_ranks", {"plus": 10}, nproc=2) == {"total": 21, "world_size": 2, "local_rank": 0}


def test_a_typed_argument_arrives_as_the_type_that_the_target_takes():
    import launched

    total = launch("launched:add_parts", launched.Parts(parts=(3, 4)), nproc=2)
    assert total == {"sum": 7, "type": "Parts", "frozen": True}
    with pytest.raises(ProcessFailed, match="1 validation error for Parts"):
        launch("launched:add_parts", {"plus": 3}, nproc=1)


def test_a_failing_rank_ends_all_and_its_traceback_is_shown_once(capfd):
    with pytest.raises(ProcessFailed) as caught:
        launch("launched:raising", {"who": 1}, nproc=3)
    text = str(caught.value)
    assert text.startswith(f"rank 1 of 3 on {socket.gethostname()} failed\nTraceback")
    assert text.endswith("ArithmeticError: one is not two")
    assert "vgp/train/processes/rank.py" not in text
    assert len(text.splitlines()) < 10
    shown = capfd.readouterr()
    assert "Traceback" not in shown.err + shown.out


def test_a_killed_rank_is_named_with_its_signal_and_last_words():
    with pytest.raises(ProcessFailed, match=r"rank 1 of 2 on .* was killed by SIGKILL.*last output:\nmy last words$"):
        launch("launched:killed", {}, nproc=2)


def test_a_rank_that_crashes_shows_where_and_not_which_libraries_it_had_loaded():
    with pytest.raises(
        ProcessFailed, match=r"(?s)was killed by SIGSEGV.*launched\.py\", line \d+ in crashing"
    ) as caught:
        launch("launched:crashing", {}, nproc=1)
    assert "Extension modules" not in str(caught.value)


def test_an_exit_code_is_kept_in_the_message():
    with pytest.raises(ProcessFailed, match="rank 1 of 2 on .* failed with exit code 41; it had no output"):
        launch("launched:exiting", {}, nproc=2)


def test_a_users_mistake_in_a_rank_stays_a_users_mistake():
    with pytest.raises(UserError, match="^the learning rate is a banana$"):
        launch("launched:mistaken", {}, nproc=2)


@pytest.mark.parametrize("count", [0, -2])
def test_a_number_of_processes_below_one_is_refused_at_once(count):
    with pytest.raises(UserError, match="at least 1 process"):
        launch("launched:add_ranks", {}, nproc=count)


def test_an_evaluator_of_the_cluster_does_not_become_a_rank():
    spec = {"cluster": {"workerpool0": ["a:1"], "workerpool3": ["e:1"]}, "task": {"type": "workerpool3", "index": 0}}
    assert launch("launched:raising", {}, environment={"CLUSTER_SPEC": json.dumps(spec)}) is None


SCRIPT = """
import sys
sys.path.insert(0, {here!r})
import warm
from vgp.base.exits import exits
from vgp.train.processes import launch
if {warm}:
    warm.install(launch)
exits(launch.launch)({target!r}, {argument!r}, nproc=2)
"""


def start(target, argument, *, is_warm=False):
    """The launch in a process of its own, as from a shell; a warm launcher is not that process's child."""
    shared = warm.shared() if is_warm else {}
    here = str(Path(__file__).parents[3] / "helpers")
    text = SCRIPT.format(here=here, target=target, argument=argument, warm=bool(shared))
    return subprocess.Popen([sys.executable, "-c", text], stderr=subprocess.PIPE, stdout=subprocess.DEVNULL, text=True,
                            env={**os.environ, **shared})  # fmt: skip


def wait_for_ranks(folder, count=2):
    deadline = time.monotonic() + 60
    while len(os.listdir(folder)) < count:
        assert time.monotonic() < deadline
        time.sleep(0.05)
    return [int(name) for name in os.listdir(folder) if name.isdigit()]


def gone(pids):
    """Whether the processes end within seconds."""
    return not psutil.wait_procs([psutil.Process(p) for p in pids if psutil.pid_exists(p)], timeout=60)[1]


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_request_to_stop_reaches_the_ranks_and_gives_the_resume_me_code(tmp_path, number):
    process = start("launched:pids", {"folder": str(tmp_path)}, is_warm=True)
    ranks = wait_for_ranks(tmp_path)
    process.send_signal(number)
    _, errors = process.communicate(timeout=120)
    assert process.returncode == 75
    assert errors.splitlines()[-1] == "stopped: asked to stop"
    assert gone(ranks)


@pytest.mark.parametrize("victim", ["caller", "launcher"])
def test_no_rank_outlives_a_killed_parent(tmp_path, victim):
    process = start("launched:pids", {"folder": str(tmp_path)}, is_warm=victim == "launcher")
    ranks = wait_for_ranks(tmp_path)
    launcher = psutil.Process(ranks[0]).parent()
    (psutil.Process(process.pid) if victim == "caller" else launcher).kill()
    assert gone([*ranks, launcher.pid])
    process.communicate(timeout=120)


@pytest.mark.parametrize("sent", [b"", b'{"target": "launched'])
def test_a_launcher_whose_caller_was_killed_before_it_asked_says_so(sent):
    command = [sys.executable, "-m", "vgp.train.processes.launcher", "1"]
    done = subprocess.run(command, input=sent, capture_output=True, timeout=120)
    assert done.returncode == 1
    assert done.stderr.startswith(b"stopped: ") and done.stderr.count(b"\n") == 1


def test_a_stop_before_the_ranks_run_is_a_preemption(tmp_path):
    process = start("launched:pids", {"folder": str(tmp_path)})
    deadline = time.monotonic() + 30
    while not psutil.Process(process.pid).children() and time.monotonic() < deadline:
        time.sleep(0.01)
    time.sleep(0.3)
    process.terminate()
    _, errors = process.communicate(timeout=60)
    assert process.returncode == 75, errors


def test_torchruns_variables_make_this_process_a_rank():
    """As `torchrun --nproc-per-node 1` would set them; in a process of its own, since it keeps the group's state."""
    with socket.create_server(("127.0.0.1", 0)) as probe:
        port = probe.getsockname()[1]
    variables = {"RANK": "0", "LOCAL_RANK": "0", "WORLD_SIZE": "1", "LOCAL_WORLD_SIZE": "1",
                 "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port)}  # fmt: skip
    text = (
        f"import sys; sys.path.insert(0, {str(Path(__file__).parents[3] / 'helpers')!r})\n"
        "from vgp.train.processes.launch import launch\n"
        "print(launch('launched:add_ranks', {'plus': 5}))"
    )
    done = subprocess.run([sys.executable, "-c", text], env={**os.environ, **variables}, capture_output=True, text=True)
    assert done.stdout.strip() == "{'total': 5, 'world_size': 1, 'local_rank': 0}", done.stderr


def test_a_second_request_to_stop_ends_ranks_that_do_not_listen(tmp_path):
    process = start("launched:deaf", {"folder": str(tmp_path)}, is_warm=True)
    ranks = wait_for_ranks(tmp_path)
    launcher = psutil.Process(ranks[0]).parent()
    process.send_signal(signal.SIGSTOP)
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGCONT):  # of the same stop, as timeout(1) sends two
        process.send_signal(number)
    time.sleep(0.5)
    process.send_signal(signal.SIGTERM)  # as who takes a machine away may: it costs no save
    time.sleep(0.5)
    assert process.poll() is None and launcher.status() != psutil.STATUS_ZOMBIE
    until = time.monotonic() + 120
    while psutil.pid_exists(launcher.pid) and time.monotonic() < until:  # one that comes too early is of the same stop
        process.send_signal(signal.SIGINT)
        time.sleep(0.5)
    process.communicate(timeout=120)
    assert process.returncode == 75
    assert gone(ranks)


def test_a_caller_in_a_thread_can_launch():
    with ThreadPoolExecutor(1) as pool:
        assert pool.submit(launch, "launched:add_ranks", {"plus": 0}, nproc=1).result()["world_size"] == 1


def test_machines_of_a_cluster_form_one_group_and_the_chief_may_work_on_without_them(nodes, tmp_path):
    """They wait for it all the same: started again after a failure it needs them. One that is lost is not missed."""
    argument = {"plus": 1, "file": str(tmp_path / "alone")}
    processes = nodes("launched:add_ranks_then_work_alone", argument, 3, lost_after_s=3.5)
    wait_for_ranks(tmp_path, 1)
    await_launchers(processes[0].chief, 3, "left", first=1)
    assert [process.poll() for process in processes] == [None] * 3
    processes[2].kill()
    time.sleep(4)  # for so long that it would be missed, were it still needed
    (tmp_path / "alone").unlink()
    outcomes = [process.communicate(timeout=120) for process in processes]
    assert outcomes[0][0].strip() == "value {'total': 6, 'world_size': 3, 'local_rank': 0}"
    assert outcomes[1][0].strip() == "value None"
    assert [err for _, err in outcomes] == [""] * 3
    assert [process.returncode for process in processes] == [0, 0, -signal.SIGKILL]


def test_a_failure_on_one_machine_ends_all_and_its_traceback_is_in_one_log(nodes):
    processes = nodes("launched:raising", {"who": 1})
    (_, chief), (_, worker) = [process.communicate(timeout=60) for process in processes]
    assert [process.returncode for process in processes] == [1, 1]
    assert worker.startswith("failed: rank 1 of 2 on 127.0.0.2 failed\nTraceback")
    facts = ("failed: 127.0.0.1 stops", "rank 1 of 2 on 127.0.0.2", "ArithmeticError: one is not two")
    assert all(fact in chief for fact in facts) and len(chief.splitlines()) == 1


def test_a_lost_machine_ends_the_others_and_is_named(tmp_path, nodes):
    processes = nodes("launched:waiting", {"folder": str(tmp_path)})
    wait_for_ranks(tmp_path)
    await_launchers(processes[0].chief, 2)
    processes[1].kill()
    _, chief = processes[0].communicate(timeout=60)
    assert processes[0].returncode == 75  # it is started again, here or elsewhere
    assert chief.startswith("stopped: 127.0.0.1") and "127.0.0.2 is gone" in chief and chief.count("\n") == 1
    processes[1].communicate()


def test_a_first_machine_that_is_lost_while_ranks_meet_at_its_store_ends_the_others(tmp_path, nodes):
    processes = nodes("launched:meeting", {"folder": str(tmp_path)})
    wait_for_ranks(tmp_path)
    await_launchers(processes[0].chief, 2)
    processes[0].kill()
    _, said = processes[1].communicate(timeout=60)
    assert processes[1].returncode == 75, said
    assert said.startswith("stopped: 127.0.0.2") and "127.0.0.1 is gone" in said and said.count("\n") == 1
    processes[0].communicate()


def test_a_first_machine_that_never_comes_is_waited_for_so_long_and_no_longer(tmp_path, nodes):
    """Nothing is wrong with the work, which goes on elsewhere: 75, in a sentence."""
    processes = nodes("launched:waiting", {"folder": str(tmp_path)}, rendezvous_timeout_s=2)
    processes[0].kill()
    _, said = processes[1].communicate(timeout=60)
    assert processes[1].returncode == 75, said
    facts = ("stopped: the chief 127.0.0.1", "within 2 s", "rendezvous_timeout_s", "Connection refused\n")
    assert all(fact in said for fact in facts) and said.count("\n") == 1
    processes[0].communicate()


class Taken:
    """A condition that is lost at the first question."""

    loss = "the folder is another's now"

    def on_loss(self, end):
        end()


def test_processes_whose_condition_is_lost_are_ended_at_once_and_it_is_said_why():
    with pytest.raises(ProcessFailed, match="the folder is another's now"):
        launch("launched:deaf", {}, nproc=2, condition=Taken())


class Asked:
    """A notice that comes at once, and again."""

    def on_stop(self, stop):
        stop()
        threading.Timer(0.5, stop).start()


def test_a_notice_asks_to_stop_as_a_signal_does_and_never_kills(tmp_path):
    """Also in a thread, where no signal could be caught."""
    with ThreadPoolExecutor(1) as pool, pytest.raises(Preempted):
        pool.submit(launch, "launched:pids", {"folder": str(tmp_path)}, nproc=1, notice=Asked()).result()
