"""Classes of images: the names of their folders, or a table beside them (columns file, label, and maybe split)."""

import csv
import hashlib
import io
import unicodedata
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from vgp.base.exits import UserError
from vgp.base.printable import quoted
from vgp.base.storage import storage
from vgp.base.storage.files import MOST_JSON_BYTES
from vgp.base.storage.storage import File

SPLITS = ("train", "validation", "test")


@dataclass(frozen=True)
class Line:
    number: int
    label: str
    split: str


@dataclass(frozen=True)
class Labels:
    #: Of the table, below what was given.
    name: str
    #: By the name of the image, composed.
    lines: Mapping[str, Line]

    @classmethod
    def read(cls, found: Mapping[str, File]) -> "Labels | None":
        """The table among the files; None if there is none.

        Raises:
            UserError: there are several, or it is no such table.
        """
        tables = [name for name in found if name.lower().endswith(".csv")]
        if not tables:
            return None
        if len(tables) > 1:
            raise UserError(f"{tables[0]} and {tables[1]} could both say the classes: leave one.")
        name, file = tables[0], found[tables[0]]
        try:
            text = storage.read(file.path, most=MOST_JSON_BYTES).decode("utf-8-sig")
        except UnicodeDecodeError as error:
            raise UserError(f"{name} is not UTF-8 (byte {error.start}): save it as UTF-8.") from None
        return cls(name, _lines(name, text))

    def of(self, image: str) -> Line | None:
        return self.lines.get(composed(image))

    def place(self, image: str) -> str:
        return f"{self.name}, line {self.lines[composed(image)].number}"

    def require_all(self, images: Iterable[str]) -> None:
        """Raises UserError for a line whose image is not there."""
        there = set(map(composed, images))
        for image, line in self.lines.items():
            if image not in there:
                raise UserError(
                    f"{self.name}, line {line.number}: there is no image {quoted(image)}; write its path below the "
                    "folder that was given."
                )


def _lines(name: str, text: str) -> dict[str, Line]:
    rows = csv.DictReader(io.StringIO(text, newline=""), strict=True)
    header = [column.strip().lower() for column in rows.fieldnames or ()]
    if "file" not in header or "label" not in header:
        raise UserError(f"{name} has the columns {', '.join(header) or '(none)'}; it needs file and label (and split).")
    rows.fieldnames = header
    lines: dict[str, Line] = {}
    try:
        for row in rows:
            line = Line(rows.line_num, (row["label"] or "").strip(), (row.get("split") or "").strip())
            image = composed((row["file"] or "").strip())
            _require_sound(name, image, line, lines)
            lines[image] = line
    except csv.Error as error:
        raise UserError(f"{name}, line {rows.line_num}: {error}.") from None
    return lines


def _require_sound(name: str, image: str, line: Line, lines: Mapping[str, Line]) -> None:
    if image in lines:
        raise UserError(f"{name}, line {line.number} names {quoted(image)} as line {lines[image].number} does.")
    if not line.label:
        raise UserError(f"{name}, line {line.number}: {quoted(image)} has no label; leave the line out if it has none.")
    if line.split not in ("", *SPLITS):
        raise UserError(f"{name}, line {line.number}: the split {quoted(line.split)} is none of {', '.join(SPLITS)}.")


def composed(name: str) -> str:
    """A name as most programs write it: Macs take letters with marks apart in names of files (Unicode's NFD), and then
    two that look alike differ."""
    return unicodedata.normalize("NFC", name)


def folder_of(image: str) -> str:
    """The class of an image without a table. Raises UserError if no folder is above it."""
    folder = image.rpartition("/")[0].rpartition("/")[2]
    if not folder:
        raise UserError(
            f"{image} lies in no folder that tells its class: give the folder above the classes' folders, or put a "
            "table beside the images (columns file, label)."
        )
    return folder


def place_of(image: str) -> float:
    """Of an image's name, in [0, 1): what decides its split, so that more images move none from split to split."""
    return int.from_bytes(hashlib.blake2b(image.encode(), digest_size=8).digest(), "little") / 2**64


def split_of(image: str, validation_share: float, test_share: float) -> str:
    place = place_of(image)
    return "test" if place < test_share else "validation" if place < test_share + validation_share else "train"


def id_of(image: str) -> int:
    """63 bits of the MD5 of its name."""
    return int.from_bytes(hashlib.md5(image.encode(), usedforsecurity=False).digest()[:8], "big") >> 1
