import pytest
import torch
from torch.nn import functional as F

from vgp.networks import transformer
from vgp.networks.shape import Shape, head_width
from vgp.networks.transformer import Norm, Transformer
from vgp.train.loop import arithmetic

BF16 = torch.bfloat16
SHAPE = Shape(2, 257, 16, head_width=128)


def model(shape: Shape = SHAPE) -> Transformer:
    torch.manual_seed(0)
    return Transformer(shape)


def tokens() -> torch.Tensor:
    return torch.randint(0, 257, (3, 17), generator=torch.Generator().manual_seed(0))


@pytest.fixture
def plain_kernels(monkeypatch):
    """bfloat16 without oneDNN: virtual machines may offer it AMX and then fault."""
    monkeypatch.setattr(torch.backends.mkldnn, "enabled", False)


def test_heads_are_128_wide_from_depth_12_where_that_divides_the_width():
    assert [head_width(depth) for depth in (1, 2, 10, 11, 12, 13, 14, 32)] == [64, 64, 64, 64, 128, 64, 128, 128]
    wide, narrow = Shape(12, 50_304, 1024, 128), Shape(12, 50_304, 1024)
    assert (wide.heads, narrow.heads) == (6, 12) and wide.parameters == narrow.parameters
    for width in (63, 256, "128", None):
        with pytest.raises(ValueError, match="head_width=.*64 or 128, and a divisor of the width 832"):
            Shape(13, 257, 16, width)


def test_wide_heads_compute_attention_as_the_formula_has_it():
    network, text = model(), tokens()[:, :-1]
    seen = []
    network.blocks[0].qkv.register_forward_hook(lambda _, inputs, output: seen.append(output))
    network.blocks[0].output.register_forward_pre_hook(lambda _, inputs: seen.append(inputs[0]))
    network(text)
    q, k, v = (part.view(3, 16, 128) for part in seen[0].split(128, dim=-1))
    q, k = (transformer.rotate(part, network.cosine_TK, network.sine_TK) for part in (q, k))
    scores = (q @ k.mT / 128**0.5).masked_fill(torch.ones(16, 16).triu(1).bool(), -torch.inf)
    torch.testing.assert_close(seen[1], scores.softmax(-1) @ v, rtol=1e-4, atol=1e-5)


def test_attention_is_given_and_gives_what_needs_no_copy(monkeypatch):
    """Heads lie beside each other in memory, as the kernels want them, and the result is a view."""
    layouts, kernel = [], F.scaled_dot_product_attention

    def looked_at(q, k, v, is_causal):
        result = kernel(q, k, v, is_causal=is_causal)
        layouts.append(([part.stride(-1) for part in (q, k, v)], [part.stride()[1:3] for part in (q, k)]))
        layouts.append(result.transpose(1, 2).reshape(3, 16, -1).data_ptr() == result.data_ptr())
        return result

    monkeypatch.setattr(F, "scaled_dot_product_attention", looked_at)
    model(Shape(2, 257, 16))(tokens()[:, :-1])
    assert layouts[:2] == [([1, 1, 1], [(64, 128), (64, 128)]), True]


def test_under_autocast_the_residual_stream_is_bfloat16_and_norms_compute_in_float32(plain_kernels):
    network, kept = model(), []
    for block in network.blocks:
        block.register_forward_hook(lambda _, inputs, output: kept.append((inputs[0].dtype, output.dtype)))
    text = tokens()
    with torch.autocast("cpu", BF16):
        loss = network(text[:, :-1], text[:, 1:], summed=True)
    assert kept == [(BF16, BF16)] * 2 and loss.dtype == torch.float32
    expected = network(text[:, :-1], text[:, 1:], summed=True)
    assert kept[2:] == [(torch.float32, torch.float32)] * 2
    torch.testing.assert_close(loss, expected, rtol=1e-2, atol=0)
    x = (1_000 + torch.randn(4, 128)).to(BF16)
    norm = Norm(128)
    assert torch.equal(norm(x), F.rms_norm(x.float(), (128,), norm.weight).to(BF16))


@pytest.mark.filterwarnings("ignore:The .grad attribute")
def test_compiled_blocks_are_one_graph_however_many_there_are_and_compute_the_same(monkeypatch):
    """More than torch.compile would compile anew before it gives up."""
    network, text, graphs = model(Shape(10, 257, 16)), tokens(), []
    expected = network(text[:, :-1], text[:, 1:], summed=True)
    wrapped = torch.compile
    backend = {"fullgraph": True, "backend": lambda graph, _: graphs.append(graph) or graph}
    monkeypatch.setattr(torch, "compile", lambda forward: wrapped(forward, **backend))
    parts = [*network.blocks, network.head.gradient]
    arithmetic.compile_blocks(network, parts, deterministic=True, asked=True)
    assert torch.equal(network(text[:, :-1], text[:, 1:], summed=True), expected)
    assert len(graphs) == 2
