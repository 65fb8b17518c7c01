import json
import subprocess
import sys

import numpy as np
import pytest
from sklearn.metrics import log_loss

from vgp.base.exits import UserError
from vgp.decision import decision
from vgp.decision.decide import decide
from vgp.evaluation import comparison, measure
from vgp.evaluation.ranked import Ranked, pack

DAYS, ROWS_A_DAY = 30, 40
#: A seed whose days are not skewed by chance.
SURE = 2


def logistic(value):
    return 1 / (1 + np.exp(-value))


def flights(random, *, skills=(1.0, 1.0), day_skill=0.0, days=DAYS, rows=ROWS_A_DAY):
    """Labels, the day of each row, and one probability per model.

    A model sees the signal by its skill, which differs from day to day by `day_skill`: that is what makes the
    rows of a day dependent in a paired comparison.
    """
    day = np.repeat(np.arange(days), rows)
    signal = random.normal(size=len(day))
    label = (random.random(len(day)) < logistic(1.5 * signal)).astype(np.int64)
    noises = [random.normal(size=len(day)) for _ in skills]
    skilled = [skill + day_skill * random.normal(size=days)[day] for skill in skills]
    return label, day, [logistic(s * signal + 0.7 * e) for s, e in zip(skilled, noises, strict=True)]


def test_a_clearly_better_model_is_promoted(save):
    label, day, (new, old) = flights(np.random.default_rng(SURE), skills=(1.5, 0.4), rows=200)
    folder = save(label, new, champion=old, group=day, origin=np.where(day % 2, "JFK", "LGA"))
    result = decide(folder)
    assert result.promote and result.reason == (
        "Promote: the new model is better than the champion: log loss "
        f"{log_loss(label, new):.4f} against {log_loss(label, old):.4f}."
    )
    assert "6,000 rows in 30 groups (by day)" in result.details
    assert result.lower_bound < result.difference < result.upper_bound
    assert decision.load(folder) == result


def test_a_doubt_about_the_data_is_in_the_reason_whatever_is_decided(save):
    label, day, (new, old) = flights(np.random.default_rng(SURE), skills=(1.5, 0.4), rows=200)
    for first, second in ((new, old), (old, new)):
        result = decide(
            save(label, first, champion=second, group=day, doubts=("A column alone nearly predicts the label.",))
        )
        assert result.reason.endswith(" In doubt: A column alone nearly predicts the label.")


def test_an_identical_model_is_not_promoted(save):
    label, day, (new, _) = flights(np.random.default_rng(1))
    result = decide(save(label, new, champion=new, group=day))
    assert not result.promote and result.difference == 0
    assert "exactly as good as the champion" in result.reason and result.reason.startswith("Keep the champion")


def test_a_worse_model_is_not_promoted(save):
    label, day, (new, old) = flights(np.random.default_rng(2), skills=(0.4, 1.5))
    result = decide(save(label, new, champion=old, group=day))
    assert not result.promote and result.upper_bound < 0
    assert "is worse than the champion" in result.reason and "higher (95% interval " in result.details


def test_without_a_champion_the_baseline_is_the_one_to_beat(save):
    label, day, (new, old) = flights(np.random.default_rng(3), skills=(1.5, 0.4), rows=200)
    result = decide(save(label, new, baseline=old, group=day))
    assert result.promote and result.reference == "baseline"
    assert "no champion yet" in result.reason and "logistic-regression baseline" in result.reason


def test_with_a_champion_a_worse_baseline_changes_nothing(save):
    label, day, (new, old) = flights(np.random.default_rng(4), skills=(1.5, 0.4))
    result = decide(save(label, new, champion=new, baseline=old, group=day))
    assert not result.promote and result.reference == "champion"


@pytest.mark.parametrize("simple", ["baseline", "boosting"])
def test_a_simple_model_that_is_better_still_leaves_the_promotion_to_a_person_on_every_night(save, simple):
    """Against a champion, and of boosting also on the first night. The owner's word is the only way round it."""
    label, day, (new, old) = flights(np.random.default_rng(SURE), skills=(1.5, 0.4), rows=200)
    best = (new + np.where(label == 1, 0.9, 0.1)) / 2
    for against in ("champion", "baseline") if simple == "boosting" else ("champion",):
        folder = save(label, new, group=day, **{against: old, simple: best})
        found = decide(folder)
        assert (found.outcome, found.promote, found.reference) == ("candidate", False, against)
        assert found.reason.startswith("Candidate: ") and "a network is not worth it here" in found.reason
        assert f"(log loss {log_loss(label, best):.4f}) is better than the new model by" in found.reason
        assert "waits as a candidate" in found.reason
        forced = decide(folder, approve="despite_rivals")
        assert forced.outcome == "promote" and forced.overrides and decision.load(folder) == forced
        assert forced.reason.endswith("approve = despite_rivals.")
        assert decide(folder, approve="manual").outcome == "candidate"


def test_a_tie_with_the_best_simple_model_is_called_a_tie(save):
    label, day, (new, old) = flights(np.random.default_rng(SURE), skills=(1.5, 0.4), rows=200)
    near = np.clip(new + 0.02 * np.random.default_rng(1).normal(size=len(new)), 0.001, 0.999)
    found = decide(save(label, new, champion=old, baseline=old, boosting=near, group=day))
    assert found.best_rival.tied
    assert found.promote and f"ties with gradient boosting (log loss {log_loss(label, near):.4f})" in found.reason
    far = decide(save(label, new, champion=old, baseline=old, boosting=old, group=day))
    assert far.promote and "tie" not in far.reason and "worth it" not in far.reason


def test_a_model_that_is_worse_than_the_class_frequencies_is_never_promoted(save):
    label, day, (new, old) = flights(np.random.default_rng(SURE), skills=(1.5, 0.4), rows=200)
    worse = np.where(label == 1, 0.05, 0.95)
    new = np.where(day % 10 == 0, worse, 0.5)
    folder = save(label, new, champion=worse, group=day, constant=(0.5, 0.5))
    for approve in ("auto", "manual", "despite_rivals"):
        found = decide(folder, approve=approve)
        assert found.better and found.outcome == "candidate"
        assert "worse than a constant: log loss" in found.reason
        assert "against 0.6931 for a prediction of the class frequencies of the train labels" in found.reason
        assert "approve = despite_rivals promotes" not in found.reason
    assert decide(save(label, new, champion=worse, group=day)).promote, "where the train labels are not known"


def test_with_nothing_to_beat_nothing_is_promoted(save):
    label, day, (new, _) = flights(np.random.default_rng(5))
    assert "neither a champion nor a baseline" in decide(save(label, new, group=day)).reason


def test_too_few_groups_are_no_evidence(save):
    label, day, (new, old) = flights(np.random.default_rng(6), skills=(2.0, 0.1), days=4, rows=1000)
    result = decide(save(label, new, champion=old, group=day))
    assert not result.promote and "only 4 groups" in result.reason
    assert decide(save(label, new, champion=old)).promote  # as independent rows they would be


@pytest.mark.parametrize("margin, promote", [(0.02, True), (0.5, False), (-0.1, True)])
def test_the_margin_is_what_the_lower_bound_must_exceed(save, margin, promote):
    label, day, (new, old) = flights(np.random.default_rng(7), skills=(1.5, 0.4), rows=200)
    result = decide(save(label, new, champion=old, group=day), margin=margin)
    assert result.promote is promote and (result.lower_bound > margin) is promote


def test_a_negative_margin_admits_an_equal_model(save):
    label, day, (new, _) = flights(np.random.default_rng(8))
    result = decide(save(label, new, champion=new, group=day), margin=-0.01)
    assert result.promote and "at most 0.01 worse (margin = -0.01)" in result.reason


def test_a_worse_model_that_a_negative_margin_admits_is_not_called_better(save):
    label, day, (new, old) = flights(np.random.default_rng(SURE), skills=(0.9, 1.0), rows=200)
    overconfident = logistic(2.0 * np.log(new / (1 - new)))
    admitted = decide(save(label, new, champion=old, group=day), margin=-0.5)
    vetoed = decide(save(label, overconfident, champion=old, group=day), margin=-0.9)
    assert admitted.promote and vetoed.better and vetoed.calibration.worse and not vetoed.promote
    for result, allowed in ((admitted, "0.5"), (vetoed, "0.9")):
        assert result.difference < 0 and f"is at most {allowed} worse (margin = -{allowed}) than" in result.reason
        assert "better" not in result.reason


def test_rows_without_a_group_are_groups_of_their_own(save):
    random = np.random.default_rng(SURE)
    label, _, (new, old) = flights(random, skills=(1.0, 0.9), days=10, rows=100)
    user = np.where(random.random(1000) < 0.5, "", np.arange(1000) // 10)
    day = np.arange(1000) % 20
    by_user = decide(save(label, new, champion=old, group=user))
    by_both = decide(save(label, new, champion=old, group=day, group_2=user))
    alone = int((user == "").sum())
    assert by_user.clusters == (100 + alone,) and by_both.clusters == (20, 100 + alone)


def test_a_challenger_that_is_the_champion_is_kept_whatever_the_margin(save):
    label, day, (model, _) = flights(np.random.default_rng(1), skills=(1.0, 1.0))
    found = decide(save(label, model, champion=model, group=day, same=True), margin=-0.01)
    assert (found.promote, found.same, found.reference, found.difference) == (False, True, "champion", 0)
    assert found.reason.startswith("Keep the champion: the new model has exactly the champion's weights; log loss 0.")
    few = decide(save(label[:9], model[:9], champion=model[:9], same=True))
    assert few.reason == "Keep the champion: the new model has exactly the champion's weights."


def test_a_better_but_badly_calibrated_model_is_kept_back(save):
    label, day, (new, old) = flights(np.random.default_rng(9), skills=(2.0, 0.4), rows=800)
    result = decide(save(label, new**1.3, champion=old, group=day))  # the same ranking, too timid
    assert result.lower_bound > 0 and result.calibration.worse and not result.promote
    assert f"its calibration error is {result.calibration.challenger_error:.2%}" in result.reason


def test_a_slice_that_suffers_is_a_veto_and_is_named(save):
    random = np.random.default_rng(10)
    signal, day = random.normal(size=6_000), np.repeat(np.arange(DAYS), 200)
    label = (random.random(6_000) < logistic(1.5 * signal)).astype(np.int64)
    origin = np.where(random.random(6_000) < 0.1, "JFK", "LGA")
    new = np.where(origin == "JFK", 0.5, logistic(1.5 * signal))  # knows nothing about JFK, and all about LGA
    old = logistic(0.7 * (signal + 0.7 * random.normal(size=6_000)))
    result = decide(save(label, new, champion=old, group=day, origin=origin))
    assert result.lower_bound > 0 and not result.calibration.worse and not result.promote
    assert [(s.column, s.value) for s in result.worse_slices] == [("origin", "JFK")]
    assert "1 of 2 slices (origin = JFK)" in result.reason


def test_small_slices_are_listed_and_not_tested(save):
    label, day, (new, old) = flights(np.random.default_rng(11), skills=(1.5, 0.4))
    origin = np.where(np.arange(len(label)) < 99, "rare", "LGA")
    one_day = np.where(day < 9, "few days", "rest")
    result = decide(save(label, new, champion=old, group=day, origin=origin, week=one_day))
    assert [s.value for s in result.untested_slices] == ["rare", "few days"]
    assert [s.value for s in result.tested_slices] == ["LGA", "rest"]


@pytest.mark.parametrize("only", [0, 1])
@pytest.mark.parametrize("against", ["champion", "baseline"])
def test_without_a_row_of_a_class_nothing_is_decided(save, only, against):
    label = np.full(400, only)
    random = np.random.default_rng(12)
    good, bad = 0.8 + 0.1 * random.random(400), 0.4 + 0.1 * random.random(400)
    good, bad = (good, bad) if only else (1 - good, 1 - bad)
    result = decide(save(label, good, **{against: bad}), margin=-0.5)
    assert (result.outcome, result.promote, result.level, result.spends) == ("not decided", False, None, None)
    assert f"none of the 400 test rows has class {'ba'[only]}, so" in result.reason


def test_of_several_classes_all_that_are_missing_are_named_and_rare_ones_noted(save):
    random = np.random.default_rng(13)
    truth = random.dirichlet(np.ones(6), 800)
    label = np.where(np.arange(800) < 3, 5, np.arange(800) % 2)
    folder = save(label, truth, baseline=np.full((800, 6), 1 / 6))
    result = decide(folder)
    assert result.outcome == "not decided" and "has class c, d, e, so" in result.reason
    assert "Few rows of a class, whose figures may be luck: f (3)." in measure.measure(folder).notes


def test_with_many_classes_the_log_loss_decides(save):
    random = np.random.default_rng(13)
    truth = random.dirichlet(np.ones(4), 800)
    label = (random.random(800)[:, None] > truth.cumsum(axis=1)).sum(axis=1)
    dull = np.full((800, 4), 0.25)
    result = decide(save(label, truth, champion=dull))
    assert result.promote and result.metric == "loss"
    assert result.difference == pytest.approx(result.reference_value - result.challenger_value)
    assert not decide(save(label, dull, champion=truth)).promote


def test_a_decision_is_the_same_when_made_again(save):
    label, day, (new, old) = flights(np.random.default_rng(14), skills=(1.2, 0.9))
    folder = save(label, new, champion=old, group=day)
    assert decide(folder) == decide(folder)
    assert json.loads((folder / "decision.json").read_text())["reason"]


# ---- one decision of a year


def test_the_reason_names_the_test_its_level_the_sure_part_and_the_detectable_gain(save):
    label, day, (new, old) = flights(np.random.default_rng(SURE), skills=(1.5, 0.4), rows=200)
    result = decide(save(label, new, champion=old, group=day))
    assert (result.level, result.degrees, result.clusters) == (pytest.approx(0.05 / 365), pytest.approx(29), (30,))
    assert result.interval[0] > result.lower_bound > 0 and result.upper_bound > result.interval[1]
    assert (
        f"t test (29 degrees of freedom; neighbouring groups are assumed to correlate by {result.alike:.2f}) at a "
        "level of 0.0137%, its share of the 5% error allowed for 365 decisions a year puts the gain above "
        f"{result.lower_bound:.4f}. These rows show a true gain of {result.detectable:.4f} with 80% probability."
        in result.details
    )
    once = decide(save(label, new, champion=old, group=day), nights=1)
    assert once.level == pytest.approx(0.05) and "at a level of 5% puts the gain above" in once.details
    assert once.detectable < result.detectable and once.lower_bound > result.lower_bound


def test_days_that_resemble_the_day_before_prove_less_than_days_in_any_order(save):
    """The same rows, under names that sort good days after good days, or names without an order."""
    label, day, (new, old) = flights(np.random.default_rng(SURE), skills=(1.5, 0.4), rows=200)
    gains = np.bincount(day, np.log(np.where(label == 1, new / old, (1 - new) / (1 - old))))
    spell = np.argsort(np.argsort(gains))[day]
    decisions = {
        name: decide(save(label, new, champion=old, group=names), nights=12)
        for name, names in {
            "spells": spell, "dates": np.char.add("2013-05-", np.char.zfill((spell + 1).astype(str), 2)),
            "none": np.char.add("day ", spell.astype(str)),
        }.items()
    }  # fmt: skip
    assert (
        decisions["spells"].alike > 0.8
        and decisions["dates"].alike == decisions["spells"].alike
        and decisions["none"].alike is None
    )
    assert decisions["spells"].lower_bound < decisions["none"].lower_bound - 0.02
    assert decisions["spells"].interval[0] < decisions["none"].interval[0]
    assert "assumed to correlate" not in decisions["none"].details


def test_what_is_no_evidence_among_365_decisions_may_be_as_the_only_one(save):
    label, day, (new, old) = flights(np.random.default_rng(SURE), skills=(1.5, 0.4))
    folder = save(label, new, champion=old, group=day)
    kept = decide(folder)
    assert not kept.promote and kept.lower_bound < 0 < kept.interval[0] and "not clearly better" in kept.reason
    sentence = (
        f"the gain above {kept.lower_bound:z.4f} (the 95% interval starts at {kept.interval[0]:.4f} because it covers "
        "one comparison only)"
    )
    assert sentence in kept.details
    once = decide(folder, nights=1)
    assert once.promote and "the 95% interval starts" not in once.details


def test_users_on_many_days_are_distinguished_from_as_many_independent_rows(save):
    """The new model is better for some users and worse for others, on all of their days."""
    random = np.random.default_rng(20)
    day, user = (codes.ravel() for codes in np.indices((DAYS, 25)))
    label = (random.random(len(day)) < 0.5).astype(np.int64)
    lean = np.repeat([0.1, -0.05], [12, 13])[user] + 0.02 * random.normal(size=len(day))
    new = np.clip(np.where(label == 1, 0.6 + lean, 0.4 - lean), 0.01, 0.99)
    old = np.where(label == 1, 0.6, 0.4)
    by_day = decide(save(label, new, champion=old, group=day))
    both = decide(save(label, new, champion=old, group=day, group_2=user))
    assert by_day.promote and not both.promote
    assert (both.group, both.groups, both.clusters) == ("day and user", 25, (DAYS, 25))
    assert "in 30 groups (by day) and 25 groups (by user)." in both.details
    assert "t test by both groups (24 degrees of freedom; neighbouring groups" in both.details


def test_a_few_days_that_are_far_worse_put_the_bound_far_down(save):
    label = np.tile([0, 1], 600)
    day = np.repeat(np.arange(DAYS), 40)
    new = np.where(label == 1, 0.7, 0.3)
    new[day < 2] = np.where(label == 1, 0.1, 0.9)[day < 2]
    result = decide(save(label, new, champion=np.where(label == 1, 0.55, 0.45), group=day))
    interval = result.interval[1] - result.interval[0]
    assert not result.promote and result.difference - result.lower_bound > 2.5 * interval  # 1 of symmetric days


def test_an_interval_above_nothing_that_bad_days_made_too_short_is_distinguished_from_the_bound(save):
    label, day = np.tile([0, 1], 600), np.repeat(np.arange(DAYS), 40)
    new = np.where(label == 1, 0.6, 0.4)
    new[day < 2] = np.where(label == 1, 0.39, 0.61)[day < 2]
    result = decide(
        save(label, new, champion=np.where(label == 1, 0.55, 0.45), group=np.char.add("day ", day.astype(str))),
        nights=1,
    )
    assert not result.promote and result.lower_bound <= 0 < result.interval[0], (result.lower_bound, result.interval)
    assert "because it assumes that good and bad groups are symmetric)" in result.details


def test_groups_that_are_too_few_for_a_years_level_are_distinguished_from_those_that_suffice(save):
    label, day, (new, old) = flights(np.random.default_rng(6), skills=(2.0, 0.1), days=12, rows=200)
    few = decide(save(label, new, champion=old, group=day))
    assert few.level is None and few.metric is None
    assert few.reason == (
        "Keep the champion: the test data has only 12 groups of rows (by day); the test needs 15 at the level for 365 "
        "decisions a year. Test on more days, for example with a longer window `test`."
    )
    assert decide(save(label, new, champion=old, group=day), nights=1).level is not None
    row = np.arange(len(label))
    one = np.where(row < 1_200, 0, row % 39 + 1)  # half of the rows are those of one day
    unequal = decide(save(label, new, champion=old, group=one), nights=1)
    assert unequal.reason.startswith(
        "Keep the champion: the test data has only 40 groups of rows (by day), worth 2 of equal size; the"
    )


@pytest.mark.parametrize(
    "wrong",
    [
        {"nights": 0},
        {"nights": 9_000},
        {"confidence": 0.5},
        {"confidence": 95},
        {"margin": 3.0},
        {"margin": float("nan")},
    ],
)
def test_arguments_out_of_range_are_refused(save, wrong):
    label, day, (new, old) = flights(np.random.default_rng(15))
    folder = save(label, new, champion=old, group=day)
    with pytest.raises(UserError, match=next(iter(wrong))):
        decide(folder, **wrong)
    assert decision.load(folder) is None


def test_a_perfect_model_is_not_blamed_for_the_noise_in_small_bins(save):
    random = np.random.default_rng(17)
    truth = random.random(600)
    label = (random.random(600) < truth).astype(np.int64)
    result = decide(save(label, truth, champion=np.full(600, label.mean())))  # a constant: one bin, no noise
    assert result.promote and not result.calibration.worse


def test_the_interval_of_an_auc_by_days_is_above_nothing_about_one_time_in_twenty():
    """100 pairs of equally good models, each better on other days. The bound on the rate is .05 plus 3 errors."""
    random, weights = np.random.default_rng(16), comparison.resample(DAYS)[:1000]
    by_day = alone = 0
    for _ in range(100):
        label, day, scores = flights(random, skills=(1.0, 1.0), day_skill=0.8)
        rows = comparison.Blocks(day, DAYS)
        ranks = [Ranked.of(pack(s, label), rows.codes) for s in scores]
        values = [ranked.auc() for ranked in ranks]
        replicates = [comparison.auc_replicates(weights, r, DAYS, auc) for r, auc in zip(ranks, values, strict=True)]
        difference = values[0] - values[1]
        by_day += comparison.interval(difference, replicates[0] - replicates[1], DAYS, 0.95).low > 0
        alone += difference - 1.645 * delong_error(label, *scores) > 0
    assert 0.01 <= by_day / 100 <= 0.05 + 3 * np.sqrt(0.05 * 0.95 / 100)
    assert alone / 100 > 0.12  # DeLong takes the rows of a day for independent: twice and more what was promised


def delong_error(label, first, second):
    parts = [(s[label == 1][:, None] > s[label == 0]) for s in (first, second)]
    wins = parts[0].astype(np.float64) - parts[1]
    return np.sqrt(sum(np.var(wins.mean(axis=axis), ddof=1) / wins.shape[1 - axis] for axis in (0, 1)))


def test_a_decision_and_its_report_load_neither_scikit_learn_nor_pandas_nor_torch():
    """They took two of the three CPU-seconds of a step that needs none of them."""
    code = (
        "import sys, vgp.steps.calls, vgp.decision.decide, vgp.decision.report.report;"
        "print(sorted({'sklearn', 'pandas', 'torch', 'scipy.stats'} & sys.modules.keys()))"
    )
    shown = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
    assert shown.stdout == "[]\n"


def test_a_look_at_new_data_loads_neither_torch_nor_matplotlib_nor_a_client_of_bigquery():
    """They took three of the five CPU-seconds in which `resolve` pins a file and decides that nothing is trained."""
    code = (
        "import sys, vgp.steps.resolution;"
        "print(sorted({'sklearn', 'torch', 'matplotlib', 'google.cloud.bigquery'} & sys.modules.keys()))"
    )
    shown = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
    assert shown.stdout == "[]\n"


def test_the_first_model_shares_nothing_with_the_nights_of_a_year(save):
    """As long as no champion could be replaced, the level is that of one decision, and nothing of the year is spent."""
    label, day, (new, old) = flights(np.random.default_rng(5))
    held = decide(save(label, new, champion=old, group=day), nights=365)
    first = decide(save(label, new, baseline=old, group=day), nights=365)
    assert held.level == pytest.approx(0.05 / 365) and held.spends == held.level
    assert first.level == pytest.approx(0.05) and first.nights == 1 and first.spends is None
