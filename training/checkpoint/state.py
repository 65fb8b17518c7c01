"""The state of training as named tensors: cut into each rank's share to save, put together again to load.

Legend: a tensor of shape (n, ...) is cut along its first dimension as `torch.chunk` would, whether each rank
holds all of it (DDP) or only that chunk (FSDP2), so that any number of ranks can load what any other saved.
"""

import json
from collections.abc import Callable, Mapping
from typing import Any

import torch
from safetensors import SafetensorError
from safetensors.torch import load as load_safetensors
from torch import Tensor, nn
from torch.distributed.tensor import DTensor, distribute_tensor
from torch.optim import Optimizer

from training.checkpoint.manifest import Manifest, Piece, Stored, require_unique_keys
from training.errors import UserError

_DTYPES = {
    torch.float64: "F64", torch.float32: "F32", torch.float16: "F16", torch.bfloat16: "BF16", torch.int64: "I64",
    torch.int32: "I32", torch.int16: "I16", torch.int8: "I8", torch.uint8: "U8", torch.bool: "BOOL",
}  # fmt: skip


def whole(tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """The full tensors on the CPU; every rank must call it if they are sharded."""
    return {n: (t.full_tensor() if isinstance(t, DTensor) else t).detach().cpu() for n, t in tensors.items()}


def tensors_of(model: nn.Module, optimizer: Optimizer) -> dict[str, Tensor]:
    """Every tensor of the model and its optimizer by name; the live ones, not copies."""
    found = {f"model/{name}": tensor for name, tensor in model.state_dict().items()}
    for name, state in _states(model, optimizer).items():
        found |= {f"optimizer/{name}/{key}": value for key, value in state.items() if isinstance(value, Tensor)}
    return found


def scalars_of(model: nn.Module, optimizer: Optimizer) -> dict[str, Any]:
    """What the optimizer keeps besides tensors: JSON values only, never pickled."""
    groups = [{k: v for k, v in group.items() if k != "params" and _is_json(v)} for group in optimizer.param_groups]
    states = {
        name: {key: value for key, value in state.items() if not isinstance(value, Tensor)}
        for name, state in _states(model, optimizer).items()
    }
    return {"groups": groups, "states": {name: state for name, state in states.items() if state}}


def restore(model: nn.Module, optimizer: Optimizer, tensors: Mapping[str, Tensor], scalars: Mapping[str, Any]) -> None:
    """Puts saved values into a model and optimizer of the same structure."""
    take(model, _below("model/", tensors))
    names = _names(model)
    numbered = optimizer.state_dict()
    order = [names[parameter] for group in optimizer.param_groups for parameter in group["params"]]
    parameters = dict(model.named_parameters())
    states = {number: _state(name, parameters[name], tensors, scalars) for number, name in enumerate(order)}
    numbered["state"] = {number: state for number, state in states.items() if state}
    for group, saved in zip(numbered["param_groups"], scalars["groups"], strict=True):
        group.update({key: _like(group.get(key), value) for key, value in saved.items()})
    optimizer.load_state_dict(numbered)


def take(model: nn.Module, weights: Mapping[str, Tensor]) -> None:
    """Puts whole tensors into a model, sharded or not."""
    current = model.state_dict()
    model.load_state_dict({name: _placed(value, current[name]) for name, value in weights.items()})


def _state(name: str, parameter: Tensor, tensors: Mapping[str, Tensor], scalars: Mapping[str, Any]) -> dict[str, Any]:
    found = _below(f"optimizer/{name}/", tensors)
    return {key: _placed(value, parameter) for key, value in found.items()} | scalars["states"].get(name, {})


def _placed(whole: Tensor, like: Tensor) -> Tensor:
    """A copy of the saved tensor, cut as `like` is if that is sharded and of the same shape."""
    if isinstance(like, DTensor) and like.shape == whole.shape:
        on_device = whole.to(like.device_mesh.device_type)
        return distribute_tensor(on_device, like.device_mesh, like.placements, src_data_rank=None)
    return whole.clone()


def _below(prefix: str, tensors: Mapping[str, Tensor]) -> dict[str, Any]:
    return {key.removeprefix(prefix): value for key, value in tensors.items() if key.startswith(prefix)}


def _like(current: Any, saved: Any) -> Any:
    return tuple(saved) if isinstance(current, tuple) else saved


def _is_json(value: Any) -> bool:
    return (
        value is None
        or isinstance(value, bool | int | float | str)
        or (isinstance(value, list | tuple) and all(map(_is_json, value)))
    )


def _names(model: nn.Module) -> dict[Tensor, str]:
    return {parameter: name for name, parameter in model.named_parameters()}


def _states(model: nn.Module, optimizer: Optimizer) -> dict[str, dict[str, Any]]:
    names = _names(model)
    return {names[parameter]: state for parameter, state in optimizer.state.items() if parameter in names}


# ---- shares: what one rank writes


def stored(tensors: Mapping[str, Tensor], world_size: int) -> dict[str, Stored]:
    """Which rows of each tensor each rank's part holds."""
    return {name: _stored(tuple(tensor.shape), world_size) for name, tensor in tensors.items()}


def _stored(shape: tuple[int, ...], world_size: int) -> Stored:
    rows = shape[0] if shape else 1
    size = max(1, -(-rows // world_size))
    cuts = [(rank, min(rank * size, rows), min((rank + 1) * size, rows)) for rank in range(world_size)]
    return Stored(shape=shape, pieces=tuple(Piece(part=r, start=a, stop=b) for r, a, b in cuts if b > a or r == 0))


def share(tensors: Mapping[str, Tensor], layout: Mapping[str, Stored], rank: int) -> dict[str, Tensor]:
    """The rows that `rank` writes: views of the live tensors."""
    return {
        name: _rows(tensor, piece)
        for name, tensor in tensors.items()
        for piece in layout[name].pieces
        if piece.part == rank
    }


def _rows(tensor: Tensor, piece: Piece) -> Tensor:
    tensor = tensor.detach()
    if isinstance(tensor, DTensor):
        return tensor.to_local()
    return tensor[piece.start : piece.stop] if tensor.ndim else tensor


def encode(tensors: Mapping[str, Tensor]) -> list[memoryview]:
    """The safetensors file of these CPU tensors, as buffers: nothing is copied.

    Format: https://huggingface.co/docs/safetensors/index#format
    """
    header, offset = {}, 0
    # Widest types first, so that every tensor is aligned; then by name, so that equal states are equal files.
    ordered = dict(sorted(tensors.items(), key=lambda item: (-item[1].element_size(), item[0])))
    for name, tensor in ordered.items():
        end = offset + tensor.nbytes
        header[name] = {"dtype": _DTYPES[tensor.dtype], "shape": list(tensor.shape), "data_offsets": [offset, end]}
        offset = end
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    return [memoryview(len(text).to_bytes(8, "little") + text), *map(_buffer, ordered.values())]


def _buffer(tensor: Tensor) -> memoryview:
    array: Any = tensor.contiguous().reshape(-1).view(torch.uint8).numpy()
    return memoryview(array)


def decode(manifest: Manifest, read: Callable[[int], bytes]) -> dict[str, Tensor]:
    """The whole tensors of a checkpoint; `read` gives a part's bytes by number.

    Raises:
        UserError: the parts are intact, but do not hold what the manifest says: someone else has made them.
    """
    try:
        parts = [_tensors(read(number)) for number in range(len(manifest.parts))]
        return {name: _joined(name, place, parts) for name, place in manifest.tensors.items()}
    except (SafetensorError, LookupError, RuntimeError, ValueError) as error:
        raise UserError(
            f"checkpoint {manifest.name} does not hold what its manifest says ({type(error).__name__}: {error}): "
            "this program has not written it. Delete it to go on from the one before."
        ) from None


def _tensors(part: bytes) -> dict[str, Tensor]:
    found = load_safetensors(part)
    require_unique_keys(part[8 : 8 + int.from_bytes(part[:8], "little")])
    return found


def _joined(name: str, place: Stored, parts: list[dict[str, Tensor]]) -> Tensor:
    pieces = [parts[piece.part][name] for piece in place.pieces]
    joined = pieces[0] if len(pieces) == 1 else torch.cat(pieces)
    if tuple(joined.shape) != place.shape:
        raise ValueError(f"{name} is of shape {tuple(joined.shape)}, not {place.shape}")
    return joined
