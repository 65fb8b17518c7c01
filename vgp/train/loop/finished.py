"""The trained model whole, on one rank, and what it makes of itself."""

from collections.abc import Callable

from torch import nn

from vgp.data import bundle
from vgp.data.task import Task
from vgp.train.loop.learner import Learner
from vgp.train.loop.memory import free_bytes


def whole(learner: Learner, directory: str) -> nn.Module | None:
    """The trained model whole, on this rank alone; of a sharded one as it was written, None if it does not fit."""
    if not learner.sharded:
        return learner.module
    tensors = learner.module.state_dict().values()
    needed = sum(tensor.numel() * tensor.element_size() for tensor in tensors)
    if needed > free_bytes(learner.rank.device):
        return None
    module = learner.task.model(learner.data)
    bundle.load_weights(directory, module)
    return module


def sample(learner: Learner, directory: str, say: Callable[[str], None]) -> str:
    """What the task shows of the finished model, said as well. A fault in it must not cost the model."""
    if type(learner.task).sample is Task.sample:
        return ""
    try:
        module = whole(learner, directory)
        if module is None:
            say("no sample of the model: whole, it does not fit on one device")
            return ""
        text = learner.task.sample(module.to(learner.rank.device).eval(), learner.data)
    except Exception as error:
        say(f"no sample of the model: {type(error).__name__}: {error}")
        return ""
    if text:
        say(f"\nThe model's own work:\n{text}\n")
    return text
