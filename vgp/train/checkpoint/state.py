"""The state of training as named tensors: cut into each rank's share to save, put together again to load.

Legend: a tensor of shape (n, ...) is cut along its first dimension as `torch.chunk` would, whether each rank
holds all of it (DDP) or only that chunk (FSDP2), so that any number of ranks can load what any other saved.
"""

import math
from collections.abc import Mapping, Sequence
from typing import Any, Protocol

import torch
from torch import Tensor, nn
from torch.distributed.tensor import DTensor

from vgp.base.documents.json_text import Json, JsonObject
from vgp.base.exits import UserError
from vgp.train.checkpoint.manifest import Piece, Stored, cut
from vgp.train.checkpoint.saved import Saved, Target


class Updates(Protocol):
    """An optimizer, or several as one: what of `torch.optim.Optimizer` counts here."""

    @property
    def param_groups(self) -> Any: ...

    @property
    def state(self) -> Any: ...

    def state_dict(self) -> dict[str, Any]: ...

    def load_state_dict(self, state_dict: dict[str, Any]) -> None: ...


def tensors_of(model: nn.Module, optimizer: Updates) -> dict[str, Tensor]:
    """Every tensor of the model and its optimizer by name; the live ones, not copies."""
    tensors = {f"model/{name}": tensor for name, tensor in model.state_dict().items()}
    for name, state in _states(model, optimizer).items():
        tensors |= {f"optimizer/{name}/{key}": value for key, value in state.items() if isinstance(value, Tensor)}
    return tensors


def scalars_of(model: nn.Module, optimizer: Updates) -> JsonObject:
    """What the optimizer keeps besides tensors: JSON values only, never pickled."""
    groups = [{k: v for k, v in group.items() if k != "params" and is_json(v)} for group in optimizer.param_groups]
    states = {
        name: {key: value for key, value in state.items() if not isinstance(value, Tensor)}
        for name, state in _states(model, optimizer).items()
    }
    return {"groups": groups, "states": {name: state for name, state in states.items() if state}}


def stable(model: nn.Module, optimizer: Updates) -> set[str]:
    """Names of the tensors that change in the optimizer's step only: its own, and the weights that it updates."""
    updated = {name for parameter, name in _names(model).items() if parameter in optimizer.state}
    return {f"model/{name}" for name in updated} | {n for n in tensors_of(model, optimizer) if n[:10] == "optimizer/"}


def restore(model: nn.Module, optimizer: Updates, saved: Saved, others: Mapping[str, Tensor] | None = None) -> None:
    """Reads what this rank needs of a checkpoint into a model and optimizer of the same structure.

    Args:
        others: Tensors that are neither the model's nor the optimizer's, by their names in the checkpoint.

    Raises:
        Damaged: what is stored is not what was written. The model holds some of it then.
        UserError: the checkpoint does not fit, or makes no sense.
    """
    others = others or {}
    _require_fitting(model, saved)
    _require_others(others, saved)
    current = model.state_dict()
    names = _names(model)
    numbered = optimizer.state_dict()
    order = [parameter for group in optimizer.param_groups for parameter in group["params"]]
    states = _states_like(saved, {names[parameter]: parameter for parameter in order})
    try:
        require_plausible(saved.manifest.scalars, numbered["param_groups"], states)
    except ValueError as error:
        raise saved.refusal(str(error)) from None
    kept = {f"optimizer/{name}/{key}": tensor for name, state in states.items() for key, tensor in state.items()}
    ours = {f"model/{name}": tensor for name, tensor in current.items()}
    saved.fill(_target(name, tensor) for name, tensor in (ours | kept | dict(others)).items())
    model.load_state_dict(current)  # for a module whose state is not its own tensors; else a copy onto itself
    for name, values in saved.manifest.scalars["states"].items():
        states[name] |= values
    for group, values in zip(numbered["param_groups"], saved.manifest.scalars["groups"], strict=True):
        group.update({key: _like(group[key], value) for key, value in values.items()})
    numbered["state"] = {n: states[names[p]] for n, p in enumerate(order) if states[names[p]]}
    optimizer.load_state_dict(numbered)


def _require_fitting(model: nn.Module, saved: Saved) -> None:
    """Raises UserError unless the checkpoint has the model's tensors, and no others."""
    there = {name.removeprefix("model/"): t.shape for name, t in saved.manifest.tensors.items() if name[:6] == "model/"}
    here = {name: tuple(tensor.shape) for name, tensor in model.state_dict().items()}
    other = sorted(name for name in there.keys() | here.keys() if there.get(name) != here.get(name))
    if other:
        shown = ", ".join(f"{name}: {there.get(name)} -> {here.get(name)}" for name in other[:5])
        raise UserError(
            f"checkpoint {saved.manifest.name} is of another model (checkpoint -> now): {shown}"
            + (f" and {len(other) - 5} more" if len(other) > 5 else "")
            + ". Take the task as it was, give another checkpoint folder, or start anew with resume=never."
        )


def _require_others(others: Mapping[str, Tensor], saved: Saved) -> None:
    """Raises UserError unless the checkpoint has these tensors besides those of model and optimizer."""
    there = {name: t.shape for name, t in saved.manifest.tensors.items()
             if name.partition("/")[0] not in ("model", "optimizer")}  # fmt: skip
    here = {name: tuple(tensor.shape) for name, tensor in others.items()}
    if other := sorted(name for name in there.keys() | here.keys() if there.get(name) != here.get(name)):
        raise saved.refusal(f"{other[0]}: {there.get(other[0])} -> {here.get(other[0])}")


def _states_like(saved: Saved, parameters: Mapping[str, Tensor]) -> dict[str, dict[str, Any]]:
    """The optimizer's state of each parameter, empty if it has none; the tensors' bytes are to come."""
    states: dict[str, dict[str, Any]] = {name: {} for name in parameters}
    for whole_name in saved.manifest.tensors:
        kind, _, rest = whole_name.partition("/")
        name, _, key = rest.rpartition("/")
        if kind == "optimizer" and name not in parameters:
            raise saved.refusal(f"{whole_name} belongs to no parameter")
        if kind == "optimizer":
            states[name][key] = _state_like(saved, whole_name, parameters[name].detach())
    return states


def _state_like(saved: Saved, name: str, parameter: Tensor) -> Tensor:
    """Cut and placed as the parameter is, if it has the same shape."""
    if saved.manifest.tensors[name].shape != tuple(parameter.shape):
        return saved.empty(name)
    if not isinstance(parameter, DTensor):
        return torch.empty_like(parameter, dtype=saved.dtype(name))
    return DTensor.from_local(
        torch.empty_like(parameter.to_local(), dtype=saved.dtype(name)), parameter.device_mesh, parameter.placements,
        run_check=False, shape=parameter.shape, stride=parameter.stride(),
    )  # fmt: skip


def _target(name: str, tensor: Tensor) -> Target:
    """The rows that this rank holds of a tensor."""
    tensor = tensor.detach()
    if not isinstance(tensor, DTensor):
        return Target(name, tensor)
    return Target(name, tensor.to_local(), own_rows(tensor)[0], shared_out=True)


def own_share(tensor: Tensor) -> Tensor:
    """The memory of what this rank holds of a tensor: all of it, or its share of a sharded one."""
    return tensor.to_local() if isinstance(tensor, DTensor) else tensor


def own_rows(tensor: DTensor) -> tuple[int, int]:
    """First row and end of this rank's share of a tensor."""
    pieces = cut(tuple(tensor.shape), tensor.device_mesh.size())
    rank = tensor.device_mesh.get_local_rank()
    return next(((piece.start, piece.stop) for piece in pieces if piece.part == rank), (0, 0))


def _like(current: object, saved: Json) -> object:
    return tuple(saved) if isinstance(current, tuple) and isinstance(saved, list) else saved


def _names(model: nn.Module) -> dict[Tensor, str]:
    return {parameter: name for name, parameter in model.named_parameters()}


def _states(model: nn.Module, optimizer: Updates) -> dict[str, dict[str, Any]]:
    names = _names(model)
    return {names[parameter]: state for parameter, state in optimizer.state.items() if parameter in names}


# ---- shares: what one rank writes


def stored(tensors: Mapping[str, Tensor], world_size: int) -> dict[str, Stored]:
    """Which rows of each tensor each rank's part holds."""
    return {name: Stored(shape=shape, pieces=cut(shape, world_size))
            for name, shape in ((name, tuple(tensor.shape)) for name, tensor in tensors.items())}  # fmt: skip


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
        return own_share(tensor)
    return tensor[piece.start : piece.stop] if tensor.ndim else tensor


# ---- what an optimizer keeps besides tensors, such as a learning rate: JSON, and not believed when it is read


def is_json(value: object) -> bool:
    return (
        value is None
        or isinstance(value, bool | int | float | str)
        or (isinstance(value, list | tuple) and all(map(is_json, value)))
    )


def require_plausible(
    scalars: JsonObject, groups: Sequence[Mapping[str, object]], states: Mapping[str, Mapping[str, object]]
) -> None:
    """Raises ValueError unless the saved values could have come from an optimizer with these groups.

    Args:
        scalars: `groups`, a mapping of hyperparameters for each; `states`, by parameter and name.
        groups: What the optimizer has now; `params` is its own.
        states: The saved tensors of each parameter, by name.
    """
    if scalars.keys() != {"groups", "states"} or not isinstance(scalars["groups"], list):
        raise ValueError("the optimizer's values are not as they were written")
    if len(scalars["groups"]) != len(groups):
        raise ValueError(f"{len(scalars['groups'])} groups of parameters instead of {len(groups)}")
    for group, saved in zip(groups, scalars["groups"], strict=True):
        _require_group(group, saved)
    _require_states(scalars["states"], states)


def _require_group(group: Mapping[str, object], saved: Json) -> None:
    if not isinstance(saved, Mapping):
        raise ValueError("a group of parameters is no mapping")
    for key, value in saved.items():
        if key == "params" or key not in group or not _alike(group[key], value):
            raise ValueError(f"{key} = {str(value)[:40]} of a group of parameters")


def _require_states(saved: Json, states: Mapping[str, Mapping[str, object]]) -> None:
    if not isinstance(saved, Mapping):
        raise ValueError("the states of the parameters are no mapping")
    for name, values in saved.items():
        if name not in states or not isinstance(values, Mapping) or values.keys() & states[name].keys():
            raise ValueError(f"the optimizer's state of {name}")
        if not all(map(_is_finite, values.values())):
            raise ValueError(f"the optimizer's state of {name}")


def _alike(now: object, saved: Json) -> bool:
    """Whether a value may stand where `now` stands. Switches that are left open (None) may be on or off."""
    if isinstance(now, bool) or now is None or saved is None:
        return saved is None or isinstance(saved, bool)
    if isinstance(now, list | tuple):
        return isinstance(saved, list) and len(saved) == len(now) and all(map(_alike, now, saved))
    if isinstance(now, str):
        return isinstance(saved, str)
    return not isinstance(saved, bool) and isinstance(saved, int | float) and math.isfinite(saved)


def _is_finite(value: object) -> bool:
    return is_json(value) and not (isinstance(value, float) and not math.isfinite(value))
