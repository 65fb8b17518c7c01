"""A task over folders of images: class by folder, or by a table beside them; pixels of one size.

flowers/tulip/001.jpg               flowers/001.jpg
flowers/rose/002.jpg                flowers/labels.csv: file,label,split
"""

import base64
import hashlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np
import pyarrow as pa

from vgp.base.exits import UserError
from vgp.base.storage import download, files, storage
from vgp.base.storage.storage import File
from vgp.base.text.nearest import did_you_mean
from vgp.base.text.printable import listed, quoted
from vgp.data import image_labels, place
from vgp.data.image_labels import SPLITS, Damaged, Labels, composed, folder_of, pixels
from vgp.data.task import Options, RawRow, Statistics, Task
from vgp.data.tasks.files import find_files
from vgp.data.text import split_of
from vgp.protocol.manifest import SourceFile

SUFFIXES = (".png", ".jpg", ".jpeg", ".webp", ".bmp", ".gif", ".tif", ".tiff")
#: Pixels and images of one shard, and files that are read at a time: from a bucket each takes a while.
SHARD_BYTES, SHARD_IMAGES, READERS = 16 << 20, 512, 16
MOST_FILE_BYTES = 512 << 20
#: The label of an image that is only predicted, and whose class nobody knows.
UNKNOWN = -1


@dataclass(frozen=True)
class Picture:
    """An image file, as it was when the shards were cut."""

    #: Its path below what was given.
    name: str
    file: File
    label: int
    split: str

    def read(self) -> bytes:
        if not storage.is_remote(self.file.path):
            assert self.file.version
            with files.open_unchanged(self.file.path, self.file.version, self.name) as file:
                return file.read()
        with download.local_copy(self.file.path, most=MOST_FILE_BYTES) as path, open(path, "rb") as file:
            return file.read()


@dataclass(frozen=True)
class Scan:
    """What shards hold: images, their bytes, a digest for each shard, and how many cannot be decoded."""

    images: int
    #: Of each split, 8 bytes of the digest of every file that is kept.
    prints: Mapping[str, bytes]
    bytes: int
    digests: tuple[str, ...]
    damaged: tuple[str, ...]


class ImageTask(Task):
    """Which class is the picture of? Declare `classes`, and write `model`, `loss` and `predict`.

    A row has `image`, uint8 (size * size * channels): lines from the top, in them pixels from the left, cut to a square
    about the middle. `channels` is 3 (red, green, blue) or 1 (grey). An image that cannot be decoded is an error, or
    dropped and counted (`damaged`). A split follows from the image's name alone, where no table says it.
    """

    #: Options and their defaults; a class that has more adds them to these.
    settings: ClassVar[Options] = {
        "size": 64, "channels": 3, "damaged": "refuse", "test_share": 0.2, "validation_share": 0.05,
    }  # fmt: skip

    def __init__(self, options: Options | None = None):
        super().__init__(options)
        self.chosen = {**ImageTask.settings, **self.settings, **self.options}
        _check(self.chosen)
        #: What was given as `data`, and of it what is no image.
        self.given = ""
        self.others: tuple[str, ...] = ()

    def files(self, data: str) -> Sequence[File]:
        return [replace(file, title=name) for name, file in find_files(data).items()]

    # ---- preparation

    def shards(self, data: str) -> Sequence[tuple[Picture, ...]]:
        found = {name: storage.versioned(file) for name, file in find_files(data).items()}
        images = {name: file for name, file in found.items() if name.lower().endswith(SUFFIXES)}
        if not images:
            raise UserError(f"{data or 'no data'} holds no image: their names end in {', '.join(SUFFIXES)}.")
        labels = Labels.read(found)
        if labels:
            labels.require_all(images)
        self.given = ",".join(storage.parts(data))
        self.others = tuple(name for name in found if name not in images and not (labels and name == labels.name))
        pictures = list(self._pictures(images, labels))
        self.unlabelled = len(images) - len(pictures)
        if not pictures:
            raise UserError(f"{labels.name if labels else data} names none of the {len(images):,} images.")
        count = max(1, min(SHARD_IMAGES, SHARD_BYTES // self._width))
        return [tuple(pictures[i : i + count]) for i in range(0, len(pictures), count)]

    def _pictures(self, images: Mapping[str, File], labels: Labels | None) -> Iterator[Picture]:
        """Those that have a class, in the order of their names."""
        shares = self.chosen["validation_share"], self.chosen["test_share"]
        codes = {composed(title): code for code, title in enumerate(self.classes)}
        for name, file in images.items():
            line = labels.of(name) if labels else None
            if labels and line is None and not self.predicting:
                continue
            label = line.label if line else "" if self.predicting and "/" not in name else folder_of(name)
            code = codes.get(composed(label), UNKNOWN)
            if code == UNKNOWN and not self.predicting:
                where = labels.place(name) if labels else name
                raise UserError(
                    f"{where}: {quoted(label)} is no class of the task. {did_you_mean(label, self.classes)}"
                )
            pinned = (
                f"{file.path}#{file.generation}" if file.generation and file.path == storage.plain(file.path) else ""
            )
            split = (line.split if line else "") or split_of(name, *shares)
            yield Picture(name, replace(file, path=pinned or file.path), code, split)

    def scan(self, shard: tuple[Picture, ...]) -> Scan:
        """Reads every image; decodes it only if it may be dropped."""
        digest, size, damaged, prints = hashlib.sha256(), 0, [], {split: bytearray() for split in SPLITS}
        for picture, data in _read(shard):
            size += len(data)
            own = hashlib.sha256(data).digest()
            digest.update(picture.name.encode() + b"\0" + own)
            if self.chosen["damaged"] == "drop":
                try:
                    self._pixels(picture, data)
                except Damaged:
                    damaged.append(picture.name)
                    continue
            prints[picture.split] += own[:8]
        kept = {split: bytes(made) for split, made in prints.items()}
        return Scan(len(shard), kept, size, (digest.hexdigest(),), tuple(damaged))

    def merge(self, first: Scan, second: Scan) -> Scan:
        return Scan(
            first.images + second.images, {split: first.prints[split] + second.prints[split] for split in SPLITS},
            first.bytes + second.bytes, first.digests + second.digests, first.damaged + second.damaged,
        )  # fmt: skip

    def combine(self, scans: Iterable[Scan]) -> Statistics:
        (scan,) = scans
        dropped = {"damaged": len(scan.damaged), "no line in the table": self.unlabelled}
        notes = []
        if scan.damaged:
            notes.append(f"Cannot be decoded, and were dropped: {_counted(scan.damaged, 'image')}.")
        if self.others:
            notes.append(f"No images by their names, and passed over: {_counted(self.others, 'file')}.")
        notes += _copies(scan.prints)
        digest = hashlib.sha256("".join(scan.digests).encode()).hexdigest()
        shares = {name: f"{self.chosen[name]:g}" for name in ("test_share", "validation_share")}
        return {
            "rows_read": scan.images + self.unlabelled,
            "rows_dropped": {reason: count for reason, count in dropped.items() if count},
            "notes": notes,
            "split": {"by": "the images' names", **shares},
            "sources": (SourceFile(path=self.given, bytes=scan.bytes, sha256=digest),),
            "size": self.chosen["size"],
            "channels": self.chosen["channels"],
        }

    def rows(self, shard: tuple[Picture, ...], statistics: Statistics) -> dict[str, pa.Table]:
        by_split: dict[str, list[tuple[Picture, bytes]]] = {split: [] for split in SPLITS}
        for picture, data in _read(shard):
            try:
                by_split[picture.split].append((picture, self._pixels(picture, data)))
            except Damaged:
                if self.chosen["damaged"] == "refuse":
                    raise
        return {split: self._table(pictures) for split, pictures in by_split.items() if pictures}

    def inputs(self, rows: Sequence[RawRow], statistics: Statistics) -> pa.Table:
        """Images as their files are: bytes, or text in base64, each under `image`."""
        data = [_file_of(row, f"row {number:,}") for number, row in enumerate(rows, 1)]
        made = [pixels(name, file, self.chosen["size"], self.chosen["channels"]) for name, file in data]
        return pa.table({"image": pa.array(made, pa.binary(self._width))})

    def _pixels(self, picture: Picture, data: bytes) -> bytes:
        return pixels(picture.name, data, self.chosen["size"], self.chosen["channels"])

    @property
    def _width(self) -> int:
        return int(self.chosen["size"] ** 2 * self.chosen["channels"])

    def _table(self, pictures: Sequence[tuple[Picture, bytes]]) -> pa.Table:
        return pa.table(
            {
                "row_id": pa.array([image_labels.id_of(picture.name) for picture, _ in pictures], pa.int64()),
                "image": pa.array([data for _, data in pictures], pa.binary(self._width)),
                "label": pa.array([picture.label for picture, _ in pictures], pa.int64()),
            }
        )


def _file_of(row: RawRow, name: str) -> tuple[str, bytes]:
    image = row.get("image")
    try:
        return name, image if isinstance(image, bytes) else base64.b64decode(image or b"", validate=True)
    except (TypeError, ValueError):
        raise UserError(f"{name}: image must be the bytes of an image file, in base64 where they are text.") from None


def _copies(prints: Mapping[str, bytes]) -> Iterator[str]:
    """Says how many files lie in the train split too, byte for byte, under other names: they test nothing."""
    train, *others = (np.frombuffer(prints[split], "<u8") for split in SPLITS)
    for split, tested in zip(SPLITS[1:], others, strict=True):
        if count := int(np.isin(tested, train).sum()):
            yield (
                f"Of the {len(tested):,} images of the {split} split {count:,} are in the train split too, byte for "
                "byte: leave copies out, or say the splits in a table."
            )


def _counted(names: Sequence[str], noun: str) -> str:
    return f"{len(names):,} {noun}{'s' * (len(names) != 1)} ({listed(names)})"


def _read(pictures: Sequence[Picture]) -> Iterator[tuple[Picture, bytes]]:
    """Each picture and its bytes, in order; some are read ahead."""
    with ThreadPoolExecutor(READERS) as readers:
        for start in range(0, len(pictures), READERS):
            part = pictures[start : start + READERS]
            for picture, data in zip(part, readers.map(Picture.read, part), strict=True):
                place.at(picture.file.path)
                yield picture, data


def _check(chosen: Options) -> None:
    size, channels = chosen["size"], chosen["channels"]
    if not (isinstance(size, int) and 1 <= size <= 4096):
        raise UserError(f"size={size!r}: the pixels of a side, a whole number from 1 to 4,096.")
    if channels not in (1, 3):
        raise UserError(f"channels={channels!r}: 3 (red, green, blue) or 1 (grey).")
    if chosen["damaged"] not in ("refuse", "drop"):
        raise UserError(f"damaged={chosen['damaged']!r}: refuse or drop.")
    shares = [chosen["validation_share"], chosen["test_share"]]
    if not all(isinstance(s, (int, float)) and 0 <= s < 1 for s in shares) or not 0 < shares[1] < 1 - shares[0]:
        raise UserError(f"validation_share={shares[0]}, test_share={shares[1]}: shares of the images, below 1 in sum.")
