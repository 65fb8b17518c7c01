"""No input makes the checker fail: mutated specs give findings or are unreadable, and render in every format.

The short run is the same every time; a long one is another each time:
FUZZ_EXAMPLES=10000 pytest tests/vgp/check/test_fuzz.py
"""

import copy
import json
import os
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.vgp.check.forms import rendered
from vgp.base.documents.document import Document, parse
from vgp.check.checker import check

JOB = {
    "displayName": "j", "location": "us-central1",
    "jobSpec": {
        "workerPoolSpecs": [
            {
                "machineSpec": {
                    "machineType": "n1-standard-8", "acceleratorType": "NVIDIA_TESLA_T4", "acceleratorCount": 1,
                    "reservationAffinity": {"reservationAffinityType": 3, "key": "k", "values": ["v"]},
                },
                "replicaCount": 1, "diskSpec": {"bootDiskType": "pd-ssd", "bootDiskSizeGb": 100},
                "containerSpec": {"imageUri": "x:1", "command": ["a"], "args": ["b"],
                                  "env": [{"name": "A", "value": "b"}]},
            },
        ],
        "scheduling": {"timeout": "3600s", "strategy": "SPOT", "maxWaitDuration": "1s"},
    },
}  # fmt: skip
LEGACY = {
    "trainingInput": {
        "scaleTier": "CUSTOM", "masterType": "complex_model_m_gpu", "workerType": "n1-highcpu-16", "workerCount": 9,
        "workerConfig": {"acceleratorConfig": {"count": 4, "type": "NVIDIA_TESLA_T4"}, "imageUri": "x"},
        "hyperparameters": {"params": [{"parameterName": "a", "type": "DOUBLE"}]},
        "scheduling": {"maxRunningTime": "1s"},
    }
}  # fmt: skip
SCALARS = st.one_of(
    st.none(), st.booleans(), st.integers(), st.floats(), st.text(max_size=20),
    st.sampled_from([
        "{{$.inputs.parameters['gpu']}}", "{{$.inputs.parameters['x", "{{x}}", "${X}", '{"Concat": ["{", 1]}', "[",
        "{}",        "NVIDIA_L4", "n1-standard-4", "a4x-highgpu-4g", "FLEX_START", "1e999", "9" * 400, "us-central1-a",
    ]),
)  # fmt: skip
VALUES = st.recursive(
    SCALARS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=6,
)


def places(value: Any, path: tuple = ()) -> list[tuple]:
    children = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    return [path, *(place for key, item in children for place in places(item, (*path, key)))]


def mutated(value: Any, path: tuple, new: Any, how: str) -> Any:
    if not path:
        return new
    result = copy.deepcopy(value)
    parent = result
    for key in path[:-1]:
        parent = parent[key]
    if how == "drop" and isinstance(parent, dict):
        del parent[path[-1]]
    elif how == "rename" and isinstance(parent, dict):
        parent[f"{path[-1]}x"] = parent.pop(path[-1])
    else:
        parent[path[-1]] = new
    return result


@pytest.fixture(scope="module")
def pipeline(every_kind: tuple[Path, Path]) -> Any:
    return json.loads(every_kind[0].read_text())


EXAMPLES = int(os.environ.get("FUZZ_EXAMPLES", 50))
SAME = "FUZZ_EXAMPLES" not in os.environ


@settings(
    max_examples=EXAMPLES,
    deadline=None,
    derandomize=SAME,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture],
)
@given(data=st.data())
def test_a_mutated_spec_is_judged_or_unreadable(pipeline, data):
    spec = data.draw(st.sampled_from([pipeline, JOB, LEGACY]))
    for _ in range(data.draw(st.integers(1, 3))):
        paths = places(spec)
        # Deep places are many: a uniform draw over levels reaches the frame as well.
        level = data.draw(st.integers(0, max(map(len, paths))))
        path = data.draw(st.sampled_from([each for each in paths if len(each) == level]))
        spec = mutated(spec, path, data.draw(VALUES), data.draw(st.sampled_from(["replace", "drop", "rename"])))
    report = check([Document("f.json", spec, json.dumps(spec))], regions=["us-central1"])
    for form, text in rendered(report).items():
        assert text or form == "text"
    assert report.exit_code in (0, 1, 2)
    for finding in report.findings:
        assert finding.message and finding.severity in ("error", "warning", "note")
        assert "The checker failed here" not in finding.message


@settings(max_examples=2 * EXAMPLES, deadline=None, derandomize=SAME)
@given(text=st.text(max_size=300) | st.binary(max_size=300).map(lambda raw: raw.decode("latin-1")))
def test_any_text_is_read_or_unreadable(text):
    check(parse("any.yaml", text))


LINES = st.sampled_from([
    "workerPoolSpecs:", "- machineSpec: &a", "- machineSpec: *a", "    machineType: n1-standard-8", "  replicaCount: 2",
    "    acceleratorCount: 3", "    acceleratorType: NVIDIA_TESLA_T4", "  <<: *a", "---", "...", "- &a [*a]", "? [a]",
    "# x", "%YAML 1.1", "  containerSpec: {imageUri: x:1, args: [", "]}", "\t", "scheduling: {timeout: 1s}", "|", "'",
    "a: !!binary x", "b: 0o7", "c: 1:59", "2026-01-01: .nan", "d: >-", "\"\\ud800\"", "=: =", "<<: [{}, {}]", "~: ~",
])  # fmt: skip


@settings(max_examples=2 * EXAMPLES, deadline=None, derandomize=SAME)
@given(lines=st.lists(LINES, max_size=12))
def test_lines_of_jobs_in_any_order_are_read_as_yaml_reads_them(lines):
    text = "\n".join(lines)
    documents = parse("any.yaml", text)
    rendered(check(documents))
    try:
        expected = [data for data in yaml.load_all(text, yaml.SafeLoader) if data is not None]
        written = [repr(data) for data in expected]
    except (yaml.YAMLError, ValueError, RecursionError):
        return
    if not any(document.fault or document.repeated for document in documents):
        assert [repr(document.data) for document in documents] == written


PLAIN = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=12) | st.dates() | st.datetimes(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=6), inner, max_size=4),
    max_leaves=12,
)


@settings(max_examples=EXAMPLES, deadline=None, derandomize=SAME)
@given(data=PLAIN, style=st.sampled_from([True, False, None]))
def test_what_yaml_writes_is_read_as_yaml_reads_it(data, style):
    # The same object twice is written as an anchor and an alias.
    text = yaml.safe_dump({"a": data, "b": [data, {"c": data}]}, default_flow_style=style)
    (document,) = parse("any.yaml", text)
    assert repr(document.data) == repr(yaml.safe_load(text)) and not document.fault and not document.repeated
