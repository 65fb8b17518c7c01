"""The pages of docs/reference/rules are executable: each example breaks its rule, each fix does not."""

import re
import shlex
from datetime import date
from pathlib import Path

import pytest

from vgp.check.checker import check
from vgp.check.document_kinds import parse
from vgp.machines.placement.machine_rules import RULES

PAGES = Path(__file__).parents[3] / "docs" / "reference/rules"


def blocks(text: str, language: str) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", text, re.DOTALL)


def example(text: str) -> tuple[str, list[str], str, str]:
    """The file's name, the options, the example and the fix of a page."""
    command = shlex.split(blocks(text, "console")[0].removeprefix("$ "))
    assert command[:2] == ["vgp", "check"]
    broken, fix = blocks(text, {".yaml": "yaml", ".sh": "sh"}[Path(command[2]).suffix])
    return command[2], command[3:], broken, fix


def findings(file: str, spec: str, options: list[str]):
    values = dict(zip(options[::2], options[1::2], strict=True))
    day = date.fromisoformat(values.get("--as-of", "2026-11-20"))
    regions = [values["--region"]] if "--region" in values else []
    report = check(parse(file, spec), regions=regions, as_of=day)
    assert not report.unreadable
    return report.findings


@pytest.mark.parametrize("name", RULES)
def test_the_example_breaks_the_rule_and_the_fix_does_not(name):
    text = (PAGES / f"{name}.md").read_text(encoding="utf-8")
    file, options, wrong, fix = example(text)
    broken = [finding for finding in findings(file, wrong, options) if finding.rule == name]
    assert broken, "the example does not show the rule"
    assert broken[0].severity == RULES[name].severity
    assert name not in {finding.rule for finding in findings(file, fix, options)}


@pytest.mark.parametrize("name", RULES)
def test_the_example_has_no_other_error_and_the_fix_has_none(name):
    text = (PAGES / f"{name}.md").read_text(encoding="utf-8")
    file, options, broken, fix = example(text)
    wrong = {finding.rule for finding in findings(file, broken, options) if finding.severity == "error"}
    assert wrong <= {name}
    assert not [finding for finding in findings(file, fix, options) if finding.severity == "error"]


@pytest.mark.parametrize("name", RULES)
def test_a_page_says_what_why_and_from_where(name):
    text = (PAGES / f"{name}.md").read_text(encoding="utf-8")
    assert text.startswith(f"# {name} {RULES[name].name}\n")
    assert [line for line in text.splitlines() if line.startswith("## ")] == [
        "## What", "## Why", "## Example", "## Fix", "## Source",
    ]  # fmt: skip
    assert name in (PAGES / "index.md").read_text(encoding="utf-8")
