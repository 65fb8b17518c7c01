import json

import pytest

from vgp.base.exits import UserError
from vgp.train.checkpoint import recovery
from vgp.train.checkpoint.checkpoint_manifest import require_same_settings
from vgp.train.checkpoint.checkpoint_store import DiskStore


@pytest.fixture
def two(subject):
    """Checkpoints of steps 1 and 2; the newest is then damaged."""
    for step in (1, 2):
        subject.train()
        subject.save(step)
    return subject


def flip(path, position):
    data = bytearray(path.read_bytes())
    data[position] ^= 1
    path.write_bytes(data)


def parts(subject):
    return [subject.store.directory / name for name in subject.store.names() if "step000000002-" in name]


def expect_fallback(subject, what):
    said = []
    assert subject.load(said)[0] == 1
    assert len(said) == 1 and said[0].startswith("checkpoint skipped: run000-step000000002")
    assert what in said[0]


@pytest.mark.parametrize("number", [0, 1, 2])
def test_every_flipped_bit_of_a_part_is_found(two, number):
    path = parts(two)[number]
    size = path.stat().st_size
    for position in range(0, size, max(1, size // 20)):
        flip(path, position)
        expect_fallback(two, "fails its checksum")
        flip(path, position)
    assert two.load()[0] == 2


@pytest.mark.parametrize("kept", [0, 1, 7, 100, -1])
def test_a_part_that_was_cut_short_is_found(two, kept):
    path = parts(two)[1]
    path.write_bytes(path.read_bytes()[:kept])
    expect_fallback(two, "bytes instead of")


def test_a_part_that_is_missing_is_found(two):
    parts(two)[2].unlink()
    expect_fallback(two, "cannot be read (FileNotFoundError)")


def test_parts_that_were_swapped_are_found(two):
    first, second, _ = parts(two)
    one, other = first.read_bytes(), second.read_bytes()
    first.write_bytes(other)
    second.write_bytes(one)
    expect_fallback(two, "step000000002-")


def test_a_manifest_that_was_cut_short_or_flipped_is_found(two):
    path = two.store.directory / "run000-step000000002.json"
    whole = path.read_bytes()
    for kept in range(0, len(whole) - 1, len(whole) // 20):
        path.write_bytes(whole[:kept])
        expect_fallback(two, "cannot be read")
    for position in range(0, len(whole) - 1, len(whole) // 50):
        data = bytearray(whole)
        data[position] ^= 1
        path.write_bytes(data)
        expect_fallback(two, "cannot be read")


def test_a_manifest_under_another_name_is_found(two):
    directory = two.store.directory
    (directory / "run000-step000000003.json").write_bytes((directory / "run000-step000000001.json").read_bytes())
    said = []
    assert two.load(said)[0] == 2
    assert said == ["checkpoint skipped: run000-step000000003.json is the manifest of run000-step000000001.json"]


def test_if_nothing_is_good_nothing_is_loaded(two):
    for name in two.store.names():
        if name.endswith(".safetensors"):
            (two.store.directory / name).write_bytes(b"")
    said = []
    assert two.load(said) is None
    assert len(said) == 2


def test_an_empty_or_missing_folder_has_no_checkpoint(tmp_path):
    assert recovery.find_newest_run(DiskStore(tmp_path / "missing")) == -1
    assert recovery.find_newest(DiskStore(tmp_path), 0, print) is None


def test_a_changed_setting_is_shown_and_an_unchanged_one_is_not():
    then = {"config": {"seed": 1, "epochs": 3}, "data": "abc"}
    require_same_settings(then, json.loads(json.dumps(then)), "here")
    with pytest.raises(UserError) as caught:
        require_same_settings(then, {"config": {"seed": 2, "epochs": 3}, "data": "abc", "samples": 7}, "here")
    assert "  config.seed: 1 -> 2\n  samples: null -> 7\n" in str(caught.value)
    assert "epochs" not in str(caught.value)
