"""The state of training as named tensors: split into a share for each rank to save, and restored on any ranks.

A tensor of shape (n, ...) is split along its first dimension as `torch.chunk` does, whether each rank holds all of it
(DDP) or only its chunk (FSDP2). Any number of ranks can therefore load a checkpoint of any other number.
"""

import math
from collections.abc import Mapping, Sequence
from typing import Any, Protocol

import torch
from torch import Tensor, nn
from torch.distributed.tensor import DTensor

from vgp.base.documents.json_text import Json, JsonObject
from vgp.base.exits import UserError
from vgp.train.checkpoint.checkpoint_manifest import Piece, Stored, cut_rows
from vgp.train.checkpoint.checkpoint_reader import CheckpointReader, Target


class OptimizerLike(Protocol):
    """The part of the interface of `torch.optim.Optimizer` that checkpoints use."""

    @property
    def param_groups(self) -> Any: ...

    @property
    def state(self) -> Any: ...

    def state_dict(self) -> dict[str, Any]: ...

    def load_state_dict(self, state_dict: dict[str, Any]) -> None: ...


def tensors_of(model: nn.Module, optimizer: OptimizerLike) -> dict[str, Tensor]:
    """Returns the live tensors of the model and its optimizer by name: `model/...` and `optimizer/...`."""
    tensors = {f"model/{name}": tensor for name, tensor in model.state_dict().items()}
    for name, state in _list_states(model, optimizer).items():
        tensors |= {f"optimizer/{name}/{key}": value for key, value in state.items() if isinstance(value, Tensor)}
    return tensors


def scalars_of(model: nn.Module, optimizer: OptimizerLike) -> JsonObject:
    """Returns the optimizer's values other than tensors as JSON: `groups` and, by parameter, `states`."""
    groups = [{k: v for k, v in group.items() if k != "params" and is_json(v)} for group in optimizer.param_groups]
    states = {
        name: {key: value for key, value in state.items() if not isinstance(value, Tensor)}
        for name, state in _list_states(model, optimizer).items()
    }
    return {"groups": groups, "states": {name: state for name, state in states.items() if state}}


def stable_names(model: nn.Module, optimizer: OptimizerLike) -> set[str]:
    """Returns the names of the tensors that change only in the optimizer's step: its state and its weights."""
    updated = {name for parameter, name in _names(model).items() if parameter in optimizer.state}
    return {f"model/{name}" for name in updated} | {n for n in tensors_of(model, optimizer) if n[:10] == "optimizer/"}


def restore(
    model: nn.Module, optimizer: OptimizerLike, saved: CheckpointReader, others: Mapping[str, Tensor] | None = None
) -> None:
    """Reads this rank's part of a checkpoint into a model and optimizer of the same structure.

    Args:
        others: Further tensors to fill, by their names in the checkpoint.

    Raises:
        Damaged: stored bytes are missing or altered. The model may then be partly overwritten.
        UserError: the checkpoint is of another model, or its content contradicts its manifest.
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
    optimizer_tensors = {f"optimizer/{name}/{key}": t for name, state in states.items() for key, t in state.items()}
    model_tensors = {f"model/{name}": tensor for name, tensor in current.items()}
    saved.fill(_target(name, tensor) for name, tensor in (model_tensors | optimizer_tensors | dict(others)).items())
    model.load_state_dict(current)  # for modules whose state_dict holds copies; for all others it changes nothing
    for name, values in saved.manifest.scalars["states"].items():
        states[name] |= values
    for group, values in zip(numbered["param_groups"], saved.manifest.scalars["groups"], strict=True):
        group.update({key: _convert_like(group[key], value) for key, value in values.items()})
    numbered["state"] = {n: states[names[p]] for n, p in enumerate(order) if states[names[p]]}
    optimizer.load_state_dict(numbered)


def _require_fitting(model: nn.Module, saved: CheckpointReader) -> None:
    """Raises UserError unless the checkpoint has exactly the model's tensors."""
    there = {name.removeprefix("model/"): t.shape for name, t in saved.manifest.tensors.items() if name[:6] == "model/"}
    here = {name: tuple(tensor.shape) for name, tensor in model.state_dict().items()}
    different = sorted(name for name in there.keys() | here.keys() if there.get(name) != here.get(name))
    if different:
        examples = ", ".join(f"{name}: {there.get(name)} -> {here.get(name)}" for name in different[:5])
        raise UserError(
            f"checkpoint {saved.manifest.name} is of another model (checkpoint -> now): {examples}"
            + (f" and {len(different) - 5} more" if len(different) > 5 else "")
            + ". Restore the task, give another checkpoint folder, or start anew with resume=never."
        )


def _require_others(others: Mapping[str, Tensor], saved: CheckpointReader) -> None:
    """Raises UserError unless the checkpoint has exactly these tensors besides those of model and optimizer."""
    there = {name: t.shape for name, t in saved.manifest.tensors.items()
             if name.partition("/")[0] not in ("model", "optimizer")}  # fmt: skip
    here = {name: tuple(tensor.shape) for name, tensor in others.items()}
    if different := sorted(name for name in there.keys() | here.keys() if there.get(name) != here.get(name)):
        raise saved.refusal(f"{different[0]}: {there.get(different[0])} -> {here.get(different[0])}")


def _states_like(saved: CheckpointReader, parameters: Mapping[str, Tensor]) -> dict[str, dict[str, Any]]:
    """Returns uninitialized optimizer state for each parameter; empty if the checkpoint has none for it."""
    states: dict[str, dict[str, Any]] = {name: {} for name in parameters}
    for whole_name in saved.manifest.tensors:
        kind, _, rest = whole_name.partition("/")
        name, _, key = rest.rpartition("/")
        if kind == "optimizer" and name not in parameters:
            raise saved.refusal(f"{whole_name} belongs to no parameter")
        if kind == "optimizer":
            states[name][key] = _state_like(saved, whole_name, parameters[name].detach())
    return states


def _state_like(saved: CheckpointReader, name: str, parameter: Tensor) -> Tensor:
    """Returns an uninitialized tensor, sharded and placed like the parameter if their shapes are equal."""
    if saved.manifest.tensors[name].shape != tuple(parameter.shape):
        return saved.empty(name)
    if not isinstance(parameter, DTensor):
        return torch.empty_like(parameter, dtype=saved.dtype(name))
    return DTensor.from_local(
        torch.empty_like(parameter.to_local(), dtype=saved.dtype(name)), parameter.device_mesh, parameter.placements,
        run_check=False, shape=parameter.shape, stride=parameter.stride(),
    )  # fmt: skip


def _target(name: str, tensor: Tensor) -> Target:
    """Returns the target for the rows of a tensor that this rank holds."""
    tensor = tensor.detach()
    if not isinstance(tensor, DTensor):
        return Target(name, tensor)
    return Target(name, tensor.to_local(), own_rows(tensor)[0], shared_out=True)


def own_share(tensor: Tensor) -> Tensor:
    """Returns the tensor itself, or this rank's share of a sharded tensor."""
    return tensor.to_local() if isinstance(tensor, DTensor) else tensor


def own_rows(tensor: DTensor) -> tuple[int, int]:
    """Returns the first row and the end of this rank's share of a tensor."""
    pieces = cut_rows(tuple(tensor.shape), tensor.device_mesh.size())
    rank = tensor.device_mesh.get_local_rank()
    return next(((piece.start, piece.stop) for piece in pieces if piece.part == rank), (0, 0))


def _convert_like(current: object, saved: Json) -> object:
    return tuple(saved) if isinstance(current, tuple) and isinstance(saved, list) else saved


def _names(model: nn.Module) -> dict[Tensor, str]:
    return {parameter: name for name, parameter in model.named_parameters()}


def _list_states(model: nn.Module, optimizer: OptimizerLike) -> dict[str, dict[str, Any]]:
    names = _names(model)
    return {names[parameter]: state for parameter, state in optimizer.state.items() if parameter in names}


def layout_of(tensors: Mapping[str, Tensor], world_size: int) -> dict[str, Stored]:
    """Returns the rows of each tensor that go to each rank's part."""
    return {name: Stored(shape=shape, pieces=cut_rows(shape, world_size))
            for name, shape in ((name, tuple(tensor.shape)) for name, tensor in tensors.items())}  # fmt: skip


def share_of(tensors: Mapping[str, Tensor], layout: Mapping[str, Stored], rank: int) -> dict[str, Tensor]:
    """Returns the rows that `rank` writes, as views of the live tensors."""
    return {
        name: _slice_rows(tensor, piece)
        for name, tensor in tensors.items()
        for piece in layout[name].pieces
        if piece.part == rank
    }


def _slice_rows(tensor: Tensor, piece: Piece) -> Tensor:
    tensor = tensor.detach()
    if isinstance(tensor, DTensor):
        return own_share(tensor)
    return tensor[piece.start : piece.stop] if tensor.ndim else tensor


# ---- an optimizer's values other than tensors, such as a learning rate: JSON, validated when it is read


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
        scalars: `groups`, a list of mappings of hyperparameters; `states`, values by parameter and name.
        groups: The optimizer's current groups, with `params`.
        states: The saved tensors of each parameter, by name.
    """
    if scalars.keys() != {"groups", "states"} or not isinstance(scalars["groups"], list):
        raise ValueError("the optimizer's values have another form than this library writes")
    if len(scalars["groups"]) != len(groups):
        raise ValueError(f"{len(scalars['groups'])} groups of parameters instead of {len(groups)}")
    for group, saved in zip(groups, scalars["groups"], strict=True):
        _require_group(group, saved)
    _require_states(scalars["states"], states)


def _require_group(group: Mapping[str, object], saved: Json) -> None:
    if not isinstance(saved, Mapping):
        raise ValueError("a group of parameters is not a mapping")
    for key, value in saved.items():
        if key == "params" or key not in group or not _is_compatible(group[key], value):
            raise ValueError(f"{key} = {str(value)[:40]} of a group of parameters")


def _require_states(saved: Json, states: Mapping[str, Mapping[str, object]]) -> None:
    if not isinstance(saved, Mapping):
        raise ValueError("the states of the parameters are not a mapping")
    for name, values in saved.items():
        if name not in states or not isinstance(values, Mapping) or values.keys() & states[name].keys():
            raise ValueError(f"the optimizer's state of {name}")
        if not all(map(_is_finite, values.values())):
            raise ValueError(f"the optimizer's state of {name}")


def _is_compatible(now: object, saved: Json) -> bool:
    """Whether a saved value may replace `now`. A switch may be true, false or open (None)."""
    if isinstance(now, bool) or now is None or saved is None:
        return saved is None or isinstance(saved, bool)
    if isinstance(now, list | tuple):
        return isinstance(saved, list) and len(saved) == len(now) and all(map(_is_compatible, now, saved))
    if isinstance(now, str):
        return isinstance(saved, str)
    return not isinstance(saved, bool) and isinstance(saved, int | float) and math.isfinite(saved)


def _is_finite(value: object) -> bool:
    return is_json(value) and not (isinstance(value, float) and not math.isfinite(value))
