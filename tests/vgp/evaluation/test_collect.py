"""metrics.json, as a script may leave it."""

import pytest

from vgp.base.exits import UserError
from vgp.evaluation import collect as metrics


@pytest.fixture
def read(tmp_path):
    def reading(text):
        path = tmp_path / "metrics.json"
        path.write_bytes(text if isinstance(text, bytes) else text.encode())
        return metrics.read_metrics(str(path))

    return reading


def test_numbers_come_back_by_name_in_their_order(read):
    text = '{"val/loss": 0.5, "acc@5": 1, "épreuve 2": -3e-9, "rows": 10000000000}'
    assert list(read(text).items()) == [("val/loss", 0.5), ("acc@5", 1), ("épreuve 2", -3e-9), ("rows", 10**10)]
    assert read(b"\xef\xbb\xbf" + text.encode()) == read(text) and read("{}") == {}


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('{"loss": NaN}', "it has NaN, which is not a JSON number"),
        ('{"loss": -Infinity}', "it has -Infinity"),
        ('{"loss": 1e999}', "'loss' exceeds the range of a double"),
        ('{"loss": ' + "9" * 5_000 + "}", "'loss' exceeds the range of a double"),
        ('{"val": {"loss": 1}}', "'val' is an object, and metrics cannot be nested"),
        ('{"curve": [1, 2]}', "'curve' is a list, and metrics cannot be nested"),
        ('{"loss": "0.3"}', "'loss' is text, not a number"),
        ('{"good": true}', "'good' is true or false, not a number"),
        ('{"loss": null}', "'loss' is null, not a number"),
        ('{"loss": 1, "loss": 2}', "'loss' is given twice"),
        ("[1]", "it has a list, not an object"),
        ("3", "it has a number, not an object"),
        ('{"loss": 1', "line 1 column"),
        ("", "line 1 column"),
        (b'{"l\xff": 1}', "utf-8"),
        ("[" * 100_000, "nested too deeply"),
        ('{"": 1}', "name of a metric: use printable text"),
        ('{"a\\u001b[2J": 1}', r"'a\x1b[2J' is not a valid name"),
        ('{"\\ud800": 1}', "is not a valid name"),
        ('{"' + "x" * 101 + '": 1}', "at most 100 characters"),
        ("{" + ", ".join(f'"m{i}": 1' for i in range(201)) + "}", "it has 201 metrics, and the limit is 200"),
        ('{"a": "' + "x" * (1 << 20) + '"}', "larger than 1 MiB"),
    ],
)  # fmt: skip
def test_what_is_no_flat_number_is_refused_in_words(read, text, message):
    with pytest.raises(UserError) as refusal:
        read(text)
    assert message in str(refusal.value) and len(str(refusal.value)) < 500


def test_a_link_or_a_pipe_is_not_read(tmp_path):
    import os

    (tmp_path / "elsewhere.json").write_text('{"secret": 1}')
    (tmp_path / "metrics.json").symlink_to(tmp_path / "elsewhere.json")
    with pytest.raises(UserError, match="symbolic link"):
        metrics.read_metrics(str(tmp_path / "metrics.json"))
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(UserError, match="not a regular file"):
        metrics.read_metrics(str(tmp_path / "pipe"))
