"""Causal self-attention, also of several texts in one window that do not see each other (a block-diagonal mask).

In a compiled block on a GPU, FlexAttention (Dong et al. 2024, https://arxiv.org/abs/2412.05496) skips the parts of the
matrix in which no token sees another. Elsewhere the mask is a matrix of T x T for each row. The speed on a GPU is not
measured.

Legend: B rows, T positions, H heads, K width of a head.
"""

import torch
from torch import Tensor
from torch.nn import functional as F
from torch.nn.attention.flex_attention import create_block_mask, flex_attention


def number_texts(tokens_BT: Tensor, start: int) -> Tensor:
    """Returns the number of the text that each token belongs to, int64 (B, T); the token `start` opens a text."""
    return (tokens_BT == start).cumsum(dim=1)


def attend(q_BHTK: Tensor, k_BHTK: Tensor, v_BHTK: Tensor, texts_BT: Tensor | None = None) -> Tensor:
    """Computes causal attention, float (B, H, T, K).

    Args:
        texts_BT: The number of each token's text; tokens see those of their own text only. None = all are one text.
    """
    if texts_BT is None:
        return F.scaled_dot_product_attention(q_BHTK, k_BHTK, v_BHTK, is_causal=True)
    if q_BHTK.is_cuda and torch.compiler.is_compiling():
        return attend_blockwise(q_BHTK, k_BHTK, v_BHTK, texts_BT)
    seen_B1TT = (texts_BT[:, None, :, None] == texts_BT[:, None, None, :]).tril()
    return F.scaled_dot_product_attention(q_BHTK, k_BHTK, v_BHTK, attn_mask=seen_B1TT)


def attend_blockwise(q_BHTK: Tensor, k_BHTK: Tensor, v_BHTK: Tensor, texts_BT: Tensor) -> Tensor:
    """Computes the attention of several texts with FlexAttention, which needs a compiler to be fast."""

    def is_seen(row: Tensor, head: Tensor, query: Tensor, key: Tensor) -> Tensor:
        return (query >= key) & (texts_BT[row, query] == texts_BT[row, key])

    rows, length = texts_BT.shape
    mask = create_block_mask(is_seen, rows, None, length, length, device=texts_BT.device)
    result = flex_attention(q_BHTK, k_BHTK, v_BHTK, block_mask=mask)
    assert isinstance(result, Tensor)
    return result
