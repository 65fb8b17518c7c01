"""Whole trainings, and where a step's checkpoints go."""

import gzip
import hashlib
import json
import re
import signal
from pathlib import Path

import numpy as np
import pytest
import torch

from vgp.base.exits import Preempted, ProcessFailed, UserError
from vgp.data import bundle
from vgp.data.rows import open_rows
from vgp.protocol import manifest as manifests
from vgp.protocol.manifest import load
from vgp.train import fit
from vgp.train.checkpoint import recovery
from vgp.train.checkpoint.checkpoint_manifest import Manifest, Part
from vgp.train.checkpoint.checkpoint_store import DiskStore
from vgp.train.fit import train
from vgp.train.loop.training_request import plan_run
from vgp.train.train_config import parse_config


def config(**changes):
    given = {"task": "digits:Digits", "epochs": 5, "global_batch_size": 96, "learning_rate": 0.01, **changes}
    return parse_config(given)


def run(folder, data, nproc, **changes):
    return train(config(**changes), data=data, model=folder / "model", checkpoints=folder / "checkpoints", nproc=nproc)


def model_bits(folder):
    return [
        hashlib.sha256((folder / "model" / name).read_bytes()).hexdigest() for name in (bundle.WEIGHTS, bundle.CARD)
    ]


def final_state(folder):
    """Checksums of the last checkpoint's parts: model and optimizer."""
    store = DiskStore(folder / "checkpoints")
    manifest = recovery.read_manifest(store, recovery.list_manifests(store, 0)[0])
    return manifest.step, manifest.scalars, manifest.history, [part.crc32c for part in manifest.parts]


@pytest.fixture(scope="module")
def uninterrupted(digits, tmp_path_factory):
    """Four processes, from start to end: with three or more, the order of DDP's buckets shows in the bits."""
    import sys
    from pathlib import Path

    folder = tmp_path_factory.mktemp("uninterrupted")
    sys.path.insert(0, str(Path(__file__).parents[2] / "helpers"))
    figures = run(folder, digits, 4)
    sys.path.pop(0)
    return folder, figures


def test_training_learns_and_its_model_can_be_loaded(uninterrupted, digits):
    folder, figures = uninterrupted
    assert figures["steps"] == 63
    assert figures["world_size"] == 4
    task, module, card = bundle.load(folder / "model")
    rows = open_rows(digits, "test")
    columns = {name: torch.from_numpy(values) for name, values in rows.columns.items()}
    with torch.no_grad():
        probabilities = task.predict(module, columns)
    assert (probabilities.argmax(1) == columns["label"]).float().mean() > 0.85
    assert card.steps == 63
    assert card.parameters == sum(p.numel() for p in module.parameters())
    assert card.history[-1].loss < 0.5 * card.history[0].loss
    assert [point.step for point in card.history if point.validation_loss is not None] == [13, 25, 38, 50, 63]


def test_only_the_named_files_are_written(uninterrupted):
    folder, _ = uninterrupted
    assert sorted(path.name for path in (folder / "model").iterdir()) == ["model.json", "model.safetensors"]
    names = [path.name for path in (folder / "checkpoints").iterdir()]
    kinds = sorted(name.rpartition(".")[2] for name in names)
    assert kinds == ["json", "json", *["safetensors"] * 4, "tensorboard"]
    assert len(list((folder / "checkpoints" / "tensorboard").iterdir())) == 1


def test_a_killed_run_ends_with_the_bits_of_an_uninterrupted_one(uninterrupted, digits, tmp_path, monkeypatch, capfd):
    """Also with profiler traces; rank 0, which writes the curves, dies without a word."""
    monkeypatch.setenv("DIGITS_SIGNAL", f"0:40:{signal.SIGKILL}")
    with pytest.raises(ProcessFailed, match="rank 0 of 4 on .* was killed by SIGKILL"):
        run(tmp_path, digits, 4, checkpoint_every_steps=5, profile_steps="10-12", profile_ranks="all")
    monkeypatch.delenv("DIGITS_SIGNAL")
    (tmp_path / "checkpoints" / "profile.request").write_text("2\n")
    figures = run(tmp_path, digits, 4, checkpoint_every_steps=7, profile_steps=63, profile_ranks=1)
    # Rank 0 dies after its 40th batch, some of which warm up or validate; the newest saves may still be on their way.
    assert 0 < figures["resumed_from"] <= 40 and figures["resumed_from"] % 5 == 0
    assert model_bits(tmp_path) == model_bits(uninterrupted[0])
    assert final_state(tmp_path) == final_state(uninterrupted[0])
    said = capfd.readouterr().err
    assert f"resuming from step {figures['resumed_from']} of 63" in said
    assert re.search(r"profile of steps 63-63: .*rank001.*\n.*perfetto.*\n.*operations on the CPU of rank 1 .*ms", said)
    was_traced(tmp_path / "checkpoints" / "profile", figures["resumed_from"])
    assert not (tmp_path / "checkpoints" / "profile.request").exists()
    shows_each_step_once(tmp_path / "checkpoints" / "tensorboard")


def was_traced(folder, resumed_from):
    """Steps 10 to 12 on all ranks, those that were asked for on the way and then the last on rank 1; all are whole."""
    asked = range(resumed_from + 3, resumed_from + 5)  # the ranks meet, and the profiler warms up
    expected = {rank: [range(10, 13)] for rank in range(4)}
    expected[1] += [asked, range(63, 64)]
    names = {
        f"run000-step{steps[0]:09}-{steps[-1]:09}-rank{rank:03}.pt.trace.json.gz": steps
        for rank, spans in expected.items() for steps in spans
    }  # fmt: skip
    assert sorted(path.name for path in folder.iterdir()) == sorted(names)
    for name, steps in names.items():
        events = json.loads(gzip.decompress((folder / name).read_bytes()))["traceEvents"]
        found = {event["name"] for event in events}
        assert {f"ProfilerStep#{number}" for number in steps} <= found
        assert f"ProfilerStep#{steps[-1] + 1}" not in found and "aten::addmm" in found


def shows_each_step_once(folder):
    """The curves of a run that was killed, as TensorBoard reads them: every validation, and no step twice."""
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    events = EventAccumulator(str(folder)).Reload()
    curves = {tag: [event.step for event in events.Scalars(tag)] for tag in events.Tags()["scalars"]}
    assert curves["loss/validation"] == [13, 25, 38, 50, 63]
    for tag in ("loss/train", "learning_rate", "gradient_norm", "samples_per_s", "data_wait_s", "memory/peak_gib"):
        assert curves[tag] == sorted(set(curves[tag])) and curves[tag][-1] == 63
    norms = [event.value for event in events.Scalars("gradient_norm")]
    assert max(norms) > 1.0  # before it was clipped to that


def test_a_stop_on_one_rank_of_a_sharded_run_saves_and_other_numbers_of_processes_go_on_unsharded(
    uninterrupted, digits, tmp_path, monkeypatch
):
    """2 processes, then 1, then 4: the same curve up to the order of additions."""
    monkeypatch.setenv("DIGITS_SIGNAL", f"1:30:{signal.SIGTERM}")
    with pytest.raises(Preempted, match="step 1[0-9] of 63 is saved|step [2-6][0-9] of 63 is saved"):
        run(tmp_path, digits, 2, strategy="fsdp", microbatches=4, checkpoint_every_steps=5)
    monkeypatch.setenv("DIGITS_SIGNAL", f"0:60:{signal.SIGTERM}")
    with pytest.raises(Preempted):
        run(tmp_path, digits, 1, strategy="ddp", microbatches=4, checkpoint_every_steps=5)
    monkeypatch.delenv("DIGITS_SIGNAL")
    figures = run(tmp_path, digits, 4, microbatches=4)
    assert 20 <= figures["resumed_from"] < 63
    expected, found = (bundle.load_card(place / "model") for place in (uninterrupted[0], tmp_path))
    np.testing.assert_allclose([p.loss for p in found.history], [p.loss for p in expected.history], rtol=1e-3)


def test_the_exact_mode_gives_the_same_bits_for_other_numbers_of_processes(digits, tmp_path):
    """Weights, optimizer state, batch norm's statistics and the learning curve."""
    for nproc in (1, 4):
        run(tmp_path / str(nproc), digits, nproc, exact=True, microbatches=4, epochs=2)
    assert model_bits(tmp_path / "1") == model_bits(tmp_path / "4")


def test_a_finished_run_started_again_writes_the_same_model_at_once_and_before_its_sample(
    uninterrupted, digits, tmp_path, monkeypatch
):
    """However long the sample takes, and no rank waits for it; killed meanwhile, only the end is to do again."""
    folder, _ = uninterrupted
    places = {"data": digits, "model": tmp_path / "model", "checkpoints": folder / "checkpoints"}
    recorded = (folder / "checkpoints" / "training.json").read_bytes()
    monkeypatch.setenv("DIGITS_SAMPLE", "kill")
    with pytest.raises(ProcessFailed, match="rank 0 of 2 on .* was killed by SIGKILL"):
        train(config(), **places, nproc=2)
    assert model_bits(tmp_path) == model_bits(folder)
    assert bundle.load(tmp_path / "model")[2].sample == ""
    monkeypatch.setenv("DIGITS_SAMPLE", "alone")
    figures = train(config(strategy="fsdp"), **places, nproc=2)
    assert figures["resumed_from"] == figures["steps"] == 63
    assert bundle.load(tmp_path / "model")[2].sample == "alone"
    assert (folder / "checkpoints" / "training.json").read_bytes() == recorded  # how fast it was


@pytest.mark.parametrize("changes", [{"profile_steps": "60-70"}, {"profile_ranks": "0,1"}])
def test_what_the_plan_does_not_have_is_refused_before_a_folder_is_made(digits, tmp_path, monkeypatch, changes):
    monkeypatch.syspath_prepend(Path(__file__).parents[2] / "helpers")
    with pytest.raises(UserError, match=r"the run has 63 steps|one process: 0\."):
        run(tmp_path, digits, 1, **changes)
    assert list(tmp_path.iterdir()) == []


def test_a_loss_that_is_no_number_stops_with_the_step_and_the_rows(digits, tmp_path):
    from digits import prepare

    data = prepare(tmp_path / "data", bad_row=777)
    with pytest.raises(UserError, match=r"the loss of step \d+ is nan(.|\n)*row_id(.|\n)*learning_rate"):
        run(tmp_path, data, 2, epochs=1)
    assert not (tmp_path / "model" / "model.json").exists()


# ---- mistakes: found before any process starts


def test_a_changed_setting_is_refused_with_the_difference(uninterrupted, digits):
    folder, _ = uninterrupted
    with pytest.raises(UserError, match=r"config\.learning_rate: 0\.01 -> 0\.5(.|\n)*resume=never"):
        run(folder, digits, 4, learning_rate=0.5)


def test_the_exact_mode_refuses_what_no_binary_tree_fits(digits, tmp_path):
    with pytest.raises(UserError, match="exact=true needs powers of two, not 6 microbatches on 3 processes"):
        run(tmp_path, digits, 3, exact=True)


def test_microbatches_left_open_are_as_few_as_the_processes_and_grow_with_them_only(digits, tmp_path):
    data, store = load(digits), DiskStore(tmp_path)

    def plan(processes, run=-1, **changes):
        return plan_run(config(**changes), data, "digits:Digits", processes, store, run)

    def saved(settings):
        part = Part(name="run000-step000000005-00-0.safetensors", bytes=0, crc32c=0)
        good = Manifest(run=0, step=5, settings=settings, parts=(part,), tensors={})
        (tmp_path / good.name).write_bytes(good.encode())

    assert [plan(n)[0].microbatches for n in (1, 2, 3)] == [1, 2, 3]
    assert [plan(n, exact=True)[0].microbatches for n in (1, 2, 8)] == [4, 4, 8]
    assert plan(2, microbatches=6)[0].microbatches == 6
    saved(plan(2)[1])
    assert [plan(n, 0)[0].microbatches for n in (1, 2, 4)] == [2, 2, 4]
    assert plan(4, 0)[1]["config"]["microbatches"] == 4
    with pytest.raises(UserError, match=r"learning_rate: 0\.01 -> 0\.5"):  # and only that
        plan(4, 0, learning_rate=0.5)
    with pytest.raises(UserError, match=r"config\.microbatches: 2 -> 4"):
        plan(4, 0, microbatches=4)
    saved(plan(2, exact=True)[1])
    with pytest.raises(UserError, match="microbatches=4 cannot be assigned to 8 processes"):
        plan(8, 0, exact=True)


def test_more_processes_than_microbatches_are_refused(digits, tmp_path):
    with pytest.raises(UserError, match="microbatches=2 cannot be assigned to 4 processes"):
        run(tmp_path, digits, 4, microbatches=2)


def test_a_folder_that_is_a_file_is_refused(digits, tmp_path):
    (tmp_path / "model").write_text("I am a file")
    with pytest.raises(UserError, match="model cannot be written to"):
        run(tmp_path, digits, 1)


def test_data_of_another_task_is_refused(digits, tmp_path):
    with pytest.raises(UserError, match="was prepared for task digits:Digits, not flights"):
        run(tmp_path, digits, 1, task="flights")


def test_data_without_training_rows_is_refused(digits, tmp_path):
    text = json.loads((digits / "manifest.json").read_text())
    text["splits"].pop("train")
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "manifest.json").write_text(json.dumps(text))
    with pytest.raises(UserError, match="no rows in its split 'train'; it has .*300 rows in 'validation'"):
        run(tmp_path, tmp_path / "data", 1)


def test_resuming_from_a_folder_without_checkpoints_is_refused(digits, tmp_path):
    with pytest.raises(UserError, match="there are no checkpoints"):
        run(tmp_path, digits, 1, resume=str(tmp_path / "nothing"))


def test_a_warm_start_from_no_model_is_refused(digits, tmp_path):
    with pytest.raises(
        UserError, match="holds no weights: neither model.safetensors, nor model.safetensors.index.json"
    ):
        run(tmp_path, digits, 1, warm_start=str(tmp_path))


def test_an_unreadable_manifest_does_not_hide_an_older_one(tmp_path):
    from vgp.train.loop.training_request import _newest_manifest

    store, part = DiskStore(tmp_path), Part(name="run000-step000000005-ab-0.safetensors", bytes=1, crc32c=0)
    good = Manifest(run=0, step=5, settings={"microbatches": 4}, parts=(part,), tensors={})
    store.commit(good.name, good.encode())
    (tmp_path / "run000-step000000010.json").write_text("{")
    assert _newest_manifest(store, 0) == good


#: As Vertex Pipelines names a step's output; the number is another for every task.
OUTPUT = "gs://bucket/runs/123456789012/training-20261120101112/train_{}/checkpoints"
FIRST = OUTPUT.format(-8123456789012345678)
SETTINGS = {"task": "digits:Digits", "learning_rate": 0.01}
PINS = "ab" * 32


def place(digits, output=FIRST, environment=None, pins=PINS, **changes):
    return fit.checkpoint_place(
        output, parse_config({**SETTINGS, **changes}), manifests.load(digits), environment or {}, pins
    )


def test_every_attempt_at_a_request_finds_the_same_folder(digits):
    """Another attempt at a task, and the run that is the next attempt at a request that failed, with its pins."""
    first, retried = place(digits), place(digits, OUTPUT.format(4711471147114711471))
    later = place(digits, OUTPUT.replace("20261120101112", "20261121101112").format(1234567))
    assert first.folder == retried.folder == later.folder
    assert re.fullmatch("gs://bucket/runs/checkpoints/train-[0-9a-f]{12}", first.folder)
    assert first.job == retried.job != later.job  # what resume=never goes by
    assert first.owner.run == retried.owner.run == "training-20261120101112" and first.owner != retried.owner
    operational = place(digits, checkpoint_every_s=5, keep=9, resume="never", strategy="fsdp", lease_s=19)
    assert operational == first == place(digits, FIRST.replace("gs://", "/gcs/"))


@pytest.mark.parametrize(
    "change",
    [
        {"learning_rate": 0.02},
        {"seed": 1},
        {"warm_start": "gs://b/m"},
        {"options": {"hidden": 9}},
        {"pins": "cd" * 32},
        {"environment": {"TRAINING_IMAGE": "image@sha256:1"}},
        {"output": FIRST.replace("/train_", "/finetune_")},
    ],
)
def test_tasks_that_compute_other_things_have_other_folders(digits, change):
    """Such as two iterations of a ParallelFor, whose steps have the same name."""
    assert place(digits, **change).folder != place(digits).folder


def test_every_rung_of_a_ladder_finds_the_same_folder_whatever_image_it_has(digits):
    """A rung with an image of its own uses the step's image in the name of the folder."""
    plain = place(digits, environment={"TRAINING_IMAGE": "image@sha256:1"}).folder
    own = {"TRAINING_IMAGE": "image@sha256:2", "TRAINING_STEP_IMAGE": "image@sha256:1"}
    assert place(digits, environment=own).folder == plain
    assert place(digits, environment={"TRAINING_IMAGE": "image@sha256:2"}).folder != plain


def test_other_data_is_another_folder(digits, tmp_path):
    from digits import prepare

    assert place(prepare(tmp_path / "data", hidden=9)).folder != place(digits).folder


def test_what_is_not_pinned_is_shared_by_the_attempts_of_one_run_only(digits):
    later = OUTPUT.replace("20261120101112", "20261121101112").format(1234567)
    first = place(digits, pins="").folder
    assert first.startswith("gs://bucket/runs/123456789012/training-20261120101112/train/checkpoints/train-")
    assert first == place(digits, OUTPUT.format(7654321), pins="").folder != place(digits, later, pins="").folder


def test_a_folder_that_somebody_chose_is_taken_as_it_is(digits, tmp_path):
    for chosen in ("runs/checkpoints", "/gcs/bucket/a_1/checkpoints", str(tmp_path)):
        assert place(digits, chosen) == fit.CheckpointPlace(chosen)


def test_in_a_local_run_the_folder_lies_where_the_run_keeps_checkpoints(digits):
    local = {"TRAINING_CHECKPOINTS": "/runs/one/checkpoints"}
    kept = place(digits, "steps/train/checkpoints", local)
    assert kept.folder.startswith("/runs/one/checkpoints/train-") and kept.owner.run == "one"
    assert kept != place(digits, "steps/train/checkpoints", local, seed=1)


def test_a_pattern_to_freeze_that_matches_nothing_is_refused_before_a_row_is_read(digits, tmp_path):
    """The dataset has its manifest, but none of its rows."""
    (tmp_path / "data").mkdir()
    manifests.save(load(digits), tmp_path / "data")
    with pytest.raises(UserError, match="freeze=nosuch matches no name"):
        run(tmp_path, tmp_path / "data", 1, freeze=["nosuch"])
