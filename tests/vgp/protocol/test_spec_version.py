"""A step refuses a spec whose protocol its library does not run, and names the command that mends it."""

import pytest

from vgp import steps
from vgp.base.exits import UserError
from vgp.protocol import spec_version
from vgp.protocol.spec_version import SPEC_VARIABLE, refuse_other_spec


def test_a_patch_of_the_library_changes_no_spec(monkeypatch):
    monkeypatch.setattr(spec_version, "__version__", "3.4.5")
    first = spec_version.spec_version()
    monkeypatch.setattr(spec_version, "__version__", "3.4.6")
    assert spec_version.spec_version() == first == f"3.4/{spec_version.PROTOCOL}"


@pytest.mark.parametrize("variables", [{}, {SPEC_VARIABLE: "0.1/7"}, {SPEC_VARIABLE: "0.1/6"}])
def test_a_spec_of_this_protocol_or_of_the_one_before_runs(monkeypatch, variables):
    monkeypatch.setattr(spec_version, "PROTOCOL", 7 if variables else 1)
    refuse_other_spec(variables)


@pytest.mark.parametrize(
    ("version", "command"), [("0.9/8", "vgp image build"), ("0.1/5", "vgp upload"), ("", "vgp submit")]
)
def test_another_protocol_is_refused_with_the_command_that_mends_it(monkeypatch, version, command):
    monkeypatch.setattr(spec_version, "PROTOCOL", 7)
    with pytest.raises(UserError, match=command):
        refuse_other_spec({SPEC_VARIABLE: version})


def test_every_step_but_the_notice_of_the_end_refuses_it(monkeypatch, capsys):
    monkeypatch.setenv(SPEC_VARIABLE, "9.9/99")
    for name in set(steps.PUBLIC) - {"notify"}:
        with pytest.raises(SystemExit) as ended:
            getattr(steps, name)
        assert ended.value.code == 2 and "vgp image build" in capsys.readouterr().err
    assert callable(steps.notify)
