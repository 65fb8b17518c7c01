"""What a checkpoint is: immutable parts, and a manifest whose presence is the commit. No torch here.

run000-step000000120.json                        the manifest, written last
run000-step000000120-1f0c3a77-0.safetensors      one part per rank; the launch_id is new for every attempt
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
    """One file of tensors, in safetensors format."""

    #: A bare file name of the folder, never a path: nothing outside it is ever read.
    name: str = Field(pattern=f"^{_PART.pattern}$")
    bytes: int = Field(ge=0)
    #: CRC-32C, the checksum that Cloud Storage keeps for every object: 7 GB/s on one core against 1.6 for sha256.
    crc32c: int
    #: CRC-32C of each `BLOCK` bytes, the last one shorter; none for a part of a single block.
    blocks: tuple[int, ...] = ()

    @property
    def checksums(self) -> tuple[int, ...]:
        """Of every block."""
        return self.blocks or (self.crc32c,)

    @model_validator(mode="after")
    def _complete(self) -> "Part":
        if len(self.checksums) != max(1, -(-self.bytes // BLOCK)):
            raise ValueError(f"{len(self.checksums)} checksums for {self.bytes} bytes")
        return self


class Piece(Frozen):
    """Rows [start, stop) of a tensor, along its first dimension, and the part that holds them."""

    part: int
    start: int
    stop: int


def cut(shape: tuple[int, ...], world_size: int) -> tuple[Piece, ...]:
    """What each rank has of a tensor that is cut as `torch.chunk` would; ranks that have nothing are left out."""
    rows = shape[0] if shape else 1
    size = max(1, -(-rows // world_size))
    cuts = [(rank, min(rank * size, rows), min((rank + 1) * size, rows)) for rank in range(world_size)]
    return tuple(Piece(part=rank, start=a, stop=b) for rank, a, b in cuts if b > a or rank == 0)


class Stored(Frozen):
    """A whole tensor; scalars have an empty shape and one piece [0, 1)."""

    shape: tuple[int, ...]
    pieces: tuple[Piece, ...]

    @property
    def rows(self) -> int:
        return self.shape[0] if self.shape else 1

    @model_validator(mode="after")
    def _complete(self) -> "Stored":
        cuts = [0, *(cut for piece in self.pieces for cut in (piece.start, piece.stop)), self.rows]
        meet = all(end == start for end, start in zip(cuts[::2], cuts[1::2], strict=True))
        if min(self.shape, default=0) < 0 or not meet or any(a > b for a, b in pairwise(cuts)):
            raise ValueError("the pieces do not make up the tensor")
        return self


class Manifest(Frozen):
    """A committed checkpoint: the state after `step` steps."""

    format: Literal[1] = 1
    run: int = Field(ge=0)
    step: int = Field(ge=0)
    #: What started the attempt that wrote it, where that has a name; "" = not known.
    job: str = ""
    #: The kind of device that the ranks computed on, such as `NVIDIA L4`; "" = not told.
    device: str = ""
    #: What decides the numbers: configuration, data, task. A resume must match it.
    settings: JsonObject
    parts: tuple[Part, ...]
    tensors: dict[str, Stored]
    #: Optimizer values that are no tensors, by parameter; and its groups' hyperparameters.
    scalars: JsonObject = {}
    #: Values of the trainer that are no tensors, by part (`vgp.train.loop.trainer_state`).
    trainer: JsonObject = {}
    #: History so far: part of the model that comes out.
    history: JsonObject = {}

    @model_validator(mode="after")
    def _known_parts(self) -> "Manifest":
        if any(not 0 <= p.part < len(self.parts) for stored in self.tensors.values() for p in stored.pieces):
            raise ValueError("a tensor lies in a part that there is not")
        return self

    @property
    def name(self) -> str:
        return f"run{self.run:03d}-step{self.step:09d}.json"

    def encode(self) -> bytes:
        """JSON whose first field is the checksum of all that follows it."""
        body = (json.dumps(self.model_dump(), sort_keys=True) + "\n").encode()[1:]
        return _prefix(body) + body

    @classmethod
    def decode(cls, data: bytes) -> "Manifest":
        """Raises ValueError if a bit is not as it was written."""
        body = data[len(_prefix(b"")) :]
        if not data.startswith(_prefix(body)):
            raise ValueError("the checksum differs")
        return json_text.parse_model(cls, b"{" + body)


def _prefix(body: bytes) -> bytes:
    return b'{"crc32c": "%08x", ' % google_crc32c.value(body)


def part_name(run: int, step: int, launch_id: str, rank: int) -> str:
    return f"run{run:03d}-step{step:09d}-{launch_id}-{rank}.safetensors"


def position(name: str) -> tuple[int, int] | None:
    """(run, step) of a manifest's name; None for any other name."""
    match = _NAME.fullmatch(name)
    return (int(match[1]), int(match[2])) if match else None


def part_position(name: str) -> tuple[int, int] | None:
    """(run, step) of a part's name; None for any other name."""
    match = _PART.fullmatch(name)
    return (int(match[1]), int(match[2])) if match else None


def require_same(then: JsonObject, now: JsonObject, where: str) -> None:
    """Raises UserError with the difference if a checkpoint's settings are not those of this run."""
    changed = [f"  {line}" for line in _differences(then, now)]
    if changed:
        raise UserError(
            f"the checkpoints in {where} were made with other settings (checkpoint -> now):\n"
            + "\n".join(changed)
            + "\nTake the old values, give another checkpoint folder, or start anew with resume=never."
        )


def _differences(then: JsonObject, now: JsonObject, prefix: str = "") -> list[str]:
    lines = []
    for key in sorted(then.keys() | now.keys()):
        before, after = then.get(key), now.get(key)
        if isinstance(before, dict) and isinstance(after, dict):
            lines += _differences(before, after, f"{prefix}{key}.")
        elif isinstance(before, str) and isinstance(after, str) and "\n" in before and "\n" in after:
            pairs = zip_longest(before.splitlines(), after.splitlines(), fillvalue="")
            number, old, new = next((n, *pair) for n, pair in enumerate(pairs, 1) if pair[0] != pair[1])
            lines.append(f"{prefix}{key}, line {number}: {_short(old)} -> {_short(new)}")
        elif before != after:
            lines.append(f"{prefix}{key}: {_short(before)} -> {_short(after)}")
    return lines


def _short(value: Json) -> str:
    text = json.dumps(value)
    return text if len(text) <= 60 else text[:57] + "..."
