"""The head of a language model and its loss, in chunks of tokens, so that the logits of a whole batch never exist.

The float32 logits of 32,768 tokens over a vocabulary of 50,304 take 6.6 GB, and so does their gradient. Here the
forward pass computes the logits of a chunk, their losses, and the gradients of inputs and weights, and then frees the
logits: nothing is computed twice. The gradient in the forward pass is the idea of Liger's fused linear cross-entropy
(Hsu et al. 2024, https://arxiv.org/abs/2410.10989).

Legend: B rows, T positions, N tokens (B x T), C tokens of a chunk, D width, V vocabulary.
"""

from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch.utils.checkpoint import checkpoint

#: The approximate bytes of float32 logits in a chunk: 5,000 tokens of 50,304. Larger chunks gain little: adding to the
#: gradient of the weights, once per chunk, takes a few percent of its matrix products (estimated, not measured on a
#: GPU). A vocabulary of bytes is one chunk.
CHUNK_BYTES = 1 << 30
#: The target of a token that is not predicted.
NONE = -1


class TiedHead(nn.Module):
    """A head without weights of its own: each call passes the weight of the embedding."""

    def __init__(self) -> None:
        super().__init__()
        self.gradient = LossGradient()

    def forward(self, x_BTD: Tensor, weight_VD: Tensor, targets_BT: Tensor | None, *, summed: bool) -> Tensor:
        """Returns logits (B, T, V) or, with targets, the losses in nats, float32 (B, T), or their sum."""
        if targets_BT is None:
            return F.linear(x_BTD, weight_VD)
        x_ND, targets_N = x_BTD.flatten(0, -2), targets_BT.flatten()
        if summed and torch.is_grad_enabled():
            return _sum_loss(x_ND, weight_VD, targets_N, self.gradient)
        losses_N = token_losses(x_ND, weight_VD, targets_N)
        return losses_N.sum() if summed else losses_N.view_as(targets_BT)


class LossGradient(nn.Module):
    """The losses and gradients of a chunk of logits; a module, so that it can be compiled separately."""

    def forward(self, logits_CV: Tensor, targets_C: Tensor) -> tuple[Tensor, Tensor]:
        """Returns the losses, float32 (C,), and the gradient of their sum by the logits, in the type of the logits."""
        exact_CV = logits_CV.float()
        index_C1, counts_C1 = targets_C.clamp(min=0)[:, None], (targets_C != NONE)[:, None]
        normaliser_C1 = exact_CV.logsumexp(dim=1, keepdim=True)
        losses_C1 = (normaliser_C1 - exact_CV.gather(1, index_C1)) * counts_C1
        is_target_CV = (torch.arange(exact_CV.shape[1], device=exact_CV.device) == index_C1).to(torch.int8)
        gradient_CV = (exact_CV - normaliser_C1).exp_().sub_(is_target_CV).mul_(counts_C1)
        return losses_C1.squeeze(1), gradient_CV.to(logits_CV.dtype)


class _SummedLoss(torch.autograd.Function):
    """The sum of the losses of N tokens. The forward pass computes the gradient, and the backward pass scales it."""

    @staticmethod
    def forward(ctx: Any, x_ND: Tensor, weight_VD: Tensor, targets_N: Tensor, gradient: LossGradient) -> Tensor:
        rounded_VD = weight_VD.to(x_ND.dtype)
        total = torch.zeros((), device=x_ND.device)
        parts_CD: list[Tensor] = []
        weight_grad_VD = torch.zeros_like(weight_VD)
        for x_CD, targets_C in _split_chunks(x_ND, targets_N, len(weight_VD)):
            losses_C, logits_grad_CV = gradient(F.linear(x_CD, rounded_VD), targets_C)
            total += losses_C.sum()
            parts_CD.append(logits_grad_CV @ rounded_VD)
            _add_product(weight_grad_VD, logits_grad_CV.t(), x_CD)
        ctx.save_for_backward(torch.cat(parts_CD), weight_grad_VD)
        return total

    @staticmethod
    def backward(ctx: Any, *factors: Tensor) -> tuple[Tensor, Tensor, None, None]:
        """Scales the gradients in place, because memory peaks here. autograd refuses a second pass."""
        x_grad_ND, weight_grad_VD = ctx.saved_tensors
        return x_grad_ND.mul_(factors[0]), weight_grad_VD.mul_(factors[0]), None, None


def _sum_loss(x_ND: Tensor, weight_VD: Tensor, targets_N: Tensor, gradient: LossGradient) -> Tensor:
    total: Tensor = _SummedLoss.apply(x_ND, weight_VD, targets_N, gradient)  # type: ignore[no-untyped-call]
    return total


def token_losses(x_ND: Tensor, weight_VD: Tensor, targets_N: Tensor) -> Tensor:
    """Returns the loss of each token, float32 (N,). For gradients, each chunk is recomputed in the backward pass."""
    parts_C = [
        checkpoint(_compute_loss, x_CD, weight_VD, targets_C, use_reentrant=False)
        if torch.is_grad_enabled()
        else _compute_loss(x_CD, weight_VD, targets_C)
        for x_CD, targets_C in _split_chunks(x_ND, targets_N, len(weight_VD))
    ]
    return torch.cat(parts_C)


def _compute_loss(x_CD: Tensor, weight_VD: Tensor, targets_C: Tensor) -> Tensor:
    return F.cross_entropy(F.linear(x_CD, weight_VD).float(), targets_C, ignore_index=NONE, reduction="none")


def _add_product(total: Tensor, left: Tensor, right: Tensor) -> None:
    """Adds a matrix product to `total`, in the type of `total`."""
    if left.dtype == total.dtype:
        total.addmm_(left, right)
    else:
        total.add_(left @ right)


def _split_chunks(x_ND: Tensor, targets_N: Tensor, vocab: int) -> list[tuple[Tensor, Tensor]]:
    size = chunk_size(len(targets_N), vocab)
    return list(zip(torch.split(x_ND, size), torch.split(targets_N, size), strict=True))


def chunk_size(tokens: int, vocab: int) -> int:
    """Returns the tokens of a chunk for the fewest chunks of `CHUNK_BYTES`, or up to twice as many of equal size.

    Chunks of equal size are compiled once.
    """
    fewest = max(1, -(-tokens * vocab * 4 // CHUNK_BYTES))
    count = next((count for count in range(fewest, 2 * fewest + 1) if tokens % count == 0), fewest)
    return max(1, -(-tokens // count))
