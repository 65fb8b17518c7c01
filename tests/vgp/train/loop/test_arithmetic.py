"""How `auto` settings are resolved. The GPU is a double that answers questions about itself."""

import shutil
import signal
import sysconfig

import pytest
import torch
from torch import nn
from torch.nn.attention import SDPBackend

from vgp.base.exits import ProcessFailed, UserError
from vgp.data import bundle
from vgp.train.checkpoint import recovery
from vgp.train.checkpoint.checkpoint_store import DiskStore
from vgp.train.fit import train
from vgp.train.loop import arithmetic
from vgp.train.loop.training_request import _chosen_then
from vgp.train.train_config import parse_config

CPU, GPU = torch.device("cpu"), torch.device("cuda", 0)
SMALL = nn.Linear(3, 3)
LARGE = nn.Linear(10_000, 5_000, device="meta")  # 50,005,000 parameters


@pytest.fixture
def gpu(monkeypatch, tmp_path):
    """An H100 in an image with all that a compiler needs."""
    (tmp_path / "Python.h").touch()
    monkeypatch.setattr(torch.cuda, "get_device_name", lambda device: "NVIDIA H100")
    monkeypatch.setattr(torch.cuda, "get_device_capability", lambda device: (9, 0))
    monkeypatch.setattr(torch.cuda, "is_bf16_supported", lambda including_emulation: True)
    monkeypatch.setattr(sysconfig, "get_path", lambda name: str(tmp_path))
    monkeypatch.setattr(arithmetic.importlib.util, "find_spec", lambda name: name)
    monkeypatch.setenv("CC", "gcc")
    return tmp_path


def chosen(module: nn.Module, device: torch.device, begun=None, **changes):
    choice = arithmetic.resolve_arithmetic(parse_config(changes), module, device, begun or {})
    return tuple(choice.chosen().values()), choice.reasons


def test_a_large_model_on_a_gpu_is_compiled_and_takes_the_fastest_kernels(gpu):
    values, reasons = chosen(LARGE, GPU)
    assert values == ("bf16", True, False)
    assert reasons["precision"] == "NVIDIA H100 supports it" and reasons["compile"] == "50,005,000 parameters on a GPU"


@pytest.mark.parametrize(("name", "capability", "expected"), [
    ("Tesla V100-SXM2-16GB", (7, 0), "fp16"), ("Tesla T4", (7, 5), "fp16"), ("Tesla P100-PCIE-16GB", (6, 0), "fp32"),
])  # fmt: skip
def test_a_gpu_without_bfloat16_takes_float16_if_it_has_tensor_cores(gpu, monkeypatch, name, capability, expected):
    """PyTorch reports bfloat16 for each of them, by emulation."""
    monkeypatch.setattr(torch.cuda, "get_device_name", lambda device: name)
    monkeypatch.setattr(torch.cuda, "get_device_capability", lambda device: capability)
    monkeypatch.setattr(torch.cuda, "is_bf16_supported", lambda including_emulation=True: including_emulation)
    values, reasons = chosen(SMALL, GPU)
    assert values[0] == expected and f"{name} has no bfloat16" in reasons["precision"]
    values, reasons = chosen(SMALL, GPU, {"precision": "bf16"})  # begun on an A100: what is computed stays
    assert values[0] == "bf16"
    assert reasons["precision"] == f"as the run began; {name} has no hardware for it, and steps are slow"


def test_a_small_model_and_every_model_on_a_cpu_stay_bit_identical(gpu):
    assert chosen(LARGE, CPU) == (("fp32", False, True), dict.fromkeys(arithmetic.AUTO_FIELDS, "on a CPU"))
    values, reasons = chosen(SMALL, GPU)
    assert values == ("bf16", False, True) and "12 parameters, fewer than 50,000,000" in reasons["compile"]


def test_what_is_set_is_taken_and_exact_means_deterministic(gpu):
    assert chosen(LARGE, GPU, precision="fp32", compile=False, deterministic=True) == (("fp32", False, True), {})
    assert chosen(LARGE, GPU, exact=True)[0] == ("bf16", False, True)
    with pytest.raises(UserError, match="exact=true needs deterministic kernels"):
        parse_config({"exact": True, "deterministic": False})
    with pytest.raises(UserError, match="compile='yes': input should be 'auto', True or False"):
        parse_config({"compile": "yes"})


def test_without_a_compiler_a_large_model_is_not_compiled_and_the_log_says_why(gpu, monkeypatch):
    (gpu / "Python.h").unlink()
    values, reasons = chosen(LARGE, GPU)
    assert values == ("bf16", False, False) and reasons["compile"] == "Python's headers are missing (python3-dev)"
    with pytest.raises(UserError, match="compile=true, but Python's headers are missing"):
        chosen(LARGE, GPU, compile=True)
    monkeypatch.delenv("CC")
    monkeypatch.setenv("PATH", "")
    assert chosen(LARGE, GPU)[1]["compile"] == "there is no compiler (gcc, clang, cc)"


def test_a_run_that_began_on_a_gpu_goes_on_as_it_began_on_a_cpu_and_says_so(gpu, monkeypatch):
    begun = {"precision": "bf16", "compile": True, "deterministic": False}
    monkeypatch.setenv("CXX", "g++")
    values, reasons = chosen(LARGE, CPU, begun)
    assert values == ("bf16", True, False) and {text[:16] for text in reasons.values()} == {"as the run began"}
    monkeypatch.delenv("CXX")
    monkeypatch.setenv("PATH", "")
    values, reasons = chosen(LARGE, CPU, begun)
    assert values == ("bf16", False, False)
    assert "no compiler (g++, clang++, c++)" in reasons["compile"]


def test_what_was_chosen_then_counts_where_it_is_left_open_now():
    """A checkpoint of an earlier version holds `auto` for its precision only; a hostile one may hold anything."""
    then = {"config": {"precision": "auto", "compile": False, "deterministic": True, "seed": 0}}
    assert _chosen_then(then, parse_config({})) == {"compile": False, "deterministic": True}
    assert _chosen_then(then, parse_config({"compile": True})) == {"deterministic": True}
    assert _chosen_then({"config": {"precision": "fp16"}}, parse_config({})) == {"precision": "fp16"}
    for strange in ({}, {"config": []}, {"config": {"precision": ["x"], "compile": 1, "deterministic": "no"}}):
        assert _chosen_then(strange, parse_config({})) == {}


def test_attention_takes_cudnn_on_hopper_and_blackwell_where_bits_need_not_repeat():
    flash = SDPBackend.FLASH_ATTENTION
    assert [arithmetic.attention_order(False, (major, 0))[0] for major in (7, 8, 9, 10, 12)] == [
        flash, flash, SDPBackend.CUDNN_ATTENTION, SDPBackend.CUDNN_ATTENTION, flash,
    ]  # fmt: skip
    assert SDPBackend.CUDNN_ATTENTION not in arithmetic.attention_order(True, (9, 0))
    assert all(SDPBackend.MATH in arithmetic.attention_order(wanted, (9, 0)) for wanted in (True, False))


def test_float32_is_not_rounded_to_tf32_on_a_gpu():
    torch.backends.cudnn.allow_tf32 = True
    arithmetic.select_kernels(True, CPU)
    assert not torch.backends.cudnn.allow_tf32 and torch.get_float32_matmul_precision() == "highest"
    assert torch.are_deterministic_algorithms_enabled()
    arithmetic.select_kernels(True, CPU, tf32=True)
    assert torch.backends.cudnn.allow_tf32 and torch.backends.cuda.matmul.allow_tf32
    arithmetic.select_kernels(True, CPU)
    torch.use_deterministic_algorithms(False)


# ---- operations without a deterministic kernel


@pytest.fixture
def train_unordered(digits, tmp_path):
    """Trains digits whose backward pass has no deterministic kernel, in a folder, on two processes."""
    data = shutil.copytree(digits, tmp_path / "data")
    text = (data / "manifest.json").read_text()
    (data / "manifest.json").write_text(text.replace("digits:Digits", "unordered:Unordered"))

    def run(folder, **changes):
        settings = {"task": "unordered:Unordered", "epochs": 2, "global_batch_size": 96, **changes}
        places = {"model": tmp_path / folder / "model", "checkpoints": tmp_path / folder / "checkpoints"}
        return train(parse_config(settings), data=data, **places, nproc=2)

    return run


def test_a_model_without_a_deterministic_kernel_trains_and_resumes_and_names_the_operation(
    train_unordered, tmp_path, monkeypatch, capfd
):
    """`put_` writes every element once here, so that the results can be compared."""
    expected = train_unordered("whole")
    assert "deterministic=false (put_ has no deterministic kernel here)" in expected["chosen"]
    assert expected["chosen"] in capfd.readouterr().err
    monkeypatch.setenv("DIGITS_SIGNAL", f"1:20:{signal.SIGKILL}")
    with pytest.raises(ProcessFailed):
        train_unordered("killed", checkpoint_every_steps=4)
    monkeypatch.delenv("DIGITS_SIGNAL")
    resumed = train_unordered("killed", checkpoint_every_steps=4)
    assert resumed["resumed_from"] and resumed["deterministic"] is False
    weights = [(tmp_path / folder / "model" / bundle.WEIGHTS).read_bytes() for folder in ("whole", "killed")]
    assert weights[0] == weights[1]
    store = DiskStore(tmp_path / "killed" / "checkpoints")
    newest = recovery.read_manifest(store, recovery.list_manifests(store, 0)[0])
    assert newest.settings["config"]["deterministic"] is False
    assert train_unordered("sharded", strategy="fsdp")["deterministic"] is False


@pytest.mark.parametrize("setting", ["deterministic", "exact"])
def test_a_user_who_asks_for_equal_bits_reads_the_operation_and_the_setting(train_unordered, setting):
    with pytest.raises(UserError, match="put_ of PyTorch has no deterministic.*Set training_options.deterministic=fal"):
        train_unordered("refused", **{setting: True})
