"""Text from elsewhere (names, messages, parameters) made safe to print: no control character and no password of an
address reaches the terminal."""

import re
from datetime import UTC, datetime, timedelta
from typing import Any

_COLOUR = re.compile(r"\x1b\[[0-9;]*m")
#: C0 and C1 controls but for line feed and tab, marks that turn the direction of text, halves of surrogate pairs.
_UNSAFE = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ufeff\ud800-\udfff]")
#: User and password of an address, https://USER:TOKEN@HOST; of http also a user alone, which may be a token.
PASSWORD = re.compile(
    r"(?<=://)[^/?#\s:@]{0,200}:(?!\d*(?:[/?#\s]|$))\S{0,1000}@|(?<=http://|ttps://)[^/?#\s]{1,1000}@", re.IGNORECASE
)


def printable(text: object) -> str:
    """`text` with its lines; colours are dropped, other controls are shown as `\\x1b`, passwords of URLs as ***."""
    plain = _COLOUR.sub("", str(text)).replace("\r\n", "\n").rstrip("\r\n").replace("\r", "\n").expandtabs(4)
    plain = PASSWORD.sub("***@", plain)
    return _UNSAFE.sub(lambda found: found[0].encode("unicode_escape").decode(), plain)


def one_line(text: object, most: int = 0) -> str:
    """`text` on one line; with `most`, no longer than that many characters."""
    line = " ".join(printable(text).split())
    return line if not most or len(line) <= most else f"{line[: most - 1]}…"


def took(seconds: float) -> str:
    """45s, 3m 20s, 1h 02m, 2d 03h."""
    whole = max(0, round(seconds))
    if whole < 60:
        return f"{whole}s"
    if whole < 3600:
        return f"{whole // 60}m {whole % 60:02}s"
    if whole < 86400:
        return f"{whole // 3600}h {whole % 3600 // 60:02}m"
    return f"{whole // 86400}d {whole % 86400 // 3600:02}h"


def usd(amount: float | None) -> str:
    """$0.02, $1,204.50; small sums keep two digits that say something."""
    if amount is None:
        return "no price"
    return f"${amount:,.2f}" if amount >= 0.01 or not amount else "<$0.01"


def moment(time: Any) -> datetime | None:
    """A timestamp of Google's messages in UTC; None where there is none."""
    if not time:
        return None
    return datetime(1970, 1, 1, tzinfo=UTC) + timedelta(seconds=time.timestamp())


def local(time: datetime | None) -> str:
    """`Nov 20 14:03`, in the time zone of this machine."""
    return time.astimezone().strftime("%b %d %H:%M") if time else ""


def rfc3339(time: datetime | None) -> str | None:
    """2026-11-20T14:03:07.120000Z."""
    return time.astimezone(UTC).isoformat().replace("+00:00", "Z") if time else None
