"""Whether a champion has learned from days that it is now tested on: its figures are then better than it is.

That happens where a run looks back (`as_of`, a backfill), or where its windows are earlier than the champion's. Windows
that follow from new data never do it.
"""

from collections.abc import Mapping
from typing import Any

from vgp.data.periods import spoken
from vgp.data.windows import dated


def told(champion: Mapping[str, Any], now: Mapping[str, Any]) -> tuple[str, ...]:
    """What a reader must know of it; nothing where no day is in both windows, or these have no dates.

    Args:
        champion: Options of the task that the champion was trained with.
        now: Those of the data that tests.
    """
    trained, tested = dated(champion, "train"), dated(now, "test")
    both = tuple((max(a, c), min(b, d)) for a, b in trained for c, d in tested if max(a, c) < min(b, d))
    if not both:
        return ()
    lies = f"The champion was trained on {spoken(trained)}, in which {spoken(both)} of the test window lies"
    return (f"{lies}: rows that it knows already, so that it looks better here than it is.",)
