"""The evidence of all nights in the registry: written with the night's record, counted once, emptied by a promotion."""

from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import numpy as np
import pytest

from vgp.decision.release import release
from vgp.protocol import pins as store
from vgp.protocol.pins import ChampionPins
from vgp.registry import changes
from vgp.registry.evidence import Day, Evidence
from vgp.steps import calls as steps

PINS = "/pins/{}.json"


def check(first=0, total=1.0, seed=1, count=31, **fields):
    """What the gate hands on for a window of days that begins at `first`."""
    gains = np.random.default_rng(seed).standard_normal(count) * 0.1
    days = [Day(name=str(first + n), gain=float(gain), rows=1.0) for n, gain in enumerate(gains)]
    known = {"days": days, "new_days": 1, "total": total, "needed": 40.0, "ahead": True}
    return {"evidence": {**known, **fields}}


def scored(nights, run, challenger, *, promote=False, lower_bound=None, **fields):
    return nights.night(run, challenger, promote=promote, lower_bound=lower_bound, **fields)


def grown(nights, total, last="30"):
    """Puts this much evidence against the present champion into the record."""

    def change(record):
        facts = {"wealth": (float(np.log(total)),) * 5, "last_day": last, "days": 31, "squares": 0.3, "all_days": 31}
        return changes.weigh(record, record.evidence_now()._with(**facts, all_rows=31.0))

    nights.registry.change(change)


def test_a_night_writes_its_days_with_its_record_and_says_so(nights, challengers, here):
    nights.night("one", challengers[0])
    assert nights.record.evidence is None
    outcome = scored(nights, "two", challengers[1], **check())
    evidence = nights.record.evidence
    assert (evidence.champion, evidence.days, evidence.last_day) == (1, 31, "30") and nights.record.format == 2
    assert outcome.code == "kept" and outcome.words.endswith(
        "; evidence so far: 1 of 40, at which a challenger that is ahead is promoted"
    )
    scored(nights, "three", challengers[2], **check(first=1))
    assert (nights.record.evidence.days, nights.record.evidence.last_day) == (32, "31")


def test_a_repeated_night_and_another_test_of_its_days_move_nothing(nights, challengers, here):
    nights.night("one", challengers[0])
    inputs = nights.inputs("two", challengers[1], promote=False, **check())
    release.release(inputs, nights.root, "digits")
    before = nights.record
    release.release(inputs, nights.root, "digits")
    release.release(replace(inputs, run="again"), nights.root, "digits")
    assert nights.record == before
    scored(nights, "three", challengers[2], **check(seed=2))
    assert nights.record.evidence == before.evidence and len(nights.record.spent) == 2


def test_two_runs_at_once_count_a_day_once(nights, challengers, here):
    nights.night("one", challengers[0])
    runs = [nights.inputs(f"run {n}", challengers[1 + n], promote=False, **check(seed=n)) for n in range(2)]
    with ThreadPoolExecutor(2) as pool:
        list(pool.map(lambda inputs: release.release(inputs, nights.root, "digits"), runs))
    assert len(nights.record.spent) == 2 and nights.record.evidence.days == nights.record.evidence.all_days == 31


def test_enough_evidence_promotes_and_begins_again_for_the_new_champion(nights, challengers, here):
    nights.night("one", challengers[0])
    grown(nights, 45.0)
    outcome = scored(nights, "two", challengers[1], promote=True, **check(first=1, total=45.0))
    assert outcome.code == "promoted" and "evidence" not in outcome.words
    evidence = nights.record.evidence
    assert (evidence.champion, evidence.total, evidence.days, evidence.last_day) == (2, 1.0, 0, "31")
    assert scored(nights, "three", challengers[2], **check(first=2)).words.endswith(
        "evidence so far: 1 of 40, at which a challenger that is ahead is promoted"
    )
    assert nights.record.evidence.days == 31 and nights.record.evidence.week_days == 1


def test_a_promotion_by_tonights_test_empties_the_evidence_and_keeps_its_days(nights, challengers, here):
    nights.night("one", challengers[0])
    grown(nights, 12.0)
    assert scored(nights, "two", challengers[1], promote=True, lower_bound=0.1, **check(first=1)).code == "promoted"
    assert (nights.record.evidence.champion, nights.record.evidence.last_day) == (2, "31")
    assert nights.record.evidence.total == 1.0


def test_evidence_that_another_run_used_up_first_promotes_nothing(nights, challengers, here):
    """Both runs saw enough evidence before; the first one's days took it below."""
    nights.night("one", challengers[0])
    grown(nights, 39.0)
    outcome = scored(nights, "two", challengers[1], promote=True, **check(total=45.0))
    assert outcome.code == "registered" and nights.record.aliases == {"champion": 1}
    assert nights.record.events[-1].why.endswith(
        "Not champion: another run counted these days first, and its evidence is not enough."
    )
    assert nights.record.evidence.total == pytest.approx(39.0)
    assert "; evidence so far: 3" in outcome.words


def test_days_against_a_champion_that_was_replaced_meanwhile_are_not_counted(nights, challengers, here):
    nights.night("one", challengers[0])
    inputs = nights.inputs("slow", challengers[2], lower_bound=0.1, **check())
    nights.night("fast", challengers[1])
    assert release.release(inputs, nights.root, "digits").code == "registered"
    assert nights.record.evidence is None and nights.record.aliases == {"champion": 2}


def test_a_used_up_year_stops_the_test_and_not_the_evidence(nights, challengers, here):
    nights.night("one", challengers[0])
    scored(nights, "two", challengers[1], level=0.05)
    grown(nights, 45.0)
    waits = scored(nights, "three", challengers[1], promote=True, lower_bound=0.1, margin=0.001,
                   **check(total=2.0))  # fmt: skip
    assert waits.code == "candidate"
    assert scored(nights, "four", challengers[2], promote=True, **check(first=1, total=45.0)).code == "promoted"
    assert [one.level for one in nights.record.spent] == [0.05, 0.0, 0.0]


def test_a_night_spends_the_share_of_both_halves_and_an_evidence_that_decides_alone_spends_nothing(
    nights, challengers, here
):
    nights.night("one", challengers[0])
    scored(nights, "two", challengers[1], level=1e-4, **check())
    scored(nights, "three", challengers[2], level=None, **check(first=1, needed=20.0, alone=True, worst_day=1.0))
    assert [one.level for one in nights.record.spent] == [2e-4, 0.0] and nights.record.evidence.needed == 20


def test_a_promotion_or_rollback_by_hand_empties_the_evidence(nights, challengers, here):
    nights.night("one", challengers[0])
    nights.night("two", challengers[1], approve="manual")
    grown(nights, 12.0)
    nights.registry.change(lambda r: changes.promote(r, 2, expected=1, who="ann", why="", key="p"))
    assert (nights.record.evidence.champion, nights.record.evidence.total) == (2, 1.0)
    grown(nights, 12.0, last="40")
    nights.registry.change(lambda r: changes.rollback(r, who="ann", why="", key="r"))
    evidence = nights.record.evidence
    assert (evidence.champion, evidence.total, evidence.days, evidence.last_day) == (1, 1.0, 0, "40")


# ---- what the step resolve hands on


def resolved(nights, run, champion="auto", **fields):
    record = nights.folder / run / "record"
    request = {"champion": champion, "registry": nights.root, "model_name": "digits", "data": __file__, **fields}
    return steps.resolve(
        record, run=run, to=str(nights.folder / "pins"), task="digits:Digits", pipeline="training", **request
    )


def handed_on(nights, run, **fields):
    return resolved(nights, run, **fields).outputs.terms.get("evidence")


def test_resolve_hands_on_the_evidence_against_the_registrys_champion_only(nights, challengers, here):
    assert handed_on(nights, "a") is None, "no champion"
    nights.night("one", challengers[0])
    first = handed_on(nights, "b")
    assert Evidence.model_validate(first) == nights.record.evidence_now() == Evidence().against(1)
    nights.night("two", challengers[1], approve="manual")
    grown(nights, 12.0)
    assert Evidence.model_validate(handed_on(nights, "c")).total == pytest.approx(12.0)
    assert handed_on(nights, "d", champion="2") is handed_on(nights, "e", champion="") is None
    folder = nights.record.champion().model
    assert handed_on(nights, "f", champion=folder) is None
    terms = resolved(nights, "g").outputs.terms
    assert steps.read_terms(terms).evidence == nights.record.evidence


def test_a_night_without_anything_new_finds_the_terms_of_the_last_one_so_that_its_decision_is_a_cache_hit(
    nights, challengers, here
):
    nights.night("one", challengers[0])
    pins = resolved(nights, "a")
    inputs = replace(nights.inputs("two", challengers[1], promote=False, **check()), pins=pins.uri)
    release.release(inputs, nights.root, "digits")
    again = resolved(nights, "b")
    assert nights.record.evidence.days == 31 and again.outputs.terms == pins.outputs.terms
    assert store.load(again.champion, ChampionPins).number == 1
    nights.registry.change(lambda r: changes.weigh(r, r.evidence_now()._with(pins="0" * 64)))
    assert resolved(nights, "c").outputs.terms["evidence"]["last_day"] == "30", "the last night had other data"


@pytest.mark.parametrize(
    ("given", "message"),
    [({"worst_day": -1.0}, "worst_day = -1.0: it must be above 0"),
     ({"worst_day": 1.0}, "makes the evidence of all nights decide alone, but the test rows have no days")],
)  # fmt: skip
def test_a_worst_day_that_cannot_be_is_refused_before_anything_is_trained(
    nights, challengers, here, capsys, given, message
):
    nights.night("one", challengers[0])
    with pytest.raises(SystemExit):
        resolved(nights, "a", **given)
    assert message in capsys.readouterr().err and not (nights.folder / "a").exists()


def test_a_worst_day_that_the_record_refutes_or_a_folder_is_refused_before_anything_is_trained(
    nights, challengers, here, capsys, monkeypatch
):
    from digits import Digits

    nights.night("one", challengers[0])
    grown(nights, 2.0)
    monkeypatch.setattr(Digits, "group", "day")
    with pytest.raises(SystemExit):
        resolved(nights, "a", worst_day=0.05)
    assert "worst_day = 0.05 is far below the days that were seen: " in capsys.readouterr().err
    with pytest.raises(SystemExit):
        resolved(nights, "b", worst_day=0.5, champion=nights.record.champion().model)
    assert "which a registry keeps for its champion only" in capsys.readouterr().err
    assert resolved(nights, "c", worst_day=0.5).outputs.terms["worst_day"] == 0.5
