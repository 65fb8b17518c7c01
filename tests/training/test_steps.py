"""Where a step's checkpoints go: found by every attempt at a task, and by no other task."""

import json
import os
import re
import signal

import pytest

from training import fit, steps
from training.checkpoint import recovery
from training.checkpoint.disk import DiskStore
from training.config import parse
from training.data import manifest as manifests
from training.pins import store
from training.pins.documents import DataPins

#: As Vertex Pipelines names a step's output; the number is another for every task.
OUTPUT = "gs://bucket/runs/123456789012/training-20261120101112/train_{}/checkpoints"
FIRST = OUTPUT.format(-8123456789012345678)
SETTINGS = {"task": "digits:Digits", "learning_rate": 0.01}


PINS = "ab" * 32


def place(digits, output=FIRST, environment=None, pins=PINS, **changes):
    return steps.place(output, parse({**SETTINGS, **changes}), manifests.load(digits), environment or {}, pins)


def test_every_attempt_at_a_request_finds_the_same_folder(digits):
    """Another attempt at a task, and the run that is the next attempt at a request that failed, with its pins."""
    first, retried = place(digits), place(digits, OUTPUT.format(4711471147114711471))
    later = place(digits, OUTPUT.replace("20261120101112", "20261121101112").format(1234567))
    assert first.folder == retried.folder == later.folder
    assert re.fullmatch("gs://bucket/runs/checkpoints/train-[0-9a-f]{12}", first.folder)
    assert first.job == retried.job != later.job  # what resume=never goes by
    assert first.owner.run == retried.owner.run == "training-20261120101112" and first.owner != retried.owner
    operational = place(digits, checkpoint_every_s=5, keep=9, resume="never", strategy="fsdp", lease_s=9)
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
        assert place(digits, chosen) == steps.CheckpointPlace(chosen)


def test_in_a_local_run_the_folder_lies_where_the_run_keeps_checkpoints(digits):
    local = {"TRAINING_CHECKPOINTS": "/runs/one/checkpoints"}
    kept = place(digits, "steps/train/checkpoints", local)
    assert kept.folder.startswith("/runs/one/checkpoints/train-") and kept.owner.run == "one"
    assert kept != place(digits, "steps/train/checkpoints", local, seed=1)


def test_a_new_cache_epoch_keeps_the_checkpoints(digits, tmp_path):
    prepared = manifests.load(digits)
    document = DataPins(pipeline="training", task=prepared.task, options=prepared.options, epoch=1)
    renewed, other = (document.model_copy(update=change) for change in ({"epoch": 2}, {"asked": "b.csv"}))
    one, two, three = (
        steps._computed_from(store.save(f"{tmp_path}/pins", pins), prepared, digits)[1]
        for pins in (document, renewed, other)
    )
    assert one == two != three


def train(digits, folder, attempt, **changes):
    """One attempt at a step of a pipeline, with an output folder of its own."""
    output = folder / "123456789012" / "run" / f"train_{attempt}" / "checkpoints"
    given = {**SETTINGS, "epochs": 2, "global_batch_size": 96, "microbatches": 1, **changes}
    given.pop("task")
    return steps.train(digits, folder / "model", output, nproc=1, **given)


def test_an_attempt_goes_on_where_the_one_before_was_stopped_even_with_resume_never(digits, tmp_path, monkeypatch):
    monkeypatch.setenv("DIGITS_SIGNAL", f"0:9:{signal.SIGTERM}")
    with pytest.raises(SystemExit) as stop:
        train(digits, tmp_path, 1111111, resume="never")
    assert stop.value.code == 75
    monkeypatch.delenv("DIGITS_SIGNAL")
    figures = train(digits, tmp_path, 2222222, resume="never")
    assert figures["resumed_from"] >= 5
    assert json.loads((tmp_path / "model" / "model.json").read_text())["config"]["seed"] == 0
    asked = []
    monkeypatch.setattr(fit, "launch", lambda target, request, **settings: asked.append(request))
    for seed in (0, 1):
        train(digits, tmp_path, 3333333, resume="never", seed=seed)
    same, other = asked
    assert same.start.folder == figures["checkpoints"] != other.start.folder
    assert (same.start.run, other.start.run, other.config.seed) == (0, -1, 1)


def test_resume_never_means_never_for_another_job_in_the_same_folder(digits, tmp_path, monkeypatch):
    """A custom job on Vertex AI with a folder that somebody chose: its id tells a restart from a new job."""

    def start(job, stopping=False):
        monkeypatch.setenv("CLOUD_ML_JOB_ID", job)
        monkeypatch.setenv("DIGITS_SIGNAL", f"0:9:{signal.SIGTERM}" if stopping else "-1:0:0")
        given = {"epochs": 2, "global_batch_size": 96, "microbatches": 1, "resume": "never"}
        return steps.train(digits, tmp_path / "model", tmp_path / "chosen", nproc=1, **given)

    store = DiskStore(tmp_path / "chosen")
    for job, number in (("100", 0), ("200", 1)):  # both could be gone on from
        with pytest.raises(SystemExit) as stop:
            start(job, stopping=True)
        assert stop.value.code == 75
        assert recovery.newest_run(store) == number and recovery.committed(store, number)
    assert start("200")["resumed_from"] >= 5
    assert recovery.newest_run(store) == 1


def test_threads_of_an_evaluation_sleep_while_they_wait(digits, tmp_path, monkeypatch):
    """Set before torch is imported: spinning threads on busy cores took twice as long."""
    monkeypatch.setenv("OMP_WAIT_POLICY", "")
    monkeypatch.delenv("OMP_WAIT_POLICY")
    with pytest.raises(SystemExit):
        steps.evaluate(digits, tmp_path / "no model", tmp_path / "out")
    assert os.environ["OMP_WAIT_POLICY"] == "PASSIVE"
