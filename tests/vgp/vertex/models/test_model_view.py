"""What the list of a registry shows of its models."""

from typing import Any

from rich.console import Console

from vgp.vertex import model_view


def printed(*versions: dict[str, Any]) -> str:
    answer = {"registry": "r", "models": [{"model": "flights", "reign": None, "left": 0, "versions": list(versions)}]}
    console = Console(width=200)
    with console.capture() as capture:
        console.print(model_view.render_list(answer))
    return capture.get()


def test_a_model_without_a_version_is_reported_without_an_empty_table() -> None:
    assert printed().strip() == "flights: no version yet: no model was better so far"


def test_the_columns_of_the_list_are_metrics_of_the_model() -> None:
    version = {"number": 1, "aliases": [], "state": "registered", "created": "", "data": "", "run": "run-1"}
    titles = printed({**version, "metrics": {"rows": 9, "threshold": 0.1, "loss": 0.5, "auc": 0.7}}).splitlines()[1]
    assert titles.split() == ["version", "alias", "state", "registered", "loss", "auc", "data", "run"]


def test_a_champion_is_shown_with_the_evidence_against_it_and_a_model_of_an_older_library_without() -> None:
    known = {"words": "Evidence so far: 12 of 40, at which a challenger that is ahead is promoted", "days": 60}
    row = ("evidence", "12 of 40, at which a challenger that is ahead is promoted; 60 days")
    assert model_view._evidence_rows({"evidence": known}) == [row]
    assert model_view._evidence_rows({"evidence": None}) == model_view._evidence_rows({}) == []


def test_the_history_shows_the_events_after_the_decision_and_not_the_decision_again() -> None:
    assert model_view._shorten_reason("Promote: it is better.", "Promote: it is better.") == "as decided"
    why = "Promote: it is better. Not champion: the 5% is used up."
    assert model_view._shorten_reason(why, "Promote: it is better.") == "as decided. Not champion: the 5% is used up."
    assert (
        model_view._shorten_reason("looked at it", "Promote: it is better.") == "looked at it"
        and model_view._shorten_reason("x", "") == "x"
    )
