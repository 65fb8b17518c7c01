"""The .safetensors files of a warm start, and the tensors in them. No torch here.

A folder holds model.safetensors beside model.json (written by this library), or model.safetensors or shards with
model.safetensors.index.json (Hugging Face). Format: https://huggingface.co/docs/safetensors/index#format
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
from vgp.base.text.printable import join_names, quote
from vgp.protocol import file_names
from vgp.protocol import pins as store
from vgp.protocol.pins import ChampionPins

WEIGHTS_FILE, INDEX, SUFFIX = file_names.WEIGHTS, "model.safetensors.index.json", ".safetensors"
#: Suffixes of weights that are pickles or belong to other frameworks.
_PICKLED = (".bin", ".pt", ".pth", ".ckpt", ".pkl")
_LENGTH_BYTES = 8
#: The limit of the safetensors library.
_MOST_HEADER_BYTES = 100 << 20
_DTYPE_BYTES = {
    "BOOL": 1, "U8": 1, "I8": 1, "F8_E4M3": 1, "F8_E5M2": 1, "U16": 2, "I16": 2, "F16": 2, "BF16": 2, "U32": 4,
    "I32": 4, "F32": 4, "U64": 8, "I64": 8, "F64": 8, "C64": 8,
}  # fmt: skip


class Frozen(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class WeightsFile(Frozen):
    """A file of weights; the path of an object ends in #generation."""

    path: str
    name: str
    bytes: int
    crc32c: str


class Entry(Frozen):
    """A tensor's place and form."""

    #: Index of its file in `Weights.files`.
    file: int
    dtype: str
    shape: tuple[int, ...]

    @property
    def is_float(self) -> bool:
        return "F" in self.dtype


class Weights(Frozen):
    """Immutable files, and the tensors in them by name."""

    source: str
    #: Whether the files lie beside a model card of this library.
    has_card: bool
    files: tuple[WeightsFile, ...]
    tensors: dict[str, Entry]

    def fingerprint(self) -> dict[str, str]:
        """Returns the size and checksum of each file by name; equal for equal weights at any path."""
        return {file.name: f"{file.bytes} bytes, CRC-32C {file.crc32c}" for file in self.files}


def open_weights(source: str, uri: str = "") -> Weights:
    """Reads the headers and checksums of the weights at `source`.

    Args:
        uri: The pins that list the files; "" = list the files at `source`.

    Raises:
        UserError: by_name are no readable weights, or a file differs from its pin.
    """
    candidates = list_pinned(uri) if uri else [storage.with_version(file) for file in find_weights(source)]
    shards = [file for file in candidates if _name(file).endswith(SUFFIX)]
    tensors: dict[str, Entry] = {}
    for number, file in enumerate(shards):
        for name, entry in _entries(file, number).items():
            if name in tensors:
                raise UserError(f"{source}: both {_name(shards[tensors[name].file])} and {_name(file)} hold {name}.")
            tensors[name] = entry
    if not tensors:
        raise UserError(f"{source} holds no tensor.")
    has_card = len(shards) < len(candidates)
    return Weights(source=source, has_card=has_card, files=tuple(map(_describe, shards)), tensors=tensors)


def find_weights(source: str) -> list[File]:
    """Returns the files of weights at `source`, followed by model.json if it exists.

    Raises:
        UserError: `source` does not exist, holds no .safetensors file or several without an index, or is a pickle.
    """
    finding.refuse_scheme(source)
    source = storage.uri(os.path.expanduser(source))
    source = source if storage.is_remote(source) else os.path.abspath(source)
    if source.endswith(SUFFIX):
        return storage.find(source)
    if source.endswith(_PICKLED):
        raise _pickle_error(source)
    by_name = {PurePosixPath(file.path).name: file for file in _files_in(source)}
    card = [by_name[file_names.CARD]] if file_names.CARD in by_name else []
    if WEIGHTS_FILE in by_name:
        return [by_name[WEIGHTS_FILE], *card]
    if INDEX in by_name:
        return [*_shards(source, by_name), *card]
    weights = sorted(name for name in by_name if name.endswith(SUFFIX))
    if len(weights) > 1:
        raise UserError(f"{source} holds {join_names(weights)}, and no {INDEX}: give one of them.")
    if not weights and (pickles := sorted(name for name in by_name if name.endswith(_PICKLED))):
        raise _pickle_error(f"{source}/{pickles[0]}")
    if not weights:
        raise UserError(
            f"warm_start={source} holds no weights: neither {WEIGHTS_FILE}, nor {INDEX} with its shards, nor any other "
            f"{SUFFIX}."
        )
    return [by_name[weights[0]], *card]


def list_pinned(uri: str) -> list[File]:
    """Returns the files that the pins at `uri` list. Raises UserError if one has changed."""
    document = store.load(uri, ChampionPins)
    objects = [File(f"{o.name}#{o.generation}", o.bytes, o.generation, title=o.title) for o in document.objects]
    return objects + [pinned.require_unchanged(file) for file in document.files]


def _files_in(folder: str) -> list[File]:
    if not storage.is_remote(folder) and not os.path.isdir(folder):
        kind = "is neither a folder nor a .safetensors file" if os.path.exists(folder) else "does not exist"
        raise UserError(f"warm_start={folder} {kind}.")
    return storage.find(folder) if storage.is_remote(folder) else find_local(folder, ("",))


def _shards(source: str, by_name: dict[str, File]) -> list[File]:
    """Returns the shards that the index names. Raises UserError if the index is malformed or a shard is missing."""
    try:
        index = json_text.parse_json(storage.read(by_name[INDEX].path, most=files.MOST_JSON_BYTES))
        names = sorted(set(index["weight_map"].values()))
    except (ValueError, TypeError, LookupError, AttributeError) as error:
        raise UserError(f"{source}/{INDEX} is not an index of shards: {type(error).__name__}: {error}.") from None
    if not names:
        raise UserError(f"{source}/{INDEX} names no shards.")
    if missing := [name for name in names if name not in by_name]:
        raise UserError(f"{source}/{INDEX} names shards that are missing: {join_names(list(map(str, missing)))}.")
    return [by_name[name] for name in names]


def _pickle_error(path: str) -> UserError:
    target = path.rpartition(".")[0] + SUFFIX
    code = (
        "import sys, torch, safetensors.torch as s; "
        "s.save_file({k: v.clone() for k, v in torch.load(sys.argv[1], weights_only=True).items()}, sys.argv[2])"
    )
    return UserError(
        f"{path} is a pickle, which can run arbitrary code when it is read, so it is not opened. Convert it once:\n"
        f"  python -c {shlex.quote(code)} {shlex.quote(path)} {shlex.quote(target)}"
    )


def _describe(file: File) -> WeightsFile:
    if not storage.is_remote(file.path):
        crc32c = f"{download.checksum(Path(file.path)):08x}"
        return WeightsFile(path=file.path, name=_name(file), bytes=file.bytes, crc32c=crc32c)
    blob = storage.get_blob(file.path)
    if blob is None or not blob.crc32c:
        raise UserError(f"{file.path} is gone or shows no checksum. Check the path and your access to it.")
    path = f"{storage.plain(file.path)}#{blob.generation}"
    crc32c = base64.b64decode(blob.crc32c).hex()
    return WeightsFile(path=path, name=_name(file), bytes=blob.size, crc32c=crc32c)


def _entries(file: File, number: int) -> dict[str, Entry]:
    """Reads the tensors of a file from its header. Raises UserError if it is not a safetensors file."""
    path = storage.plain(file.path)
    try:
        header, length = _header(file)
        fields = json_text.parse_json(header)
        entries = {name: _parse_entry(number, value, file.bytes - _LENGTH_BYTES - length)
                   for name, value in fields.items() if name != "__metadata__"}  # fmt: skip
    except (ValueError, TypeError, LookupError, AttributeError) as error:
        raise UserError(
            f"{path} cannot be read as weights: it is not a safetensors file ({quote(str(error))})."
        ) from None
    return entries


def _parse_entry(number: int, value: JsonObject, data_bytes: int) -> Entry:
    shape, (begin, end) = tuple(value["shape"]), value["data_offsets"]
    if any(type(n) is not int or n < 0 for n in (*shape, begin, end)):
        raise ValueError(f"shape {value['shape']}")
    if end - begin != math.prod(shape) * _DTYPE_BYTES[value["dtype"]] or end > data_bytes:
        raise ValueError(f"{end - begin} bytes for {value['dtype']} of shape {list(shape)}")
    return Entry(file=number, dtype=value["dtype"], shape=shape)


def _header(file: File) -> tuple[bytes, int]:
    """Reads the JSON header and its length."""
    opened = download.open_object(file.path, chunk_bytes=1 << 20) if storage.is_remote(file.path) else None
    with opened or files.open_file(file.path) as stream:
        length = int.from_bytes(stream.read(_LENGTH_BYTES), "little")
        if not 2 <= length <= min(_MOST_HEADER_BYTES, file.bytes - _LENGTH_BYTES):
            raise ValueError(f"a header of {length} bytes in a file of {file.bytes}")
        return stream.read(length), length


def _name(file: File) -> str:
    return file.title or PurePosixPath(storage.plain(file.path)).name
