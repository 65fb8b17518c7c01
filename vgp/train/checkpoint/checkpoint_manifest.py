"""The format of a checkpoint: immutable parts, and a manifest whose presence is the commit. No torch here.

run000-step000000120.json                        the manifest, written last
run000-step000000120-1f0c3a77-0.safetensors      one part per rank; every attempt has a new launch id (1f0c3a77)
"""

import json
import re
from itertools import pairwise, zip_longest
from typing import Literal

import google_crc32c
from pydantic import BaseModel, ConfigDict, Field, model_validator

from vgp.base.documents import json_text
from vgp.base.documents.json_text import Json, JsonObject
from vgp.base.exits import UserError
from vgp.base.storage.files import CHECKSUM_BLOCK as BLOCK

_NAME = re.compile(r"run(\d{3})-step(\d{9,})\.json")
_PART = re.compile(r"run(\d{3})-step(\d{9,})-[0-9a-f]+-\d+\.safetensors")


class Frozen(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class Part(Frozen):
    """A file of tensors in safetensors format."""

    #: A bare file name, never a path, so that no file outside the folder is read.
    name: str = Field(pattern=f"^{_PART.pattern}$")
    bytes: int = Field(ge=0)
    #: CRC-32C, as Cloud Storage keeps for every object: 7 GB/s on one core, against 1.6 GB/s for sha256.
    crc32c: int
    #: CRC-32C of each `BLOCK` bytes, the last one shorter; none for a part of a single block.
    blocks: tuple[int, ...] = ()

    @property
    def checksums(self) -> tuple[int, ...]:
        """The CRC-32C of every block."""
        return self.blocks or (self.crc32c,)

    @model_validator(mode="after")
    def _complete(self) -> "Part":
        if len(self.checksums) != max(1, -(-self.bytes // BLOCK)):
            raise ValueError(f"{len(self.checksums)} checksums for {self.bytes} bytes")
        return self


class Piece(Frozen):
    """Rows [start, stop) of a tensor along its first dimension, and the index of the part that holds them."""

    part: int
    start: int
    stop: int


def cut_rows(shape: tuple[int, ...], world_size: int) -> tuple[Piece, ...]:
    """Cuts a tensor between ranks as `torch.chunk` does; ranks after the first without rows are left out."""
    rows = shape[0] if shape else 1
    size = max(1, -(-rows // world_size))
    cuts = [(rank, min(rank * size, rows), min((rank + 1) * size, rows)) for rank in range(world_size)]
    return tuple(Piece(part=rank, start=a, stop=b) for rank, a, b in cuts if b > a or rank == 0)


class Stored(Frozen):
    """The pieces of a whole tensor; a scalar has an empty shape and one piece [0, 1)."""

    shape: tuple[int, ...]
    pieces: tuple[Piece, ...]

    @property
    def rows(self) -> int:
        return self.shape[0] if self.shape else 1

    @model_validator(mode="after")
    def _complete(self) -> "Stored":
        cuts = [0, *(row for piece in self.pieces for row in (piece.start, piece.stop)), self.rows]
        has_no_gaps = all(end == start for end, start in zip(cuts[::2], cuts[1::2], strict=True))
        if min(self.shape, default=0) < 0 or not has_no_gaps or any(a > b for a, b in pairwise(cuts)):
            raise ValueError("the pieces do not make up the tensor")
        return self


class Manifest(Frozen):
    """A committed checkpoint: the state after `step` steps."""

    format: Literal[1] = 1
    run: int = Field(ge=0)
    step: int = Field(ge=0)
    #: The job of the attempt that wrote it; "" = unknown.
    job: str = ""
    #: The device type of the ranks, such as `NVIDIA L4`; "" = unknown.
    device: str = ""
    #: Everything that decides the result: configuration, data, task. A resume must match it.
    settings: JsonObject
    parts: tuple[Part, ...]
    tensors: dict[str, Stored]
    #: Optimizer values other than tensors, by parameter, and the hyperparameters of its groups.
    scalars: JsonObject = {}
    #: Values of the trainer other than tensors, by part (`vgp.train.loop.trainer_state`).
    trainer: JsonObject = {}
    #: The learning curve so far, which becomes part of the model.
    history: JsonObject = {}

    @model_validator(mode="after")
    def _known_parts(self) -> "Manifest":
        if any(not 0 <= p.part < len(self.parts) for stored in self.tensors.values() for p in stored.pieces):
            raise ValueError("a tensor lies in a part that does not exist")
        return self

    @property
    def name(self) -> str:
        return f"run{self.run:03d}-step{self.step:09d}.json"

    def encode(self) -> bytes:
        """Returns JSON whose first field is the CRC-32C of the bytes after it."""
        body = (json.dumps(self.model_dump(), sort_keys=True) + "\n").encode()[1:]
        return _build_prefix(body) + body

    @classmethod
    def decode(cls, data: bytes) -> "Manifest":
        """Parses the bytes of `encode`. Raises ValueError if any bit has changed."""
        body = data[len(_build_prefix(b"")) :]
        if not data.startswith(_build_prefix(body)):
            raise ValueError("the checksum differs")
        return json_text.parse_model(cls, b"{" + body)


def _build_prefix(body: bytes) -> bytes:
    return b'{"crc32c": "%08x", ' % google_crc32c.value(body)


def part_name(run: int, step: int, launch_id: str, rank: int) -> str:
    return f"run{run:03d}-step{step:09d}-{launch_id}-{rank}.safetensors"


def parse_manifest_name(name: str) -> tuple[int, int] | None:
    """Parses (run, step) from the name of a manifest; returns None for any other name."""
    match = _NAME.fullmatch(name)
    return (int(match[1]), int(match[2])) if match else None


def parse_part_name(name: str) -> tuple[int, int] | None:
    """Parses (run, step) from the name of a part; returns None for any other name."""
    match = _PART.fullmatch(name)
    return (int(match[1]), int(match[2])) if match else None


def require_same_settings(then: JsonObject, now: JsonObject, where: str) -> None:
    """Raises UserError with the differences unless a checkpoint's settings equal those of this run."""
    changed = [f"  {line}" for line in _list_differences(then, now)]
    if changed:
        raise UserError(
            f"the checkpoints in {where} have other settings (checkpoint -> now):\n"
            + "\n".join(changed)
            + "\nUse the old values, give another checkpoint folder, or start anew with resume=never."
        )


def _list_differences(then: JsonObject, now: JsonObject, prefix: str = "") -> list[str]:
    lines = []
    for key in sorted(then.keys() | now.keys()):
        before, after = then.get(key), now.get(key)
        if isinstance(before, dict) and isinstance(after, dict):
            lines += _list_differences(before, after, f"{prefix}{key}.")
        elif isinstance(before, str) and isinstance(after, str) and "\n" in before and "\n" in after:
            pairs = zip_longest(before.splitlines(), after.splitlines(), fillvalue="")
            number, old, new = next((n, *pair) for n, pair in enumerate(pairs, 1) if pair[0] != pair[1])
            lines.append(f"{prefix}{key}, line {number}: {_shorten(old)} -> {_shorten(new)}")
        elif before != after:
            lines.append(f"{prefix}{key}: {_shorten(before)} -> {_shorten(after)}")
    return lines


def _shorten(value: Json) -> str:
    text = json.dumps(value)
    return text if len(text) <= 60 else text[:57] + "..."
