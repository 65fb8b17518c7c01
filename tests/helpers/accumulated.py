"""A small transformer whose gradients are added over several microbatches, on every rank and in each way."""

from typing import Any

import torch
from torch import Tensor
from torch.distributed.tensor import DTensor
from torch.utils._python_dispatch import TorchDispatchMode

from training.tasks.language_model import LanguageModel
from vgp.networks.shape import Shape
from vgp.networks.transformer import Transformer
from vgp.train.loop import gradients
from vgp.train.loop.sharding import Sharded
from vgp.train.loop.weighting import mean
from vgp.train.train_config import TrainConfig

SHAPE = Shape(2, 300, 16)
MICROBATCHES = 4  # of each rank


class Messages(TorchDispatchMode):
    """Counts what is sent between processes."""

    def __init__(self) -> None:
        super().__init__()
        self.counts: dict[str, int] = {}

    def __torch_dispatch__(self, operator: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if operator.namespace == "c10d":
            name = operator.name().partition("::")[2]
            self.counts[name] = self.counts.get(name, 0) + 1
        return operator(*args, **(kwargs or {}))


def batch(number: int) -> dict[str, Tensor]:
    random = torch.Generator().manual_seed(number)
    return {"tokens": torch.randint(0, 299, (3, 17), generator=random), "count": torch.tensor([16, 9, 1])}


def model() -> Transformer:
    torch.manual_seed(1)
    return Transformer(SHAPE)


def added(argument: dict[str, Any], rank: Any) -> dict[str, Any]:
    """By way: some of the gradients, and what was sent in a step."""
    task, results = LanguageModel(), {"plain": plain()}
    for name, (changes, stays) in argument.items():
        config = TrainConfig(task="language_model", **changes)
        module = model()
        loss = gradients.Loss(module, task.loss)
        if config.strategy == "fsdp":
            way = Sharded(loss, task.blocks(module), config, rank)
        else:
            way = gradients.choose_exchange(loss, config, rank)
        if not stays:
            way.stays = False
        for _ in range(2):  # the second step as well
            module.zero_grad()
            with Messages() as messages:
                step(way, rank)
        grads = {n: whole(p.grad).flatten()[:2_000].tolist() for n, p in module.named_parameters()}
        results[name] = {"grads": grads, "messages": messages.counts}
    return results


def step(way: Any, rank: Any) -> None:
    for number in range(MICROBATCHES):
        with way.microbatch(last=number == MICROBATCHES - 1):
            loss = mean(way.loss(batch(MICROBATCHES * rank.rank + number)))
            (loss * way.weight(1 / MICROBATCHES / rank.world_size)).backward()
    way.end_step()


def whole(grad: Tensor) -> Tensor:
    return grad.full_tensor() if isinstance(grad, DTensor) else grad


def plain() -> dict[str, list[float]]:
    """The same in one process without this product's head, loss and ways."""
    module = model()
    for number in range(2 * MICROBATCHES):
        rows = batch(number)
        logits = module(rows["tokens"][:, :-1])
        losses = torch.nn.functional.cross_entropy(
            logits.flatten(0, 1), rows["tokens"][:, 1:].flatten(), reduction="none"
        )
        counted = torch.arange(16) < rows["count"][:, None]
        ((losses * counted.flatten()).sum() / rows["count"].sum() / (2 * MICROBATCHES)).backward()
    return {name: p.grad.flatten()[:2_000].tolist() for name, p in module.named_parameters()}
