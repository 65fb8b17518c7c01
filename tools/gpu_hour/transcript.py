"""The rows of all slices as one file, without names of hosts, users, GPUs' ids and paths."""

import getpass
import json
import re
import socket
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from tools.gpu_hour.machine import Refused
from tools.gpu_hour.parts import SLICES

#: Replaced wherever they occur in a text.
_PATTERNS = (
    (re.compile(r"(GPU|MIG)-[0-9a-f]{4,}(-[0-9a-f]+)*"), "ID"),
    (re.compile(r"\b\d{1,3}(\.\d{1,3}){3}\b"), "ADDRESS"),
    (re.compile(r"(?<![\w./])~?/[\w.@+-]+(/[\w.@+-]+)*/?"), "PATH"),
)


def redact(value: Any, names: Sequence[str]) -> Any:
    """Returns a JSON value whose texts hold neither paths nor addresses nor these names."""
    if isinstance(value, dict):
        return {key: redact(item, names) for key, item in value.items()}
    if isinstance(value, list):
        return [redact(item, names) for item in value]
    if not isinstance(value, str):
        return value
    for pattern, word in _PATTERNS:
        value = pattern.sub(word, value)
    for name in names:
        value = re.sub(rf"(?<![\w-]){re.escape(name)}(?![\w-])", "NAME", value)
    return value


def find_names() -> list[str]:
    """Returns the names of this host and user, longest first."""
    host = socket.gethostname()
    found = {host, host.partition(".")[0], getpass.getuser()} - {"", "localhost"}
    return sorted(found, key=len, reverse=True)


def write_transcript(folder: Path, target: Path) -> int:
    """Merges the slices in `folder` into one redacted file; returns the number of rows.

    Raises:
        Refused: a slice is missing, or ran on a CPU.
    """
    missing = [number for number in SLICES if not (folder / f"slice-{number}.json").exists()]
    if missing:
        raise Refused(
            f"{folder} lacks slice {', '.join(map(str, missing))}: run scripts/gpu_hour.sh --slice {missing[0]}"
        )
    slices = [json.loads((folder / f"slice-{number}.json").read_text()) for number in SLICES]
    if small := [entry["slice"] for entry in slices if entry["on_cpu"]]:
        raise Refused(f"slice {small[0]} in {folder} ran on a CPU, which proves nothing about a GPU; run it on one")
    document = {"format": 1, "slices": redact(slices, find_names())}
    target.parent.mkdir(parents=True, exist_ok=True)
    target.write_text(json.dumps(document, indent=1, sort_keys=True) + "\n")
    return sum(len(entry["rows"]) for entry in slices)
