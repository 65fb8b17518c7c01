"""Runs on Vertex AI from Python, against the loopback cloud."""

from pathlib import Path

import pytest

from tools.emulator.cloud import Cloud
from vgp.api import RequestError, submit
from vgp.base.clock import Clock
from vgp.base.errors import WorkFailed

SMALL = Path(__file__).parents[1] / "small" / "pipelines.toml"


@pytest.fixture
def small(cloud: Cloud, monkeypatch: pytest.MonkeyPatch) -> Cloud:
    """A cloud whose time passes while a run is waited for."""
    monkeypatch.setattr(Clock, "now", lambda self: cloud.clock.now().timestamp())
    monkeypatch.setattr(Clock, "sleep", lambda self, seconds: cloud.clock.advance(seconds))
    return cloud


def test_a_run_is_started_once_and_waited_for(small: Cloud, capsys: pytest.CaptureFixture[str]) -> None:
    first, again = (submit("small", {"things.say": [1]}, text="42", settings=SMALL, progress=False) for _ in range(2))
    assert first.started and not again.started and first.id == again.id and first.id in first.url
    ended = again.wait(progress=False)
    assert (ended.state, ended.started) == ("succeeded", False)
    assert ended.result["steps"][0]["step"] == "show"
    assert capsys.readouterr() == ("", "")


def test_what_cannot_be_is_refused_in_pythons_words_before_anything_is_asked(small: Cloud) -> None:
    with pytest.raises(RequestError, match="has no parameter 'txt'. Did you mean text?"):
        submit("small", txt="42", settings=SMALL, progress=False)
    with pytest.raises(RequestError, match="text is given twice"):
        submit("small", {"text": "a"}, text="b", settings=SMALL, progress=False)
    assert not small.requests


def test_a_run_that_fails_or_takes_too_long_is_raised(small: Cloud) -> None:
    run = submit("small", text="42", settings=SMALL, progress=False)
    with pytest.raises(TimeoutError, match=f"{run.id} is still active after 5 s and continues"):
        run.wait(5, progress=False)
    small.script(fail="out of luck")
    other = submit("small", text="43", settings=SMALL, progress=False)
    with pytest.raises(WorkFailed, match=f"{other.id} failed: .*out of luck"):
        other.wait(progress=False)
