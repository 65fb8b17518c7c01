"""The classes of images, from folder names or a label table (columns file, label, optional split); decoded pixels."""

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
from vgp.base.text.printable import quote

if TYPE_CHECKING:
    from PIL.Image import Image

SPLITS = ("train", "validation", "test")


@dataclass(frozen=True)
class Line:
    """A line of the label table."""

    number: int
    label: str
    split: str


@dataclass(frozen=True)
class Labels:
    """The label table of a folder of images."""

    #: The path of the table below the input folder.
    name: str
    #: The table's lines by the composed name of the image.
    lines: Mapping[str, Line]

    @classmethod
    def read(cls, files: Mapping[str, File]) -> "Labels | None":
        """Reads the table among the files; returns None if there is none.

        Raises:
            UserError: There are several tables, or a line is wrong.
        """
        tables = [name for name in files if name.lower().endswith(".csv")]
        if not tables:
            return None
        if len(tables) > 1:
            raise UserError(f"{tables[0]} and {tables[1]} could both be the label table: remove one.")
        name, file = tables[0], files[tables[0]]
        try:
            text = storage.read(file.path, most=MOST_JSON_BYTES).decode("utf-8-sig")
        except UnicodeDecodeError as error:
            raise UserError(f"{name} is not UTF-8 (byte {error.start}): save it as UTF-8.") from None
        return cls(name, _parse_lines(name, text))

    def of(self, image: str) -> Line | None:
        return self.lines.get(compose_name(image))

    def place(self, image: str) -> str:
        return f"{self.name}, line {self.lines[compose_name(image)].number}"

    def require_all(self, images: Iterable[str]) -> None:
        """Raises UserError for a line whose image does not exist."""
        names = set(map(compose_name, images))
        for image, line in self.lines.items():
            if image not in names:
                raise UserError(
                    f"{self.name}, line {line.number}: there is no image {quote(image)}; write its path below the "
                    "input folder."
                )


def _parse_lines(name: str, text: str) -> dict[str, Line]:
    rows = csv.DictReader(io.StringIO(text, newline=""), strict=True)
    header = [column.strip().lower() for column in rows.fieldnames or ()]
    if "file" not in header or "label" not in header:
        raise UserError(f"{name} has the columns {', '.join(header) or '(none)'}; it needs file and label (and split).")
    rows.fieldnames = header
    lines: dict[str, Line] = {}
    try:
        for row in rows:
            line = Line(rows.line_num, (row["label"] or "").strip(), (row.get("split") or "").strip())
            image = compose_name((row["file"] or "").strip())
            _check_line(name, image, line, lines)
            lines[image] = line
    except csv.Error as error:
        raise UserError(f"{name}, line {rows.line_num}: {error}.") from None
    return lines


def _check_line(name: str, image: str, line: Line, lines: Mapping[str, Line]) -> None:
    if image in lines:
        raise UserError(f"{name}, line {line.number} repeats {quote(image)} of line {lines[image].number}: keep one.")
    if not line.label:
        raise UserError(f"{name}, line {line.number}: {quote(image)} has no label; add one, or remove the line.")
    if line.split not in ("", *SPLITS):
        raise UserError(f"{name}, line {line.number}: the split {quote(line.split)} is none of {', '.join(SPLITS)}.")


def compose_name(name: str) -> str:
    """Returns a name in Unicode's NFC. File names from macOS are in NFD, so equal-looking names would differ."""
    return unicodedata.normalize("NFC", name)


def folder_of(image: str) -> str:
    """Returns the name of an image's folder, its class. Raises UserError if the image is not in a folder."""
    folder = image.rpartition("/")[0].rpartition("/")[2]
    if not folder:
        raise UserError(
            f"{image} is not in a folder named after its class: pass the folder above the class folders, or add a "
            "label table (columns file, label)."
        )
    return folder


def hash_name(image: str) -> int:
    """Returns 63 bits of the MD5 of the image's name."""
    return int.from_bytes(hashlib.md5(image.encode(), usedforsecurity=False).digest()[:8], "big") >> 1


# ---- the pixels of an image file: decoded by pillow, cut to a square, scaled to one size


#: A larger image is an attack or a mistake.
MOST_PIXELS = 200_000_000


class Damaged(UserError):
    """An image file that pillow cannot decode."""


def pixels(name: str, data: bytes, size: int, channels: int) -> bytes:
    """Returns the middle square of an image, as size * size * channels bytes.

    Raises:
        Damaged: The image cannot be decoded.
    """
    try:
        from PIL import Image, ImageOps, UnidentifiedImageError
    except ModuleNotFoundError:
        raise UserError("decoding images needs the package pillow: pip install pillow.") from None
    Image.MAX_IMAGE_PIXELS = None  # MOST_PIXELS replaces pillow's own limit
    try:
        # Pillow warns of metadata, which is not used.
        with warnings.catch_warnings(action="ignore"), Image.open(io.BytesIO(data)) as image:
            if image.width * image.height > MOST_PIXELS:
                raise Damaged(f"{name} has {image.width:,} x {image.height:,} pixels; the limit is {MOST_PIXELS:,}.")
            upright = ImageOps.exif_transpose(_to_bytes(name, image))
            square = ImageOps.fit(upright.convert("RGB" if channels == 3 else "L"), (size, size), _BILINEAR)
            return square.tobytes()
    except UnidentifiedImageError:
        problem = "is empty" if not data else "is not an image that pillow can decode"
        raise Damaged(f"{name} {problem}: {_FIX}") from None
    except (UserError, MemoryError):
        raise
    except Exception as error:  # pillow's decoders raise errors of any class
        raise Damaged(f"{name} is damaged: {error}. {_FIX.capitalize()}") from None


_FIX = "save it again, leave it out, or set damaged=drop."
#: `PIL.Image.Resampling.BILINEAR`; when it scales down, pillow averages over all source pixels.
_BILINEAR = 2


def _to_bytes(name: str, image: "Image") -> "Image":
    """Converts 16-bit pixels to their upper eight bits; pillow's own conversion would clip most of them to white."""
    from PIL import Image

    if image.mode.startswith("I"):
        values = np.asarray(image).astype(np.int64)
        if values.min() < 0 or values.max() > 0xFFFF:
            raise Damaged(
                f"{name} has pixels of {image.mode} beyond 16 bits: save it with 8 or 16. {_FIX.capitalize()}"
            )
        upright = Image.fromarray((values >> 8).astype(np.uint8))
        upright.info = image.info
        return upright
    if image.mode == "F":
        raise Damaged(f"{name} has floating-point pixels: save it with 8 or 16 bits. {_FIX.capitalize()}")
    return image
