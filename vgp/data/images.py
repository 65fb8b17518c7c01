"""A task over folders of images, with classes from folders or from a label table, and pixels of one size.

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
from vgp.base.text.printable import join_names, quote
from vgp.data import current_place, image_labels
from vgp.data.image_labels import SPLITS, Damaged, Labels, compose_name, folder_of, pixels
from vgp.data.task import Options, RawRow, Statistics, Task
from vgp.data.tasks.files import find_files
from vgp.data.text import split_of
from vgp.protocol.manifest import SourceFile

SUFFIXES = (".png", ".jpg", ".jpeg", ".webp", ".bmp", ".gif", ".tif", ".tiff")
#: Bytes of pixels and images of one shard, and files read at once, because a file in a bucket takes time to open.
SHARD_BYTES, SHARD_IMAGES, READERS = 16 << 20, 512, 16
MOST_FILE_BYTES = 512 << 20
#: The label of an image of unknown class, in prediction.
UNKNOWN = -1


@dataclass(frozen=True)
class Picture:
    """An image file of a shard, with its version when the shards were cut."""

    #: The path of the image below the input folder.
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
    """The statistics of shards: number of images, bytes, a digest for each shard, and the names of damaged images."""

    images: int
    #: For each split, 8 bytes of the digest of every image that is not dropped.
    prints: Mapping[str, bytes]
    bytes: int
    digests: tuple[str, ...]
    damaged: tuple[str, ...]


class ImageTask(Task):
    """A task that predicts the class of an image. Declare `classes`, and write `model`, `loss` and `predict`.

    A row has `image`, uint8 (size * size * channels): lines from top to bottom, pixels from left to right, cut to the
    middle square. `channels` is 3 (red, green, blue) or 1 (grey). An image that cannot be decoded is an error, or with
    `damaged=drop` is dropped and counted. The image's name alone decides its split, unless the label table does.
    """

    #: Options and their defaults; a subclass may add its own.
    settings: ClassVar[Options] = {
        "size": 64, "channels": 3, "damaged": "refuse", "test_share": 0.2, "validation_share": 0.05,
    }  # fmt: skip

    def __init__(self, options: Options | None = None):
        super().__init__(options)
        self.chosen = {**ImageTask.settings, **self.settings, **self.options}
        _check(self.chosen)
        #: The input as the user wrote it, and the files in it that are not images.
        self.given = ""
        self.others: tuple[str, ...] = ()

    def files(self, data: str) -> Sequence[File]:
        return [replace(file, title=name) for name, file in find_files(data).items()]

    # ---- preparation

    def shards(self, data: str) -> Sequence[tuple[Picture, ...]]:
        files = {name: storage.with_version(file) for name, file in find_files(data).items()}
        images = {name: file for name, file in files.items() if name.lower().endswith(SUFFIXES)}
        if not images:
            raise UserError(f"{data or 'no data'} holds no image: names of images end in {', '.join(SUFFIXES)}.")
        labels = Labels.read(files)
        if labels:
            labels.require_all(images)
        self.given = ",".join(storage.parts(data))
        self.others = tuple(name for name in files if name not in images and not (labels and name == labels.name))
        pictures = list(self._list_pictures(images, labels))
        self.unlabelled = len(images) - len(pictures)
        if not pictures:
            raise UserError(f"{labels.name if labels else data} names none of the {len(images):,} images.")
        count = max(1, min(SHARD_IMAGES, SHARD_BYTES // self._width))
        return [tuple(pictures[i : i + count]) for i in range(0, len(pictures), count)]

    def _list_pictures(self, images: Mapping[str, File], labels: Labels | None) -> Iterator[Picture]:
        """Yields the images that have a class, in the order of their names."""
        shares = self.chosen["validation_share"], self.chosen["test_share"]
        codes = {compose_name(title): code for code, title in enumerate(self.classes)}
        for name, file in images.items():
            line = labels.of(name) if labels else None
            if labels and line is None and not self.predicting:
                continue
            label = line.label if line else "" if self.predicting and "/" not in name else folder_of(name)
            code = codes.get(compose_name(label), UNKNOWN)
            if code == UNKNOWN and not self.predicting:
                where = labels.place(name) if labels else name
                raise UserError(
                    f"{where}: {quote(label)} is not a class of the task. {did_you_mean(label, self.classes)}"
                )
            pinned = (
                f"{file.path}#{file.generation}" if file.generation and file.path == storage.plain(file.path) else ""
            )
            split = (line.split if line else "") or split_of(name, *shares)
            yield Picture(name, replace(file, path=pinned or file.path), code, split)

    def scan(self, shard: tuple[Picture, ...]) -> Scan:
        """Reads every image of the shard, and with `damaged=drop` decodes it."""
        digest, size, damaged, prints = hashlib.sha256(), 0, [], {split: bytearray() for split in SPLITS}
        for picture, data in _read(shard):
            size += len(data)
            image_digest = hashlib.sha256(data).digest()
            digest.update(picture.name.encode() + b"\0" + image_digest)
            if self.chosen["damaged"] == "drop":
                try:
                    self._decode_pixels(picture, data)
                except Damaged:
                    damaged.append(picture.name)
                    continue
            prints[picture.split] += image_digest[:8]
        by_split = {split: bytes(digests) for split, digests in prints.items()}
        return Scan(len(shard), by_split, size, (digest.hexdigest(),), tuple(damaged))

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
            notes.append(f"Dropped because they cannot be decoded: {_format_names(scan.damaged, 'image')}.")
        if self.others:
            notes.append(f"Ignored because their names are not those of images: {_format_names(self.others, 'file')}.")
        notes += _describe_copies(scan.prints)
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
                by_split[picture.split].append((picture, self._decode_pixels(picture, data)))
            except Damaged:
                if self.chosen["damaged"] == "refuse":
                    raise
        return {split: self._table(pictures) for split, pictures in by_split.items() if pictures}

    def inputs(self, rows: Sequence[RawRow], statistics: Statistics) -> pa.Table:
        """Decodes raw rows, which hold an image file under `image`: bytes, or text in base64."""
        data = [_decode_row(row, f"row {number:,}") for number, row in enumerate(rows, 1)]
        images = [pixels(name, file, self.chosen["size"], self.chosen["channels"]) for name, file in data]
        return pa.table({"image": pa.array(images, pa.binary(self._width))})

    def _decode_pixels(self, picture: Picture, data: bytes) -> bytes:
        return pixels(picture.name, data, self.chosen["size"], self.chosen["channels"])

    @property
    def _width(self) -> int:
        return int(self.chosen["size"] ** 2 * self.chosen["channels"])

    def _table(self, pictures: Sequence[tuple[Picture, bytes]]) -> pa.Table:
        return pa.table(
            {
                "row_id": pa.array([image_labels.hash_name(picture.name) for picture, _ in pictures], pa.int64()),
                "image": pa.array([data for _, data in pictures], pa.binary(self._width)),
                "label": pa.array([picture.label for picture, _ in pictures], pa.int64()),
            }
        )


def _decode_row(row: RawRow, name: str) -> tuple[str, bytes]:
    image = row.get("image")
    try:
        return name, image if isinstance(image, bytes) else base64.b64decode(image or b"", validate=True)
    except (TypeError, ValueError):
        raise UserError(f"{name}: image must be the bytes of an image file, or their base64 text.") from None


def _describe_copies(prints: Mapping[str, bytes]) -> Iterator[str]:
    """Yields a sentence for each split that has byte-for-byte copies of train images under other names."""
    train, *others = (np.frombuffer(prints[split], "<u8") for split in SPLITS)
    for split, tested in zip(SPLITS[1:], others, strict=True):
        if count := int(np.isin(tested, train).sum()):
            yield (
                f"Of the {len(tested):,} images of the {split} split {count:,} are in the train split too, byte for "
                "byte, and test nothing: remove the copies, or give the splits in a label table."
            )


def _format_names(names: Sequence[str], noun: str) -> str:
    return f"{len(names):,} {noun}{'s' * (len(names) != 1)} ({join_names(names)})"


def _read(pictures: Sequence[Picture]) -> Iterator[tuple[Picture, bytes]]:
    """Yields each picture and its bytes, in order; threads read ahead."""
    with ThreadPoolExecutor(READERS) as readers:
        for start in range(0, len(pictures), READERS):
            group = pictures[start : start + READERS]
            for picture, data in zip(group, readers.map(Picture.read, group), strict=True):
                current_place.record_place(picture.file.path)
                yield picture, data


def _check(options: Options) -> None:
    size, channels = options["size"], options["channels"]
    if not (isinstance(size, int) and 1 <= size <= 4096):
        raise UserError(f"size={size!r}: it must be the pixels of a side, a whole number from 1 to 4,096.")
    if channels not in (1, 3):
        raise UserError(f"channels={channels!r}: it must be 3 (red, green, blue) or 1 (grey).")
    if options["damaged"] not in ("refuse", "drop"):
        raise UserError(f"damaged={options['damaged']!r}: it must be refuse or drop.")
    shares = [options["validation_share"], options["test_share"]]
    if not all(isinstance(s, (int, float)) and 0 <= s < 1 for s in shares) or not 0 < shares[1] < 1 - shares[0]:
        raise UserError(
            f"validation_share={shares[0]}, test_share={shares[1]}: they must be shares of the images, with test_share "
            "above 0 and a sum below 1."
        )
