"""The cache epoch of the pins, as `vgp/protocol/epoch.py` counts it: for so long a result is taken from the cache."""

from datetime import UTC, datetime

EPOCH_DAYS = 14


def epoch(time: datetime) -> int:
    """The number of the epoch, counted from 1970-01-01 UTC."""
    return int(time.timestamp()) // (EPOCH_DAYS * 86_400)


def end(time: datetime) -> datetime:
    """When the epoch of a time is over."""
    return datetime.fromtimestamp((epoch(time) + 1) * EPOCH_DAYS * 86_400, UTC)
