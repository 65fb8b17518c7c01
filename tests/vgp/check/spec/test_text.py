"""A spec's one textual form means the same as JSON and as YAML."""

import json
from typing import Any

import yaml
from hypothesis import example, given
from hypothesis import strategies as st

from vgp.check.spec.pipeline_spec import as_text

VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(st.characters(exclude_categories=["Cs"])),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text("ab\"\\", max_size=3), inner, max_size=3),
)  # fmt: skip


@given(st.fixed_dictionaries({"value": VALUES}))
@example({"value": [1e-05, -1e22, 1.5e-07, "1e-05", ' "1e-05: \\', "\U0001f600", "\\ud83d\\ude00", "\x7f\u2028\x85"]})
def test_a_spec_reads_the_same_as_json_and_as_yaml(value: Any) -> None:
    text = as_text(value)
    assert json.loads(text) == value
    assert json.loads(text.encode()) == value
    assert repr(yaml.safe_load(text)) == repr(json.loads(text))
    assert as_text(json.loads(text)) == text
