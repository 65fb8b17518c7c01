"""Windows become dates, cut at the data's own last day, or at the moment that the run looks from."""

from datetime import timedelta

import pytest

from vgp.base.exits import UserError
from vgp.data.prepare import prepare, read_pinned_input


@pytest.fixture
def raw(visits, tmp_path):
    """Visits from 2026-01-01 to 2026-02-19."""
    return visits.write(tmp_path / "raw", a=(0, 30), b=(31, 49))


def dated(read, result):
    options = read(result.data)["options"]
    return options.get("train"), options.get("test")


@pytest.mark.parametrize(
    ("options", "train", "test"),
    [
        ({"train": "4 weeks", "test": "7 days"}, "2026-01-16:2026-02-12", "2026-02-13:2026-02-19"),
        ({}, "2026-01-01:2026-01-31", "2026-02-01:2026-02-19"),
        ({"train": "1"}, "2026-01-01:2026-01-31", "2026-02-01:2026-02-19"),
        ({"train": "1", "test": "2"}, "2026-01-01:2026-01-31", "2026-02-01:2026-02-19"),
        ({"test": "2026-02"}, "2026-01-01:2026-01-31", "2026-02"),
        ({"train": "1 month", "test": "2026-02-10:2026-02-16"}, "2026-01-10:2026-02-09", "2026-02-10:2026-02-16"),
        ({"train": "2026-01", "test": "2 weeks"}, "2026-01", "2026-02-01:2026-02-14"),
        ({"train": "2026-01", "test": "2026-02"}, "2026-01", "2026-02"),
    ],
)
def test_windows_as_dates(raw, pin, read, visits, tmp_path, options, train, test):
    result = pin(raw, options=options)
    assert dated(read, result) == (train, test)
    straight = prepare(visits.TASK, str(raw), tmp_path / "straight", options=options)
    data, pinned_options = read_pinned_input(result.data, visits.TASK)
    made = prepare(visits.TASK, data, tmp_path / "made", options=pinned_options)
    assert made.splits == straight.splits


def test_a_night_without_data_has_the_pins_of_the_night_before_and_one_with_data_has_others(raw, pin, visits, now):
    options = {"train": "4 weeks", "test": "1 week"}
    nights = [
        pin(raw, options=options, now=now + timedelta(days=n), scheduled=(now + timedelta(days=n)).isoformat())
        for n in range(3)
    ]
    assert len({night.digest for night in nights}) == 1
    (raw / "c.csv").write_bytes(visits.table(50, 50))
    assert pin(raw, options=options).data != nights[0].data


def test_dates_need_no_scan(raw, pin):
    (raw / "b.csv").write_text("no,table\nat,all\n")
    pin(raw, options={"train": "2026-01", "test": "2026-02"})
    with pytest.raises(UserError, match="b.csv lacks the columns"):
        pin(raw, options={"train": "4 weeks"})


def test_a_backfill_has_the_windows_that_its_night_had(raw, pin, read, visits):
    """What came after that day is in no window, as if the data had ended then."""
    options = {"train": "2 weeks", "test": "1 week"}
    past = pin(raw, options=options, as_of="2026-02-10")
    short = visits.write(raw.parent / "short", a=(0, 30), b=(31, 40))
    assert dated(read, past) == dated(read, pin(short, options=options)) == dated(
        read, pin(raw, options=options, as_of="2026-02-11T03:00:00+01:00")
    )  # fmt: skip
    assert "only the windows are of that time" in past.words[-1] and read(past.uri)["seen"] == "windows"
    default = pin(raw, as_of="2026-02-10")
    assert dated(read, default) == ("2026-01-01:2026-01-31", "2026-02-01:2026-02-10")


def test_as_of_after_the_last_day_changes_nothing_of_the_data(raw, pin):
    assert pin(raw, as_of="2026-02-28").data == pin(raw).data


def test_the_tick_of_a_schedule_counts_only_without_as_of_and_only_if_it_is_a_time(raw, pin):
    past = pin(raw, as_of="2026-02-10").data
    assert pin(raw, scheduled="2026-02-11T03:00:00Z").data == past  # late: an outage, and a catch-up
    assert pin(raw, scheduled="2026-03-01T03:30:00Z") == pin(raw)
    assert pin(raw, as_of="2026-02-10", scheduled="2026-02-01T03:00:00Z").data == past
    for text in ("", "{{$.pipeline_schedule_time}}", "1970-01-01T00:00:00Z", "0001-01-01T00:00:00Z"):
        assert pin(raw, scheduled=text).digest == pin(raw).digest


@pytest.mark.parametrize(
    ("as_of", "options", "words"),
    [
        ("yesterday", {}, "'yesterday' is not a time. Write a day, such as 2026-11-20"),
        ("2026-03-02", {}, "is in the future: it is now 2026-03-01T04:00:00Z"),
        ("2026-03-01T05:00:00Z", {}, "is in the future"),
        ("2025-12-31", {}, "the data begins later, on 2026-01-01"),
        ("2026-01-20", {"train": "1", "test": "2"}, "as_of = 2026-01-20: the data has no rows in 2026-02"),
        ("2026-02-10", {"train": "2026-01", "test": "2026-02"}, "the windows end on 2026-02-28, which is later"),
        ("2026-02-10", {"split": "hash"}, "has no time windows"),
    ],
)
def test_an_as_of_that_cannot_be_had_is_an_error(raw, pin, as_of, options, words):
    with pytest.raises(UserError, match=words):
        pin(raw, as_of=as_of, options=options)


def test_as_of_of_a_task_without_time_is_an_error_but_a_tick_is_not(raw, pin):
    with pytest.raises(UserError, match="Untimed has no time windows"):
        pin(raw, task="visits:Untimed", as_of="2026-02-10")
    with pytest.raises(UserError, match="Own has no time windows"):
        pin(task="visits:Own", as_of="2026-02-10")
    assert pin(raw, task="visits:Untimed", scheduled="2026-02-10T00:00:00Z") == pin(raw, task="visits:Untimed")


def test_a_relative_window_without_a_time_column_is_an_error(raw, pin):
    with pytest.raises(UserError, match="train would do nothing: Untimed has no time column"):
        pin(raw, task="visits:Untimed", options={"train": "6 months"})
