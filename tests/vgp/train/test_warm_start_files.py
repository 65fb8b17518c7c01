"""What `warm_start` may name, and what is said of what it may not."""

import json
import shlex
import sys

import pytest
import torch
from safetensors.torch import save_file

from vgp.base.exits import UserError
from vgp.train import warm_start_files

TENSORS = {"a.weight": torch.ones(2, 3), "a.bias": torch.zeros(2), "steps": torch.tensor(7)}


def sharded(folder, index=None):
    """As Hugging Face cuts a model into files."""
    folder.mkdir(exist_ok=True)
    names = [f"model-0000{n}-of-00002.safetensors" for n in (1, 2)]
    save_file({"a.weight": TENSORS["a.weight"]}, folder / names[0])
    save_file({name: TENSORS[name] for name in ("a.bias", "steps")}, folder / names[1])
    places = {"a.weight": names[0], "a.bias": names[1], "steps": names[1]}
    own = {"metadata": {"total_size": 40}, "weight_map": places}
    (folder / warm_start_files.INDEX).write_text(json.dumps(own if index is None else index))
    return folder


def test_a_file_a_folder_and_shards_hold_the_same_tensors(tmp_path):
    save_file(TENSORS, tmp_path / "model.safetensors")
    (tmp_path / "one").mkdir()
    save_file(TENSORS, tmp_path / "one" / "diffusion_pytorch_model.safetensors", {"format": "pt"})
    sharded(tmp_path / "cut")
    for place in ("model.safetensors", "", "one", "cut"):
        opened = warm_start_files.open_weights(str(tmp_path / place))
        assert {name: (entry.dtype, entry.shape) for name, entry in opened.tensors.items()} == {
            "a.weight": ("F32", (2, 3)), "a.bias": ("F32", (2,)), "steps": ("I64", ()),
        }  # fmt: skip
        assert not opened.has_card and len(opened.files) == (2 if place == "cut" else 1)


def test_the_fingerprint_is_that_of_the_bytes_wherever_they_lie(tmp_path):
    prints = []
    for number, place in enumerate(("here", "there", "other")):
        (tmp_path / place).mkdir()
        save_file({**TENSORS, "steps": torch.tensor(number // 2)}, tmp_path / place / "model.safetensors")
        prints.append(warm_start_files.open_weights(str(tmp_path / place)).fingerprint())
    assert prints[0] == prints[1] != prints[2] and "CRC-32C" in prints[0]["model.safetensors"]


@pytest.mark.parametrize("name", ["pytorch_model.bin", "model.pt", "last.ckpt"])
def test_a_pickle_is_not_opened_and_the_command_that_converts_it_works(tmp_path, monkeypatch, name):
    torch.save(TENSORS, tmp_path / name)
    for given in (tmp_path, tmp_path / name):
        with pytest.raises(UserError, match=f"{name} is a pickle") as caught:
            warm_start_files.find_weights(str(given))
    python, flag, code, *arguments = shlex.split(str(caught.value).splitlines()[1])
    assert (python, flag) == ("python", "-c")
    monkeypatch.setattr(sys, "argv", [flag, *arguments])
    exec(code, {})  # a process of its own would take three seconds
    opened = warm_start_files.open_weights(str((tmp_path / name).with_suffix(".safetensors")))
    assert opened.tensors.keys() == TENSORS.keys()


def test_what_holds_no_weights_is_refused(tmp_path):
    (tmp_path / "empty").mkdir()
    (tmp_path / "text.safetensors").write_text("these are not the weights that you are looking for")
    (tmp_path / "short.safetensors").write_bytes(b"\x00")
    (tmp_path / "notes.txt").write_text("")
    save_file({}, tmp_path / "none.safetensors")
    for given, message in {
        "nothing": "warm_start=.*nothing does not exist", "notes.txt": "is neither a folder nor a .safetensors",
        "gone.safetensors": "matches no file", "empty": "matches no file|holds no",
        "text.safetensors": "not a safetensors file .*a header of", "short.safetensors": "a header of",
        "none.safetensors": "holds no tensor", "": "and no model.safetensors.index.json: give one of them",
    }.items():  # fmt: skip
        with pytest.raises(UserError, match=message):
            warm_start_files.open_weights(str(tmp_path / given))
    with pytest.raises(UserError, match="data is not downloaded from the web"):
        warm_start_files.find_weights("https://huggingface.co/bert-base-uncased")


@pytest.mark.parametrize(
    ("index", "message"),
    [
        ({"weight_map": {"a": "../../etc/secret.safetensors"}}, "shards that are missing: ../../etc/secret"),
        ({"weight_map": {"a": "model-00003-of-00003.safetensors"}}, "missing: model-00003-of-00003"),
        ({"weight_map": {"a": 7}}, "missing: 7"), ({"weight_map": []}, "is not an index"), ([], "is not an index"),
        ({"weight_map": {"a": {}}}, "is not an index"), ({"x": 1}, "is not an index"),
        ({"weight_map": {}}, "names no shards"),
    ],
)  # fmt: skip
def test_an_index_that_names_what_is_not_there_is_refused(tmp_path, index, message):
    with pytest.raises(UserError, match=message):
        warm_start_files.find_weights(str(sharded(tmp_path / "model", index)))


def test_a_header_that_lies_about_its_tensors_is_refused(tmp_path):
    path = tmp_path / "model.safetensors"
    for fields in ({"dtype": "F32", "shape": [1 << 40], "data_offsets": [0, 4]},
                   {"dtype": "F32", "shape": [2], "data_offsets": [0, 8]},
                   {"dtype": "F32", "shape": [1], "data_offsets": [0, 1 << 40]},
                   {"dtype": "F32", "shape": [-1], "data_offsets": [0, -4]}, {"dtype": "OBJECT"}, 3):  # fmt: skip
        header = json.dumps({"a": fields}).encode()
        path.write_bytes(len(header).to_bytes(8, "little") + header + bytes(4))
        with pytest.raises(UserError, match="is not a safetensors file"):
            warm_start_files.open_weights(str(path))


def test_a_tensor_in_two_shards_is_refused(tmp_path):
    folder = sharded(tmp_path / "model")
    save_file(TENSORS, folder / "model-00002-of-00002.safetensors")
    with pytest.raises(
        UserError, match="both model-00001-of-00002.safetensors and model-00002-of-00002.safe.* a.weight"
    ):
        warm_start_files.open_weights(str(folder))
