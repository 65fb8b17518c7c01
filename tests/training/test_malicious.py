"""Files made to do harm: loading them runs no code and reads nothing outside the folder."""

import io
import json
import os
import pickle
import struct
import sys

import google_crc32c
import pytest
import torch
from torch import nn

from training import bundle
from training.checkpoint import recovery, state
from training.checkpoint.disk import DiskStore
from training.checkpoint.manifest import Manifest, Part, part_name
from training.data import manifest as manifests
from training.errors import UserError

OWN_NAME = part_name(0, 2, "aaaa", 0)
NEWEST = "run000-step000000002.json"


class Trap:
    """A pickle that writes a file when it is opened."""

    def __init__(self, path):
        self.path = str(path)

    def __reduce__(self):
        return os.mkdir, (self.path,)


@pytest.fixture
def sprung(tmp_path):
    """What a trap would make; checked after every test."""
    yield tmp_path / "sprung"
    assert not (tmp_path / "sprung").exists()


WATCHED = {"folder": None, "opened": []}


def _audit(event, arguments):
    if event == "open" and WATCHED["folder"] and str(arguments[0]).startswith(WATCHED["folder"]):
        WATCHED["opened"].append(str(arguments[0]))


sys.addaudithook(_audit)


@pytest.fixture
def outside(tmp_path):
    """A folder that nothing may read from, with a good part of a checkpoint in it."""
    folder = tmp_path / "outside"
    folder.mkdir()
    (folder / "run000-step000000002-ffff-0.safetensors").write_bytes(good_part())
    (folder / "model.safetensors").write_bytes(good_part())
    WATCHED.update(folder=str(folder), opened=[])
    yield folder
    WATCHED["folder"] = None
    assert WATCHED["opened"] == []


def good_part():
    return b"".join(state.encode({"model/weight": torch.ones(2, 2)}))


def header(entries, data=b""):
    text = json.dumps(entries).encode() if isinstance(entries, dict) else entries
    return struct.pack("<Q", len(text)) + text + data


def pickles(sprung):
    zipped = io.BytesIO()
    torch.save({"model/weight": Trap(sprung)}, zipped)
    legacy = io.BytesIO()
    torch.save({"model/weight": Trap(sprung)}, legacy, _use_new_zipfile_serialization=False)
    return {
        "a pickle": pickle.dumps({"model/weight": Trap(sprung)}),
        "a torch.save archive": zipped.getvalue(),
        "an old torch.save file": legacy.getvalue(),
        "a pickle behind a header": header({}) + pickle.dumps(Trap(sprung)),
    }


def forged_headers():
    entry = {"dtype": "F32", "shape": [2, 2], "data_offsets": [0, 16]}
    twice = b'{"model/weight":%b,"model/weight":%b}' % ((json.dumps(entry).encode(),) * 2)
    return {
        "offsets beyond the file": header({"model/weight": entry | {"data_offsets": [0, 1 << 40]}}, bytes(16)),
        "a shape beyond the data": header({"model/weight": entry | {"shape": [1 << 40, 2]}}, bytes(16)),
        "a header longer than the file": struct.pack("<Q", 1 << 62) + b"{}",
        "a key twice": header(twice, bytes(16)),
        "deep JSON": header(b"[" * 100_000),
    }


def checkpoint(folder, data, name=OWN_NAME, **changes):
    """A checkpoint of step 2, with correct checksums whatever it holds, above an honest one of step 1."""
    store, layout = DiskStore(folder), state.stored({"model/weight": torch.ones(2, 2)}, 1)
    for step, content in ((1, good_part()), (2, data)):
        part = Part(name=part_name(0, step, "aaaa", 0), bytes=len(content), crc32c=google_crc32c.value(content))
        store.write(part.name, [memoryview(content)])
        made = Manifest(run=0, step=step, settings={}, parts=(part,), tensors=layout)
        if step == 2:
            part = part.model_construct(**{**part.model_dump(), "name": name, **changes})
            made = made.model_copy(update={"parts": (part,)})
        store.commit(made.name, made.encode())
    return store


def load(store):
    """(step, lines said) as a resume would."""
    said = []
    found = recovery.newest(store, 0, said.append)
    state.decode(found, lambda number: recovery.read_part(store, found, number))
    return found.step, said


@pytest.mark.parametrize("kind", pickles("x"))
def test_a_part_that_is_a_pickle_is_never_opened_as_one(tmp_path, sprung, kind):
    store = checkpoint(tmp_path / "forged", pickles(sprung)[kind])
    with pytest.raises(UserError, match=f"checkpoint {NEWEST} does not hold what its manifest says"):
        load(store)
    swapped = checkpoint(tmp_path / "swapped", good_part())
    (tmp_path / "swapped" / part_name(0, 2, "aaaa", 0)).write_bytes(pickles(sprung)[kind])
    step, said = load(swapped)
    assert step == 1 and len(said) == 1


@pytest.mark.parametrize("kind", forged_headers())
def test_a_part_with_a_forged_header_is_refused_in_one_sentence(tmp_path, kind):
    with pytest.raises(UserError, match=f"checkpoint {NEWEST} does not hold what its manifest says"):
        load(checkpoint(tmp_path, forged_headers()[kind]))


@pytest.mark.parametrize("where", ["../outside/", "{absolute}/outside/", "./../outside/"])
def test_a_manifest_cannot_name_a_file_of_another_folder(tmp_path, outside, where):
    name = where.format(absolute=tmp_path) + "run000-step000000002-ffff-0.safetensors"
    step, said = load(checkpoint(tmp_path / "checkpoints", good_part(), name=name))
    assert step == 1
    assert said == [f"checkpoint passed over: {NEWEST} cannot be read (ValidationError)"]


def test_a_link_out_of_the_folder_is_not_followed(tmp_path, outside):
    store = checkpoint(tmp_path / "checkpoints", good_part())
    part = tmp_path / "checkpoints" / part_name(0, 2, "aaaa", 0)
    part.unlink()
    part.symlink_to(outside / "run000-step000000002-ffff-0.safetensors")
    step, said = load(store)
    assert step == 1 and len(said) == 1


def test_a_huge_declared_size_is_not_believed(tmp_path):
    step, said = load(checkpoint(tmp_path, good_part(), bytes=1 << 60))
    assert step == 1 and f"instead of {1 << 60}" in said[0]


def test_a_manifest_that_says_something_twice_is_passed_over(tmp_path):
    store = checkpoint(tmp_path, good_part())
    body = (tmp_path / NEWEST).read_bytes().partition(b", ")[2].replace(b'"run": 0,', b'"run": 0, "run": 0,')
    (tmp_path / NEWEST).write_bytes(b'{"crc32c": "%08x", ' % google_crc32c.value(body) + body)
    assert load(store)[0] == 1


def test_a_deep_manifest_is_passed_over(tmp_path):
    store = checkpoint(tmp_path, good_part())
    body = b'"settings":' + b'{"a":' * 100_000 + b"1" + b"}" * 100_001
    (tmp_path / NEWEST).write_bytes(b'{"crc32c": "%08x", ' % google_crc32c.value(body) + body)
    assert load(store)[0] == 1


# ---- models


@pytest.fixture
def model(digits, tmp_path):
    from digits import Digits

    data = manifests.load(digits)
    card = bundle.ModelCard(task="digits:Digits", columns=data.columns, config={}, steps=1, parameters=1)
    bundle.save(tmp_path / "model", Digits().model(data), card)
    return tmp_path / "model"


def forge(model, **changes):
    card = json.loads((model / bundle.CARD).read_text())
    (model / bundle.CARD).write_text(json.dumps(card | changes))


@pytest.mark.parametrize("task", ["os:system", "subprocess:Popen", "digits:Net", "training.task:Task"])
def test_a_card_cannot_name_something_that_is_no_task(model, task):
    forge(model, task=task, options={"command": "touch sprung"})
    with pytest.raises(UserError):
        bundle.load(model)


def test_a_card_cannot_have_a_module_imported(model, tmp_path, sprung, monkeypatch):
    (tmp_path / "evil.py").write_text(f"import os\nos.mkdir({str(sprung)!r})\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.chdir(tmp_path)
    forge(model, task="evil:Task")
    with pytest.raises(UserError, match="If you trust it: import evil first"):
        bundle.load(model)


@pytest.mark.parametrize("kind", [*pickles("x"), *forged_headers()])
def test_weights_that_are_no_weights_are_refused(model, sprung, kind):
    (model / bundle.WEIGHTS).write_bytes({**pickles(sprung), **forged_headers()}[kind])
    with pytest.raises(UserError, match="cannot be read as weights|does not fit the model"):
        bundle.load(model)


def test_weights_that_are_a_link_are_refused(model, outside):
    (model / bundle.WEIGHTS).unlink()
    (model / bundle.WEIGHTS).symlink_to(outside / bundle.WEIGHTS)
    with pytest.raises(UserError, match="symbolic link"):
        bundle.load_weights(model, nn.Linear(2, 2))


def test_a_deep_card_is_refused(model):
    (model / bundle.CARD).write_text('{"options":' + '{"a":' * 100_000)
    with pytest.raises(UserError, match="cannot be read as a model card"):
        bundle.load_card(model)
