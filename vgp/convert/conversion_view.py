"""What a conversion prints: the result on stdout, if it would run, and the account of it on stderr."""

import json
import sys
from collections.abc import Sequence
from datetime import date
from typing import Any

import yaml

from vgp.check import report as rendering
from vgp.check.check import Report
from vgp.check.check import check as judge
from vgp.convert.conversion import IMAGE, Conversion, Note
from vgp.convert.sdk_program import program, snake
from vgp.documents.document import parse
from vgp.text.printable import one_line


def show(result: Conversion, *, form: str, as_json: bool, as_of: date | None = None) -> int:
    """Checks and prints a conversion; returns the exit code."""
    report = checked(result, as_of=as_of)
    failed = report.exit_code != 0
    sdk, sdk_notes = ("", []) if failed else program(result)
    if form == "sdk" or as_json:
        result.notes += sdk_notes
    if as_json:
        print(json.dumps(_as_json(result, report, sdk), indent=2, default=str))
    else:
        tell(result.notes)
        print("\n".join(rendering.lines(report)), file=sys.stderr)
        if failed:
            print("error: not converted: the result would not run.", file=sys.stderr)
        else:
            print(sdk if form == "sdk" else as_yaml(result.config), end="")
    if not as_json and not failed and form == "config":
        print(f"Save it as config.yaml, then: {one_line(result.command())}", file=sys.stderr)
    return 1 if failed else 0


def checked(result: Conversion, *, as_of: date | None = None) -> Report:
    """What `pipelines check` says to the result, with what could not be read of the source."""
    document = parse("config.yaml", as_yaml(result.config))[0]
    report = judge([document], regions=[result.region] if result.region else [], as_of=as_of)
    report.findings = [finding for finding in report.findings if not finding.message.startswith(f"{IMAGE} has no tag")]
    report.findings[:0] = [finding for finding in result.findings if finding.rule != "GPU027"]
    return report


def as_yaml(config: dict[str, Any]) -> str:
    return yaml.safe_dump(config, sort_keys=False, default_flow_style=False, width=1000)


def _as_json(result: Conversion, report: Report, sdk: str) -> dict[str, Any]:
    failed = report.exit_code != 0
    return {
        "config": None if failed else result.config,
        "worker_pool_specs": None if failed else snake(result.job["workerPoolSpecs"]),
        "sdk": None if failed else sdk,
        "command": result.command(),
        "notes": [{"field": note.field, "became": note.became, "dropped": note.dropped} for note in result.notes],
        "lost": {note.field: note.became for note in result.lost},
        **report.as_json(),
    }


def tell(notes: Sequence[Note]) -> None:
    for note in notes:
        print(one_line(f"{note.field}: {'lost: ' if note.dropped else ''}{note.became}"), file=sys.stderr)
