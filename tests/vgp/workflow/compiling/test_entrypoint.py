"""Commands of compiled steps as the first process of a PID namespace, which is what they are in a container."""

import json
import os
import shutil
import signal
import subprocess
import sys
import time
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from kfp import dsl

from components.decide import decide
from components.prepare import prepare
from components.train import train
from vgp.base.errors import RequestError
from vgp.settings import Settings
from vgp.workflow.compiling.entrypoint import build_command, build_signal_prefix
from vgp.workflow.compiling.vertex import Vertex

REPOSITORY = Path(__file__).parents[4]
NAMESPACE = ("unshare", "--pid", "--fork", "--mount-proc", "--kill-child")
OWN = "own@sha256:" + 64 * "0"
STARTED: "list[subprocess.Popen[bytes]]" = []


@dsl.component(base_image=OWN, install_kfp_package=False)
def sleeping(mark: str):
    """Knows nothing of signals."""
    import time

    open(mark, "w").close()
    time.sleep(60)


@dsl.component(base_image=OWN, install_kfp_package=False)
def saving(mark: str):
    """Saves slowly when it is stopped."""
    import signal
    import sys
    import time

    def save(number, frame):
        time.sleep(0.5)
        open(mark + ".saved", "w").close()
        sys.exit(75)

    signal.signal(signal.SIGTERM, save)
    open(mark, "w").close()
    time.sleep(60)


@dsl.component(base_image=OWN, install_kfp_package=False)
def staying(mark: str):
    """Hears that it shall stop, looks whether its own process heard it too, and goes on."""
    import signal
    import subprocess
    import time

    child = subprocess.Popen(["sleep", "60"])

    def hear(number, frame):
        time.sleep(0.2)
        with open(mark + ".stopped", "a") as file:
            file.write("once " if child.poll() is None else "with its children ")

    signal.signal(signal.SIGTERM, hear)
    time.sleep(60)


@dsl.component(base_image=OWN, install_kfp_package=False)
def ending(mark: str):
    raise SystemExit(int(mark))


@dsl.component(base_image=OWN, packages_to_install=["numpy", "scipy"])
def installing():
    pass


@dsl.component(base_image=OWN, packages_to_install=["numpy"], use_venv=True)
def installing_apart():
    pass


@dsl.component(base_image=OWN, packages_to_install=["numpy"], target_image="own/target:1")
def containerized():
    pass


@pytest.fixture(autouse=True)
def ended() -> Iterator[None]:
    """Whatever becomes of a test, nothing that it started goes on."""
    yield
    while STARTED:
        with STARTED.pop() as process:
            process.kill()


def placed(component: Any, kind: str) -> dict[str, Any]:
    """The container of a component on Vertex AI: of a plain step, or of the custom job around it."""
    target = Vertex(Settings())
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        if kind == "job":
            return target.job(component).component_spec.inputs["worker_pool_specs"].default[0]["container_spec"]
        container = target._prepare(component, has_gpu=False).component_spec.implementation.container
        return {"command": container.command, "args": container.args}


def start(
    container: dict[str, Any], request: dict[str, Any], folder: Path, shell: str = "dash", **variables: str
) -> "subprocess.Popen[bytes]":
    """Starts the container's command as the first process of a namespace; the first `sh` on its path is `shell`."""
    if not shutil.which("unshare") or subprocess.run([*NAMESPACE, "true"], capture_output=True).returncode:
        pytest.skip("no right to make PID namespaces")
    (folder / "bin").mkdir()
    (folder / "bin" / "sh").symlink_to(str(shutil.which(shell)))
    words = dict.fromkeys(("{{$}}", "{{$.json_escape[1]}}"), json.dumps(request))
    command = [words.get(word, word) for word in (*container["command"], *container["args"])]
    path = f"{folder / 'bin'}:{Path(sys.executable).parent}:{os.environ['PATH']}"
    environment = {**os.environ, "PATH": path, "PYTHONPATH": str(REPOSITORY), **variables}
    with (folder / "log").open("wb") as log:
        STARTED.append(subprocess.Popen([*NAMESPACE, *command], env=environment, stdout=log, stderr=log))
    return STARTED[-1]


def stop(process: "subprocess.Popen[bytes]") -> int:
    """SIGTERM to the first process of the namespace; returns its exit code."""
    (first,) = Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()
    os.kill(int(first), signal.SIGTERM)
    return process.wait(timeout=120)


def inputs(folder: Path, **parameters: Any) -> dict[str, Any]:
    return {"inputs": {"parameterValues": parameters}, "outputs": {"outputFile": str(folder / "output.json")}}


def artifact(name: str, path: Path) -> dict[str, Any]:
    return {"artifacts": [{"name": name, "type": {"schemaTitle": "system.Artifact"}, "uri": str(path)}]}


def wait_for(path: Path, text: str = "") -> None:
    deadline = time.monotonic() + 60
    while not (path.exists() and text in path.read_text()):
        assert time.monotonic() < deadline, f"no {text!r} in {path}: {path.exists() and path.read_text()}"
        time.sleep(0.02)


@pytest.mark.parametrize(("kind", "shell"), [("step", "dash"), ("job", "bash")])
def test_a_step_that_saves_on_sigterm_gets_it_and_its_exit_code_is_kept(kind: str, shell: str, tmp_path: Path) -> None:
    limit = {"STEP_TIMEOUT_S": "3600"} if kind == "step" else {}
    process = start(placed(saving, kind), inputs(tmp_path, mark=str(tmp_path / "mark")), tmp_path, shell, **limit)
    wait_for(tmp_path / "mark")
    assert stop(process) == 75
    assert (tmp_path / "mark.saved").exists()


def test_a_step_that_knows_nothing_of_signals_ends_at_once(tmp_path: Path) -> None:
    process = start(placed(sleeping, "step"), inputs(tmp_path, mark=str(tmp_path / "mark")), tmp_path)
    wait_for(tmp_path / "mark")
    assert stop(process) == 128 + signal.SIGTERM


def test_a_step_above_its_timeout_is_asked_to_stop_once_then_killed_and_reported(tmp_path: Path) -> None:
    container = placed(staying, "step")
    container["command"] = [word.replace(" -k 60 ", " -k 1 ") for word in container["command"]]
    mark = tmp_path / "mark"
    process = start(container, inputs(tmp_path, mark=str(mark)), tmp_path, STEP_TIMEOUT_S="12")
    try:
        assert process.wait(timeout=120) == 124
    finally:
        process.kill()
        process.wait()
    words = (tmp_path / "log").read_text()
    assert "staying took longer than its timeout of 12 s and was ended" in words
    assert "timeout in [steps.staying] of pipelines.toml" in words
    assert Path(f"{mark}.stopped").read_text() == "once "


def test_a_step_that_may_go_on_after_sigterm_is_not_killed_a_minute_later(tmp_path: Path) -> None:
    words = "import signal, time\nheard = []\nsignal.signal(15, lambda *_: heard.append(1))\n"
    words += "open('mark', 'w').close()\n"
    words += "while not heard: time.sleep(0.05)\ntime.sleep(3)"
    command = [word.replace(" -k 60 ", " -k 1 ") for word in build_signal_prefix("train", "deadline", kill=False)]
    program = words.replace("mark", str(tmp_path / "mark"))
    container = {"command": [*command, "python3", "-c", program], "args": []}
    process = start(container, {}, tmp_path, STEP_TIMEOUT_S="3600")
    wait_for(tmp_path / "mark")
    assert stop(process) == 0


@pytest.mark.parametrize("code", [0, 124])
def test_a_step_ends_with_its_own_exit_code(code: int, tmp_path: Path) -> None:
    process = start(placed(ending, "step"), inputs(tmp_path, mark=str(code)), tmp_path, STEP_TIMEOUT_S="3600")
    assert process.wait(timeout=120) == code and "timeout" not in (tmp_path / "log").read_text()


def test_a_users_error_costs_seconds_at_every_try(tmp_path: Path) -> None:
    request, names = inputs(tmp_path, terms={"margin": 0.0, "confidence": 3.0}), ("dataset", "model", "evaluation")
    request["inputs"]["artifacts"] = {name: artifact(name, tmp_path / name) for name in names}
    request["outputs"]["artifacts"] = {
        name: artifact(name, tmp_path / name) for name in ("report", "summary", "decision")
    }
    assert start(placed(decide, "step"), request, tmp_path, STEP_TIMEOUT_S="3600").wait(timeout=120) == 2
    assert "confidence = 3.0" in (tmp_path / "log").read_text()


def test_training_saves_and_asks_to_be_resumed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tasks = str(REPOSITORY / "tests" / "helpers")
    monkeypatch.syspath_prepend(tasks)

    from digits import prepare as prepare_digits

    config = {"epochs": 9999.0, "global_batch_size": 64.0, "learning_rate": 0.01, "precision": "fp32"}
    request = inputs(tmp_path, task="digits:Digits", pins="", config=config)
    request["inputs"]["artifacts"] = {"dataset": artifact("dataset", prepare_digits(tmp_path / "data"))}
    request["outputs"]["artifacts"] = {name: artifact(name, tmp_path / name) for name in ("model", "checkpoints")}
    process = start(
        placed(train, "job"), request, tmp_path,
        PYTHONPATH=f"{REPOSITORY}:{tasks}", TRAINING_CHECKPOINTS=str(tmp_path / "kept"), TRAINING_NPROC="1",
    )  # fmt: skip
    wait_for(tmp_path / "log", "step ")
    assert stop(process) == 75, (tmp_path / "log").read_text()
    assert "stopped: " in (tmp_path / "log").read_text()
    assert list((tmp_path / "kept").rglob("*.safetensors"))


@pytest.mark.parametrize("component", [prepare, train, installing, installing_apart, containerized])
def test_every_form_of_kfps_command_passes_signals_on(component: Any) -> None:
    made = build_command(component.component_spec.implementation.container.command, component.name)
    first, *later = [made[number + 2].strip() for number, word in enumerate(made) if word == "sh"]
    assert first.endswith("exit $code") and "$STEP_TIMEOUT_S" in first
    assert all("exec " in script.splitlines()[-1] for script in later)


def test_a_command_that_is_not_kfps_is_left_alone() -> None:
    own = ["sh", "-c", 'prepare && "$0" "$@"', "sh", "-ec", "exec serve"]
    assert build_command(own, "own") == own


def test_a_command_of_an_unknown_kfp_is_refused() -> None:
    script = train.component_spec.implementation.container.command[2].replace("python3 -m", "python3 -X dev -m")
    with pytest.raises(RequestError, match="SIGTERM"):
        build_command(["sh", "-ec", script, ""], "train")
