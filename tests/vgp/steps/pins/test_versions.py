"""A look back into a bucket that keeps older versions of its objects."""

import time
from datetime import UTC, datetime, timedelta

import pytest
from google.cloud.storage import Bucket

from vgp.base.exits import UserError
from vgp.base.storage import client, storage
from vgp.base.storage.finding import Past
from vgp.data.prepare import prepare, read_pinned_input
from vgp.steps import calls as steps


def test_a_bucket_with_versions_shows_the_state_of_a_past_moment(versions, pin, visits, tmp_path):
    empty = datetime.now(UTC)
    time.sleep(0.01)
    for name, days in (("a", (0, 20)), ("b", (21, 40))):
        storage.overwrite(f"{versions}/raw/{name}.csv", visits.table(*days))
    live = pin(f"{versions}/raw", task="visits:Untimed", now=datetime.now(UTC))
    moment = datetime.now(UTC)
    time.sleep(0.01)
    storage.overwrite(f"{versions}/raw/a.csv", visits.table(0, 10))
    client.bucket("kept").blob("raw/b.csv").delete()
    storage.overwrite(f"{versions}/raw/c.csv", visits.table(41, 45))
    now = datetime.now(UTC)
    past = pin(f"{versions}/raw", task="visits:Untimed", as_of=moment.isoformat(), now=now)
    assert (
        past.data == live.data
        and past.metadata["seen"] == "state"
        and "objects are read in their versions of that time" in past.words[-1]
    )
    assert pin(f"{versions}/raw", task="visits:Untimed", scheduled=moment.isoformat(), now=now).data != live.data
    late = now + timedelta(hours=2)
    assert pin(f"{versions}/raw", task="visits:Untimed", scheduled=moment.isoformat(), now=late).data == live.data
    data, options = read_pinned_input(past.data, "visits:Untimed")
    made = prepare("visits:Untimed", data, tmp_path / "made", options=options)
    assert made.rows_read == 41 * 6
    with pytest.raises(UserError, match=r"raw matches no file, as of \d{4}-"):
        pin(f"{versions}/raw", task="visits:Untimed", as_of=empty.isoformat(), now=now)


@pytest.mark.parametrize(
    ("condition", "state"),
    [
        ({"numNewerVersions": 3}, False),
        ({"age": 30}, False),
        ({"isLive": True, "age": 30}, True),
        ({"daysSinceNoncurrentTime": 30}, True),
        ({"daysSinceNoncurrentTime": 0}, False),
    ],
)
def test_a_bucket_that_may_have_deleted_versions_shows_no_state(condition, state):
    """Nothing records which versions were live then."""
    bucket = Bucket(None, "kept")
    bucket.versioning_enabled = True
    bucket.lifecycle_rules = [{"action": {"type": "Delete"}, "condition": condition}]
    past = Past(datetime.now(UTC))
    past.live("kept", [], lambda: bucket)
    assert past.whole == state


def test_the_whole_step_in_a_bucket(versions, visits, monkeypatch):
    monkeypatch.delenv("TRAINING_PINS", raising=False)
    storage.overwrite(f"{versions}/step/a.csv", visits.table(0, 40))
    record = f"{versions}/root/123456789012/run-1/resolve_1234567/record"
    result = steps.resolve(record, pipeline="training", run="run-1", data=f"{versions}/step", task=visits.TASK)
    assert result.uri == f"{versions}/root/pins/{result.digest}.json"
    assert storage.find(result.data)[0].path.startswith(f"{versions}/step/a.csv#")
