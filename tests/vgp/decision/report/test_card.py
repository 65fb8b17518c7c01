"""The card of a version: whole, of itself alone, and no sentence that the figures do not bear."""

import re
from pathlib import Path

import pytest

from tests.vgp.decision.report.test_report import Outline
from vgp.base.exits import UserError
from vgp.decision.decide import decide
from vgp.decision.decision import SliceCheck
from vgp.decision.report import card
from vgp.evaluation import record
from vgp.evaluation.evaluate import evaluate
from vgp.protocol import manifest

ORIGIN = card.Origin(
    name="coins", pipeline="training", run="training-7", commit="abc", image="image@sha256:1", champion=6,
    registered="2026-11-22T10:00:00Z", who="Promoted by the run training-7", why="It is <better>.", cost="$19.18",
)  # fmt: skip


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    """A dataset, a model and its evaluation, as the arguments of a card."""
    folder = tmp_path_factory.mktemp("card")
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(Path(__file__).parents[3] / "helpers"))
        import coins

        data = coins.dataset(folder / "data")
        model, old = coins.trained(folder / "model", data), coins.trained(folder / "old", data, slope=0.1)
        evaluate(data, model, folder / "evaluation", champion=str(old))
    return {
        "data": data,
        "model": model,
        "evaluation": folder / "evaluation",
        "decision": decide(folder / "evaluation"),
    }


def test_a_card_is_one_page_that_loads_nothing_and_the_same_twice(run, tmp_path):
    card.write(tmp_path / "a" / card.FILE_NAME, **run, origin=ORIGIN)
    card.write(tmp_path / "b.html", **run, origin=ORIGIN)
    html = (tmp_path / "a" / "card.html").read_text()
    assert html == (tmp_path / "b.html").read_text()
    outline = Outline(html)
    assert not {tag for tag, _ in outline.elements} & {"script", "link", "img", "iframe"}
    assert not re.search(r"url\((?!#)|@import|(src|href)=", html)
    for part in ("Promoted by the run training-7", "It is <better>.", "version 6", "$19.18", "abc", "image@sha256:1",
                 "95% interval", "Limits", "tilt", "epochs", run["decision"].reason):  # fmt: skip
        assert " ".join(part.split()) in outline.text
    assert "<better>" not in html


def test_a_card_without_an_origin_has_no_such_section(run, tmp_path):
    card.write(tmp_path / "card.html", **{**run, "decision": None})
    text = Outline((tmp_path / "card.html").read_text()).text
    assert "Promote" not in text and "Origin" not in text and "compared with" not in text
    with pytest.raises(UserError, match="not a finished evaluation"):
        card.write(tmp_path / "card.html", **{**run, "evaluation": tmp_path})


def test_limits_follow_from_measurements(run):
    measured, decision = record.load(run["evaluation"]), run["decision"]
    text = " ".join(card.known_limits(measured, decision))
    weakest = min(measured.slices, key=lambda row: row.models["challenger"].auc)
    assert f"weakest at {weakest.column} = {weakest.value}: AUC" in text
    assert "Slices were measured by " in text and "significantly worse" not in text and "Not as rates" not in text
    bad = SliceCheck(column="colour", value="red", rows=9, loss_increase=0.1, p_value=0.001, worse=True)
    few = SliceCheck(column="colour", value="green", rows=2, loss_increase=0.1, p_value=None, worse=False)
    off = decision.calibration.model_copy(update={"worse": True, "challenger_error": 0.12})
    doubtful = decision.model_copy(update={"slices": (bad, few), "calibration": off})
    text = " ".join(card.known_limits(measured, doubtful))
    assert "Not for colour = red without a check: it is significantly worse there than the champion." in text
    assert "colour = green had too few rows for a test" in text
    assert "Not as rates: its calibration error is 12.00%." in text


def test_intended_uses_name_the_target_the_columns_the_data_and_the_threshold(run):
    measured = record.load(run["evaluation"])
    dataset = manifest.load(run["data"]).model_copy(update={"split": {"train": "January", "test": "February"}})
    predicts, uses, meant, counts = card.intended_uses(dataset, measured)
    assert predicts == "It predicts label, as a probability for each of a and b."
    assert uses.startswith("It uses colour, tilt and size of a row")
    assert meant == "It is meant for rows like its training data: 1,200 of January."
    point = measured.thresholds.operating
    assert f"from a probability of {point.threshold:.3g} on" in counts and f"{point.recall:.0%} of all" in counts
    many = [f"column{number}" for number in range(20)]
    assert card._names(many).endswith("column11 and 8 more")
