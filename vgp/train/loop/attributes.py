"""Keeps attributes that a forward pass changes outside of the model's state, such as `self.calls += 1`.

No checkpoint holds them, and every process changes its own. A pass that must leave no trace therefore restores them,
and a warning names the numbers and tensors that the first pass of training changes.
"""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager

import torch
from torch import Tensor, nn

from vgp.base.text.printable import join_names
from vgp.train.loop.buffers import is_same

#: Attributes of every module, and those that this library sets.
_OWN = {*vars(nn.Module()), "forward"}


@contextmanager
def keep_attributes(module: nn.Module) -> Iterator[list[str]]:
    """Restores the attributes of all modules after the block.

    Yields a list, which then holds the names of the public numbers and tensors that have changed.
    """
    before = {name: (member, _own_attributes(member)) for name, member in module.named_modules()}
    copies = {name: {leaf: _copy(value) for leaf, value in own.items()} for name, (_, own) in before.items()}
    changed: list[str] = []
    try:
        yield changed
    finally:
        for name, (member, own) in before.items():
            now = _own_attributes(member)
            changed += [
                f"{name}.{leaf}".removeprefix(".")
                for leaf, value in copies[name].items()
                if not leaf.startswith("_") and _has_changed(value, now.get(leaf))
            ]
            _restore(member, own, copies[name], now)


def describe_change(names: list[str]) -> str:
    return (
        f"warning: the forward pass changes these attributes of the model: {join_names(names)}. No checkpoint holds "
        "them, and every process changes its own, so a resumed run or another number of processes may give another "
        "result. If the output depends on them, register them as buffers, with a rule in the task's `buffers`."
    )


def _own_attributes(member: nn.Module) -> dict[str, object]:
    return {name: value for name, value in vars(member).items() if name not in _OWN}


def _is_plain(value: object) -> bool:
    """Whether the value is a number or a tensor without a gradient."""
    return isinstance(value, int | float) or (isinstance(value, Tensor) and not value.requires_grad)


def _copy(value: object) -> object:
    return value.clone() if isinstance(value, Tensor) and _is_plain(value) else value


def _has_changed(before: object, now: object) -> bool:
    if not (_is_plain(before) and _is_plain(now)):
        return False
    if isinstance(before, Tensor) and isinstance(now, Tensor):
        return not is_same(before, now)
    return type(before) is not type(now) or bool(before != now)


@torch.no_grad()
def _restore(
    member: nn.Module, own: Mapping[str, object], copies: Mapping[str, object], now: Mapping[str, object]
) -> None:
    for name in now.keys() - own.keys():
        del vars(member)[name]
    vars(member).update(own)
    for name, value in own.items():
        copy = copies[name]
        if isinstance(value, Tensor) and isinstance(copy, Tensor) and _has_changed(copy, value):
            value.copy_(copy)
