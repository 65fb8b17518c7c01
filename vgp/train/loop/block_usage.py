"""Checks that all ranks use the same blocks and parameters of a sharded model.

FSDP2 gathers a block when it is called. If ranks call different blocks, each receives weights of another block, without
an error if the sizes are equal.
"""

import zlib
from collections.abc import Callable, Sequence
from functools import partial

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch._ops import OpOverload
from torch.distributed.tensor import DTensor
from torch.utils._python_dispatch import TorchDispatchMode

from vgp.base.documents.json_text import JsonObject
from vgp.base.exits import UserError
from vgp.base.text.printable import join_names
from vgp.train.processes.rank import Rank


class BlockUsage:
    """The blocks and parameters that one rank uses in each step."""

    def __init__(
        self, model: nn.Module, root: nn.Module, blocks: Sequence[nn.Module], rank: Rank, *, every_step: bool,
        within_s: float,
    ):  # fmt: skip
        """
        Args:
            root: The sharded module around the `model`.
            blocks: The sharded blocks of the model.
            every_step: Whether every step may leave parameters unused; if not, only the first pass may.
        """
        self.model, self.rank, self.every_step, self.within_s = model, rank, every_step, within_s
        self.trained = [name for name, parameter in model.named_parameters() if parameter.requires_grad]
        self.names = {module: name for name, module in model.named_modules() if module in set(blocks)}
        #: Parameters used so far in this step.
        self.used: set[str] = set()
        #: A checksum of all calls so far, in order; must be equal on every rank.
        self.calls = 0
        self.rehearsing = False
        #: The root and the blocks in the order of their calls in the first pass.
        self.order: list[nn.Module] = []
        self._watched: set[nn.Module] = set()
        for unit in (root, *blocks):
            unit.register_forward_pre_hook(self._call, prepend=True)  # runs before the unit is gathered
            unit.register_forward_pre_hook(self._watch)  # runs after it is gathered
        root.register_forward_hook(self._return)

    def rehearse(self, backward: Callable[[], object]) -> list[str]:
        """Runs a first backward pass; returns the names of parameters that it does not use on this rank.

        Raises:
            UserError: the ranks call different blocks.
        """
        self.used.clear()
        self.order.clear()
        self.rehearsing = True
        backward()
        self.rehearsing = False
        absent = self._list_unused()
        self.every_step = self.every_step or any(self.rank.exchange(absent, within_s=self.within_s))
        self._drop_unused()
        return absent

    def end_step(self) -> None:
        """Raises UserError if this rank has left parameters unused without `every_step`."""
        absent = self._list_unused()
        if absent and not self.every_step:
            raise UserError(unused_message(absent, self.rank))
        self._drop_unused()

    def _drop_unused(self) -> None:
        """Removes the gradients of parameters that no rank has used, as a single process has none; FSDP2 sets zeros."""
        if self.every_step:
            own = [float(name in self.used) for name in self.trained]
            anywhere = torch.tensor(own, device=self.rank.device)
            dist.all_reduce(anywhere)
            for name, count in zip(self.trained, anywhere.tolist(), strict=True):
                if not count:
                    self.model.get_parameter(name).grad = None
        self.used.clear()

    def _list_unused(self) -> list[str]:
        return [name for name in self.trained if name not in self.used]

    def _call(self, unit: nn.Module, inputs: object) -> None:
        name = self.names.get(unit, "the model")
        self.calls = zlib.crc32(name.encode(), self.calls)
        if self.rehearsing:
            self.order.append(unit)
            self._require_same(name)

    def _return(self, root: nn.Module, inputs: object, output: object) -> None:
        if self.rehearsing:
            self._require_same("no more")

    def _require_same(self, name: str) -> None:
        names = self.rank.exchange(name, within_s=self.within_s)
        if len(set(names)) > 1:
            raise UserError(format_calls(names))

    def _watch(self, unit: nn.Module, inputs: object) -> None:
        """Registers hooks that note when a gradient reaches the unit's gathered parameters, which stay one object."""
        if unit in self._watched:
            return
        self._watched.add(unit)
        name = self.names.get(unit, "")
        for full, parameter in (unit if name else self.model).named_parameters(prefix=name):
            if parameter.requires_grad and not isinstance(parameter, DTensor):
                parameter.register_post_accumulate_grad_hook(partial(self._note, full))  # type: ignore[no-untyped-call]

    def _note(self, name: str, parameter: Tensor) -> None:
        self.used.add(name)


class NoCollectives(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """A mode that raises UserError, with the reason `why`, for every collective."""

    def __init__(self, why: str):
        super().__init__()  # type: ignore[no-untyped-call]
        self.why = why

    def __torch_dispatch__(
        self, operator: OpOverload, types: object, args: tuple[object, ...] = (), kwargs: JsonObject | None = None
    ) -> object:
        if operator.namespace in ("c10d", "_c10d_functional"):
            raise UserError(
                f"the loss calls a collective ({str(operator).split('.')[1].strip('_')}), but {self.why}: the "
                "processes would wait for each other forever. Set microbatches to a multiple of the processes, and "
                "global_batch_size to a multiple of microbatches."
            )
        return operator(*args, **(kwargs or {}))


def unused_message(names: Sequence[str], rank: Rank) -> str:
    return (
        f"the loss of rank {rank.rank} did not use these parameters in a step, though it did in the first: "
        f"{join_names(names, 5)}. The other processes wait for their gradients. If this is intended, for example with "
        "random branches, set unused_parameters=true; a single process needs no setting."
    )


def format_calls(names: Sequence[str]) -> str:
    calls = "; ".join(f"rank {rank} calls {name}" for rank, name in enumerate(names))
    return (
        "with strategy=fsdp every process must call the same blocks in the same order, because each holds a share of "
        f"every block: {calls}.\nSet strategy=ddp and unused_parameters=true; or call every block and mask its result."
    )
