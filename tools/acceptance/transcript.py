"""The transcript of an acceptance, in which projects, accounts, buckets and numbers are replaced."""

import json
import re
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

AS_EXPECTED, DIFFERENT, UNKNOWN = "as expected", "different", "not known"
_EMAIL = re.compile(r"[\w.+-]+@[\w-]+(?:\.[\w-]+)+")
_KEYS = re.compile(r"(?<=keyRings/)[\w-]+/cryptoKeys/[\w-]+|(?<=networks/)[\w-]+")
#: Project numbers, resource ids, and other identifying numbers; version numbers are shorter.
_LONG = re.compile(r"\d{9,}")
#: Text after these words counts as a secret.
_TOKEN = re.compile(r"(?i)\b(bearer|ya29\.|authorization:?)\s*\S+")


@dataclass(frozen=True)
class Row:
    """One check. `docs` is the page that calls the behaviour not verified."""

    check: str
    docs: str
    expected: str
    seen: str
    verdict: str

    def __str__(self) -> str:
        lines = (f"expected  {self.expected}", f"seen      {self.seen}", f"docs      {self.docs}")
        return "\n  ".join((f"{self.verdict:<12} {self.check}", *lines))


def redact(text: str, names: Sequence[str]) -> str:
    """Replaces `names` (projects, buckets), accounts, keys, networks and long numbers in the text."""
    text = _EMAIL.sub("ACCOUNT", _TOKEN.sub("SECRET", text))
    for name in sorted(filter(None, names), key=len, reverse=True):
        text = text.replace(name, "NAME")
    return _LONG.sub("NUMBER", _KEYS.sub("NAME", text))


def write(folder: Path, about: dict[str, str], rows: Iterable[Row], names: Sequence[str]) -> tuple[Path, Path]:
    """Writes the rows as text and as `STAMP.jsonl`, whose first line has place and time; returns both paths."""
    rows = [Row(**{key: redact(value, names) for key, value in asdict(row).items()}) for row in rows]
    about = {key: redact(value, names) for key, value in about.items()}
    folder.mkdir(parents=True, exist_ok=True)
    lines, text = folder / f"{about['stamp']}.jsonl", folder / f"{about['stamp']}.txt"
    lines.write_text("".join(json.dumps(line) + "\n" for line in (about, *map(asdict, rows))))
    header = "\n".join(f"{key}: {value}" for key, value in about.items())
    text.write_text("\n\n".join([header, *map(str, rows)]) + "\n")
    return lines, text


def read(path: Path) -> tuple[dict[str, str], list[Row]]:
    """Reads a transcript: place and time, and its rows."""
    about, *rows = [json.loads(line) for line in path.read_text().splitlines()]
    return about, [Row(**row) for row in rows]
