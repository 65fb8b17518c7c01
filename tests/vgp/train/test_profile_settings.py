"""What may be asked of the profiler; found to be wrong before training starts."""

import pytest

from vgp.base.exits import UserError
from vgp.train import profile_settings
from vgp.train.train_config import parse_config


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"profile_steps": "first"}, "profile_steps='first': give the first and the last step, such as 100-105"),
        (
            {"profile_steps": "5-3"},
            "profile_steps='5-3': steps start at 1",
        ),
        ({"profile_steps": 0}, "profile_steps=0: steps start at 1"),
        (
            {"profile_steps": "1-101"},
            "profile_steps='1-101': these are 101 steps; a trace can have at most 100",
        ),
        ({"profile_ranks": "0;1"}, "profile_ranks='0;1': give process numbers, such as 0 or 0,3, or all"),
        ({"profile_steps": [1, 2]}, "profile_steps=[1, 2]: input should be a valid string"),
    ],
)
def test_what_is_no_step_or_rank_is_refused_with_the_rule(settings: dict[str, object], message: str) -> None:
    with pytest.raises(UserError) as caught:
        parse_config(settings)
    assert message in str(caught.value)


def test_steps_and_ranks_are_read_as_the_log_counts_them() -> None:
    config = parse_config({"profile_steps": 7, "profile_ranks": 2})  # as JSON has one number
    assert profile_settings.parse_steps(config.profile_steps) == range(7, 8)
    assert profile_settings.parse_steps("100-105") == range(100, 106)
    assert profile_settings.parse_ranks(config.profile_ranks) == {2}
    assert profile_settings.parse_ranks("0,3") == {0, 3} and profile_settings.parse_ranks("all") is None


def test_steps_and_ranks_that_the_run_does_not_have_are_refused() -> None:
    profile_settings.require_within("60-63", "all", 63, 2)
    profile_settings.require_within("", "0", 1, 1)
    with pytest.raises(UserError, match=r"profile_steps=60-64: the run has 63 steps. Name some of 1-63"):
        profile_settings.require_within("60-64", "0", 63, 2)
    with pytest.raises(UserError, match=r"profile_ranks=0,2: the run has 2 processes: 0 to 1\."):
        profile_settings.require_within("60", "0,2", 63, 2)


def test_a_request_file_names_a_number_of_steps_or_nothing() -> None:
    assert profile_settings.parse_request("") == profile_settings.parse_request("\n") == 5
    assert profile_settings.parse_request(" 12\n") == 12
    for text in ("0", "101", "-3", "many", "5 6", "1" * 2000):
        with pytest.raises(ValueError, match="a number of steps from 1 to 100"):
            profile_settings.parse_request(text)
