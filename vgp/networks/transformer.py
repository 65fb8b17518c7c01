"""A decoder-only transformer: rotary positions, RMSNorm, SwiGLU, fused causal attention, tied embeddings.

The shape of Llama (Touvron et al. 2023, https://arxiv.org/abs/2302.13971), with the input embedding as output
layer (Press and Wolf 2017, https://arxiv.org/abs/1608.05859). One parameter, `depth`, sets every size (`shape`).

Under autocast the residual stream is bfloat16, as wide as what goes into the matrix products; norms and rotations are
computed in float32 within.

Legend: B rows, T positions, D width, H heads, K width of a head, V vocabulary.
"""

import math

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from vgp.networks.attention import attend, number_texts
from vgp.networks.head import TiedHead
from vgp.networks.shape import Shape

ROTARY_BASE = 10_000.0


class Transformer(nn.Module):
    """Tokens in, logits of the next token out.

    Args:
        separates: Whether tokens see only those of their own text, which the last token of the vocabulary opens.
    """

    def __init__(self, shape: Shape, *, separates: bool = False):
        super().__init__()
        self.shape, self.separates = shape, separates
        self.embedding = nn.Embedding(shape.vocab, shape.width)
        self.blocks = nn.ModuleList(Block(shape.width, shape.heads, shape.hidden) for _ in range(shape.depth))
        self.norm = Norm(shape.width)
        self.head = TiedHead()
        cosine_TK, sine_TK = make_rotations(shape.sequence_length, shape.head_width)
        self.register_buffer("cosine_TK", cosine_TK, persistent=False)
        self.register_buffer("sine_TK", sine_TK, persistent=False)
        self.initialise()

    @torch.no_grad()
    def initialise(self) -> None:
        """Draws normal weights with deviation sqrt(2 / 5D) ("small init", Nguyen and Salazar 2019,
        https://arxiv.org/abs/1910.05895, as in GPT-NeoX-20B, https://arxiv.org/abs/2204.06745); layers that add to
        the residual stream are divided by sqrt(2 L), so that its variance does not grow with depth (Radford et al.
        2019, GPT-2, section 2.3).
        """
        deviation = math.sqrt(2 / (5 * self.shape.width))
        for name, parameter in self.named_parameters():
            if parameter.ndim >= 2:
                residual = name.endswith(("output.weight", "down.weight"))
                nn.init.normal_(parameter, 0.0, deviation / math.sqrt(2 * self.shape.depth) if residual else deviation)

    def forward(self, tokens_BT: Tensor, targets_BT: Tensor | None = None, *, summed: bool = False) -> Tensor:
        """Returns logits (B, T, V) or, with targets (int64, -1 = none), losses in nats, float32 (B, T), or their sum.

        T is at most the model's sequence length.
        """
        length = tokens_BT.shape[1]
        rotation = self.get_buffer("cosine_TK")[:length], self.get_buffer("sine_TK")[:length]
        texts_BT = number_texts(tokens_BT, self.shape.vocab - 1) if self.separates else None
        x_BTD = as_autocast(self.embedding(tokens_BT))
        for block in self.blocks:
            x_BTD = block(x_BTD, rotation, texts_BT)
        logits_or_losses: Tensor = self.head(self.norm(x_BTD), self.embedding.weight, targets_BT, summed=summed)
        return logits_or_losses


class Block(nn.Module):
    """A block of attention and SwiGLU, each with a norm before it and a residual connection."""

    def __init__(self, width: int, heads: int, hidden: int):
        super().__init__()
        self.heads = heads
        self.attention_norm = Norm(width)
        self.qkv = nn.Linear(width, 3 * width, bias=False)
        self.output = nn.Linear(width, width, bias=False)
        self.feed_norm = Norm(width)
        self.gate = nn.Linear(width, hidden, bias=False)
        self.up = nn.Linear(width, hidden, bias=False)
        self.down = nn.Linear(hidden, width, bias=False)

    def forward(self, x_BTD: Tensor, rotation: tuple[Tensor, Tensor], texts_BT: Tensor | None = None) -> Tensor:
        x_BTD = x_BTD + self.attend(self.attention_norm(x_BTD), rotation, texts_BT)
        y_BTD = self.feed_norm(x_BTD)
        added_BTD: Tensor = self.down(F.silu(self.gate(y_BTD)) * self.up(y_BTD))
        return x_BTD + added_BTD

    def attend(self, x_BTD: Tensor, rotation: tuple[Tensor, Tensor], texts_BT: Tensor | None) -> Tensor:
        """Computes causal self-attention."""
        rows, length, _ = x_BTD.shape
        q_BHTK, k_BHTK, v_BHTK = self.qkv(x_BTD).view(rows, length, 3, self.heads, -1).permute(2, 0, 3, 1, 4)
        q_BHTK, k_BHTK = rotate(q_BHTK, *rotation), rotate(k_BHTK, *rotation)
        seen_BHTK = attend(q_BHTK, k_BHTK, v_BHTK, texts_BT)
        output_BTD: Tensor = self.output(seen_BHTK.transpose(1, 2).reshape(rows, length, -1))
        return output_BTD


class Norm(nn.RMSNorm):
    """An RMSNorm that computes in float32 and returns the type of its input."""

    def forward(self, x: Tensor) -> Tensor:
        return super().forward(x.float()).to(x.dtype)


def as_autocast(x: Tensor) -> Tensor:
    """Casts a tensor to the type of autocast's matrix products; returns it unchanged without autocast."""
    device = x.device.type
    return x.to(torch.get_autocast_dtype(device)) if torch.is_autocast_enabled(device) else x


def make_rotations(length: int, width: int) -> tuple[Tensor, Tensor]:
    """Returns cosines and sines of rotary positions, float32 (T, K) each (https://arxiv.org/abs/2104.09864)."""
    frequencies = ROTARY_BASE ** (-torch.arange(0, width, 2, dtype=torch.float64) / width)
    angles = torch.outer(torch.arange(length, dtype=torch.float64), frequencies).repeat(1, 2)
    return angles.cos().float(), angles.sin().float()


def rotate(x_BHTK: Tensor, cosine_TK: Tensor, sine_TK: Tensor) -> Tensor:
    """Rotates each pair (k, k + K/2) by the angle of its position; keeps the type of `x`."""
    first, second = x_BHTK.chunk(2, dim=-1)
    turned = torch.cat([-second, first], dim=-1)
    return (x_BHTK * cosine_TK + turned * sine_TK).to(x_BHTK.dtype)


TEMPERATURE = 0.8


@torch.no_grad()
def continue_text(model: nn.Module, prompt: list[int], count: int, stop: int, *, seed: int = 0) -> list[int]:
    """Returns the prompt without its first token (the start of a text) and `count` drawn tokens, never `stop`.

    Inputs are padded to the model's full length, which does not change the logits, so that a compiled model is compiled
    once. Tokens are drawn on the CPU, so that equal logits give equal text on every machine.
    """
    length, device = model.get_buffer("cosine_TK").shape[0], next(model.parameters()).device
    generator = torch.Generator().manual_seed(seed)
    tokens = list(prompt)
    for _ in range(count):
        seen = tokens[-length:]
        window = torch.tensor([seen + [stop] * (length - len(seen))], device=device)
        logits_V = model(window)[0, len(seen) - 1].float().cpu() / TEMPERATURE
        logits_V[stop] = -torch.inf
        tokens.append(int(torch.multinomial(logits_V.softmax(dim=0), 1, generator=generator)))
    return tokens[1:]
