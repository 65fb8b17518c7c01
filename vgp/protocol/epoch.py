"""The cache epoch: a number in the pins that changes every `EPOCH_DAYS`, so that no cached result outlives its files.

Cached results never expire, while the bucket of the runs deletes what is old. Keep its objects for more than twice as
long: a result of the epoch's first day is taken until its last, and its run goes on for a while.
"""

from datetime import UTC, datetime

EPOCH_DAYS = 14


def epoch(now: datetime) -> int:
    """The number of the period of `EPOCH_DAYS` days, counted from 1970-01-01 UTC."""
    return int(now.astimezone(UTC).timestamp()) // (EPOCH_DAYS * 86_400)
