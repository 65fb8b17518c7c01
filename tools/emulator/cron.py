"""The times of a Vertex AI schedule: five fields of cron, after an optional CRON_TZ= or TZ= (else UTC)."""

import re
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

from .errors import ApiError

PREFIX = re.compile(r"(?:CRON_TZ|TZ)=(\S*)\s+(.*)")


def parts(text: str) -> tuple[ZoneInfo, str]:
    """Raises:
    ApiError: 400 for what is no cron schedule, or no name of the IANA time zone database.
    """
    from cronsim import CronSim, CronSimError

    zoned = PREFIX.fullmatch(text)
    zone, fields = zoned.groups() if zoned else ("UTC", text)
    try:
        found = ZoneInfo(zone)
    except (KeyError, ValueError, OSError) as error:
        raise ApiError(400, f"Invalid cron: {zone!r} is not in the IANA time zone database.") from error
    try:
        if len(fields.split()) != 5:
            raise CronSimError("it takes five fields")
        CronSim(fields, datetime.now(UTC))
    except CronSimError as error:
        raise ApiError(400, f"Invalid cron {text!r}: {error}.") from error
    return found, fields


def ticks(text: str, start: datetime) -> Iterator[datetime]:
    """Yields the run times in UTC, from `start` on, which is included.

    When clocks change, cronsim follows Debian's cron: a run at a skipped local time comes right after the gap, a run at
    a time that comes twice runs once. Google does not document the behaviour of Vertex AI.
    """
    from cronsim import CronSim

    zone, fields = parts(text)
    before = (start - timedelta(microseconds=1)).astimezone(zone)
    for moment in CronSim(fields, before):
        yield moment.astimezone(UTC)
