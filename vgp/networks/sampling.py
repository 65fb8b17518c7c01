"""Text from a language model, token by token."""

import torch
from torch import nn

TEMPERATURE = 0.8


@torch.no_grad()
def continued(model: nn.Module, prompt: list[int], count: int, stop: int, *, seed: int = 0) -> list[int]:
    """The prompt and `count` more tokens, without the first (the start of a text); never draws the token `stop`.

    Inputs always have the model's full length, so a compiled model is compiled once: what lies behind the last
    token does not change it. The draws are made on the CPU, the same on every machine for the same logits.
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
