"""The tool and the training code count the same epochs; neither may import the other."""

from datetime import UTC, datetime, timedelta

from vgp.protocol import epoch as pins
from vgp.vertex import cache_epoch


def test_the_epoch_is_that_of_the_training_code() -> None:
    assert pins.EPOCH_DAYS == cache_epoch.EPOCH_DAYS
    for day in range(40):
        moment = datetime(2026, 3, 1, 23, 59, 59, tzinfo=UTC) + timedelta(days=day)
        assert pins.epoch(moment) == cache_epoch.epoch(moment)
        assert pins.epoch(cache_epoch.end(moment)) == pins.epoch(moment) + 1
