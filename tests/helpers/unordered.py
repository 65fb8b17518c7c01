"""Digits whose backward pass uses an operation that PyTorch has in no deterministic form, on any device."""

from typing import Any

import torch
from digits import Digits
from torch import Tensor


class Put(torch.autograd.Function):
    """Changes nothing; `put_` raises PyTorch's own error in deterministic mode."""

    @staticmethod
    def forward(context: Any, values: Tensor) -> Tensor:
        return values.clone()

    @staticmethod
    def backward(context: Any, gradient: Tensor) -> Tensor:
        return torch.zeros_like(gradient).put_(torch.arange(gradient.numel()).view_as(gradient), gradient)


class Unordered(Digits):
    def loss(self, model: Any, batch: Any) -> Tensor:
        return super().loss(lambda pixels: Put.apply(model(pixels)), batch)
