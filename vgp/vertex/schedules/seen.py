"""Whether a run that looked back could see the state of its time, or only today's data through the windows of then.

Its step `resolve` wrote that into the pins of the run: {"seen": "state"} where the bucket keeps old versions of its
objects, {"seen": "windows"} where it does not.
"""

import json
from typing import Any

from vgp.base.errors import WorkFailed
from vgp.base.text.bucket_uri import cut
from vgp.settings import Settings
from vgp.vertex import clients
from vgp.vertex.errors import explained
from vgp.vertex.runs import pinned
from vgp.vertex.runs.state import Run

STATE, WINDOWS = "state", "windows"
WORDS = {
    STATE: "the data as it was that night",
    WINDOWS: "today's data, through that night's windows: what was replaced or deleted since is gone",
    "": "not told",
}
#: Pins of a run are short; what is longer is none.
_MOST_BYTES = 1_000_000


def seen(settings: Settings, run: Run) -> str:
    """`state`, `windows`, or an empty text where the run does not tell it or may not be asked."""
    uri = pinned.pins(run)
    if not uri:
        return ""
    try:
        told = _read(settings, uri).get("seen", "")
    except (ValueError, AttributeError, WorkFailed):  # deleted, not ours to read, or written by somebody else
        return ""
    return told if told in (STATE, WINDOWS) else ""


def _read(settings: Settings, uri: str) -> Any:
    bucket, name = cut(uri)
    with explained(f"read {uri}", settings):
        blob = clients.storage(settings).bucket(bucket).blob(name)
        return json.loads(blob.download_as_bytes(end=_MOST_BYTES, timeout=clients.ATTEMPT_S))
