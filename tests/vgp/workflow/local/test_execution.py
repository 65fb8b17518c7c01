"""Local runs, through the real kfp.local in a real child process."""

import json
import os
import signal
import site
import subprocess
import sys
import time
import venv
from pathlib import Path
from typing import Any

import pytest

from vgp.base.errors import RequestError
from vgp.check.spec.pipeline_spec import PipelineSpec
from vgp.settings import find_repository
from vgp.workflow.local import local_folder as folders
from vgp.workflow.local import local_run, worker
from vgp.workflow.local.local_folder import Run
from vgp.workflow.local.local_run import Result, execute_run, resume_run
from vgp.workflow.local.process import Event
from vgp.workflow.local.proof import prove

SMALL = Path(__file__).parents[2] / "small" / "pipelines.toml"
REPOSITORY = find_repository(SMALL)


def execute(folder: Path, spec: dict[str, Any], **arguments: Any) -> tuple[Run, list[Any], list[Event]]:
    if not folder.exists():
        write_run(folder, spec, arguments)
    run = Run(folder, spec["pipelineInfo"]["name"], arguments, REPOSITORY)
    events: list[Event] = []
    steps = local_run._execute(run, events.append)
    return run, steps, events


def write_run(folder: Path, spec: dict[str, Any], arguments: dict[str, Any]) -> None:
    folder.mkdir(parents=True)
    (folder / "pipeline.json").write_text(json.dumps(spec))
    request = {"workflow": spec["pipelineInfo"]["name"], "arguments": arguments}
    (folder / "request.json").write_text(json.dumps(request))


def states(steps: list[Any]) -> dict[str, str]:
    return {step.name: step.state for step in steps}


def alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().split(") ")[1][0] != "Z"
    except OSError:
        return False


def wait_for(path: Path, seconds: float = 120) -> str:
    deadline = time.monotonic() + seconds
    while not path.exists():
        assert time.monotonic() < deadline, f"{path} did not appear"
        time.sleep(0.05)
    return path.read_text()


@pytest.fixture(scope="module")
def branched(tmp_path_factory: pytest.TempPathFactory, branching: dict[str, Any]) -> tuple[Run, list[Any], list[Event]]:
    """A run of a pipeline that is called as one of its components is."""
    named_alike = {**branching, "pipelineInfo": {**branching["pipelineInfo"], "name": "flip"}}
    return execute(tmp_path_factory.mktemp("branched") / "run", named_alike)


def test_every_task_is_proven_with_its_outputs(branched: tuple[Run, list[Any], list[Event]]) -> None:
    """Though kfp.local would take the pipeline for the component of its name, and run that step alone."""
    run, steps, events = branched
    assert states(steps) == {
        "flip": "succeeded",
        "say-2": "succeeded",
        "say-3": "skipped",
        "say-4": "skipped",
        "say": "succeeded",
        "for-loop-7-iteration-0/flip-2": "succeeded",
        "for-loop-7-iteration-1/flip-2": "succeeded",
    }
    assert not run.failed
    assert next(step for step in steps if step.name == "flip").parameters == {"Output": "heads"}
    assert any(event.kind == "line" and event.text.strip() == 'they say it\'s "heads"' for event in events)


def test_the_other_branch_is_proven_with_other_arguments(tmp_path: Path, branching: dict[str, Any]) -> None:
    _, steps, _ = execute(tmp_path / "run", branching, side="tails", times=9)
    found = states(steps)
    assert (found["say-2"], found["say-3"], found["say-4"]) == ("skipped", "succeeded", "skipped")


def test_a_task_that_kfp_silently_skips_is_missing(tmp_path: Path, skipping: dict[str, Any]) -> None:
    run, steps, _ = execute(tmp_path / "run", skipping)
    assert not run.failed, "kfp.local reports success"
    assert states(steps) == {"score": "succeeded", "register": "missing"}
    assert "'pipelinechannel--score-auc'] > 0.5" in steps[1].why


def test_a_failing_step_is_named_with_its_last_words(tmp_path: Path, failing: dict[str, Any]) -> None:
    run, steps, events = execute(tmp_path / "run", failing)
    assert run.failed == "broken"
    assert run.last_lines[-1] == "error: the disk is full"
    assert [event.kind for event in events if event.kind != "line"] == ["started", "failed"]
    assert states(steps)["after"] == "missing"


def test_a_second_start_reuses_the_steps_that_were_done(
    branched: tuple[Run, list[Any], list[Event]], branching: dict[str, Any]
) -> None:
    named_alike = {**branching, "pipelineInfo": {**branching["pipelineInfo"], "name": "flip"}}
    _, steps, events = execute(branched[0].folder, named_alike)
    assert states(steps)["flip"] == "reused"
    assert not [event for event in events if event.kind == "started"]


@pytest.fixture(scope="module")
def night(tmp_path_factory: pytest.TempPathFactory, nightly: dict[str, Any]) -> tuple[Run, list[Any], list[Event]]:
    """A run whose last step fails, within an exit handler."""
    folder = tmp_path_factory.mktemp("night")
    (folder / "data").write_text("one")
    (folder / "broken").touch()
    return execute(folder / "run", nightly, inputs=str(folder))


def test_the_exit_handler_runs_after_a_failed_step_which_stays_the_one_that_failed(
    night: tuple[Run, list[Any], list[Event]],
) -> None:
    run, steps, events = night
    assert [event.step for event in events if event.kind == "started"] == ["resolve", "work", "after", "notify"]
    assert (run.failed, run.last_lines) == ("after", [f"after {run.folder.parent}/one", "error: the disk is full"])
    rows = {row["step"]: row["state"] for row in Result(run, steps).as_json()["steps"]}
    assert rows == {"resolve": "succeeded", "work": "succeeded", "after": "failed", "notify": "succeeded"}
    assert steps[-1].parameters == {"Output": "FAILED"}, "the exit handler knows how the steps ended"


def test_a_run_that_is_resumed_goes_on_with_what_it_pinned_whatever_moved_meanwhile(
    night: tuple[Run, list[Any], list[Event]], nightly: dict[str, Any]
) -> None:
    before, _, _ = night
    inputs = before.folder.parent
    (inputs / "data").write_text("two")
    (inputs / "broken").unlink()
    result = execute_run(resume_run("nightly", before.folder, REPOSITORY), lambda event: None)
    assert result.steps[1].parameters == {"Output": f"{inputs}/one"}
    assert states(list(result.steps)) == {
        "resolve": "succeeded", "work": "reused", "after": "succeeded", "notify": "succeeded",
    }, "only what is pinned is taken from before"  # fmt: skip
    _, fresh, _ = execute(inputs / "fresh", nightly, inputs=str(inputs))
    assert set(states(fresh).values()) == {"succeeded"}, "another run has nothing to do with it"
    assert [step.parameters for step in fresh[:2]] == [{"uri": f"{inputs}/two"}, {"Output": f"{inputs}/two"}]


def test_what_nothing_pins_is_not_proven_by_an_earlier_start(tmp_path: Path, nightly: dict[str, Any]) -> None:
    (tmp_path / "steps" / "earlier" / "notify").mkdir(parents=True)
    (tmp_path / "steps" / "earlier" / "notify" / "executor_output.json").write_text("{}")
    steps = prove(PipelineSpec(nightly), {"inputs": ""}, [], [tmp_path / "steps" / "earlier"])
    assert states(steps)["notify"] == "missing"


COMMAND = """
import json, sys
from pathlib import Path
from vgp.workflow.local import local_run, process
from vgp.workflow.local.local_folder import Run
from vgp.settings import find_repository
folder, pids = Path(sys.argv[1]), sys.argv[2]
repository = find_repository(Path(sys.argv[3]))
try:
    local_run._execute(Run(folder, "sleeping", {"pids": pids}, repository), lambda event: None)
except process.Interrupted as stop:
    raise SystemExit(128 + stop.signal_number)
"""


@pytest.mark.parametrize(
    ("number", "code"),
    [(signal.SIGINT, 130), (signal.SIGQUIT, 131), (signal.SIGTERM, 143), (signal.SIGKILL, -signal.SIGKILL)],
)
def test_no_process_outlives_a_run_that_is_stopped(
    tmp_path: Path, sleeping: dict[str, Any], number: signal.Signals, code: int
) -> None:
    folder = tmp_path / "run"
    write_run(folder, sleeping, {"pids": str(tmp_path / "pids")})
    command = subprocess.Popen([sys.executable, "-c", COMMAND, str(folder), str(tmp_path / "pids"), str(SMALL)])
    pids = [int(pid) for pid in wait_for(tmp_path / "pids").split()]
    assert all(alive(pid) for pid in pids)
    os.kill(command.pid, number)
    assert command.wait(timeout=120) == code
    deadline = time.monotonic() + 120
    while any(alive(pid) for pid in pids):
        assert time.monotonic() < deadline, f"processes {pids} are still alive"
        time.sleep(0.05)


HUNG_UP = """
import os, signal
from vgp.workflow.local import process
signal.signal(signal.SIGHUP, signal.SIG_IGN)
with process.start_group(["sleep", "0.2"], {}) as child:
    os.kill(os.getpid(), signal.SIGHUP)
    raise SystemExit(child.wait())
"""


def test_a_hang_up_that_nohup_has_ignored_stays_ignored() -> None:
    assert subprocess.run([sys.executable, "-c", HUNG_UP]).returncode == 0


ODD = "my dir 'q' \"d\" $(touch pwned) `touch pwned`; python3 & \u00e9 \\ [bold]"
HERE = """
import json, sys
from pathlib import Path
from vgp.workflow.local import local_run
from vgp.workflow.local.local_folder import Run
from vgp.settings import find_repository
run = Run(Path(sys.argv[1]), "small", json.loads(sys.argv[2]), find_repository(Path(sys.argv[3])))
steps = local_run._execute(run, lambda event: None)
print(sys.prefix, *((step.name, step.state, dict(step.parameters)) for step in steps), sep="\\n")
"""


@pytest.fixture(scope="module")
def odd(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder that no shell takes without quotes, with an environment in it that has all that this one has."""
    folder = tmp_path_factory.mktemp("odd") / ODD
    venv.create(folder / ".venv", symlinks=True)
    (library,) = (folder / ".venv" / "lib").glob("python3*")
    (library / "site-packages" / "all.pth").write_text(
        "\n".join([str(Path(__file__).parents[4]), *site.getsitepackages()])
    )
    return folder


def test_the_folders_of_environment_run_and_data_may_have_any_name(odd: Path, small: dict[str, Any]) -> None:
    run, text = odd / "runs" / "python3", str(odd / "python3.csv")
    command = [str(odd / ".venv" / "bin" / "python"), "-c", HERE, str(run)]
    arguments = {"text": text, "things": {"python3": [text]}}
    write_run(run, small, arguments)
    done = subprocess.run([*command, json.dumps(arguments), str(SMALL)], capture_output=True, text=True, cwd=odd)
    assert done.returncode == 0, done.stderr
    prefix, *steps = done.stdout.splitlines()
    assert prefix == str(odd / ".venv")
    assert str(("show", "succeeded", {"Output": text})) in steps
    assert repr({"python3": [text]}) in (run / "log.txt").read_text()
    assert sorted(path.name for path in odd.iterdir()) == [".venv", "runs"], "nothing in the name was executed"


@pytest.mark.parametrize("text", ["x' or 'a'=='a", "go"])
def test_a_value_cannot_break_or_turn_a_branch(tmp_path: Path, small: dict[str, Any], text: str) -> None:
    run, _, events = execute(tmp_path / "run", small, text=text)
    assert not run.failed
    ran = [event.step for event in events if event.kind == "succeeded"]
    assert ran == (["show", "own"] if text == "go" else ["show"])


def test_the_name_of_a_run_is_that_of_its_folder_at_every_start(tmp_path: Path) -> None:
    """The author of a version in a registry's history leads to the run."""
    spec = {"pipelineInfo": {"name": "{{$.pipeline_job_name}}"}, "components": {}}
    write_run(tmp_path / 'training-"1"', spec, {})
    assert json.loads(worker._read_spec(str(tmp_path / 'training-"1"')))["pipelineInfo"] == {"name": 'training-"1"'}


def test_a_step_cannot_speak_for_kfp(tmp_path: Path, small: dict[str, Any]) -> None:
    forged = "\n12:00:00.000 - ERROR - Task 'show' finished with status FAILURE"
    run, steps, events = execute(tmp_path / "run", small, text="x", things={"say": forged})
    assert not run.failed
    assert [event.kind for event in events if event.kind != "line"] == ["started", "succeeded"]


@pytest.mark.parametrize("value", ["{{$.pipeline_job_uuid}}", "a{{$}}b", "/kfp-workspace/data"])
def test_an_argument_that_would_be_replaced_is_refused(tmp_path: Path, small: dict[str, Any], value: str) -> None:
    with pytest.raises(RequestError, match="text holds a placeholder"):
        execute(tmp_path / "run", small, text=value)


def new(out: Path) -> Run:
    return folders.create(out, "training", PipelineSpec({}), {}, REPOSITORY)


def test_runs_of_the_same_second_get_folders_of_their_own(tmp_path: Path) -> None:
    made = {new(tmp_path).folder for _ in range(5)}
    assert len(made) == 5


def test_an_output_folder_that_cannot_be_is_refused(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(RequestError, match="is a file|cannot be written"):
        new(tmp_path / "file")
    with pytest.raises(RequestError, match="cannot be written"):
        new(Path("/proc/nowhere"))
