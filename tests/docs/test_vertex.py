"""docs/vertex.md shows the form of the console, which is made from the parameters of the compiled pipeline."""

import json
import re
from pathlib import Path

REPOSITORY = Path(__file__).parents[2]
KINDS = {"STRING": "text", "NUMBER_INTEGER": "whole number", "NUMBER_DOUBLE": "number", "STRUCT": "JSON object"}


def test_the_form_on_the_page_is_that_of_the_spec() -> None:
    spec = json.loads((REPOSITORY / "tests/golden/training.json").read_text())
    page = (REPOSITORY / "docs/vertex.md").read_text()
    rows = re.findall(r"^\| `(\w+)` \| ([\w ]+) \| (?:`([^`]+)`|\(empty\)) \|$", page, re.MULTILINE)
    parameters = spec["root"]["inputDefinitions"]["parameters"]
    assert {name: kind for name, kind, _ in rows} == {n: KINDS[p["parameterType"]] for n, p in parameters.items()}
    for name, _, default in rows:
        declared = parameters[name]["defaultValue"]
        assert declared == type(declared)(default) if declared else not default or float(default) == declared
