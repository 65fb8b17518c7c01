"""The head of a language model and its loss, a chunk of tokens at a time: no logits of a whole batch ever exist.

The float32 logits of 32,768 tokens over a vocabulary of 50,304 are 6.6 GB, and their gradient as much again. Here the
logits of a chunk are made, turned into its losses and their gradient, multiplied back to what the layers before and
the weights get, and dropped, all in the forward pass: nothing is computed twice. That a loss's gradient is known before
the backward pass is the idea of Liger's fused linear cross-entropy (Hsu et al. 2024, https://arxiv.org/abs/2410.10989).

Legend: B rows, T positions, N tokens (B x T), C tokens of a chunk, D width, V vocabulary.
"""

from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch.utils.checkpoint import checkpoint

#: A chunk is as many tokens as have about this much of float32 logits: 5,000 tokens of 50,304. A larger one wins
#: little: adding to the gradient of the weights, once a chunk, takes a few percent of its matrix products (estimated,
#: not measured on a GPU). A vocabulary of bytes is one chunk.
CHUNK_BYTES = 1 << 30
#: The target of a token that has none.
NONE = -1


class TiedHead(nn.Module):
    """Logits and losses under a weight that it is given at each call, since that is the embedding's."""

    def __init__(self) -> None:
        super().__init__()
        self.gradient = LossGradient()

    def forward(self, x_BTD: Tensor, weight_VD: Tensor, targets_BT: Tensor | None, *, summed: bool) -> Tensor:
        """Logits (B, T, V); with targets the loss of each in nats, float32 (B, T), or their sum."""
        if targets_BT is None:
            return F.linear(x_BTD, weight_VD)
        x_ND, targets_N = x_BTD.flatten(0, -2), targets_BT.flatten()
        if summed and torch.is_grad_enabled():
            return _summed_loss(x_ND, weight_VD, targets_N, self.gradient)
        losses_N = token_losses(x_ND, weight_VD, targets_N)
        return losses_N.sum() if summed else losses_N.view_as(targets_BT)


class LossGradient(nn.Module):
    """What is computed of a chunk's logits; a module without weights, so that it can be compiled by itself."""

    def forward(self, logits_CV: Tensor, targets_C: Tensor) -> tuple[Tensor, Tensor]:
        """The losses, float32 (C,), and the gradient of their sum by the logits, in the type of those."""
        exact_CV = logits_CV.float()
        index_C1, counts_C1 = targets_C.clamp(min=0)[:, None], (targets_C != NONE)[:, None]
        normaliser_C1 = exact_CV.logsumexp(dim=1, keepdim=True)
        losses_C1 = (normaliser_C1 - exact_CV.gather(1, index_C1)) * counts_C1
        is_target_CV = (torch.arange(exact_CV.shape[1], device=exact_CV.device) == index_C1).to(torch.int8)
        gradient_CV = (exact_CV - normaliser_C1).exp_().sub_(is_target_CV).mul_(counts_C1)
        return losses_C1.squeeze(1), gradient_CV.to(logits_CV.dtype)


class _SummedLoss(torch.autograd.Function):
    """The sum of the losses of N tokens. Its gradient is computed with it, for a backward pass that only scales it."""

    @staticmethod
    def forward(ctx: Any, x_ND: Tensor, weight_VD: Tensor, targets_N: Tensor, gradient: LossGradient) -> Tensor:
        rounded_VD = weight_VD.to(x_ND.dtype)
        total = torch.zeros((), device=x_ND.device)
        parts_CD: list[Tensor] = []
        weight_grad_VD = torch.zeros_like(weight_VD)
        for x_CD, targets_C in _chunks(x_ND, targets_N, len(weight_VD)):
            losses_C, logits_grad_CV = gradient(F.linear(x_CD, rounded_VD), targets_C)
            total += losses_C.sum()
            parts_CD.append(logits_grad_CV @ rounded_VD)
            _add_product(weight_grad_VD, logits_grad_CV.t(), x_CD)
        ctx.save_for_backward(torch.cat(parts_CD), weight_grad_VD)
        return total

    @staticmethod
    def backward(ctx: Any, *factors: Tensor) -> tuple[Tensor, Tensor, None, None]:
        """In place: at the start of a backward pass memory is at its fullest. autograd refuses a second pass."""
        x_grad_ND, weight_grad_VD = ctx.saved_tensors
        return x_grad_ND.mul_(factors[0]), weight_grad_VD.mul_(factors[0]), None, None


def _summed_loss(x_ND: Tensor, weight_VD: Tensor, targets_N: Tensor, gradient: LossGradient) -> Tensor:
    total: Tensor = _SummedLoss.apply(x_ND, weight_VD, targets_N, gradient)  # type: ignore[no-untyped-call]
    return total


def token_losses(x_ND: Tensor, weight_VD: Tensor, targets_N: Tensor) -> Tensor:
    """The loss of each token, float32 (N,); where gradients are wanted, chunk by chunk computed again for them."""
    parts_C = [
        checkpoint(_plain, x_CD, weight_VD, targets_C, use_reentrant=False)
        if torch.is_grad_enabled()
        else _plain(x_CD, weight_VD, targets_C)
        for x_CD, targets_C in _chunks(x_ND, targets_N, len(weight_VD))
    ]
    return torch.cat(parts_C)


def _plain(x_CD: Tensor, weight_VD: Tensor, targets_C: Tensor) -> Tensor:
    return F.cross_entropy(F.linear(x_CD, weight_VD).float(), targets_C, ignore_index=NONE, reduction="none")


def _add_product(total: Tensor, left: Tensor, right: Tensor) -> None:
    """Adds a matrix product; one of bfloat16 is added in the type of the total."""
    if left.dtype == total.dtype:
        total.addmm_(left, right)
    else:
        total.add_(left @ right)


def _chunks(x_ND: Tensor, targets_N: Tensor, vocab: int) -> list[tuple[Tensor, Tensor]]:
    size = chunk_size(len(targets_N), vocab)
    return list(zip(torch.split(x_ND, size), torch.split(targets_N, size), strict=True))


def chunk_size(tokens: int, vocab: int) -> int:
    """Tokens of a chunk: as few chunks as `CHUNK_BYTES` asks for, or up to twice as many where those are equal.

    Equal chunks are one shape to a compiler.
    """
    fewest = max(1, -(-tokens * vocab * 4 // CHUNK_BYTES))
    count = next((count for count in range(fewest, 2 * fewest + 1) if tokens % count == 0), fewest)
    return max(1, -(-tokens // count))
