"""The tool and the training code count the same epochs; neither may import the other."""

from datetime import UTC, datetime, timedelta

from vgp.protocol import moment as pins
from vgp.vertex import resource_names


def test_the_epoch_is_that_of_the_training_code() -> None:
    assert pins.EPOCH_DAYS == resource_names.EPOCH_DAYS
    for day in range(40):
        moment = datetime(2026, 3, 1, 23, 59, 59, tzinfo=UTC) + timedelta(days=day)
        assert pins.epoch(moment) == resource_names.epoch(moment)
        assert pins.epoch(resource_names.epoch_end(moment)) == pins.epoch(moment) + 1
