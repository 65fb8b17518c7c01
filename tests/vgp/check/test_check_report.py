"""The three forms of a report. The SARIF schema here has the objects that we write, as the standard defines them."""

import io
import json
from datetime import date

import pytest
from jsonschema import Draft7Validator
from rich.console import Console

from tests.vgp.check.forms import rendered
from vgp.base.documents.document import parse
from vgp.check.check_report import lines, print_report, sarif
from vgp.check.checker import check
from vgp.machines.placement.machine_rules import RULES

TEXT = """\
workerPoolSpecs:
- machineSpec:
    machineType: n1-standard-8
    acceleratorType: NVIDIA_TESLA_T4
    acceleratorCount: 3
  replicaCount: 2
  containerSpec:
    imageUri: gcr.io/p/i
"""


def only(properties: dict, required: list[str]) -> dict:
    return {"type": "object", "properties": properties, "required": required, "additionalProperties": False}


# https://docs.oasis-open.org/sarif/sarif/v2.1.0/os/schemas/sarif-schema-2.1.0.json: sections 3.13 to 3.58 of the
# standard; every object there forbids additional properties.
LEVEL = {"enum": ["none", "note", "warning", "error"]}
MESSAGE = only({"text": {"type": "string"}, "markdown": {"type": "string"}, "id": {"type": "string"}}, ["text"])
URI = {"type": "string", "format": "uri-reference"}
RULE = only(
    {
        "id": {"type": "string"}, "name": {"type": "string"}, "shortDescription": MESSAGE, "help": MESSAGE,
        "helpUri": URI, "defaultConfiguration": only({"level": LEVEL}, []),
    },
    ["id"],
)  # fmt: skip
REGION = only({name: {"type": "integer", "minimum": 1} for name in ("startLine", "startColumn", "endLine")}, [])
TEXTS = dict.fromkeys(("name", "fullyQualifiedName", "kind"), {"type": "string"})
LOCATION = only(
    {
        "physicalLocation": only({"artifactLocation": only({"uri": URI}, []), "region": REGION}, []),
        "logicalLocations": {"type": "array", "items": only(TEXTS, [])},
    },
    [],
)  # fmt: skip
RESULT = only(
    {
        "ruleId": {"type": "string"}, "ruleIndex": {"type": "integer", "minimum": -1}, "level": LEVEL,
        "message": MESSAGE, "locations": {"type": "array", "items": LOCATION},
    },
    ["message"],
)  # fmt: skip
NOTICE = only({"level": LEVEL, "message": MESSAGE}, ["message"])
INVOCATION = only(
    {"executionSuccessful": {"type": "boolean"}, "toolExecutionNotifications": {"type": "array", "items": NOTICE}},
    ["executionSuccessful"],
)
DRIVER = only({"name": {"type": "string"}, "rules": {"type": "array", "items": RULE, "uniqueItems": True}}, ["name"])
RUN = only(
    {
        "tool": only({"driver": DRIVER}, ["driver"]),
        "invocations": {"type": "array", "items": INVOCATION},
        "results": {"type": ["array", "null"], "items": RESULT},
    },
    ["tool"],
)
SARIF = only(
    {"$schema": URI, "version": {"const": "2.1.0"}, "runs": {"type": "array", "items": RUN}}, ["version", "runs"]
)


@pytest.fixture
def path(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "my job.yaml").write_text(TEXT)
    return "my job.yaml"


def test_json_has_exactly_the_documented_keys(path):
    report = check([path], as_of=date(2026, 11, 20))
    result = json.loads(rendered(report)["json"])
    assert set(result) == {"findings", "steps", "unreadable", "errors", "warnings"}
    assert result["errors"] == 2 and result["warnings"] == len(
        [f for f in result["findings"] if f["severity"] == "warning"]
    )
    for finding in result["findings"]:
        assert set(finding) == {"rule", "severity", "file", "step", "field", "message", "suggestion", "line"}
        assert finding["rule"] in RULES and finding["file"] == path
    assert result["steps"] == [
        {
            "step": "job", "machine_type": "n1-standard-8", "accelerator_type": "NVIDIA_TESLA_T4",
            "accelerator_count": 3, "replicas": 2, "strategy": "STANDARD", "usd_per_hour": None,
            "price_date": None, "price_skus": None, "services": [],
            "boot_disk": None, "launcher_usd_per_hour": None,
        }
    ]  # fmt: skip


def test_text_shows_the_worst_first_with_file_line_and_fix(path):
    text = rendered(check([path]))["text"]
    assert text.startswith(
        "error: job: Pool 0 is the chief and has exactly 1 replica, not 2.  [GPU007]\n  my job.yaml:6  "
    )
    assert (
        "my job.yaml:5  workerPoolSpecs[0].machineSpec.acceleratorCount\n  Nearest that works: 4 x NVIDIA_TESLA_T4"
        in text
    )
    assert text.endswith("1 machine request, 2 errors, 3 warnings, 0 notes.")


def test_help_links_lead_to_the_web_where_it_is_known(path):
    log = sarif(check([path]), "https://github.com/o/r/blob/v1/docs/reference/rules/")
    Draft7Validator(SARIF).validate(log)
    rules = log["runs"][0]["tool"]["driver"]["rules"]
    assert {rule["helpUri"] for rule in rules} == {
        f"https://github.com/o/r/blob/v1/docs/reference/rules/{rule['id']}.md" for rule in rules
    }
    assert "helpUri" not in sarif(check([path]))["runs"][0]["tool"]["driver"]["rules"][0]


def test_sarif_validates_and_points_at_the_line(path, tmp_path):
    report = check([path, tmp_path / "missing.yaml"])
    log = json.loads(rendered(report)["sarif"])
    Draft7Validator(SARIF).validate(log)
    run = log["runs"][0]
    rules = [rule["id"] for rule in run["tool"]["driver"]["rules"]]
    count = next(result for result in run["results"] if result["ruleId"] == "GPU003")
    assert rules[count["ruleIndex"]] == "GPU003" and count["level"] == "error"
    place = count["locations"][0]["physicalLocation"]
    assert place == {"artifactLocation": {"uri": "my%20job.yaml"}, "region": {"startLine": 5}}
    assert run["invocations"][0]["executionSuccessful"] is False
    assert "missing.yaml" in run["invocations"][0]["toolExecutionNotifications"][0]["message"]["text"]


def test_a_file_in_this_folder_is_named_relative_to_it(path, tmp_path):
    log = sarif(check([tmp_path / path]))
    assert (
        log["runs"][0]["results"][0]["locations"][0]["physicalLocation"]["artifactLocation"]["uri"] == "my%20job.yaml"
    )


@pytest.fixture
def report():
    text = "displayName: '[red]j[/]'\njobSpec:\n  workerPoolSpecs:\n  - machineSpec: {machineType: n1-standard-5}\n"
    return check(parse("job.yaml", text))


def test_a_file_gets_the_lines_and_nothing_else(report):
    out = io.StringIO()
    print_report(report, Console(file=out))
    assert out.getvalue() == "\n".join(lines(report)) + "\n" and "\x1b" not in out.getvalue()


def test_a_terminal_shows_severities_in_colour_and_no_markup_of_names(report):
    out = io.StringIO()
    print_report(report, Console(file=out, force_terminal=True, color_system="standard", no_color=False, width=40))
    text = out.getvalue()
    assert "\x1b[1;31merror:\x1b[0m [red]j[/]: " in text
    for code in ("\x1b[1;31m", "\x1b[33m", "\x1b[34m", "\x1b[0m"):
        text = text.replace(code, "")
    assert text == "\n".join(lines(report)) + "\n"
