"""Trained weights to begin with (`warm_start`): the .safetensors files that they lie in, and what these hold.

A folder holds them as we write them (model.safetensors beside model.json) or as Hugging Face does: model.safetensors,
or shards that model.safetensors.index.json names. No torch here. Format: https://huggingface.co/docs/safetensors/index#format
"""

import base64
import math
import os
import shlex
from pathlib import Path, PurePosixPath

from pydantic import BaseModel, ConfigDict

from vgp.base.documents import json_text
from vgp.base.documents.json_text import JsonObject
from vgp.base.exits import UserError
from vgp.base.storage import download, files, finding, pinned, storage
from vgp.base.storage.finding import find_local
from vgp.base.storage.storage import File
from vgp.base.text.printable import listed, quoted
from vgp.protocol import file_names
from vgp.protocol import pins as store
from vgp.protocol.pins import ChampionPins

WHOLE, INDEX, SUFFIX = file_names.WEIGHTS, "model.safetensors.index.json", ".safetensors"
#: Files of weights that are pickles, or of other frameworks.
_PICKLED = (".bin", ".pt", ".pth", ".ckpt", ".pkl")
_LENGTH_BYTES = 8
#: What the safetensors library itself allows.
_MOST_HEADER_BYTES = 100 << 20
_DTYPE_BYTES = {
    "BOOL": 1, "U8": 1, "I8": 1, "F8_E4M3": 1, "F8_E5M2": 1, "U16": 2, "I16": 2, "F16": 2, "BF16": 2, "U32": 4,
    "I32": 4, "F32": 4, "U64": 8, "I64": 8, "F64": 8, "C64": 8,
}  # fmt: skip


class Frozen(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class WeightsFile(Frozen):
    """One file; of an object the path ends in #generation."""

    path: str
    name: str
    bytes: int
    crc32c: str


class Entry(Frozen):
    """A tensor: which of the files holds it, and its form."""

    file: int
    dtype: str
    shape: tuple[int, ...]

    @property
    def is_float(self) -> bool:
        return "F" in self.dtype


class Weights(Frozen):
    """Files that do not change while they are read, and the tensors in them by name."""

    source: str
    #: Whether a card of ours lies beside them.
    has_card: bool
    files: tuple[WeightsFile, ...]
    tensors: dict[str, Entry]

    def fingerprint(self) -> dict[str, str]:
        """What tells whether they are the same, wherever they lie."""
        return {file.name: f"{file.bytes} bytes, CRC-32C {file.crc32c}" for file in self.files}


def open_weights(source: str, uri: str = "") -> Weights:
    """What lies at `source`, with the checksum of every byte.

    Args:
        uri: Of the pins that hold the files; "" = they are looked for.

    Raises:
        UserError: there are no weights that can be read, or they are not as they were pinned.
    """
    places = of_pins(uri) if uri else [storage.versioned(file) for file in find(source)]
    own = [file for file in places if _name(file).endswith(SUFFIX)]
    tensors: dict[str, Entry] = {}
    for number, file in enumerate(own):
        for name, entry in _entries(file, number).items():
            if name in tensors:
                raise UserError(f"{source}: both {_name(own[tensors[name].file])} and {_name(file)} hold {name}.")
            tensors[name] = entry
    if not tensors:
        raise UserError(f"{source} holds no tensor.")
    return Weights(
        source=source, has_card=len(own) < len(places), files=tuple(map(_described, own)), tensors=tensors
    )  # fmt: skip


def find(source: str) -> list[File]:
    """The files of weights at `source`, and model.json where there is one. Raises UserError as `open_weights`."""
    finding.refuse(source)
    source = storage.uri(os.path.expanduser(source))
    source = source if storage.is_remote(source) else os.path.abspath(source)
    if source.endswith(SUFFIX):
        return storage.find(source)
    if source.endswith(_PICKLED):
        raise _pickled(source)
    there = {PurePosixPath(file.path).name: file for file in _inside(source)}
    card = [there[file_names.CARD]] if file_names.CARD in there else []
    if WHOLE in there:
        return [there[WHOLE], *card]
    if INDEX in there:
        return [*_sharded(source, there), *card]
    weights = sorted(name for name in there if name.endswith(SUFFIX))
    if len(weights) > 1:
        raise UserError(f"{source} holds {listed(weights)}, and no {INDEX}: give one of them.")
    if not weights and (other := sorted(name for name in there if name.endswith(_PICKLED))):
        raise _pickled(f"{source}/{other[0]}")
    if not weights:
        raise UserError(
            f"warm_start={source} holds no weights: neither {WHOLE}, nor {INDEX} with its shards, nor any other "
            f"{SUFFIX}."
        )
    return [there[weights[0]], *card]


def of_pins(uri: str) -> list[File]:
    """The files that the pins at `uri` hold, as they were. Raises UserError if one was written to."""
    document = store.load(uri, ChampionPins)
    objects = [File(f"{o.name}#{o.generation}", o.bytes, o.generation, title=o.title) for o in document.objects]
    return objects + [pinned.unchanged_file(file) for file in document.files]


def _inside(folder: str) -> list[File]:
    if not storage.is_remote(folder) and not os.path.isdir(folder):
        kind = "is no folder, and no .safetensors file" if os.path.exists(folder) else "does not exist"
        raise UserError(f"warm_start={folder} {kind}.")
    return storage.find(folder) if storage.is_remote(folder) else find_local(folder, ("",))


def _sharded(source: str, there: dict[str, File]) -> list[File]:
    """The shards that the index names, each beside it."""
    try:
        index = json_text.parse_json(storage.read(there[INDEX].path, most=files.MOST_JSON_BYTES))
        names = sorted(set(index["weight_map"].values()))
    except (ValueError, TypeError, LookupError, AttributeError) as error:
        raise UserError(f"{source}/{INDEX} is no index of shards: {type(error).__name__}: {error}.") from None
    if not names:
        raise UserError(f"{source}/{INDEX} names no shards.")
    if missing := [name for name in names if name not in there]:
        raise UserError(f"{source}/{INDEX} names shards that are not beside it: {listed(list(map(str, missing)))}.")
    return [there[name] for name in names]


def _pickled(path: str) -> UserError:
    target = path.rpartition(".")[0] + SUFFIX
    code = (
        "import sys, torch, safetensors.torch as s; "
        "s.save_file({k: v.clone() for k, v in torch.load(sys.argv[1], weights_only=True).items()}, sys.argv[2])"
    )
    return UserError(
        f"{path} is a pickle, which can run code of whoever made it while it is read: it is not opened. Convert it "
        "once:\n"
        f"  python -c {shlex.quote(code)} {shlex.quote(path)} {shlex.quote(target)}"
    )


def _described(file: File) -> WeightsFile:
    if not storage.is_remote(file.path):
        crc32c = f"{download.checksum(Path(file.path)):08x}"
        return WeightsFile(path=file.path, name=_name(file), bytes=file.bytes, crc32c=crc32c)
    blob = storage.described(file.path)
    if blob is None or not blob.crc32c:
        raise UserError(f"{file.path} is gone, or has no checksum that we may see.")
    path = f"{storage.plain(file.path)}#{blob.generation}"
    crc32c = base64.b64decode(blob.crc32c).hex()
    return WeightsFile(path=path, name=_name(file), bytes=blob.size, crc32c=crc32c)


def _entries(file: File, number: int) -> dict[str, Entry]:
    """The tensors of a file, told by its header alone."""
    path = storage.plain(file.path)
    try:
        header, length = _header(file)
        fields = json_text.parse_json(header)
        entries = {name: _entry(number, value, file.bytes - _LENGTH_BYTES - length)
                   for name, value in fields.items() if name != "__metadata__"}  # fmt: skip
    except (ValueError, TypeError, LookupError, AttributeError) as error:
        raise UserError(
            f"{path} cannot be read as weights: it is no safetensors file ({quoted(str(error))})."
        ) from None
    return entries


def _entry(number: int, value: JsonObject, room: int) -> Entry:
    shape, (begin, end) = tuple(value["shape"]), value["data_offsets"]
    if any(type(n) is not int or n < 0 for n in (*shape, begin, end)):
        raise ValueError(f"shape {value['shape']}")
    if end - begin != math.prod(shape) * _DTYPE_BYTES[value["dtype"]] or end > room:
        raise ValueError(f"{end - begin} bytes for {value['dtype']} of shape {list(shape)}")
    return Entry(file=number, dtype=value["dtype"], shape=shape)


def _header(file: File) -> tuple[bytes, int]:
    opened = download.opened(file.path, chunk_bytes=1 << 20) if storage.is_remote(file.path) else None
    with opened or files.open_file(file.path) as stream:
        length = int.from_bytes(stream.read(_LENGTH_BYTES), "little")
        if not 2 <= length <= min(_MOST_HEADER_BYTES, file.bytes - _LENGTH_BYTES):
            raise ValueError(f"a header of {length} bytes in a file of {file.bytes}")
        return stream.read(length), length


def _name(file: File) -> str:
    return file.title or PurePosixPath(storage.plain(file.path)).name
