"""Classes of images: the names of their folders, or a table beside them (columns file, label, and maybe split)."""

import csv
import hashlib
import io
import unicodedata
import warnings
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from vgp.base.exits import UserError
from vgp.base.storage import storage
from vgp.base.storage.files import MOST_JSON_BYTES
from vgp.base.storage.storage import File
from vgp.base.text.printable import quoted

if TYPE_CHECKING:
    from PIL.Image import Image

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


def id_of(image: str) -> int:
    """63 bits of the MD5 of its name."""
    return int.from_bytes(hashlib.md5(image.encode(), usedforsecurity=False).digest()[:8], "big") >> 1


# ---- the pixels of an image file: decoded by pillow, cut to a square, of one size


#: More in one image are an attack, or a mistake.
MOST_PIXELS = 200_000_000


class Damaged(UserError):
    """A file that is no image which pillow can decode."""


def pixels(name: str, data: bytes, size: int, channels: int) -> bytes:
    """The middle square of an image, as size * size * channels bytes.

    Raises:
        Damaged: it cannot be decoded.
    """
    try:
        from PIL import Image, ImageOps, UnidentifiedImageError
    except ModuleNotFoundError:
        raise UserError("images are decoded by the package pillow: pip install pillow.") from None
    Image.MAX_IMAGE_PIXELS = None  # we say it in our words
    try:
        # Warnings are of metadata that nobody reads.
        with warnings.catch_warnings(action="ignore"), Image.open(io.BytesIO(data)) as image:
            if image.width * image.height > MOST_PIXELS:
                raise Damaged(f"{name} has {image.width:,} x {image.height:,} pixels; {MOST_PIXELS:,} are the most.")
            upright = ImageOps.exif_transpose(_in_bytes(name, image))
            square = ImageOps.fit(upright.convert("RGB" if channels == 3 else "L"), (size, size), _BILINEAR)
            return square.tobytes()
    except UnidentifiedImageError:
        kind = "is empty" if not data else "is no image that can be decoded"
        raise Damaged(f"{name} {kind}: {_FIX}") from None
    except (UserError, MemoryError):
        raise
    except Exception as error:  # each of pillow's decoders raises what it likes
        raise Damaged(f"{name} is damaged: {error}. {_FIX.capitalize()}") from None


_FIX = "write it anew, leave it out, or set damaged=drop."
#: `PIL.Image.Resampling.BILINEAR`; pillow averages over all pixels that become one.
_BILINEAR = 2


def _in_bytes(name: str, image: "Image") -> "Image":
    """Of 16 bits a pixel the upper eight: pillow itself would make all but the darkest white."""
    from PIL import Image

    if image.mode.startswith("I"):
        values = np.asarray(image).astype(np.int64)
        if values.min() < 0 or values.max() > 0xFFFF:
            raise Damaged(
                f"{name} has pixels of {image.mode} beyond 16 bits: write it with 8 or 16. {_FIX.capitalize()}"
            )
        upright = Image.fromarray((values >> 8).astype(np.uint8))
        upright.info = image.info
        return upright
    if image.mode == "F":
        raise Damaged(f"{name} has pixels that are fractions: write it with 8 or 16 bits. {_FIX.capitalize()}")
    return image
