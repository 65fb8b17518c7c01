"""What kfp.local prints, read as events: which step began, ended, or printed a line."""

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from vgp.base.text.printable import printable

#: kfp's own lines; what a step prints it indents.
_STARTED = re.compile(r"\d\d:\d\d:\d\d\.\d+ - INFO - Executing task '(?P<step>[^']+)'$")
_ENDED = re.compile(
    r"\d\d:\d\d:\d\d\.\d+ - (?:INFO|ERROR) - Task '(?P<step>[^']+)' finished with status (?P<status>\w+)$"
)
#: Lines of kfp itself, which tell a user nothing about their run.
_NOISE = re.compile(r"^\d\d:\d\d:\d\d\.\d+ - INFO - |\[KFP Executor |^-{20,}$|^Task .* outputs:$")


@dataclass(frozen=True)
class Event:
    """Something a run's output says: a step `started`, `succeeded`, `failed`, or printed a `line`.

    A line without a step comes from kfp.local itself.
    """

    kind: str
    step: str
    text: str = ""


def events(lines: Iterator[str], keep: Callable[[str], Any]) -> Iterator[Event]:
    """Reads the output, each line given to `keep` as it is; what cannot be placed is a line of the running step."""
    step, dump_end = "", ""
    for raw in lines:
        keep(raw)
        text = printable(raw).rstrip()
        if started := _STARTED.match(text):
            step = started["step"]
            yield Event("started", step)
        elif ended := _ENDED.match(text):
            yield Event("succeeded" if ended["status"] == "SUCCESS" else "failed", ended["step"])
            step = ""  # what follows until the next step is kfp's listing of the outputs
        elif text.endswith("Got executor_input:"):
            dump_end = " " * (len(text) - len(text.lstrip())) + "}"
        elif dump_end:
            dump_end = "" if text == dump_end else dump_end
        elif text.strip() and not _NOISE.search(text.strip()):
            yield Event("line", step, text.removeprefix("    "))
