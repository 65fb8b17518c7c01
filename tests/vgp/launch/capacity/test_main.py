"""The program, as its container starts it."""

import pytest

from vgp.launch.capacity.__main__ import main
from vgp.protocol.capacity.plan import PROJECT

from .conftest import executor_input, ladder_of, rung


@pytest.mark.parametrize(
    ("plan", "size", "given", "words"),
    [
        ("{", "", executor_input(), "error: the plan is not JSON"),
        ("{}", "", executor_input(), "error: the plan has no rungs"),
        (ladder_of(rung(size="small")).to_json(), "huge", executor_input(), "error: size = 'huge': one of small"),
        (ladder_of(rung(), project=PROJECT).to_json(), "", executor_input(), "still the placeholder"),
        (ladder_of(rung()).to_json(), "", "{}", "error: --executor_input names no output"),
    ],
)
def test_a_wrong_plan_or_input_ends_it_before_anything_is_asked_of_google(plan, size, given, words, capsys):
    assert main(["--plan", plan, "--size", size, "--executor_input", given]) == 2
    printed = capsys.readouterr().err
    assert words in printed and printed.count("\n") == 1


def test_a_missing_permission_is_reported_without_a_traceback(launcher, capsys):
    launcher.cloud.policies.missing.add("storage.objects.create")
    assert launcher.run() == 1
    assert "Google answers 403" in capsys.readouterr().err and not launcher.jobs


def test_a_ladder_of_another_format_is_left_alone(launcher, capsys):
    launcher.folder.put("ladder.json", '{"format": 9}')
    assert launcher.run() == 2
    assert "ladder.json has format 9; this launcher reads 1" in capsys.readouterr().err and not launcher.jobs
