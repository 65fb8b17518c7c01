"""Files made to do harm: loading them runs no code and reads nothing outside the folder."""

import io
import json
import os
import pickle
import shutil
import struct
import subprocess
import sys
from pathlib import Path

import google_crc32c
import pytest
import torch
from torch import nn

from vgp.base.exits import UserError
from vgp.data import bundle, task_names
from vgp.data.rows import open_rows
from vgp.data.tensor_file import encode
from vgp.decision.report import findings
from vgp.protocol import manifest as manifests
from vgp.steps import calls as steps
from vgp.train.checkpoint import recovery, training_state
from vgp.train.checkpoint.checkpoint_manifest import Manifest, Part, part_name
from vgp.train.checkpoint.checkpoint_reader import CheckpointReader
from vgp.train.checkpoint.checkpoint_store import DiskStore
from vgp.train.fit import train
from vgp.train.loop.curves import History
from vgp.train.loop.sample_order import Plan
from vgp.train.train_config import parse_config

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
    return b"".join(map(bytes, encode({"model/weight": torch.ones(2, 2)})))


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
    store, layout = DiskStore(folder), training_state.layout_of({"model/weight": torch.ones(2, 2)}, 1)
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
    """Returns the step and the log lines, as a resume would."""
    lines = []
    found = recovery.find_newest(store, 0, lines.append)
    CheckpointReader(store, found).tensors()
    return found.step, lines


@pytest.mark.parametrize("kind", pickles("x"))
def test_a_part_that_is_a_pickle_is_never_opened_as_one(tmp_path, sprung, kind):
    store = checkpoint(tmp_path / "forged", pickles(sprung)[kind])
    with pytest.raises(UserError, match=f"checkpoint {NEWEST} contradicts its manifest"):
        load(store)
    swapped = checkpoint(tmp_path / "swapped", good_part())
    (tmp_path / "swapped" / part_name(0, 2, "aaaa", 0)).write_bytes(pickles(sprung)[kind])
    step, lines = load(swapped)
    assert step == 1 and len(lines) == 1


@pytest.mark.parametrize("kind", forged_headers())
def test_a_part_with_a_forged_header_is_refused_in_one_sentence(tmp_path, kind):
    with pytest.raises(UserError, match=f"checkpoint {NEWEST} contradicts its manifest"):
        load(checkpoint(tmp_path, forged_headers()[kind]))


@pytest.mark.parametrize("where", ["../outside/", "{absolute}/outside/", "./../outside/"])
def test_a_manifest_cannot_name_a_file_of_another_folder(tmp_path, outside, where):
    name = where.format(absolute=tmp_path) + "run000-step000000002-ffff-0.safetensors"
    step, lines = load(checkpoint(tmp_path / "checkpoints", good_part(), name=name))
    assert step == 1
    assert len(lines) == 1
    assert lines[0].startswith(f"checkpoint skipped: {NEWEST} cannot be read (parts.0.name: String should match")


def test_a_link_out_of_the_folder_is_not_followed(tmp_path, outside):
    store = checkpoint(tmp_path / "checkpoints", good_part())
    part = tmp_path / "checkpoints" / part_name(0, 2, "aaaa", 0)
    part.unlink()
    part.symlink_to(outside / "run000-step000000002-ffff-0.safetensors")
    step, lines = load(store)
    assert step == 1 and len(lines) == 1


def test_a_huge_declared_size_is_not_believed(tmp_path):
    step, lines = load(checkpoint(tmp_path, good_part(), bytes=1 << 60))
    assert step == 1 and f"1 checksums for {1 << 60} bytes" in lines[0]


def test_no_more_is_read_than_was_declared(tmp_path):
    """Files of a terabyte, all holes: a part and a manifest."""
    store = checkpoint(tmp_path, good_part())
    for name in (OWN_NAME, "run000-step000000003.json"):
        with open(tmp_path / name, "ab") as file:
            file.truncate(1 << 40)
    step, lines = load(store)
    assert step == 1
    assert lines == [
        "checkpoint skipped: run000-step000000003.json is larger than any manifest",
        f"checkpoint skipped: {OWN_NAME} has {1 << 40} bytes instead of {len(good_part())}",
    ]


def test_a_manifest_with_a_repeated_key_is_skipped(tmp_path):
    store = checkpoint(tmp_path, good_part())
    body = (tmp_path / NEWEST).read_bytes().partition(b", ")[2].replace(b'"run": 0,', b'"run": 0, "run": 0,')
    (tmp_path / NEWEST).write_bytes(b'{"crc32c": "%08x", ' % google_crc32c.value(body) + body)
    assert load(store)[0] == 1


def test_a_deep_manifest_is_passed_over(tmp_path):
    store = checkpoint(tmp_path, good_part())
    body = b'"settings":' + b'{"a":' * 100_000 + b"1" + b"}" * 100_001
    (tmp_path / NEWEST).write_bytes(b'{"crc32c": "%08x", ' % google_crc32c.value(body) + body)
    assert load(store)[0] == 1


# ---- manifests with a correct checksum that make no sense


@pytest.fixture
def subject(tmp_path):
    """A checkpoint of a model and its optimizer, to be forged."""
    model = nn.Sequential(nn.Linear(3, 4), nn.Linear(4, 2))
    optimizer = torch.optim.AdamW(model.parameters())
    model(torch.ones(1, 3)).sum().backward()
    optimizer.step()
    store, tensors = DiskStore(tmp_path), training_state.tensors_of(model, optimizer)
    data = b"".join(map(bytes, encode(tensors)))
    part = Part(name=OWN_NAME, bytes=len(data), crc32c=google_crc32c.value(data))
    store.write(part.name, [memoryview(data)])
    made = Manifest(run=0, step=2, settings={}, parts=(part,), tensors=training_state.layout_of(tensors, 1),
                    scalars=training_state.scalars_of(model, optimizer))  # fmt: skip
    store.commit(made.name, made.encode())
    return store, model, optimizer


def rewrite(store, change):
    """Changes the manifest, under a checksum that is right again."""
    content = json.loads((store.directory / NEWEST).read_bytes())
    content.pop("crc32c")
    change(content)
    body = json.dumps(content).encode()[1:]
    (store.directory / NEWEST).write_bytes(b'{"crc32c": "%08x", ' % google_crc32c.value(body) + body)


def group(**values):
    return lambda m: m["scalars"]["groups"][0].update(values)


def tensor(name, **values):
    return lambda m: m["tensors"][name].update(values)


def rename(old, new):
    return lambda m: m["tensors"].update({new: m["tensors"].pop(old)})


SENSELESS = {
    "a learning rate in words": group(lr="fast"),
    "a learning rate that is no number": group(lr=float("nan")),
    "one beta": group(betas=[0.9]),
    "betas of words": group(betas=["a", "b"]),
    "other parameters": group(params=[0]),
    "an unknown hyperparameter": group(surprise=1),
    "a switch that is a text": group(foreach="yes"),
    "no groups": lambda m: m["scalars"].pop("groups"),
    "a group too many": lambda m: m["scalars"]["groups"].append({}),
    "groups that are a number": lambda m: m["scalars"].update(groups=5),
    "a group that is a number": lambda m: m["scalars"].update(groups=[5]),
    "states that are a list": lambda m: m["scalars"].update(states=[]),
    "the state of no parameter": lambda m: m["scalars"]["states"].update({"9.weight": {"step": 1}}),
    "a state twice": lambda m: m["scalars"]["states"].update({"0.weight": {"exp_avg": 1}}),
    "a tensor of the optimizer for no parameter": rename("optimizer/0.weight/exp_avg", "optimizer/x/exp_avg"),
    "a tensor that its part does not have": rename("optimizer/0.weight/exp_avg", "optimizer/0.weight/other"),
    "a tensor of another model": rename("model/0.weight", "model/7.weight"),
    "a missing tensor": lambda m: m["tensors"].pop("model/0.weight"),
    "a shape beyond all memory": tensor(
        "optimizer/0.weight/exp_avg", shape=[1 << 40, 1 << 20], pieces=[{"part": 0, "start": 0, "stop": 1 << 40}]
    ),
    "a shape that cannot be counted": tensor(
        "optimizer/0.weight/exp_avg", shape=[1 << 70], pieces=[{"part": 0, "start": 0, "stop": 1 << 70}]
    ),
    "a negative shape": tensor("model/0.weight", shape=[-4, 3]),
    "pieces that leave a gap": tensor("model/0.weight", pieces=[{"part": 0, "start": 1, "stop": 4}]),
    "pieces that overlap": tensor("model/0.weight", pieces=[{"part": 0, "start": 0, "stop": 4}] * 2),
    "pieces of a part that is not there": tensor("model/0.weight", pieces=[{"part": -1, "start": 0, "stop": 4}]),
    "a step in words": lambda m: m.update(step="two"),
    "a negative step": lambda m: m.update(step=-2),
}


@pytest.mark.parametrize("kind", SENSELESS)
def test_a_manifest_that_makes_no_sense_is_refused_in_one_line(subject, kind):
    store, model, optimizer = subject
    training_state.restore(
        model, optimizer, CheckpointReader(store, recovery.read_manifest(store, NEWEST))
    )  # it is good before
    rewrite(store, SENSELESS[kind])
    with pytest.raises((UserError, recovery.Damaged)) as caught:
        training_state.restore(model, optimizer, CheckpointReader(store, recovery.read_manifest(store, NEWEST)))
    assert NEWEST in str(caught.value) and "\n" not in str(caught.value)


@pytest.mark.parametrize(
    "history",
    [
        {"points": 5, "total": 0, "count": 2},
        {"points": [{"step": "x"}], "total": 0, "count": 2},
        {"points": [], "total": "much", "count": 2},
        {"points": [], "total": float("nan"), "count": 2},
        {"points": [], "total": 0.0, "count": 7},
        {"points": [], "total": 0.0, "count": 2, "more": 1},
        {},
    ],
)
def test_a_learning_curve_that_makes_no_sense_is_refused(history):
    curve = History(Plan(100, 1, 10, 1, 0), 0.1, lambda step: 1.0)
    with pytest.raises(ValueError):
        curve.go_on(history, 2)
    curve.go_on({"points": [], "total": 1.5, "count": 2}, 2)


def test_forged_checkpoints_end_a_run_with_one_line(digits, tmp_path):
    """From start to end: what the optimizer cannot use shows only in its next step."""
    settings = parse_config({"task": "digits:Digits", "epochs": 1, "global_batch_size": 300, "learning_rate": 0.01})
    where = {"data": digits, "model": tmp_path / "model", "checkpoints": tmp_path / "checkpoints", "nproc": 1}
    train(settings, **where)
    (newest,) = (path.name for path in (tmp_path / "checkpoints").glob("*.json") if path.name.startswith("run"))
    store, name = DiskStore(tmp_path / "checkpoints"), "run000-step000000001.json"
    content = json.loads(
        (store.directory / newest).read_bytes().replace(b'"step": 4, "tensors"', b'"step": 1, "tensors"')
    )
    content.pop("crc32c")
    (store.directory / newest).unlink()

    def start(**changes):
        body = json.dumps(content | changes).encode()[1:]
        (store.directory / name).write_bytes(b'{"crc32c": "%08x", ' % google_crc32c.value(body) + body)
        with pytest.raises(UserError) as caught:
            train(settings, **where)
        assert "Traceback" not in str(caught.value) and name in str(caught.value) or "microbatches" in str(caught.value)
        return str(caught.value)

    curve = {"points": [], "total": 1.0, "count": 1}
    without = {key: value for key, value in content["tensors"].items() if not key.endswith("/exp_avg")}
    assert "learning curve ends at step 4, not 1" in start()
    assert "the optimizer cannot resume from" in start(history=curve, tensors=without)
    assert "'many' -> 1" in start(settings=content["settings"] | {"microbatches": "many"}).replace('"', "'")


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


@pytest.mark.parametrize("task", ["os:system", "subprocess:Popen", "digits:Net", "vgp.data.task:Task"])
def test_a_card_cannot_name_something_that_is_no_task(model, task):
    forge(model, task=task, options={"command": "touch sprung"})
    with pytest.raises(UserError):
        bundle.load(model)


def test_a_card_cannot_have_a_module_imported(model, tmp_path, sprung, monkeypatch):
    (tmp_path / "evil.py").write_text(f"import os\nos.mkdir({str(sprung)!r})\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.chdir(tmp_path)
    forge(model, task="evil:Task")
    with pytest.raises(UserError, match="If you trust it, import evil first"):
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


@pytest.mark.parametrize(
    "text", [b'{"task":"a:B","task":"c:D"}', b'{"history":[{"loss":{}}]}', b"[]", b"", b"\xff", b'{"steps":1e999}']
)
def test_a_card_that_makes_no_sense_is_refused_in_one_line(model, text):
    (model / bundle.CARD).write_bytes(text)
    with pytest.raises(UserError, match="cannot be read as a model card") as caught:
        bundle.load_card(model)
    assert "\n" not in str(caught.value)


def test_a_card_with_a_repeated_key_is_refused(model):
    text = (model / bundle.CARD).read_text().replace('"parameters": 1,', '"parameters": 1, "parameters": 2,')
    (model / bundle.CARD).write_text(text)
    with pytest.raises(UserError, match="a key is given twice"):
        bundle.load_card(model)


@pytest.mark.parametrize("hidden", [1 << 50, -3, "wide", [1], {}])
def test_a_card_with_absurd_options_is_refused_in_one_line(model, hidden):
    forge(model, options={"hidden": hidden})
    with pytest.raises(UserError, match="digits:Digits cannot build the model") as caught:
        bundle.load(model)
    assert "\n" not in str(caught.value)


# ---- datasets


@pytest.fixture
def dataset(digits, tmp_path):
    """A copy of the digits, to be forged."""
    shutil.copytree(digits, tmp_path / "data")
    return tmp_path / "data"


def forge_manifest(dataset, **changes):
    content = json.loads((dataset / "manifest.json").read_text())
    (dataset / "manifest.json").write_text(json.dumps(content | changes))


def refused(capfd, call, *arguments, **named):
    """The line with which a step ends that is called with these."""
    with pytest.raises(SystemExit) as stop:
        call(*arguments, **named)
    printed = capfd.readouterr()
    assert stop.value.code == 2 and not printed.out
    (line,) = printed.err.splitlines()
    return line


@pytest.fixture
def evil(tmp_path, sprung, monkeypatch):
    """A module that can be imported and must not be; in the folder where one works, and on the path."""
    (tmp_path / "evil.py").write_text(f"import os\nos.mkdir({str(sprung)!r})\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.chdir(tmp_path)
    yield "evil:Task"
    assert "evil" not in sys.modules


@pytest.mark.parametrize("task", ["this:Zen", "evil:Task", "antigravity:Task", "evil", "", ":", "\x1b[2Jevil:Task"])
def test_a_dataset_cannot_have_a_module_imported_by_any_step(dataset, model, evil, tmp_path, capfd, task):
    forge_manifest(dataset, task=task)
    before = set(sys.modules)
    for call, arguments in (
        (steps.train, (dataset, tmp_path / "out", tmp_path / "checkpoints")),
        (steps.evaluate, (dataset, model, tmp_path / "evaluation")),
    ):
        line = refused(capfd, call, *arguments)
        assert line.startswith(f"error: {dataset}/manifest.json names the task") and "\x1b" not in line
        assert "--task" in line or "form module:Class" in line
        line = refused(capfd, call, *arguments, task="digits:Digits")
        assert line.startswith(f"error: {dataset}/manifest.json belongs to the task") and "not to digits:Digits" in line
    assert not (set(sys.modules) - before) & {"this", "antigravity", "evil"}
    assert not (tmp_path / "out").exists() and not (tmp_path / "checkpoints").exists()


def test_a_dataset_cannot_name_code_to_the_command_line(dataset, evil, sprung, tmp_path):
    forge_manifest(dataset, task=evil)
    for verb in (["train", "data", "--model", "m", "--checkpoints", "c"], ["evaluate", "data", "e", "--model", "m"]):
        environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(Path(bundle.__file__).parents[1]), "."])}
        command = [sys.executable, "-m", "vgp.steps", *verb]
        done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True)
        assert done.returncode == 2
        assert done.stderr.startswith("error: data/manifest.json names the task 'evil:Task'"), done.stderr


def test_the_task_that_a_step_is_given_is_the_one_that_is_run(digits, monkeypatch):
    """Also if it was never imported: the caller speaks for it."""
    monkeypatch.delitem(sys.modules, "digits", raising=False)
    assert task_names.require_trusted("digits:Digits", "manifest.json", "digits:Digits") == "digits:Digits"
    with pytest.raises(UserError, match="neither in the library or the project nor imported"):
        task_names.require_trusted("digits:Digits", "manifest.json")
    assert task_names.require_trusted("training.tasks.flights:Flights", "x") == task_names.require_trusted(
        "flights", "x", "flights"
    )
    with pytest.raises(UserError, match="'flights', not to language_model"):
        task_names.require_trusted("flights", "x", "language_model")


OUTSIDE = ["../outside/x.parquet", "/etc/x.parquet", "{absolute}/outside/x.parquet", "sub/x.parquet", "..", ".",
           "x\\..\\y.parquet", "", "x\0.parquet", "train.csv", ".hidden.parquet", "a" * 300 + ".parquet"]  # fmt: skip


@pytest.mark.parametrize("name", OUTSIDE)
def test_a_manifest_cannot_name_a_shard_outside_of_its_folder(dataset, outside, tmp_path, name):
    splits = json.loads((dataset / "manifest.json").read_text())["splits"]
    splits["train"][0]["path"] = name.format(absolute=tmp_path) if "{" in name else name
    forge_manifest(dataset, splits=splits)
    with pytest.raises(UserError, match=r"manifest.json cannot be read as a dataset manifest: splits.train.0.path"):
        open_rows(dataset, "train")


def test_a_shard_that_is_a_link_is_not_followed(dataset, outside, tmp_path):
    shard = dataset / "train-00000.parquet"
    shard.unlink()
    shard.symlink_to(tmp_path / "outside" / bundle.WEIGHTS)
    with pytest.raises(UserError, match="train-00000.parquet is a symbolic link"):
        open_rows(dataset, "train")
    with pytest.raises(UserError, match="train-00000.parquet is a symbolic link"):
        findings.column_summaries(dataset, manifests.load(dataset), "test")


def test_a_manifest_that_is_a_link_is_not_followed(dataset, tmp_path):
    (dataset / "manifest.json").rename(tmp_path / "elsewhere.json")
    (dataset / "manifest.json").symlink_to(tmp_path / "elsewhere.json")
    with pytest.raises(UserError, match="manifest.json is a symbolic link"):
        manifests.load(dataset)


def test_a_shard_that_is_a_pipe_is_not_waited_for(dataset):
    (dataset / "train-00000.parquet").unlink()
    os.mkfifo(dataset / "train-00000.parquet")
    with pytest.raises(UserError, match="train-00000.parquet is .*not a regular file"):
        open_rows(dataset, "train")


@pytest.mark.parametrize("changes", [{"rows": -1}, {"bytes": 1 << 60}, {"rows": 1 << 60}, {"bytes": -1}])
def test_absurd_sizes_of_a_shard_are_refused_in_one_line(dataset, changes):
    splits = json.loads((dataset / "manifest.json").read_text())["splits"]
    splits["train"][0] |= changes
    forge_manifest(dataset, splits=splits)
    with pytest.raises(UserError) as caught:
        open_rows(dataset, "train")
    assert "\n" not in str(caught.value)


def test_a_dataset_manifest_with_a_repeated_key_is_refused(digits, tmp_path):
    text = (digits / "manifest.json").read_text().replace('"task":', '"task": "os:system", "task":')
    (tmp_path / "manifest.json").write_text(text)
    with pytest.raises(UserError, match="a key is given twice"):
        manifests.load(tmp_path)
