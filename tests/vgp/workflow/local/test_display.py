"""What the end of a local run says."""

from types import SimpleNamespace

import pytest

from vgp.workflow.local.display import _find_skip_reason
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
