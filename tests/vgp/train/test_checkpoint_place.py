"""Where a step's checkpoints go: found by every attempt at a task, and by no other task."""

import re

import pytest

from vgp.protocol import manifest as manifests
from vgp.train import checkpoint_place
from vgp.train.config import parse

#: As Vertex Pipelines names a step's output; the number is another for every task.
OUTPUT = "gs://bucket/runs/123456789012/training-20261120101112/train_{}/checkpoints"
FIRST = OUTPUT.format(-8123456789012345678)
SETTINGS = {"task": "digits:Digits", "learning_rate": 0.01}
PINS = "ab" * 32


def place(digits, output=FIRST, environment=None, pins=PINS, **changes):
    return checkpoint_place.place(
        output, parse({**SETTINGS, **changes}), manifests.load(digits), environment or {}, pins
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
    """A rung with an image of its own is told that of the step."""
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
        assert place(digits, chosen) == checkpoint_place.CheckpointPlace(chosen)


def test_in_a_local_run_the_folder_lies_where_the_run_keeps_checkpoints(digits):
    local = {"TRAINING_CHECKPOINTS": "/runs/one/checkpoints"}
    kept = place(digits, "steps/train/checkpoints", local)
    assert kept.folder.startswith("/runs/one/checkpoints/train-") and kept.owner.run == "one"
    assert kept != place(digits, "steps/train/checkpoints", local, seed=1)
