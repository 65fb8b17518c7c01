"""Strategy and precision do not decide what is learned, whatever the scale of the inputs."""

import pytest
import torch
from torch import nn

from vgp.base.exits import UserError
from vgp.train.loop import precision
from vgp.train.processes.launch import launch

STRATEGIES = {
    "ddp": {},
    "exact": {"exact": True},
    "fsdp": {"strategy": "fsdp"},
    "read": {"task": "Reader"},
    "fsdp, recomputed": {"strategy": "fsdp", "activation_checkpointing": True},
}


def test_every_strategy_and_precision_learns_what_plain_float32_learns_on_inputs_of_any_scale(capfd):
    """Each step's loss: in float32 within 0.01 % (the order of additions), in bfloat16 and float16 within 1 %."""
    runs = {f"{name} {precision}": {"precision": precision, **changes}
            for name, changes in STRATEGIES.items() for precision in ("fp32", "bf16")}  # fmt: skip
    runs |= {f"{name} fp16": {"precision": "fp16", **STRATEGIES[name]} for name in ("ddp", "fsdp")}
    for name in ("ddp", "read", "fsdp, recomputed"):
        del runs[f"{name} fp32"]  # plain, and no other arithmetic than fsdp's
    curves = launch("scales:curves", runs, nproc=2)
    plain = curves.pop("plain")
    assert plain[-1] < 0.8 * plain[0]
    for name, losses in curves.items():
        assert losses == pytest.approx(plain, rel=1e-4 if name.endswith("fp32") else 1e-2), name
    assert curves["ddp bf16"] != plain != curves["ddp fp16"]
    assert "Warning" not in capfd.readouterr().err


def test_the_first_forward_pass_that_runs_out_of_memory_names_settings_that_need_less():
    with pytest.raises(UserError, match="ran out of memory in step 0: CUDA out of memory.*\n.*activation_checkpoint"):
        launch("scales:curves", {"full": {"task": "Full", "precision": "bf16"}}, nproc=1)


def test_tf32_is_refused_where_the_model_multiplies_raw_values():
    with pytest.raises(UserError, match="tf32=true would round raw values.*inputs of .*Standardise them in the task"):
        launch("scales:curves", {"tf32": {"tf32": True}}, nproc=1)


# ---- layers that bfloat16 would spoil


BRIGHTNESS = torch.tensor([0.5, 0.5, 100])[:, None, None]


class Raw(nn.Module):
    """A column and an image, each raw into one layer and prepared into another."""

    def __init__(self):
        super().__init__()
        self.column, self.standard, self.deeper = nn.Linear(2, 3), nn.Linear(2, 3), nn.Linear(3, 3)
        self.image, self.bright = nn.Conv2d(3, 4, 3), nn.Conv2d(3, 4, 3)

    def forward(self, column, image):
        deep = self.deeper(1_000 + 0.1 * self.column(column))
        bright = self.bright((image - BRIGHTNESS) / 0.01)
        return deep + self.standard((column - 101_325) / 100), self.image(image) + bright


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_only_layers_on_raw_values_far_from_zero_compute_in_float32(dtype):
    torch.manual_seed(0)
    module, random = Raw(), torch.Generator().manual_seed(0)
    column = 101_325 + 100 * torch.randn(64, 2, generator=random)
    column[3, 0] = torch.nan  # missing
    image = torch.rand(8, 3, 9, 9, generator=random) * 0.01 + BRIGHTNESS
    names = precision.keep_float32(module, lambda: module(column, image), dtype)
    assert names == ["column", "image"]
    assert module.training
    with torch.autocast("cpu", dtype):
        assert module.column(column).dtype == module.image(image).dtype == torch.float32
    assert precision.keep_float32(nn.Sequential(nn.Linear(2, 1)), lambda: None, torch.bfloat16) == []


@pytest.mark.parametrize(
    ("mean", "deviation", "spoilt"),
    [(100, 1, [torch.bfloat16]), (70_000, 0, [torch.float16]), (0, 1e-9, [torch.float16]), (0, 1, [])],
    ids=["100 +- 1 wants more bits", "70,000 is too large", "a billionth is too small", "a standard one"],
)  # fmt: skip
def test_what_spoils_a_column_depends_on_the_bits_and_the_range_of_the_precision(mean, deviation, spoilt):
    values, layer = mean + deviation * torch.randn(99, 1, generator=torch.Generator().manual_seed(0)), nn.Linear(1, 1)
    kinds = (torch.bfloat16, torch.float16)
    assert [kind for kind in kinds if precision.keep_float32(layer, lambda: layer(values), kind)] == spoilt


# ---- products in a module's own code


class Own(nn.Module):
    """A raw column into a product of its own; `deep` is given what a parameter has touched."""

    def __init__(self, multiply):
        super().__init__()
        self.multiply, self.weight, self.deep = multiply, nn.Parameter(torch.randn(3, 2)), nn.Linear(3, 3)

    def forward(self, column):
        return self.deep(self.multiply(column, self.weight))


PRODUCTS = {
    "linear": nn.functional.linear,
    "@": lambda x, w: x @ w.T,
    "@ from the left": lambda x, w: (w @ x.T).T,
    "einsum": lambda x, w: torch.einsum("bf,of->bo", x, w),
    "addmm": lambda x, w: torch.addmm(torch.zeros(3), x, w.T),
    "bmm": lambda x, w: torch.bmm(x[None], w.T[None])[0],
    "a batch of sequences": lambda x, w: nn.functional.linear(x.view(8, 8, 2), w).view(64, 3),
    "conv1d": lambda x, w: nn.functional.conv1d(x[:, :, None], w[:, :, None])[:, :, 0],
    "row by row": lambda x, w: torch.stack([w @ row for row in x]),
    "a linear layer row by row": lambda x, w: torch.cat([nn.functional.linear(row[None], w) for row in x]),
}


@pytest.mark.parametrize("is_compiled", [False, True], ids=["plain", "compiled"])
@pytest.mark.parametrize("way", PRODUCTS)
def test_a_product_of_raw_values_in_a_modules_own_code_computes_in_float32(way, is_compiled):
    torch.manual_seed(0)
    module, column = nn.Sequential(Own(PRODUCTS[way]), nn.Linear(3, 1)), 101_325 + 100 * torch.randn(64, 2)
    names = precision.keep_float32(module, lambda: module(column), torch.bfloat16)
    assert names == ["0 (all of it: its own code multiplies them)"]
    run = torch.compile(module, backend="eager") if is_compiled else module
    with torch.autocast("cpu", torch.bfloat16):
        assert module[0](column).dtype == torch.float32 and run(column).dtype == torch.bfloat16
        assert module[0](column.bfloat16()).dtype == torch.float32
    assert run(column).dtype == torch.float32


class Table(nn.Module):
    """Multiplies a raw table in a buffer, or raw values in training only."""

    def __init__(self, is_buffer):
        super().__init__()
        self.is_buffer, self.weight = is_buffer, nn.Parameter(torch.randn(3, 2))
        self.register_buffer("table", 101_325 + 100 * torch.randn(3, 2, generator=torch.Generator().manual_seed(0)))

    def forward(self, kind):
        if self.is_buffer:
            return nn.functional.one_hot(kind, 3).float() @ self.table
        return self.table[kind] @ self.weight.T if self.training else self.weight[kind]


@pytest.mark.parametrize("is_buffer", [True, False])
def test_products_of_buffers_and_of_training_alone_are_watched_too(is_buffer):
    module, kind = Table(is_buffer), torch.arange(64) % 3
    assert len(precision.keep_float32(module, lambda: module(kind), torch.bfloat16)) == 1
    assert module.training


def test_attention_over_raw_values_computes_in_float32():
    class Attention(nn.Module):
        def forward(self, query, raw):
            return nn.functional.scaled_dot_product_attention(query, query, raw)

    module, query = Attention(), torch.randn(2, 1, 9, 4, requires_grad=True)
    raw = 101_325 + 100 * torch.randn(2, 1, 9, 4)
    assert precision.keep_float32(module, lambda: module(query, raw), torch.bfloat16)
    assert not precision.keep_float32(module, lambda: module(query, (raw - 101_325) / 100), torch.bfloat16)


def test_what_loses_nothing_stays_in_half_precision_and_what_is_outside_of_the_model_is_named():
    torch.manual_seed(0)
    module, column = Own(nn.functional.linear), 101_325 + 100 * torch.randn(64, 2)

    def in_float32():
        with torch.autocast("cpu", enabled=False):
            return nn.functional.linear(column, module.weight)

    half = (torch.bfloat16, "cpu")
    assert precision.keep_float32(module, lambda: module((column - 101_325) / 100), *half) == []
    assert precision.keep_float32(module, in_float32, *half) == []  # the task has seen to it
    assert precision.keep_float32(module, lambda: torch.cdist(column, column), *half) == []  # autocast does not round
    assert "forward" not in vars(module)
    outside = precision.keep_float32(module, lambda: nn.functional.linear(column, module.weight), *half)
    assert outside == [precision.EVERYTHING]
    assert precision.keep_float32(module, lambda: module(column), *half) == [
        "Own (all of it: its own code multiplies them)"
    ]
    assert not torch.is_autocast_enabled("cpu") and torch.get_autocast_dtype("cpu") == torch.bfloat16
