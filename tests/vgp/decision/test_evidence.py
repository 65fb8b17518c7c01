"""The two halves of the gate on one night: tonight's test, and the evidence of all nights."""

import dataclasses

import numpy as np
import pytest

from vgp.base.exits import UserError
from vgp.decision import decision, levels
from vgp.decision import evidence as nightly
from vgp.decision.decide import decide
from vgp.decision.report import page
from vgp.evaluation import predictions
from vgp.registry.evidence import Day, Evidence

BEGUN = Evidence().against(1)


@pytest.fixture
def night(tmp_path):
    """Decides on days of 20 rows, whose labels the champion gives 0.6 and the challenger a gain more, in nats."""
    from tests.vgp.evaluation.conftest import Save

    save = Save(tmp_path / "evaluation")

    def decided(gains, *, first=0, users=None, group=True, same=False, names=None, **terms):
        day = np.repeat(np.arange(len(gains)), 20)
        label = np.tile([0, 1], len(day) // 2)
        sure = 0.6 * np.exp(np.asarray(gains)[day])
        folder = save(
            label, np.where(label == 1, sure, 1 - sure), champion=np.where(label == 1, 0.6, 0.4), same=same,
            group=(names if names is not None else np.arange(first, first + len(gains)))[day] if group else None,
            group_2=None if users is None else np.tile(np.arange(users), len(day) // users),
        )  # fmt: skip
        return decide(folder, **{"evidence": BEGUN, **terms})

    return decided


def noisy(count, mean=0.0, seed=1, size=0.05):
    return mean + size * np.random.default_rng(seed).standard_normal(count)


def rich(total=45.5, last="100"):
    """Evidence of many nights; a record of days of about .05 standard deviations."""
    return Evidence()._with(
        champion=1, wealth=(float(np.log(total)),) * 5, last_day=last, days=60, squares=0.15, all_days=60,
        all_rows=1200.0,
    )  # fmt: skip


def test_each_half_has_half_of_the_error_and_a_single_decision_has_it_whole(night):
    both, alone, once = night(noisy(31)), night(noisy(31), evidence=None), night(noisy(31), nights=1)
    assert both.level == levels.tonight(0.95, 365) / 2 == alone.level / 2
    assert (both.evidence.needed, both.evidence.total, both.evidence.new_days) == (40, 1.0, 31)
    assert both.spends == alone.spends == alone.level, "the year's budget counts both halves"
    assert alone.evidence is None and alone.no_evidence == "" and "evidence" not in alone.details
    assert once.level == pytest.approx(0.05) and once.no_evidence == "this is a single decision (nights = 1)"
    assert night(noisy(31), confidence=0.9).evidence.needed == 20


def test_a_small_gain_that_tonight_cannot_show_is_promoted_by_the_evidence_of_all_nights(night):
    gains, before = noisy(31, 0.02), rich()
    kept = night(gains, first=71)
    result = night(gains, first=71, evidence=before)
    assert not kept.promote and result.promote and result.better and not result.better_tonight
    assert result.reason.startswith("Promote: the new model is better than the champion: log loss ")
    assert result.reason.endswith(". Evidence so far: 45 of 40, over all nights of this champion.")
    assert "luck alone reaches 40 with a probability of at most 2.5%" in result.details
    evidence = next(check for check in page.checks(result) if check.text.startswith("Evidence so far: 45 of 40"))
    gain = page.checks(result)[0]
    assert evidence.passed and not gain.passed and gain.text.endswith("above 0, or the evidence enough.")


def test_a_challenger_that_is_not_ahead_tonight_is_kept_whatever_earlier_ones_gained(night):
    result = night(noisy(31, -0.02), first=71, evidence=rich())
    assert not result.promote and "It is enough, but tonight's model is not ahead" in result.details


def test_a_large_gain_is_promoted_on_the_first_night(night):
    result = night(noisy(31, 0.2))
    assert result.promote and result.better_tonight and result.evidence.total == 1.0
    assert "Evidence" not in result.reason


def test_the_margin_comes_off_every_day(night):
    gains = noisy(31, 0.02)
    assert night(gains, first=71, evidence=rich()).promote
    result = night(gains, first=71, evidence=rich(), margin=0.02)
    assert not result.promote and not result.evidence.ahead
    plain = night(gains)
    for day, less in zip(plain.evidence.days, night(gains, margin=0.02).evidence.days, strict=True):
        assert less.gain == pytest.approx(day.gain - 0.02 * 20)


def test_with_a_worst_day_the_evidence_decides_alone_at_all_of_the_error(night):
    sure = night(noisy(31, 0.2), worst_day=3.0)
    assert not sure.promote and sure.level is None and sure.lower_bound is None and sure.spends == 0.0
    assert sure.reason.startswith("Keep the champion: the new model is ahead of the champion: log loss ")
    assert sure.reason.endswith(". Evidence so far: 1 of 20; it decides alone.")
    assert sure.evidence.needed == 20 and sure.details.endswith("With worst_day = 3 it decides alone.")
    ready = night(noisy(31, 0.02), first=71, evidence=rich(21.5), worst_day=3.0)
    assert ready.promote and ready.reason.endswith(". Evidence so far: 21 of 20, over all nights of this champion.")
    assert page.checks(ready)[0].passed and "lower bound" not in page.checks(ready)[0].text


def test_a_window_that_is_too_short_for_the_test_leaves_all_of_the_error_to_the_evidence(night):
    for count, alone in ((2, True), (15, True), (17, False)):
        result = night(noisy(count, 0.2), first=101 - count)
        assert (result.evidence.alone, result.level is None, result.evidence.needed) == (alone, alone, 40 - 20 * alone)
        assert ("because the test rows are too few for tonight's test" in result.details) == alone
    assert night(noisy(15, 0.02), first=86, evidence=rich(21.5)).promote
    one = night(noisy(1), first=101, evidence=rich())
    assert not one.promote and "only 1 group of rows" in one.reason and "Evidence so far: 45 of 20" in one.details


@pytest.mark.parametrize(
    ("rows", "why"),
    [({"group": False}, "the test rows have no days"), ({"users": 20}, "rows of one user return on many days"),
     ({"names": np.array([f"shop {n}" for n in range(31)])}, "the test rows have no days")],
)  # fmt: skip
def test_rows_without_days_and_users_that_return_leave_the_test_alone_and_are_an_error_with_a_worst_day(
    night, rows, why
):
    result, plain = night(noisy(31), **rows), night(noisy(31), evidence=None, **rows)
    assert result.evidence is None and result.level == plain.level == levels.tonight(0.95, 365)
    assert f"No evidence is collected over the nights, because {why}" in result.details
    with pytest.raises(
        UserError, match=f"worst_day = 1 makes the evidence of all nights decide alone, but .*{why[:20]}"
    ):
        night(noisy(31), worst_day=1.0, **rows)


def test_a_worst_day_below_ordinary_days_is_refused_unless_the_challenger_is_merely_spoilt(night):
    with pytest.raises(UserError, match=r"worst_day = 0.001 is far below the days .* standard deviation of 0\.04"):
        night(noisy(31, 0.02), worst_day=0.001)
    assert not night(noisy(31, -5.0, size=1.0), worst_day=0.3).promote
    costly = noisy(31, 0.02)
    costly[4] = -0.4
    text = night(costly, worst_day=0.3).details
    assert "On 1 of 31 days the new model cost more than worst_day allows." in text
    with pytest.raises(UserError, match="leave it at 0"):
        decision.check_worst_day(0.1, None, 0.2)


@pytest.mark.parametrize("wrong", [-0.1, float("nan"), float("inf")])
def test_a_worst_day_that_is_no_loss_is_refused(night, wrong):
    with pytest.raises(UserError, match=r"worst_day = .*: it must be above 0, in the unit of the loss"):
        night(noisy(31), worst_day=wrong)


def test_a_model_with_the_champions_weights_is_no_night_of_a_challenger(night):
    result = night(np.zeros(31), same=True)
    assert result.evidence is None and result.no_evidence == "" and not result.promote


def test_vetoes_and_simple_models_stop_a_promotion_by_evidence_too(tmp_path):
    from tests.vgp.evaluation.conftest import Save

    day, label = np.repeat(np.arange(71, 102), 20), np.tile([0, 1], 310)
    sure = 0.6 * np.exp(noisy(31, 0.02))[day - 71]
    new, best = (np.where(label == 1, p, 1 - p) for p in (sure, np.full(620, 0.9)))
    old = np.where(label == 1, 0.6, 0.4)
    folder = Save(tmp_path / "e")(label, new, champion=old, boosting=best, group=day)
    result = decide(folder, evidence=rich())
    assert result.outcome == "candidate" and result.evidence.passes


def test_the_days_of_a_night_are_those_of_its_rows_by_date(night):
    names = np.array([f"2026-01-{n:02}" for n in range(1, 32)])
    check = night(noisy(31), names=names).evidence
    assert [day.name for day in check.days] == names.tolist() and {day.rows for day in check.days} == {20.0}
    assert isinstance(check.days[0], Day) and sum(d.gain for d in check.days) == pytest.approx(
        20 * noisy(31).sum(), rel=1e-4
    )


@pytest.mark.parametrize(
    ("group", "count"), [("day", 31), ("day of departed", 31), ("due_date", 31), ("user", 0), ("update", 0)]
)
def test_whole_numbers_are_days_only_in_a_column_whose_name_says_so(night, tmp_path, group, count):
    night(noisy(31))
    data = predictions.read(tmp_path / "evaluation")
    named = dataclasses.replace(data, header=data.header.model_copy(update={"group": group}))
    assert len(nightly.days_of(named, np.zeros(len(data)), 0.0)) == count
