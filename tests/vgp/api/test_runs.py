"""Runs from Python: a real one, and the errors of runs that fail or cannot start."""

import threading
from pathlib import Path
from typing import Any

import pytest

from vgp.api import Run, RunFailed, load, resume, run
from vgp.base.errors import RequestError, WorkFailed
from vgp.workflow.local import local_run as local

SMALL = Path(__file__).parents[1] / "small" / "pipelines.toml"


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> tuple[Run, list[str]]:
    """A run that was started in a thread, as servers and notebooks' extensions do, and the kinds of its events."""
    out, kinds, runs = tmp_path_factory.mktemp("runs"), list[str](), list[Run]()

    def start() -> None:
        arguments: dict[str, Any] = {"out": out, "settings": SMALL, "progress": lambda event: kinds.append(event.kind)}
        runs.append(run("small", {"things.say": [1]}, text="42", **arguments))

    thread = threading.Thread(target=start)
    thread.start()
    thread.join()
    return runs[0], kinds


def test_a_run_comes_back_with_what_its_steps_gave(made: tuple[Run, list[str]]) -> None:
    ended, kinds = made
    assert (ended.pipeline, ended.state, ended.succeeded) == ("small", "succeeded", True)
    assert ended.parameters == {"text": "42", "things": {"say": [1]}}
    assert ended.outputs == {"show/Output": "42"}
    assert [kind for kind in kinds if kind != "line"] == ["started", "succeeded"]


def test_a_run_is_opened_again_from_its_folder(made: tuple[Run, list[str]]) -> None:
    assert load(made[0].folder) == made[0]
    with pytest.raises(RequestError, match="is not the folder of a finished run"):
        load(made[0].folder.parent)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"txt": "a"}, "the pipeline has no parameter 'txt'. Did you mean text?"),
        ({"things": [1]}, r"things=\[1\]: things takes a JSON object"),
        ({"things": {1, 2}}, "things is a set: a parameter must be text"),
        ({"parameters": {"text": "a"}, "text": "b"}, "text is given twice"),
        ({"nproc": 0}, "^nproc 0: at least 1 process"),
        ({"pipeline": "smal"}, "small"),
    ],
)
def test_what_cannot_be_is_refused_in_pythons_words_before_anything_starts(
    tmp_path: Path, arguments: dict[str, Any], message: str
) -> None:
    with pytest.raises(RequestError, match=message) as refused:
        run(**{"pipeline": "small", "out": tmp_path, "settings": SMALL, **arguments})
    assert "--" not in str(refused.value) and not list(tmp_path.iterdir())


def test_a_class_stands_for_its_name_and_one_of_a_notebook_is_refused_with_the_fix() -> None:
    from vgp.api.parameter_values import _format_value

    class Here:
        pass

    assert _format_value("task", threading.Thread) == "threading:Thread"
    Here.__module__ = "__main__"
    with pytest.raises(RequestError, match="%%writefile my_task.py"):
        _format_value("task", Here)


def test_a_run_that_fails_is_raised_with_what_there_is_of_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def failed(request: Any, log: Any) -> local.Result:
        request.failed, request.last_lines = "show", ["error: the disk is full"]
        return local.Result(request, [])

    monkeypatch.setattr(local, "execute_run", failed)
    with pytest.raises(RunFailed, match="show failed(?s:.*)the disk is full(?s:.*)in Python: resume") as raised:
        run("small", out=tmp_path, settings=SMALL, progress=False)
    there = raised.value.run
    assert there and there.state == "failed"

    def stopped(request: Any, log: Any) -> local.Result:
        raise WorkFailed("stopped by SIGINT; every process was ended.", exit_code=130)

    monkeypatch.setattr(local, "execute_run", stopped)
    with pytest.raises(RunFailed, match="stopped by SIGINT") as raised:
        resume(there.folder, settings=SMALL, progress=False)
    assert raised.value.exit_code == 130 and raised.value.run
    with pytest.raises(RequestError, match="is not the folder of a run"):
        resume(tmp_path / "nothing", settings=SMALL)


def test_a_notebook_shows_the_message_alone() -> None:
    assert RunFailed("train failed.")._render_traceback_() == ["RunFailed: train failed."]
    assert RequestError("no.")._render_traceback_() == ["RequestError: no."]
