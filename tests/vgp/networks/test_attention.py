"""Attention of several texts in one window."""

import pytest
import torch

from vgp.networks.attention import attend, attend_blockwise, number_texts
from vgp.networks.shape import Shape
from vgp.networks.transformer import Transformer
from vgp.train.loop import arithmetic

START = 256


def window():
    """A window that begins inside of a text, then holds a short one, and another one to its end."""
    drawn = torch.randint(0, START, (2, 64), generator=torch.Generator().manual_seed(0))
    drawn[0, [10, 13]] = drawn[1, 40] = START
    return drawn


def model(*, separates):
    torch.manual_seed(0)
    return Transformer(Shape(2, START + 1, 64), separates=separates)


def test_a_token_sees_its_own_text_alone():
    tokens = window()
    together, separate = model(separates=False)(tokens), model(separates=True)(tokens)
    torch.testing.assert_close(separate[0, :10], together[0, :10])  # the first text has none before it
    for first, last in ((10, 13), (13, 64)):  # rotations depend on distances alone
        torch.testing.assert_close(separate[:1, first:last], model(separates=False)(tokens[:1, first:last]))
    assert not torch.allclose(separate[0, 10:13], together[0, 10:13], atol=1e-3)


def test_blocks_of_the_mask_give_the_results_of_the_whole_mask():
    """Of the forward pass; FlexAttention has no backward pass on a CPU."""
    texts = number_texts(window(), START)
    assert texts[0, [9, 10, 13, 63]].tolist() == [0, 1, 2, 2]
    inputs = torch.randn(3, 2, 4, 64, 16, generator=torch.Generator().manual_seed(1))
    compiled = torch.compile(attend_blockwise, fullgraph=True)
    torch.testing.assert_close(attend(*inputs, texts), compiled(*inputs, texts), rtol=1e-4, atol=1e-5)


@pytest.mark.filterwarnings("ignore:The .grad attribute")
def test_texts_stay_separate_in_a_compiled_block_and_in_its_gradients():
    plain, compiled = model(separates=True), model(separates=True)
    arithmetic.compile_blocks(compiled, list(compiled.blocks), deterministic=True, asked=True)
    losses = [network(window()).float().square().mean() for network in (plain, compiled)]
    for loss in losses:
        loss.backward()
    torch.testing.assert_close(*losses)
    torch.testing.assert_close(plain.blocks[0].qkv.weight.grad, compiled.blocks[0].qkv.weight.grad)
