"""A schedule as it is declared: cron, time zone, first and last moment."""

from datetime import UTC, date, datetime, time, timedelta, timezone
from zoneinfo import ZoneInfo

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from pydantic import ValidationError

from vgp.base.errors import RequestError
from vgp.settings import schedule_settings
from vgp.settings.schedule_settings import Reference, Schedule, check_package, check_tag, parse_moment, parse_reference

BERLIN = ZoneInfo("Europe/Berlin")


def nightly(**values: object) -> Schedule:
    return Schedule.model_validate({"pipeline": "training", "cron": "30 2 * * *", **values})


def test_a_schedule_needs_a_pipeline_and_a_time_and_has_careful_defaults() -> None:
    made = nightly()
    assert (made.time_zone, made.max_concurrent_runs) == ("UTC", 1)
    assert not (made.queueing or made.catch_up or made.paused)
    assert made.start is made.end is made.max_runs is None


@pytest.mark.parametrize(
    "value", ["* * * * *", "*/15 0-6 1,15 * 1-5", "0 0 29 2 *", "0 2 * JAN MON", "0 0 31 JUL *", "5 4 * * 7"]
)
def test_unix_cron_is_taken(value: str) -> None:
    assert schedule_settings.check_cron(value) == value


def test_spaces_between_fields_are_one() -> None:
    assert schedule_settings.check_cron(" 0  2\t* * * ") == "0 2 * * *"


@pytest.mark.parametrize(
    ("value", "message"),
    [
        ("", "five fields, minute hour day month weekday"),
        ("0 2 * *", "five fields"),
        ("0 0 2 * * *", "five fields"),
        ("@daily", "five fields"),
        ("60 2 * * *", "bad minute"),
        ("0 2 0 * *", "bad day-of-month"),
        ("0 2 * 13 *", "bad month"),
        ("0 2 * * 8", "bad day-of-week"),
        ("0 5-2 * * *", "bad hour"),
        ("*/0 2 * * *", "bad minute"),
        ("0 2 L * *", "only digits, names"),
        ("0 2 LW * *", "only digits, names"),
        ("0 2 * * 5L", "only digits, names"),
        ("0 2 * * 1#2", "only digits, names"),
        ("0 2 ? * 1", "only digits, names"),
        ("0 0 31 2 *", "bad day-of-month"),
        ("TZ=UTC 0 2 * * *", "write it as time_zone"),
        ("CRON_TZ=Europe/Berlin 0 2 * * *", "write it as time_zone"),
    ],
)
def test_other_cron_is_refused_with_the_field(value: str, message: str) -> None:
    with pytest.raises(ValueError) as refused:
        schedule_settings.check_cron(value)
    assert message in str(refused.value)


@pytest.mark.parametrize(
    ("value", "message"),
    [
        ("Europe/Berln", "Did you mean Europe/Berlin?"),
        ("berlin", "Did you mean Europe/Berlin?"),
        ("new_york", "Did you mean America/New_York?"),
        ("???", "Write one like UTC or Europe/Berlin."),
        ("", "there is no time zone ''"),
        ("../../etc/passwd", "there is no time zone"),
    ],
)
def test_an_unknown_time_zone_is_refused_with_the_nearest(value: str, message: str) -> None:
    with pytest.raises(ValueError) as refused:
        schedule_settings.check_time_zone(value)
    assert message in str(refused.value)


def test_moments_without_an_offset_are_local_to_the_time_zone() -> None:
    made = nightly(time_zone="Europe/Berlin", start=date(2027, 7, 1), end="2027-12-24T18:00:00")
    assert made.start == datetime(2027, 6, 30, 22, tzinfo=UTC)
    assert made.end == datetime(2027, 12, 24, 17, tzinfo=UTC)


def test_a_moment_with_an_offset_stays_what_it_is() -> None:
    given_ = datetime(2027, 1, 1, 6, tzinfo=timezone(timedelta(hours=9)))
    assert nightly(time_zone="Europe/Berlin", start=given_).start == given_
    assert parse_moment("2027-01-01T06:00:00Z", "Europe/Berlin") == datetime(2027, 1, 1, 6, tzinfo=UTC)


def test_an_hour_that_the_clock_jumps_over_is_refused() -> None:
    with pytest.raises(ValueError, match="does not exist in Europe/Berlin"):
        parse_moment(datetime(2027, 3, 28, 2, 30), "Europe/Berlin")
    assert parse_moment(datetime(2027, 10, 31, 2, 30), "Europe/Berlin") == datetime(2027, 10, 31, 0, 30, tzinfo=UTC)


@pytest.mark.parametrize("value", [date(2027, 1, 1), [float("nan")], {"deep": time(7)}])
def test_a_parameter_that_no_pipeline_takes_is_refused_by_its_name(value: object) -> None:
    with pytest.raises(ValidationError, match="month is a date, or no finite number"):
        nightly(parameters={"epochs": 3, "month": value})


@pytest.mark.parametrize("value", ["tomorrow", time(7, 30), 20270101, True, ["2027-01-01"]])
def test_what_is_no_moment_is_refused(value: object) -> None:
    with pytest.raises(ValueError, match="is not a time. Write 2027-01-31"):
        parse_moment(value, "UTC")


@given(
    st.datetimes(datetime(2026, 1, 1), datetime(2030, 1, 1)), st.datetimes(datetime(2026, 1, 1), datetime(2030, 1, 1))
)
def test_the_end_is_after_the_start(start: datetime, end: datetime) -> None:
    first, last = start.replace(tzinfo=UTC), end.replace(tzinfo=UTC)
    if last > first:
        made = nightly(start=first, end=last)
        assert (made.start, made.end) == (first, last)
    else:
        with pytest.raises(ValidationError, match="is not after the start"):
            nightly(start=first, end=last)


DIGEST = "sha256:" + "4be6" * 16
PLACE = "https://us-central1-kfp.pkg.dev/my-project/templates"


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ("training", Reference("training", "latest", None)),
        ("training:v3", Reference("training", "v3", None)),
        ("training@v3", Reference("training", "v3", None)),
        (f"training@{DIGEST}", Reference("training", None, DIGEST)),
        (f"training:{DIGEST}", Reference("training", None, DIGEST)),
        ("training@sha256:4be64be6", Reference("training", None, "sha256:4be64be6")),
        (f"{PLACE}/training/v3", Reference("training", "v3", None, PLACE)),
        (f"{PLACE}/training/{DIGEST}", Reference("training", None, DIGEST, PLACE)),
        (f"gs://bucket/a/b/training/{DIGEST[7:]}.json", Reference("training", None, DIGEST, "gs://bucket/a/b")),
        (f"training@{PLACE}/training/v3", Reference("training", "v3", None, PLACE)),
        (f"training@gs://b/training/{DIGEST[7:]}.json", Reference("training", None, DIGEST, "gs://b")),
        (f"gs://bucket/training/{DIGEST[7:]}.json", Reference("training", None, DIGEST, "gs://bucket")),
    ],
)
def test_a_reference_is_a_name_with_a_tag_or_a_digest(given: str, expected: Reference) -> None:
    assert parse_reference(given) == expected


@pytest.mark.parametrize(
    ("given", "rule"),
    [
        ("abc", "4 to 128 lower-case letters"),
        ("Training", "4 to 128 lower-case letters"),
        ("../training", "4 to 128 lower-case letters"),
        (f"scoring@{PLACE}/training/v3", "is a version of training, not of 'scoring'"),
        ("training@gs://bucket/x", "is not a template"),
        ("@" * 10_000 + "://", "is not a template"),
        ("training:", "no . or - first"),
        ("training:-v3", "no . or - first"),
        ("training:a/b", "no . or - first"),
        ("training:v3@v4", "4 to 128 lower-case letters"),
        ("training@sha256:4be6", "at least 8 of its 64"),
        ("training@sha256:" + "4BE6" * 16, "lower case"),
        (f"training@{DIGEST}0", "at least 8 of its 64"),
        ("http://us-central1-kfp.pkg.dev/p/r/training/v3", "is not a template"),
        ("https://evil.example/p/r/training/v3", "is not a template"),
        ("https://evil.example?-kfp.pkg.dev/p/r/training/v3", "is not a template"),
        ("https://evil.example#-kfp.pkg.dev/p/r/training/v3", "is not a template"),
        ("gs://bucket/training/latest.json", "is not a template"),
        (f"{PLACE}/training/v3?x=1", "no . or - first"),
    ],
)
def test_what_breaks_a_rule_is_refused_with_the_rule(given: str, rule: str) -> None:
    with pytest.raises(RequestError, match=rule):
        parse_reference(given)


@given(st.text())
@example("a\nb")
@example("v3\n")
@example("v3/../../x")
@example("%2e%2e")
def test_what_is_taken_as_a_name_or_a_tag_needs_no_quoting_in_a_url(text: str) -> None:
    from urllib.parse import quote

    for rule in (check_package, check_tag):
        try:
            taken = rule(text)
        except RequestError:
            continue
        assert taken == text == quote(text, safe="") and text.isascii() and text not in (".", "..")


@given(st.from_regex(r"[a-z0-9][a-z0-9-]{3,12}", fullmatch=True), st.from_regex(r"[\w][\w.-]{0,12}", fullmatch=True))
def test_a_reference_reads_as_it_was_written(name: str, version: str) -> None:
    if not version.isascii():
        return
    found = parse_reference(f"{name}:{version}")
    assert str(found) == f"{name}:{version}" and parse_reference(str(found)) == found
