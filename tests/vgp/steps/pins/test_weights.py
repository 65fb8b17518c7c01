"""The weights that a run begins with are pinned with its data: others are another run, and no result of before."""

import pytest
import torch
from safetensors.torch import save, save_file

from vgp.base.exits import UserError
from vgp.base.storage import storage
from vgp.protocol import pins as documents
from vgp.protocol import pins as store
from vgp.steps import calls as steps
from vgp.steps import run_request
from vgp.steps.pins import weights as pins
from vgp.train import warm_start_files


@pytest.fixture
def begun(pin, tmp_path):
    """Pins a run of the flights that begins with the weights at a place."""
    save_file({"a": torch.ones(3)}, tmp_path / "model.safetensors")

    def pinned(source=tmp_path / "model.safetensors", **others):
        options = {"warm_start": str(source), "strategy": "fsdp"} if source else {}
        return steps.resolve(tmp_path / "record", pipeline="training", to=str(tmp_path / "runs"), task="visits:Own",
                             training_options=options, **others)  # fmt: skip

    return pinned


def document(uri):
    return store.load(uri, documents.DataPins)


def test_other_weights_are_other_pins_and_the_same_ones_the_same(begun, tmp_path):
    first = begun()
    assert first.data == begun().data != begun(source="").data
    assert document(begun(source="").data).weights == ""
    save_file({"a": torch.zeros(3)}, tmp_path / "model.safetensors")
    second = begun()
    assert second.data != first.data and second.digest != first.digest
    with pytest.raises(SystemExit):
        begun(pins=second.uri, source=tmp_path)
    assert begun(pins=second.uri).data == second.data


def test_training_reads_the_pinned_weights_or_reports_that_they_changed(begun, tmp_path):
    source, data = str(tmp_path / "model.safetensors"), begun().data
    uri = pins.of_run(document(data), source, data)
    assert warm_start_files.open_weights(source, uri) == warm_start_files.open_weights(source)
    assert pins.of_run(None, source, "") == pins.of_run(document(data), "", data) == ""
    with pytest.raises(
        UserError, match=r"warm_start=/other, but .* of a run with warm_start=.*model.safetensors: start a run"
    ):
        pins.of_run(document(data), "/other", data)
    save_file({"a": torch.zeros(3)}, source)
    with pytest.raises(UserError, match="model.safetensors changed after it was pinned"):
        warm_start_files.open_weights(source, uri)


def test_a_warm_start_that_is_not_there_is_an_error_of_the_first_step_and_of_the_desk(begun, tmp_path, capsys):
    with pytest.raises(SystemExit) as stop:
        begun(tmp_path / "nothing")
    assert stop.value.code == 2 and f"warm_start={tmp_path}/nothing does not exist" in capsys.readouterr().err
    options = {"training_options": {"warm_start": str(tmp_path / "nothing")}}
    with pytest.raises(ValueError, match="nothing does not exist"):
        run_request.check_request(task="visits:Own", task_options={}, champion="", margin=0.0, confidence=0.95, data="",
                            **options)  # fmt: skip


def test_objects_are_pinned_by_their_generation_and_read_by_their_header_alone(bucket, begun, monkeypatch):
    name = f"{bucket}/weights-{id(begun)}/model.safetensors"
    storage.overwrite(name, save({"a": torch.ones(3)}))
    folder = name.rpartition("/")[0]
    uri = document(begun(folder).data).weights
    found = warm_start_files.open_weights(folder, uri)
    assert found.fingerprint() == warm_start_files.open_weights(folder).fingerprint() and found.tensors["a"].shape == (
        3,
    )
    assert found.files[0].path.startswith(f"{name}#")
    storage.overwrite(name, save({"a": torch.zeros(3)}))
    with pytest.raises(UserError, match=r"model.safetensors was replaced or deleted after it was pinned \(gen"):
        warm_start_files.open_weights(folder, uri)
