"""The settings of the engines: right ones are taken, wrong ones refused in a sentence with the fix."""

import pytest

from vgp.base.engine_settings import VARIABLE, Dataflow, Engines, engines
from vgp.base.exits import UserError


def test_without_the_variable_all_is_found_or_a_default():
    assert engines({}) == engines({VARIABLE: " "}) == Engines()


def test_values_are_taken_as_they_are():
    text = '{"memory_gb": 4, "bigquery": {"max_gb": 0.5}, "dataflow": {"temp": "gs://b/t/", "max_workers": 3}}'
    parsed = engines({VARIABLE: text})
    assert (parsed.memory_gb, parsed.bigquery.max_gb, parsed.bigquery.expiry_days) == (4.0, 0.5, 7)
    assert parsed.dataflow == Dataflow(temp="gs://b/t", max_workers=3)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("{", "cannot be read as JSON"),
        ('{"memory_gb": 1, "memory_gb": 2}', "a key is given twice"),
        ("[" * 100_000, "nested too deeply"),
        ("[]", "it must be an object"),
        ('{"memory": 1}', "no setting 'memory'. Did you mean memory_gb?"),
        ('{"bigquery": {"maxgb": 1}}', "no setting 'bigquery.maxgb'. Did you mean max_gb?"),
        ('{"bigquery": null}', "bigquery must be an object"),
        ('{"workers": "3"}', "workers is '3'; it should be a valid integer"),
        ('{"memory_gb": NaN}', "memory_gb is NaN"),
        ('{"memory_gb": 1e999}', "memory_gb is Infinity"),
        ('{"dataflow": {"temp": "/tmp"}}', "dataflow.temp is '/tmp'; it must be a folder of a bucket"),
        ('{"dataflow": {"temp": "gs://"}}', "must be a folder of a bucket"),
        ('{"memory_gb": -1, "dataflow": {"max_workers": 0}}', "memory_gb is -1"),
    ],
)
def test_a_mistake_is_reported(text, message):
    with pytest.raises(UserError) as refused:
        engines({VARIABLE: text})
    assert message in str(refused.value) and VARIABLE in str(refused.value) and len(str(refused.value)) < 400


def test_all_mistakes_are_reported_at_once():
    with pytest.raises(UserError) as refused:
        engines({VARIABLE: '{"memory_gb": -1, "workers": -1}'})
    assert len(str(refused.value).splitlines()) == 2
