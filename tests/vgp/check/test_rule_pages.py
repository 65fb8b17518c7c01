"""The pages of docs/reference/rules are executable: each example breaks its rule, each fix does not."""

import re
import shlex
from datetime import date
from pathlib import Path

import pytest

from benchmarks import mutations
from vgp.check.checker import check
from vgp.check.document_kinds import parse
from vgp.machines.placement.machine_rules import RULES

PAGES = Path(__file__).parents[3] / "docs" / "reference/rules"


def example(text: str) -> tuple[str, list[str], str, str]:
    """Returns the file's name, the options, the wrong file and the right one: a diff has both."""
    command = re.search(r"```bash\nvgp check (.*)\n```", text)
    file, *options = shlex.split(command[1]) if command else ["example.yaml"]
    wrong, right = mutations.read_diff(text)
    return file, options, wrong, right


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
def test_a_page_has_its_rule_s_name_a_fix_and_a_source(name):
    text = (PAGES / f"{name}.md").read_text(encoding="utf-8")
    assert text.startswith(f"# {name} {RULES[name].name}\n")
    assert [line for line in text.splitlines() if line.startswith("## ")] == ["## Fix", "## Source"]
    assert len(text.split()) <= 220
    assert name in (PAGES / "index.md").read_text(encoding="utf-8")
