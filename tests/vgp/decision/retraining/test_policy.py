"""The settings that decide when a run trains."""

from datetime import UTC, datetime

import pytest

from vgp.base.exits import UserError
from vgp.decision.retraining import policy


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"when": "sometimes"}, "when = 'sometimes' is none of: drift, new data, always, never."),
        ({"retrain_every": "often"}, "retrain_every = 'often'"),
        ({"retrain_every": "2013-01"}, "give a time, such as 30 days"),
        ({"wait": "2 months"}, "wait = 2 months is longer than retrain_every = 30 days"),
        ({"look_days": 0}, "look_days = 0: it must be 1 to 3650 days"),
        ({"drift_threshold": -1}, "drift_threshold = -1"),
        ({"loss_rise": float("nan")}, "loss_rise = nan"),
        ({"look_confidence": 1.0}, "look_confidence = 1: it must be above 0.5 and below 1"),
    ],
)
def test_what_cannot_be_is_refused_with_its_rule(given, said):
    with pytest.raises(UserError) as refused:
        policy.check_policy(**given)
    assert said in str(refused.value)


def test_times_pass_in_whole_days():
    rules = policy.check_policy(retrain_every="", wait="1 week")
    assert rules.retrain_every is None and rules.wait
    since, moment = datetime(2020, 2, 1, 23, tzinfo=UTC), datetime(2020, 2, 8, 1, tzinfo=UTC)
    assert policy.over(rules.wait, since, moment) and not policy.over(
        rules.wait, since, datetime(2020, 2, 7, 23, tzinfo=UTC)
    )
    assert policy.until(rules.wait, since) == "2020-02-08"
