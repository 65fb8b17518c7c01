"""The seeds of everything that draws: Python, numpy and torch, on this process's device."""

import random

import numpy as np
import torch

from vgp.train.loop.order import seed_of


def seed_everything(seed: int) -> None:
    """For code that runs once, such as the making of a model."""
    random.seed(seed)
    np.random.seed(seed % 2**32)
    torch.manual_seed(seed)


def seed_step(seed: int, step: int | str, microbatch: int, device: torch.device) -> None:
    """Dropout of a microbatch depends on its place alone. `torch.manual_seed` would cost 340 us more."""
    number = seed_of(seed, step, microbatch)
    random.seed(number)
    np.random.seed(number % 2**32)
    torch.default_generator.manual_seed(number)
    if device.type == "cuda":
        torch.cuda.default_generators[device.index].manual_seed(number)
