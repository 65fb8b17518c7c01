"""Objects on a real storage server of this machine: pinned by generation, and read exactly."""

from datetime import UTC, datetime, timedelta

import pytest

from vgp.base.exits import UserError
from vgp.base.storage import client, storage
from vgp.data import bundle, data_days
from vgp.data.prepare import prepare, read_pinned_input

OPTIONS = {"train": "2 weeks", "test": "1 week"}


@pytest.fixture
def raw(bucket, visits, request):
    """A folder of the bucket with three tables, for this test alone."""
    folder = f"{bucket}/raw-{abs(hash(request.node.name))}"
    for name, span in (("a", (0, 20)), ("b, c #7", (21, 40)), ("größe#1", (41, 45))):
        storage.overwrite(f"{folder}/{name}.csv", visits.table(*span))
    return folder


def test_a_step_reads_the_generations_that_were_pinned_and_no_object_that_came_later(raw, pin, visits, tmp_path):
    result = pin(f"{raw}/*.csv", folder=f"{raw}/pins", options=OPTIONS)
    data, options = read_pinned_input(result.data, visits.TASK)
    before = prepare(visits.TASK, f"{raw}/*.csv", tmp_path / "straight", options=options)
    storage.overwrite(f"{raw}/d.csv", visits.table(46, 50))
    made = prepare(visits.TASK, data, tmp_path / "made", options=options)
    assert made == before  # the same rows, files and fingerprint
    assert pin(f"{raw}/*.csv", folder=f"{raw}/pins", options=OPTIONS).data != result.data


@pytest.mark.parametrize("change", ["replaced by the same bytes", "deleted"])
def test_an_object_that_moved_underneath_is_an_error_with_its_name(raw, pin, visits, tmp_path, change):
    result = pin(raw, folder=f"{raw}/pins", options=OPTIONS)
    if change == "deleted":
        client.bucket("runs").blob(storage.split(f"{raw}/b, c #7.csv")[1]).delete()
    else:
        storage.overwrite(f"{raw}/b, c #7.csv", visits.table(21, 40))
    with pytest.raises(UserError, match=rf"{raw}/b, c #7.csv was replaced or deleted after it was pinned \(gen"):
        prepare(visits.TASK, result.data, tmp_path / "made", options={})
    assert not (tmp_path / "made").exists()


def test_each_night_only_new_objects_are_read_for_their_days(raw, pin, visits, monkeypatch):
    scanned, nights = [], []
    read = data_days._read
    monkeypatch.setattr(data_days, "_read", lambda task, files: scanned.extend(files) or read(task, files))
    for new in ((), ("d", (46, 50)), ()):
        if new:
            storage.overwrite(f"{raw}/{new[0]}.csv", visits.table(*new[1]))
        scanned.clear()
        nights.append((pin(raw, folder=f"{raw}/pins", options=OPTIONS), len(scanned)))
    assert [count for _, count in nights] == [3, 1, 0]
    assert nights[0][0].data != nights[1][0].data == nights[2][0].data
    memory = next(file.path for file in storage.find(f"{raw}/pins/days-*.json"))
    storage.overwrite(memory, b"{")
    assert pin(raw, folder=f"{raw}/pins", options=OPTIONS) == nights[2][0]
    storage.overwrite(memory, b"{")
    assert pin(raw, folder=f"{raw}/pins", options=OPTIONS, dry_run=True) == nights[2][0]
    assert storage.read(memory, most=9) == b"{"


def test_pins_in_a_bucket_are_written_once_and_refused_when_edited(raw, pin):
    result = pin(raw, folder=f"{raw}/pins", options=OPTIONS)
    generations = {file.path: file.generation for file in storage.find(f"{raw}/pins/*.json")}
    assert pin(raw, folder=f"{raw}/pins", options=OPTIONS) == result
    assert {file.path: file.generation for file in storage.find(f"{raw}/pins/*.json")} == generations
    storage.overwrite(result.uri, b"{}")
    with pytest.raises(UserError, match=f"{result.uri} was edited"):
        pin(raw, folder=f"{raw}/pins", options=OPTIONS, pins=result.uri)
    with pytest.raises(UserError, match=f"{result.uri} was changed after it was written: delete it"):
        pin(raw, folder=f"{raw}/pins", options=OPTIONS)
    with pytest.raises(UserError, match="pins/0+.json does not exist"):
        pin(raw, pins=f"{raw}/pins/{'0' * 64}.json")


def test_a_bucket_without_versions_shows_only_the_windows_of_a_past_night(raw, pin):
    later = datetime.now(UTC) + timedelta(days=2)
    result = pin(raw, options=OPTIONS, as_of="2026-02-10", now=later)
    assert result.metadata["seen"] == "windows" and "object versioning" in result.words[-1]
    with pytest.raises(UserError, match="Untimed has no time windows"):
        pin(raw, task="visits:Untimed", as_of="2026-02-10", now=later)


def test_the_champion_in_a_bucket_is_read_by_generation(bucket, pin, tmp_path):
    import coins

    data = coins.dataset(tmp_path / "data")
    for slope in (1.0, 2.0):
        model = coins.trained(tmp_path / f"{slope}", data, slope=slope)
        for path in model.iterdir():
            storage.overwrite(f"{bucket}/reigning/{path.name}", path.read_bytes())
        if slope == 1.0:
            uri = pin(task="visits:Own", champion=f"{bucket}/reigning/").champion
            assert bundle.load_card(uri) == bundle.load_card(model)
    with pytest.raises(UserError, match="gs://runs/reigning/model.json was replaced or deleted after it was pinned"):
        bundle.load_card(uri)
    with pytest.raises(UserError, match="champion = gs://runs/absent: the folder has no model.json"):
        pin(task="visits:Own", champion=f"{bucket}/absent")
