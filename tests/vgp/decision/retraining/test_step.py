"""What a night decides, with real data, a real registry and a champion of known quality."""

import json
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from vgp.decision.retraining import look
from vgp.registry import changes, registry
from vgp.registry.documents import Spent


def test_a_night_without_new_data_trains_nothing_and_looks_at_nothing(shop, monkeypatch):
    monkeypatch.setattr(look, "read", lambda *_, **__: pytest.fail("looked"))
    found = shop.verdict()
    assert (found.train, found.cause) == (False, "nothing new")
    assert found.why == "no data is new since version 1 was trained."
    assert shop.verdict(retrain_every="1 day", wait="").cause == "nothing new", "the same data makes the same model"


def test_new_data_like_the_old_is_no_reason_and_the_page_says_what_was_seen(shop, tmp_path):
    shop.new(*range(30, 44))
    made = shop.asked(tmp_path / "look.html", retrain_every="")
    found, page = made.verdict, (tmp_path / "look.html").read_text()
    assert (found.outcome, found.cause) == ("skip", "no change")
    assert found.why.startswith("no column drifted in 2020-01-21 to 2020-02-13 (24 days), ")
    assert "1.61 (0.27 by chance; p = 0.12 over all columns)" in found.why, "an index may be high by chance"
    assert {one.column for one in found.findings.shifts} == {"colour", "size", "lately", "label"}
    assert (found.findings.live.rows, found.findings.live.days, found.findings.rows) == (420, 14, 720)
    assert page.startswith("<!doctype html>") and "Does not train" in page and ">colour</th>" in page
    assert '<p class="lead">Why: no column drifted in 2020-01-21' in page, "a column may be first"
    assert '<div class="panel wide"><div class="scroll"><table>' in page, "one element has one background"
    assert made.outputs.Output == "skip" and made.outputs.why == found.why == made.metadata["why"]
    assert made.outputs.data == made.data and made.outputs.champion.endswith(".json")


def test_a_column_that_drifted_trains_and_is_named(shop):
    shop.new(*range(30, 44), colours="red <teal>")
    found = shop.verdict()
    assert (found.train, found.cause) == (True, "drift")
    assert found.why.startswith("colour drifted by a stability index of ")
    colour = found.findings.drifted[0]
    assert colour.unseen == pytest.approx(0.3, abs=0.05) and colour.unseen_values == ("<teal>",)


def test_a_champion_that_does_worse_on_new_labels_trains(shop):
    shop.new(*range(30, 44), chance=0.6)
    found = shop.verdict(drift_threshold=9.0)
    assert (found.train, found.cause) == (True, "performance")
    assert found.findings.live.rise > 0.1 and "above the 0.6109 of its evaluation" in found.why
    assert shop.verdict(drift_threshold=9.0, loss_rise=0.9).cause == "no change"


def test_labels_that_are_late_are_counted_and_wait(shop):
    shop.new(*range(30, 44), labelled=False)
    found = shop.verdict().findings
    assert found.live is None and "days with labels after its evaluation" in found.notes[-1]
    assert "colour" in {one.column for one in found.shifts}, "rows without a label are rows all the same"
    write = Path(shop.folder / "data" / "c.csv")
    try:
        shop.new(*range(30, 38))
        import shops

        shops.write(write, *(shops.day(n, labelled=False) for n in range(38, 41)))
        assert (shop.verdict().findings.live.rows, shop.verdict().findings.live.unlabelled) == (240, 90)
    finally:
        write.unlink()


@pytest.mark.parametrize(
    ("lines", "said"),
    [
        ({"header": "id,day,shade,size,bought"}, "colour"),
        ({"again": True}, "A key must occur once: keep one of the two."),
    ],
)
def test_data_that_cannot_be_prepared_ends_the_night_before_anything_is_trained(shop, lines, said, capsys):
    days = [30, 30] if lines.pop("again", False) else [30]
    shop.new(*days, *range(31, 40), **lines)
    with pytest.raises(SystemExit) as ended:
        shop.verdict()
    assert ended.value.code == 2 and said in capsys.readouterr().err


def test_other_settings_and_options_are_a_reason(shop):
    assert shop.verdict(learning_rate=0.5).why == "a setting of the training changed: learning_rate."
    options = {"train": "20 days", "test": "10 days", "hidden": [8], "dropout": 0.0}
    assert shop.verdict(task_options=options).why == "an option of the task changed: hidden."


def test_force_and_the_other_policies(shop):
    assert shop.verdict(force=True).train and shop.verdict(when="always").train
    assert not shop.verdict(when="never").train
    shop.new(*range(30, 44), colours="red teal")
    watched = shop.verdict(when="never")
    assert not watched.train and watched.findings.drifted and "colour drifted" in watched.why
    eager = shop.verdict(when="new data")
    assert (eager.cause, eager.findings.what) == ("new data", "")
    assert shop.verdict(when="never", champion="").cause == "never"
    assert shop.verdict(champion="").why == "there is no champion yet."


def test_what_cannot_be_sampled_says_so_and_trains(shop, monkeypatch):
    monkeypatch.setattr(look, "MOST_BYTES", 10)
    shop.new(*range(30, 44))
    found = shop.verdict()
    assert (found.train, found.cause) == (True, "cannot look")
    assert found.why.startswith("the new data cannot be sampled: the files with new rows have ")


def test_a_week_passes_after_a_challenger_that_was_kept(shop):
    shop.new(*range(30, 44), colours="red teal")
    record, now = registry.open(f"{shop.folder}/registry", "shops"), datetime.now(UTC)
    before = record.read()
    moment = (now - timedelta(days=2)).isoformat(timespec="seconds")
    try:
        record.change(lambda old: changes.spend(old, Spent(key="c", at=moment, level=0.001, version=1, outcome="keep")))
        found = shop.verdict()
        assert (found.train, found.cause) == (False, "waits") and "wait = 7 days" in found.why
        assert found.findings.drifted, "it looks all the same"
        assert shop.verdict(wait="1 day").cause == "drift"
        assert shop.verdict(learning_rate=0.5).cause == "waits", "a challenger with these settings may have been kept"
    finally:
        record.change(lambda _: before)


def test_age_counts_from_the_last_training(shop):
    shop.new(*range(30, 44))
    found = shop.verdict(retrain_every="30 days")
    assert (found.cause, found.why) == ("age", "the last training was on 2020-01-31, and retrain_every is 30 days.")


def test_an_attempt_with_earlier_pins_has_the_earlier_decision(shop):
    shop.new(*range(30, 44), colours="red teal")
    first = shop.asked(retrain_every="")
    again = shop.asked(pins=first.uri, when="never")
    assert again.verdict == first.verdict and again.outputs == first.outputs
    assert json.loads(Path(first.uri.removesuffix(".json") + "-decision.json").read_text())["cause"] == "drift"
    assert shop.asked(pins=first.uri, force=True).verdict.cause == "asked"


def test_a_look_has_the_features_that_preparing_would_compute(shop, tmp_path, monkeypatch):
    from vgp.data.rows import read_sample
    from vgp.protocol import manifest
    from vgp.steps import calls as steps

    shop.new(*range(30, 44))
    resolved = shop.asked(when="always")
    monkeypatch.setattr(look, "EARLIER_DAYS", 0)
    seen = look.read(resolved.data, "shops:Shops", after=FIRST_DAY + 33, most_days=10, known=(), run="a")
    steps.prepare("", tmp_path / "prepared", task="shops:Shops", pins=resolved.data)
    prepared = manifest.load(tmp_path / "prepared")
    rows = read_sample(tmp_path / "prepared", prepared.splits["test"], prepared.columns, 10**6)
    assert seen.rows == len(rows["lately"]) == 300 and set(seen.days) == set(range(FIRST_DAY + 34, FIRST_DAY + 44))
    assert sorted(seen.columns["lately"].to_pylist()) == sorted(rows["lately"].tolist())


def test_a_feature_of_all_rows_before_is_looked_at_with_all_rows_before(first_night, shop):
    shop.new(*range(30, 44))
    resolved = shop.asked(when="always", task="shops:Looking", model_name="looking")
    seen = look.read(resolved.data, "shops:Looking", after=FIRST_DAY + 33, most_days=10, known=(), run="a")
    assert min(seen.columns["nth"].to_pylist()) == 34 * 30


#: The first day of the shop, from 1970-01-01.
FIRST_DAY = (datetime(2020, 1, 1) - datetime(1970, 1, 1)).days
