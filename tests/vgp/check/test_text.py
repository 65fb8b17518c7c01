"""Findings as people read them: the same text everywhere, in colour on a terminal alone."""

import io

import pytest
from rich.console import Console

from vgp.base.documents.document import parse
from vgp.check.check_report import lines, show
from vgp.check.checker import check


@pytest.fixture
def report():
    text = "displayName: '[red]j[/]'\njobSpec:\n  workerPoolSpecs:\n  - machineSpec: {machineType: n1-standard-5}\n"
    return check(parse("job.yaml", text))


def test_a_file_gets_the_lines_and_nothing_else(report):
    out = io.StringIO()
    show(report, Console(file=out))
    assert out.getvalue() == "\n".join(lines(report)) + "\n" and "\x1b" not in out.getvalue()


def test_a_terminal_shows_severities_in_colour_and_no_markup_of_names(report):
    out = io.StringIO()
    show(report, Console(file=out, force_terminal=True, color_system="standard", no_color=False, width=40))
    text = out.getvalue()
    assert "\x1b[1;31merror:\x1b[0m [red]j[/]: " in text
    for code in ("\x1b[1;31m", "\x1b[33m", "\x1b[34m", "\x1b[0m"):
        text = text.replace(code, "")
    assert text == "\n".join(lines(report)) + "\n"
