"""Names that training uses and PyTorch 2.11 and 2.12 lack, in terms of names that they have.

The library is pinned to PyTorch 2.13; the GPU hour also runs on machines that have an older one.
"""

import inspect
from typing import Any

import torch.distributed as dist
from torch.distributed.fsdp import FSDPModule
from torch.distributed.fsdp._fully_shard._fsdp_state import FSDPState
from torch.nn.parallel import DistributedDataParallel


def add_missing_names() -> list[str]:
    """Adds each missing name to PyTorch; returns those that it added."""
    added = []
    if not hasattr(dist, "all_gather_single"):
        dist.all_gather_single = dist.all_gather_into_tensor
        added.append("all_gather_single")
    if not hasattr(FSDPModule, "set_reduce_scatter_unused_params"):  # needed only if ranks use different parameters
        FSDPModule.set_reduce_scatter_unused_params = lambda *_, **__: None
        FSDPState.__getattr__ = _find_groups
        added.append("set_reduce_scatter_unused_params")
    if "forward_sync_buffers" not in inspect.signature(DistributedDataParallel.__init__).parameters:
        _rename_argument(DistributedDataParallel, "forward_sync_buffers", "broadcast_buffers")
        added.append("forward_sync_buffers")
    return added


def _find_groups(state: Any, name: str) -> list[Any]:
    """Returns the parameters' groups of a sharded module, of which an older PyTorch has one."""
    if name != "_fsdp_param_groups":
        raise AttributeError(name)
    return [state._fsdp_param_group] if state._fsdp_param_group else []


def _rename_argument(owner: type, new: str, old: str) -> None:
    """Makes the constructor of a class accept the argument `new` in place of `old`."""
    original = owner.__init__

    def construct(self: object, *values: Any, **named: Any) -> None:
        original(self, *values, **{old if name == new else name: value for name, value in named.items()})

    owner.__init__ = construct
