"""Run times agree with a walk over every minute, and with the loopback cloud's own ticking, across clock changes. The
schedules of a settings file, of which only they are read."""

from datetime import UTC, datetime, timedelta
from itertools import takewhile
from zoneinfo import ZoneInfo

import pytest
from cronsim import CronSim
from hypothesis import given
from hypothesis import strategies as st

from tools.emulator.cron import ticks
from vgp.vertex.schedules.cron import Cron
from vgp.vertex.schedules.cron import monthly_runs as declared

#: Changes by an hour at night, by half an hour, at midnight in both directions, by two hours, from 2:45, and none.
ZONES = (
    "Europe/Berlin", "America/New_York", "Australia/Lord_Howe", "America/Havana", "Asia/Beirut", "America/Santiago",
    "Antarctica/Troll", "Pacific/Chatham", "Atlantic/Azores", "UTC",
)  # fmt: skip
MINUTE = timedelta(minutes=1)
SPRING, AUTUMN = datetime(2027, 3, 28, tzinfo=UTC), datetime(2027, 10, 31, tzinfo=UTC)


def by_the_minute(cron: Cron, after: datetime, end: datetime) -> list[datetime]:
    """Debian's rules, minute for minute of real time: what the wall clock passed or jumped over since the last one."""
    fields, zone = CronSim(cron.expression, datetime(2000, 1, 1)), ZoneInfo(cron.time_zone)
    starred = any(field.startswith("*") for field in cron.expression.split()[:2])

    def matches(wall: datetime) -> bool:
        day = wall.month in fields.months and fields.match_day(wall.date())
        return day and wall.hour in fields.hours and wall.minute in fields.minutes

    found: list[datetime] = []
    moment = after - timedelta(hours=6)  # only a caller that saw the first hour can recognize the repeated one
    latest = moment.astimezone(zone).replace(tzinfo=None)
    while moment < end:
        moment += MINUTE
        local = moment.astimezone(zone)
        wall = local.replace(tzinfo=None)
        passed = [wall] if starred else [latest + MINUTE * n for n in range(1, (wall - latest) // MINUTE + 1)]
        if any(map(matches, passed)) and moment > after:
            found.append(moment)
        latest = max(latest, wall)
    return found


def field(lowest: int, highest: int) -> st.SearchStrategy[str]:
    number = st.integers(lowest, highest)
    pair = st.tuples(number, number).map(sorted)
    return st.one_of(
        st.just("*"),
        number.map(str),
        pair.map(lambda two: f"{two[0]}-{two[1]}"),
        pair.map(lambda two: f"{two[0]},{two[1]}"),
        st.integers(2, 20).map(lambda step: f"*/{step}"),
    )


def changes(zone: str) -> list[datetime]:
    """A moment in each hour-wide neighbourhood of a change of the clocks in 2027, or the middle of the year."""
    here = [datetime(2027, 1, 1, tzinfo=UTC) + timedelta(days=number) for number in range(365)]
    offsets = [moment.astimezone(ZoneInfo(zone)).utcoffset() for moment in here]
    return [day for day, before, after in zip(here, offsets, offsets[1:], strict=False) if before != after] or [
        here[180]
    ]


@given(
    data=st.data(), zone=st.sampled_from(ZONES), minute=field(0, 59), early=field(0, 4), weekday=st.sampled_from("*06")
)
def test_the_runs_around_a_change_are_those_of_a_walk_over_every_minute(
    data: st.DataObject, zone: str, minute: str, early: str, weekday: str
) -> None:
    cron = Cron(f"{minute} {early} * * {weekday}", zone)
    start = data.draw(st.sampled_from(changes(zone))) - timedelta(hours=data.draw(st.integers(-3, 14)))
    end = start + timedelta(hours=40)
    # In UTC: Python takes two readings of one ambiguous moment for unequal (PEP 495).
    found = [moment.astimezone(UTC) for moment in takewhile(lambda moment: moment <= end, cron.runs(start))]
    assert found == by_the_minute(cron, start, end)


@pytest.mark.parametrize("zone", ["Europe/Berlin", "America/New_York", "Europe/London"])
@pytest.mark.parametrize("expression", ["0 * * * *", "17 */2 * * *", "30 0-6 * * *", "15,45 1-3 * * *", "*/30 2 * * *"])
def test_the_ticks_of_months_with_both_changes_of_the_clocks_are_those_of_the_loopback_cloud(
    zone: str, expression: str
) -> None:
    start, end = datetime(2027, 3, 1, tzinfo=UTC), datetime(2027, 12, 1, tzinfo=UTC)
    runs = (moment.astimezone(UTC) for moment in Cron(expression, zone).runs(start))
    ours = list(takewhile(lambda moment: moment < end, runs))
    theirs = takewhile(lambda moment: moment < end, ticks(f"CRON_TZ={zone} {expression}", start + MINUTE))
    assert len(ours) > 500 and ours == list(theirs)


@pytest.mark.parametrize(
    ("expression", "change", "times"),
    [
        ("30 2 * * *", SPRING, ["02:30 CET", "03:00 CEST", "02:30 CEST"]),
        ("30 2 * * *", AUTUMN, ["02:30 CEST", "02:30 CEST", "02:30 CET"]),
        ("*/30 2 * * *", SPRING, ["02:00 CET", "02:30 CET", "02:00 CEST"]),
        ("0 3 * * *", SPRING, ["03:00 CET", "03:00 CEST", "03:00 CEST"]),
        ("0,30 2,3 * * *", SPRING, ["02:00 CET", "02:30 CET", "03:00 CET", "03:30 CET", "03:00 CEST", "03:30 CEST"]),
    ],
)
def test_what_the_wall_clock_shows_around_a_change(expression: str, change: datetime, times: list[str]) -> None:
    found = Cron(expression, "Europe/Berlin").next(len(times), change - timedelta(hours=25))
    assert [f"{moment:%H:%M %Z}" for moment in found] == times


def test_a_doubtful_time_is_found_and_a_safe_one_is_not() -> None:
    now = datetime(2027, 1, 1, tzinfo=UTC)
    spring, autumn = Cron("30 2 * * *", "Europe/Berlin").clock_changes(now)
    assert (spring.missing, str(spring.local), f"{spring.runs[0]:%H:%M}") == (True, "2027-03-28 02:30:00", "03:00")
    assert (spring.before.hour, spring.after.hour, autumn.before.hour, autumn.after.hour) == (2, 3, 3, 2)
    assert (autumn.missing, str(autumn.local), len(autumn.runs)) == (False, "2027-10-31 02:30:00", 1)
    assert Cron("30 2 * * 1-5", "Europe/Berlin").clock_changes(now) == []  # the clocks change on Sundays
    assert Cron("0 3 * * *", "Europe/Berlin").clock_changes(now) == []
    assert Cron("30 2 * * *", "UTC").clock_changes(now) == []
    assert Cron("*/15 * * * *", "Europe/Berlin").clock_changes(now) == []


@pytest.mark.parametrize(
    ("expression", "month"),
    [("0 3 * * *", 30.4), ("0 3 * * 1", 4.3), ("*/10 * * * *", 4380.0), ("0 0 1 * *", 1.0), ("0 0 1 1 *", 1 / 12)],
)
def test_runs_in_a_month(expression: str, month: float) -> None:
    assert Cron(expression, "UTC").per_month(datetime(2027, 1, 2, tzinfo=UTC)) == pytest.approx(month, abs=0.05)


@given(zone=st.sampled_from(ZONES), minute=field(0, 59), prefix=st.sampled_from(["CRON_TZ=", "TZ="]))
def test_what_is_sent_is_read_back(zone: str, minute: str, prefix: str) -> None:
    cron = Cron(f"{minute} 1 * * *", zone)
    assert Cron.parse(str(cron)) == cron
    assert Cron.parse(f"{prefix}{zone}   {minute}  1 * * * ") == cron
    assert Cron.parse("0 1 * * *") == Cron("0 1 * * *", "UTC")


def test_days_that_crons_read_differently() -> None:
    assert Cron("0 3 */2 * 1", "UTC").days_differ
    assert not Cron("0 3 1 * 1", "UTC").days_differ
    assert not Cron("0 3 */2 * *", "UTC").days_differ


def test_the_rarest_day_is_found() -> None:
    assert Cron("0 0 29 2 *", "UTC").next(2, datetime(2027, 1, 1, tzinfo=UTC))[1].year == 2032


NOW = datetime(2026, 3, 1, tzinfo=UTC)
TEXT = """
region = "is not a region"
[schedules.nightly]
pipeline = "training"
cron = "30 2 * * *"
[environments.prod.schedules.nightly]
cron = "30 2 * * 1"
[environments.prod.schedules.once]
pipeline = "training"
cron = "0 * * * *"
max_runs = 3
[environments.dev.schedules.nightly]
paused = true
[environments.dev.schedules.wrong]
pipeline = "training"
cron = "@daily"
"""


def test_runs_a_month_are_counted_for_each_environment(tmp_path):
    file = tmp_path / "pipelines.toml"
    file.write_text(TEXT)
    found = {each.name: each for each in declared(file, NOW)}
    assert found["nightly"].runs_per_month == pytest.approx(365 / 12)
    assert found["nightly (prod)"].runs_per_month == pytest.approx(52 / 12, abs=0.1)
    assert found["nightly (prod)"].pipeline == "training", "of the schedule that it lies over"
    assert found["once (prod)"].runs_per_month == 3
    assert (found["nightly (dev)"].runs_per_month, found["nightly (dev)"].problem) == (0, "paused")
    assert found["wrong (dev)"].problem.startswith("cron: '@daily' is not a cron expression")


def test_a_missing_file_has_none_and_a_file_that_is_no_toml_is_reported(tmp_path):
    file = tmp_path / "pipelines.toml"
    assert declared(file, NOW) == []
    file.write_text("schedules = 3\n[environments]\nprod = 1\n")
    assert declared(file, NOW) == []
    file.write_text("[")
    (broken,) = declared(file, NOW)
    assert broken.name == "pipelines.toml" and "not valid TOML" in broken.problem
