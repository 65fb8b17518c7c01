"""Which options there are about another run, which exclude each other, and which states are an end."""

from datetime import timedelta
from typing import Any

import pytest

from vgp.base.errors import RequestError
from vgp.vertex.runs.start_policy import ENDED, Policy, parse_policy

NOTHING: dict[str, Any] = {
    "id": None, "key": None, "window": None, "retry": False, "if_exists": None, "new": False,
}  # fmt: skip


def of(**options: Any) -> Policy:
    return parse_policy(**{**NOTHING, **options})


def test_an_hour_is_the_rule_and_a_key_is_for_ever() -> None:
    assert of() == Policy(timedelta(hours=1), retry=False, if_exists="attach")
    assert of(key="2026-11-21", retry=True) == Policy(None, retry=True, if_exists="attach")
    assert of(window="0s", if_exists="fail") == Policy(timedelta(0), if_exists="fail")
    assert of(new=True) == of(if_exists="new") == of(new=True, if_exists="new") == Policy(if_exists="new")


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"id": "mine", "new": True}, "--id and --new exclude each other"),
        ({"id": "mine", "if_exists": "new"}, "--id and --if-exists new exclude each other"),
        ({"id": "mine", "key": "k"}, "--id and --key exclude each other"),
        ({"id": "mine", "retry": True}, "--id and --retry exclude each other: an id belongs to one run"),
        ({"id": "mine", "window": "1h"}, "--id and --window"),
        ({"key": "k", "window": "1h"}, "--key and --window exclude each other: a key has one run for as long"),
        ({"key": "k", "new": True}, "--key and --new"),
        ({"key": "k", "if_exists": "new"}, "--key and --if-exists new"),
        ({"new": True, "window": "1h"}, "--new and --window"),
        ({"new": True, "if_exists": "fail"}, "--new and --if-exists fail exclude each other"),
        ({"window": "an hour"}, "--window an hour: write a number and its unit, as in 30m, 12h, 7d or 0s."),
        ({"window": "2"}, "--window 2: write a number and its unit"),
        ({"window": "-1h"}, "--window -1h: write a number"),
        ({"window": ""}, "--window : write a number"),
        ({"window": "999999w"}, "--window 999999w: at most 365d. --key TEXT"),
        ({"key": "2026/11/21"}, "at most 63: ids contain it. Write 2026-11-21."),
        ({"key": "Nightly Run_7"}, "Write nightly-run-7."),
        ({"key": ""}, "--key '': use lower-case letters, digits and -, at most 63"),
        ({"key": "\u0663"}, "ids contain it.$"),
        ({"key": "x" * 64}, "ids contain it.$"),
    ],
)
def test_what_cannot_be_is_refused_with_the_rule(options: dict[str, Any], words: str) -> None:
    with pytest.raises(RequestError, match=words):
        of(**options)


def test_what_is_paused_is_open() -> None:
    assert "PIPELINE_STATE_PAUSED" not in ENDED and "PIPELINE_STATE_CANCELLING" not in ENDED
