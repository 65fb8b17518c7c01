"""The printed result of a local run."""

from pathlib import Path
from types import SimpleNamespace

import pytest

from vgp.workflow.local.display import _find_skip_reason, _render_row
from vgp.workflow.local.proof import Step

RESOLVE = Step(
    "resolve", "succeeded", parameters={"Output": "skip", "why": "no data is new since version 1\nwas trained."}
)


@pytest.mark.parametrize(
    ("steps", "why"),
    [([RESOLVE, Step("branch/train", "skipped")], "no data is new since version 1 was trained."),
     ([RESOLVE, Step("branch/train", "succeeded")], ""), ([Step("branch/train", "skipped")], "")],
)  # fmt: skip
def test_steps_that_were_skipped_have_the_reason_that_a_step_gave(steps, why):
    assert _find_skip_reason(SimpleNamespace(steps=steps)) == why


def test_a_row_lists_short_outputs_and_artifacts():
    parameters = {
        "Output": "train", "why": "", "count": 0, "uri": "/runs/one/pins/1.json", "terms": {"nights": 365},
        "digest": "0f" * 32, "data": f"/runs/one/pins/{'0f' * 32}.json",
    }  # fmt: skip
    row = {
        "step": "resolve", "state": "succeeded", "seconds": 1.25, "parameters": parameters,
        "artifacts": ["look", "record"],
    }  # fmt: skip
    *_, outputs = _render_row(row, Path("/runs/one"))
    assert outputs == "Output = train\ncount = 0\nuri = pins/1.json\nresolve/look, resolve/record"
