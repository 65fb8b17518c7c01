"""The evidence of all nights: bets on weeks of new days, and the record that keeps them."""

import json
import math
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import ValidationError

from benchmarks.gate import process
from tests.vgp.registry.records import WORDS, promoted, registered, rolled_back
from vgp.base.exits import UserError
from vgp.registry import changes, record_view, registry
from vgp.registry.documents import Record, decode_record, encode_record
from vgp.registry.evidence import Day, Evidence, describe_total

OLD = Path(__file__).parent / "record_of_0_1_0.json"
EARLIER = Path(__file__).parent / "record_with_evidence.json"
GAINS = st.lists(st.floats(-3, 3), min_size=1, max_size=60)


def days(gains, first=0, rows=10.0):
    """A day for each mean gain, numbered from `first`."""
    return tuple(Day(name=str(first + n), gain=float(g) * rows, rows=rows) for n, g in enumerate(gains))


def nights(gains, window, start=None, **terms):
    """The evidence after a night for each day from the window's end on, against version 1."""
    evidence = start or Evidence().against(1)
    for last in range(window, len(gains) + 1):
        evidence = evidence.after(days(gains[last - window : last], last - window), needed=40, **terms)
    return evidence


def drawn(count, mean=0.0, seed=1):
    return (mean + np.random.default_rng(seed).standard_normal(count)).tolist()


@pytest.mark.parametrize("window", [7, 15, 31])
@pytest.mark.parametrize("worst_day", [0.0, 50.0])
def test_the_simulation_collects_the_evidence_of_the_library_night_by_night(window, worst_day):
    random, count = np.random.default_rng(window), 60
    shown_YND = random.standard_normal((2, count, window)) + 0.3
    sizes = np.exp(random.standard_normal((2, count + window - 1)))
    expected = process.evidence(shown_YND, sizes, worst_day)
    for year in range(2):
        evidence = Evidence().against(1)
        for night in range(count):
            rows = sizes[year, night : night + window]
            tonight = [
                Day(name=str(night + n), gain=gain * size, rows=size)
                for n, (gain, size) in enumerate(zip(shown_YND[year, night], rows, strict=True))
            ]
            evidence = evidence.after(tonight, needed=40, worst_day=worst_day)
            assert evidence.total == pytest.approx(expected[year, night])


def test_a_week_of_known_gains_multiplies_the_wealth_by_its_bet():
    learned = Evidence().against(1).after(days([1.0, -1.0] * 8), needed=40)
    assert (learned.days, learned.week_days, learned.last_day, learned.total) == (16, 1, "15", 1.0)
    week = learned.after(days([0.5] * 6, first=16), needed=40)
    unit = np.std([1.0, -1.0] * 7 + [1.0], ddof=1)  # of the 15 days before the first bet
    x = (-1.0 + 6 * 0.5) / 7 / (5 * unit / math.sqrt(7))
    assert week.wealth == pytest.approx([math.log1p(stake * x) for stake in (0.05, 0.15, 0.35, 0.7, 0.95)])
    assert (week.week_days, week.unit, week.total) == (0, 0.0, pytest.approx(1 + 0.44 * x))


@settings(max_examples=60, deadline=None)
@given(GAINS, st.integers(1, 31), st.floats(0, 10))
def test_no_days_whatever_they_are_take_the_evidence_out_of_its_bounds(gains, window, worst_day):
    evidence = nights(gains, min(window, len(gains)), worst_day=worst_day)
    weeks = len(gains) // 7
    assert 0 < evidence.total <= np.mean([(1 + stake) ** weeks for stake in (0.05, 0.15, 0.35, 0.7, 0.95)]) + 1e-9
    assert evidence.days == len(gains) and 0 <= evidence.week_days < 7
    assert Evidence.model_validate_json(evidence.model_dump_json()) == evidence


@settings(max_examples=30, deadline=None)
@given(GAINS, st.integers(1, 31))
def test_a_repeated_night_and_days_that_come_late_move_nothing(gains, window):
    evidence = nights(gains, min(window, len(gains)))
    again = days(gains[-window:], len(gains) - min(window, len(gains)))
    assert evidence.after(again, needed=20) is evidence
    late = (*days([9.0], -5), *again)
    assert evidence.after(late, needed=20) is evidence


def test_nights_that_were_missed_are_made_up_with_the_same_bets():
    gains = drawn(60)
    once = Evidence().against(1).after(days(gains[:31]), needed=40)
    nightly = once
    for last in range(32, 61):
        nightly = nightly.after(days(gains[:last]), needed=40)
    caught_up = once.after(days(gains), needed=40)
    assert caught_up.wealth == pytest.approx(nightly.wealth) and caught_up.days == nightly.days == 60


def test_the_first_night_takes_one_day_only_and_bets_nothing_before_ten_are_known():
    first = Evidence().against(1).after(days(drawn(31)), needed=40)
    assert (first.days, first.week_days, first.total) == (31, 1, 1.0)
    short = Evidence().against(1)
    for last in range(3, 11):
        short = short.after(days([0.0, 1.0] * 9)[last - 3 : last], needed=40)
    assert (short.days, short.week_days) == (10, 0)
    assert short.after(days([1.0], 10), needed=40).week_days == 1


def test_a_day_counts_by_its_rows_so_that_large_bad_days_are_not_averaged_away():
    """Ten times the rows cost what nine small days gain: a mean of the days' means would grow."""
    gains, rows = [0.1] * 9 + [-0.09], [10.0] * 9 + [100.0]
    evidence = Evidence().against(1)
    calendar = [Day(name=str(n), gain=gains[n % 10] * rows[n % 10], rows=rows[n % 10]) for n in range(150)]
    for last in range(31, 151):
        evidence = evidence.after(calendar[last - 31 : last], needed=40)
    assert evidence.total < 1.05 and np.mean([d.gain / d.rows for d in calendar]) > 0.08


def test_a_worst_day_makes_bets_smaller():
    gains = drawn(90, 0.5)
    plain, bounded = nights(gains, 31), nights(gains, 31, worst_day=60.0)
    assert plain.total > 2 * bounded.total > 2
    assert nights(gains[:31], 31, worst_day=60.0).unit == pytest.approx(60 / (5 * math.sqrt(7)))


def test_a_worst_day_costs_as_much_as_the_largest_day_so_far_has_rows():
    gains, rows = drawn(31), [10.0] * 31
    rows[4] = 50.0
    night = [Day(name=str(n), gain=g * r, rows=r) for n, (g, r) in enumerate(zip(gains, rows, strict=True))]
    first = Evidence().against(1).after(night, needed=20, worst_day=60.0)
    usual = (290.0 + 50.0) / 30  # mean rows of the days before the newest
    assert first.unit == pytest.approx(60 * 50 / usual / (5 * math.sqrt(7))) and first.most_rows == 50
    later = first.against(2).after(days(drawn(12), 31), needed=20, worst_day=60.0)
    assert later.most_rows == 50, "it is remembered when it has left the window, and after a promotion"
    assert later.unit == pytest.approx(60 * 50 / (first.all_rows / 31) / (5 * math.sqrt(7)), rel=0.01)


def test_differences_that_are_rounding_errors_are_no_gain():
    gains = [1e-15, 2e-15] * 30
    assert nights(gains, 31, least=1e-9).total == pytest.approx(1.0, abs=1e-4)
    assert nights(gains, 31).total > 1.4


def test_dates_and_numbers_are_days_in_their_order_and_other_names_are_refused():
    dates = [f"2026-0{month}-{day:02}" for month in (9, 1) for day in range(1, 29)]
    night = [Day(name=name, gain=1.0, rows=1.0) for name in dates]
    assert Evidence().against(1).after(night, needed=40).last_day == "2026-09-28"
    numbers = [Day(name=str(n), gain=1.0, rows=1.0) for n in (9, 10, 11)]
    assert Evidence().against(1).after(numbers, needed=40).last_day == "11"
    for name in ("monday", "2026-09", "", "2026-09-01 10:00:00", "1.5"):
        with pytest.raises(ValidationError):
            Day(name=name, gain=1.0, rows=1.0)


def test_the_pins_of_the_last_night_find_the_evidence_before_it_so_that_its_decision_is_a_cache_hit():
    before = Evidence().against(1).after(days(drawn(31)), needed=40, pins="a" * 64)
    after = before.after(days(drawn(1), 31), needed=40, pins="b" * 64)
    assert after.at("b" * 64).wealth == before.wealth and after.at("b" * 64).last_day == before.last_day
    assert after.at("c" * 64) is after and after.at("") is after
    assert Evidence.model_validate_json(after.model_dump_json()) == after


# ---- the record


def weighed(record, count=60, mean=1.0):
    """The record after as many nights with a gain."""
    return changes.weigh(record, nights(drawn(count, mean), 31, record.evidence_now()))


def test_a_promotion_by_whatever_means_empties_the_evidence_and_keeps_the_newest_day():
    first = weighed(promoted(registered("a", "b"), 1))
    assert first.evidence.champion == 1 and first.evidence.total > 2 and first.evidence.days == 60
    by_hand = promoted(first, 2)
    back = rolled_back(weighed(by_hand))
    again = promoted(changes.unalias(first, "champion", **WORDS, key="u"), 1)
    for record, champion in ((by_hand, 2), (back, 1), (again, 1)):
        evidence = record.evidence
        assert (evidence.champion, evidence.total, evidence.days, evidence.week_days) == (champion, 1.0, 0, 0)
        assert (evidence.last_day, evidence.all_days) == ("59", 60) and record.evidence_now() == evidence
        assert decode_record("p", "flights", encode_record("p", record)) == record
    other = first.model_copy(update={"aliases": {"champion": 2}})  # an alias that was moved by hand
    assert other.evidence_now().total == 1.0


def test_days_before_a_promotion_are_learned_from_and_never_bet_on():
    record = promoted(weighed(promoted(registered("a", "b"), 1)), 2)
    gains = drawn(61)
    after = record.evidence_now().after(days(gains[30:], 30), needed=40)
    assert (after.days, after.week_days, after.all_days, after.last_day) == (31, 1, 61, "60")


def test_a_registry_of_an_older_version_is_read_and_begins_with_no_evidence(tmp_path):
    old = OLD.read_bytes()
    record = decode_record(str(OLD), "flights", old)
    assert record.evidence is None and record.evidence_now().total == 1.0 and len(record.spent) == 3
    assert encode_record(str(OLD), record) == old, "an older library reads it until the first evidence"
    after = json.loads(encode_record(str(OLD), weighed(record)))
    assert (after["format"], after["evidence"]["champion"]) == (2, 2)
    assert {name: after[name] for name in ("events", "spent", "versions")} == {
        name: json.loads(old)[name] for name in ("events", "spent", "versions")
    }


def test_evidence_without_the_rows_of_the_largest_day_is_read_and_goes_on(tmp_path):
    """The record was written before the evidence knew them."""
    record = decode_record(str(EARLIER), "flights", EARLIER.read_bytes())
    assert encode_record(str(EARLIER), record) == EARLIER.read_bytes()
    after = record.evidence_now().after(days(drawn(31), 40), needed=40)
    assert (after.days, after.most_rows) == (record.evidence.days + 11, 10.0)


@pytest.mark.parametrize(
    "edit",
    [{"wealth": [3.7] * 5}, {"last_day": "10"}, {"days": 900}, {"champion": 2}, {"checksum": ""}, {"week_gain": 5.0},
     {"before": None}],
)  # fmt: skip
def test_evidence_that_was_edited_by_hand_is_refused_and_can_be_left_out(edit):
    there = json.loads(encode_record("p", weighed(promoted(registered("a", "b"), 1))))
    there["evidence"] |= edit
    with pytest.raises(UserError, match="evidence: .*changed by hand; without `evidence` in the record it begins"):
        decode_record("p", "flights", json.dumps(there).encode())
    del there["evidence"]
    assert decode_record("p", "flights", json.dumps(there).encode()).evidence_now().total == 1.0


def test_two_nights_at_once_count_a_day_once(tmp_path):
    place = registry.open(str(tmp_path), "flights")
    place.change(lambda record: promoted(registered("a"), 1))
    tonight = days(drawn(31))

    def night(_):
        def change(record: Record) -> Record:
            after = record.evidence_now().after(tonight, needed=40)
            return record if after == record.evidence_now() else changes.weigh(record, after)

        place.change(change)

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(night, range(8)))
    assert place.read().evidence.days == place.read().evidence.all_days == 31


def test_the_evidence_is_shown_in_words_that_never_round_up():
    record = weighed(promoted(registered("a", "b"), 1))
    shown = record_view.evidence_values(record)
    assert shown["total"] == record.evidence.total and shown["words"].startswith("Evidence so far: ")
    assert shown["words"].endswith(" of 40, at which a challenger that is ahead is promoted")
    assert record_view.evidence_values(registered("a")) is None
    totals = {39.99: "39 of 40", 12.4: "12 of 40", 1.0: "1 of 40", 0.429: "0.42 of 40", 1234.5: "1,234 of 40"}
    for total, text in totals.items():
        assert describe_total(total, 40) == f"Evidence so far: {text}"
