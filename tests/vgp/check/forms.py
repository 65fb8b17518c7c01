"""A report in the three forms that `vgp check` prints."""

import json

from vgp.check.check_report import lines, sarif


def rendered(report):
    return {
        "text": "\n".join(lines(report)), "json": json.dumps(report.as_json(), indent=2),
        "sarif": json.dumps(sarif(report), indent=2),
    }  # fmt: skip
