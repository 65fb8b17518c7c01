"""Which blocks and parameters of a sharded model a rank uses: ranks that differ would mix up each other's messages.

FSDP2 gathers a block when it is called. If one rank calls a block that another does not, each takes the weights of one
block for those of another, without a word where they have one size.
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
from vgp.base.text.printable import listed
from vgp.train.processes.rank import Rank


class Use:
    """What one rank uses of its share, step by step."""

    def __init__(
        self, model: nn.Module, root: nn.Module, blocks: Sequence[nn.Module], rank: Rank, *, every_step: bool,
        within_s: float,
    ):  # fmt: skip
        """`root` holds the `model`; both it and the `blocks` are sharded already.

        Args:
            every_step: Whether steps may leave parameters unused. If not, none but the first pass may.
        """
        self.model, self.rank, self.every_step, self.within_s = model, rank, every_step, within_s
        self.trained = [name for name, parameter in model.named_parameters() if parameter.requires_grad]
        self.names = {module: name for name, module in model.named_modules() if module in set(blocks)}
        #: Parameters that this step has used so far.
        self.used: set[str] = set()
        #: A checksum of all calls so far, in their order: the same on every rank.
        self.calls = 0
        self.rehearsing = False
        self._watched: set[nn.Module] = set()
        for unit in (root, *blocks):
            unit.register_forward_pre_hook(self._call, prepend=True)  # before the unit is gathered
            unit.register_forward_pre_hook(self._watch)  # after that
        root.register_forward_hook(self._return)

    def rehearse(self, backward: Callable[[], object]) -> list[str]:
        """Runs a first backward pass; names of the parameters that it does not use on this rank.

        Raises:
            UserError: the ranks do not call the same blocks.
        """
        self.used.clear()
        self.rehearsing = True
        backward()
        self.rehearsing = False
        absent = self._absent()
        self.every_step = self.every_step or any(self.rank.exchange(absent, within_s=self.within_s))
        self._drop_unused()
        return absent

    def end_step(self) -> None:
        """Raises UserError if this rank has not used all parameters though it must."""
        absent = self._absent()
        if absent and not self.every_step:
            raise UserError(unused_sentence(absent, self.rank))
        self._drop_unused()

    def _drop_unused(self) -> None:
        """Parameters that no rank has used get no gradient, as they have none on a single process; FSDP2 gives zero."""
        if self.every_step:
            own = [float(name in self.used) for name in self.trained]
            anywhere = torch.tensor(own, device=self.rank.device)
            dist.all_reduce(anywhere)
            for name, count in zip(self.trained, anywhere.tolist(), strict=True):
                if not count:
                    self.model.get_parameter(name).grad = None
        self.used.clear()

    def _absent(self) -> list[str]:
        return [name for name in self.trained if name not in self.used]

    def _call(self, unit: nn.Module, inputs: object) -> None:
        name = self.names.get(unit, "the model")
        self.calls = zlib.crc32(name.encode(), self.calls)
        if self.rehearsing:
            self._require_same(name)

    def _return(self, root: nn.Module, inputs: object, output: object) -> None:
        if self.rehearsing:
            self._require_same("no more")

    def _require_same(self, name: str) -> None:
        names = self.rank.exchange(name, within_s=self.within_s)
        if len(set(names)) > 1:
            raise UserError(calls_sentence(names))

    def _watch(self, unit: nn.Module, inputs: object) -> None:
        """Has the gathered parameters of the unit say when a gradient reaches them; they stay the same objects."""
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
    """Refuses collectives, for the reason that is given."""

    def __init__(self, why: str):
        super().__init__()  # type: ignore[no-untyped-call]
        self.why = why

    def __torch_dispatch__(
        self, operator: OpOverload, types: object, args: tuple[object, ...] = (), kwargs: JsonObject | None = None
    ) -> object:
        if operator.namespace in ("c10d", "_c10d_functional"):
            raise UserError(
                f"the loss calls a collective ({str(operator).split('.')[1].strip('_')}), but {self.why}: the "
                "processes would wait for each other in vain. Let microbatches be a multiple of the processes, and "
                "global_batch_size a multiple of microbatches."
            )
        return operator(*args, **(kwargs or {}))


def unused_sentence(names: Sequence[str], rank: Rank) -> str:
    return (
        f"the loss of rank {rank.rank} did not use these parameters in a step, though it did in the first: "
        f"{listed(names, 5)}. "
        "The other processes wait for their gradients. Where that is meant, as with branches at random, set "
        "unused_parameters=true; a single process needs no setting."
    )


def calls_sentence(names: Sequence[str]) -> str:
    calls = "; ".join(f"rank {rank} calls {name}" for rank, name in enumerate(names))
    return (
        "with strategy=fsdp every process must call the same blocks in the same order, since each holds a share of "
        f"every block: {calls}.\nTake strategy=ddp with unused_parameters=true; or call every block, and mask its "
        "result."
    )
