"""Pins of an earlier run are taken by a run of the same request, once they are known to be what they were."""

import json
import os
from datetime import timedelta
from pathlib import Path

import pytest

from vgp.base.exits import UserError
from vgp.base.storage import pinned
from vgp.protocol import moment
from vgp.protocol import pins as store
from vgp.protocol.pins import RunPins


@pytest.fixture
def raw(visits, tmp_path):
    return visits.write(tmp_path / "raw", a=(0, 40))


def test_pins_are_taken_whatever_moved_since(raw, pin, champion, visits, tmp_path):
    first = pin(raw, champion=champion)
    visits.write(raw, b=(41, 60))
    (champion / "model.json").write_text("{ }")
    again = pin(raw, champion=champion, pins=first.uri, run="another", folder=f"{tmp_path}/other/pins")
    assert (again.digest, again.uri, again.data, again.champion) == (
        first.digest,
        first.uri,
        first.data,
        first.champion,
    )
    assert first.uri in again.words[0] and not (tmp_path / "other").exists()


def test_pins_of_a_pipeline_that_has_another_name_now_are_taken(raw, pin):
    first = pin(raw, pipeline="retraining")
    assert pin(raw, pins=first.uri, pipeline="training").data == first.data
    with pytest.raises(UserError, match="of the pipeline retraining, not of batch-prediction"):
        pin(raw, pins=first.uri, pipeline="batch-prediction")


def test_pins_with_an_as_of_are_taken_with_the_same_or_none(raw, pin):
    first = pin(raw, as_of="2026-02-05")
    assert pin(raw, pins=first.uri).digest == pin(raw, pins=first.uri, as_of="2026-02-05").digest == first.digest
    with pytest.raises(UserError, match="are of as_of = '2026-02-05', not of '2026-02-06'"):
        pin(raw, pins=first.uri, as_of="2026-02-06")


def test_pins_of_an_epoch_that_is_over_are_renewed_and_stay_what_they_were(raw, pin, read, champion, now, visits):
    first = pin(raw, champion=champion)
    visits.write(raw, b=(41, 60))
    later = pin(raw, champion=champion, pins=first.uri, now=now + timedelta(days=moment.EPOCH_DAYS))
    assert len({first.uri, first.data, first.champion, later.uri, later.data, later.champion}) == 6
    for old, new in ((first.data, later.data), (first.champion, later.champion)):
        assert read(new) == read(old) | {"epoch": read(old)["epoch"] + 1}


def test_an_epoch_ends_for_all_at_the_same_moment(now):
    numbers = [moment.epoch(now + timedelta(hours=hour)) for hour in range(24 * 3 * moment.EPOCH_DAYS)]
    assert numbers == sorted(numbers) and numbers[-1] - numbers[0] == 3
    middle = [numbers.count(number) for number in set(numbers)][1:-1]
    assert set(middle) == {24 * moment.EPOCH_DAYS}


def edited(uri, **changes):
    Path(uri).write_text(json.dumps(json.loads(Path(uri).read_text()) | changes))
    return uri


def written(uri, text):
    """A document under the name that its bytes have."""
    import hashlib

    data = text.encode()
    path = Path(uri).with_name(f"{hashlib.sha256(data).hexdigest()}.json")
    path.write_bytes(data)
    return str(path)


@pytest.mark.parametrize(
    ("wrong", "words"),
    [
        (lambda pins: "runs/pins.json", r"resolve: \.\.\./pins/<sha256>\.json"),
        (lambda pins: pins.uri.replace(pins.digest, "0" * 64), "does not exist"),
        (lambda pins: edited(pins.uri, as_of="2026-01-01"), "was edited: .* must not change"),
        (lambda pins: (edited(pins.data, options={}), pins.uri)[1], "was edited"),
        (lambda pins: written(pins.uri, "pins of a run"), "cannot be read as pins"),
        (lambda pins: written(pins.uri, "[1]"), "is not a pins document"),
        (lambda pins: written(pins.uri, "[" * 100_000), "cannot be read as pins"),
        (
            lambda pins: written(pins.uri, '{"kind": "run", "format": 1}'),
            "cannot be read as pins: data: Field required",
        ),
        (lambda pins: written(pins.uri, '{"kind": "run", "format": 2}'), "has format 2"),
        (lambda pins: written(pins.uri, " " * (1 << 17)), "is larger than 0 MiB"),
        (lambda pins: pins.data, "holds the pins of a data, not of a run"),
    ],
)
def test_pins_that_are_not_what_they_were_are_refused_in_one_sentence(raw, pin, monkeypatch, wrong, words):
    first = pin(raw)
    monkeypatch.setattr(pinned, "MOST_BYTES", 1 << 16 if "larger" in words else 1 << 20)
    with pytest.raises(UserError, match=words):
        pin(raw, pins=wrong(first))


@pytest.mark.parametrize(
    ("other", "words"),
    [
        ({"project": "471147114711"}, "are of a local run, and this run is of project 471147114711"),
        ({"pipeline": "nightly"}, "are of the pipeline training, not of nightly"),
        ({"task": "visits:Untimed"}, "with task = 'visits:Visits', and this run has 'visits:Untimed'"),
        ({"options": {"hidden": [9]}}, r"with task_options = \{\}, and this run has \{'hidden': \[9\]\}"),
        ({"champion": "/elsewhere"}, "with champion = '', and this run has '/elsewhere'"),
        ({"data": "other.csv"}, "this run has 'other.csv'"),
    ],
)
def test_pins_of_something_else_are_refused(raw, pin, other, words):
    first = pin(raw)
    with pytest.raises(UserError, match=words):
        pin(**{"data": raw, "pins": first.uri, **other})


def test_a_document_that_was_edited_is_written_anew_by_who_pins_again(raw, pin):
    first = pin(raw)
    edited(first.uri, pipeline="mine")
    assert pin(raw) == first and store.load(first.uri, RunPins).pipeline == "training"


def test_pins_are_for_all_users_to_read(raw, pin):
    assert os.stat(pin(raw).uri).st_mode & 0o777 == 0o644
