import pytest
import torch
from torch import Tensor
from torch.nn import functional as F
from torch.profiler import profile

from vgp.networks import head
from vgp.networks.head import TiedHead
from vgp.train.loop import arithmetic

TOKENS, WIDTH, VOCAB = 96, 8, 500


def drawn(dtype: torch.dtype = torch.float32) -> tuple[Tensor, Tensor, Tensor]:
    """What comes into the head (1, N, D), its weight, and targets of which some are none."""
    random = torch.Generator().manual_seed(0)
    x = torch.randn(1, TOKENS, WIDTH, generator=random).to(dtype)
    targets = torch.randint(0, VOCAB, (1, TOKENS), generator=random)
    targets[0, 5:9] = head.NONE
    return x.requires_grad_(), torch.randn(VOCAB, WIDTH, generator=random).requires_grad_(), targets


def plain(x: Tensor, weight: Tensor, targets: Tensor) -> Tensor:
    logits = F.linear(x, weight.to(x.dtype)).flatten(0, 1).float()
    return F.cross_entropy(logits, targets.flatten(), ignore_index=head.NONE, reduction="sum")


def summed(x: Tensor, weight: Tensor, targets: Tensor) -> Tensor:
    return TiedHead()(x, weight, targets, summed=True)


def one_by_one(x: Tensor, weight: Tensor, targets: Tensor) -> Tensor:
    with torch.autocast("cpu", torch.bfloat16, enabled=x.dtype == torch.bfloat16):
        return TiedHead()(x, weight, targets, summed=False).sum()


def found(loss, dtype: torch.dtype) -> tuple[Tensor, Tensor, Tensor]:
    x, weight, targets = drawn(dtype)
    value = loss(x, weight, targets)
    (value / 7).backward()
    return value.detach(), x.grad, weight.grad


@pytest.fixture(params=[1 << 30, 40 * 4 * VOCAB, 4 * VOCAB], ids=["one chunk", "40 tokens", "1 token"])
def chunk_bytes(request, monkeypatch):
    monkeypatch.setattr(head, "CHUNK_BYTES", request.param)


@pytest.fixture
def plain_kernels(monkeypatch):
    """bfloat16 without oneDNN: virtual machines may offer it AMX and then fault."""
    monkeypatch.setattr(torch.backends.mkldnn, "enabled", False)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("loss", [summed, one_by_one])
def test_loss_and_gradients_are_those_of_all_logits_at_once(chunk_bytes, plain_kernels, loss, dtype):
    tolerance = 1e-5 if dtype == torch.float32 else 2e-2
    for ours, expected in zip(found(loss, dtype), found(plain, dtype), strict=True):
        assert ours.dtype == expected.dtype
        torch.testing.assert_close(ours, expected, rtol=tolerance, atol=tolerance * float(expected.abs().max()))


def test_the_loss_in_evaluation_is_the_one_that_is_trained_on(chunk_bytes):
    x, weight, targets = drawn()
    trained = summed(x, weight, targets)
    with torch.no_grad():
        losses = TiedHead()(x, weight, targets, summed=False)
        assert losses.shape == targets.shape and bool((losses[0, 5:9] == 0).all())
        for evaluated in (losses.sum(), summed(x, weight, targets)):
            torch.testing.assert_close(evaluated, trained.detach())


def test_a_frozen_embedding_and_a_second_backward_pass_are_no_silent_errors():
    x, weight, targets = drawn()
    summed(x, weight.detach(), targets).backward()
    assert x.grad is not None
    loss = summed(x, weight, targets)
    loss.backward(retain_graph=True)
    with pytest.raises(RuntimeError, match="modified by an inplace operation|modified inplace"):
        loss.backward()


def peak_bytes(loss) -> int:
    """What the CPU's allocator held at most, forward and backward, above what it held before."""
    x, weight, targets = drawn()
    with profile(profile_memory=True) as recorded:
        loss(x, weight, targets).backward()
    held, most = 0, 0
    for event in recorded.profiler.kineto_results.events():
        if event.name() == "[memory]":
            held += event.nbytes()
            most = max(most, held)
    return most


def test_the_logits_of_a_batch_never_exist_at_once(monkeypatch):
    logits = TOKENS * VOCAB * 4
    assert peak_bytes(plain) > 2 * logits
    monkeypatch.setattr(head, "CHUNK_BYTES", logits // 16)
    assert peak_bytes(summed) < 0.5 * logits and peak_bytes(one_by_one) < 0.8 * logits


def test_compiled_it_gives_the_same_and_is_one_graph(monkeypatch):
    monkeypatch.setattr(head, "CHUNK_BYTES", 24 * 4 * VOCAB)
    compiled, graphs, (x, weight, targets) = TiedHead(), [], drawn()
    wrapped = torch.compile
    monkeypatch.setattr(
        torch, "compile", lambda f: wrapped(f, fullgraph=True, backend=lambda g, _: graphs.append(g) or g)
    )
    arithmetic.compile_blocks(compiled, [compiled.gradient], deterministic=True, asked=True)
    assert torch.equal(compiled(x, weight, targets, summed=True), summed(x, weight, targets))
    assert len(graphs) == 1


@pytest.mark.parametrize(
    ("tokens", "vocab", "size"), [(32_768, 50_304, 4_096), (32_768, 257, 32_768), (7, 1 << 28, 1), (101, 1 << 25, 8)]
)
def test_chunks_are_as_few_as_a_gibibyte_of_logits_allows_and_equal_where_that_can_be(tokens, vocab, size):
    assert head.chunk_size(tokens, vocab) == size
