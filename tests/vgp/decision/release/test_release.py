"""What becomes of a model once the gate has spoken, on real models of digits."""

import shutil
import subprocess
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from unittest.mock import create_autospec

import pytest

from vgp.base.exits import ProcessFailed, UserError
from vgp.decision.release import release
from vgp.protocol import pins as store
from vgp.registry import changes, reigning


def list_events(record):
    return [(event.what, event.version, event.before) for event in record.events]


def test_a_better_model_is_copied_checked_and_champion_and_the_first_spends_nothing(nights, challengers):
    """Loaded in a process of its own, it predicts what was evaluated."""
    outcome = nights.night("first", challengers[0])
    record = nights.record
    assert outcome.code == "promoted"
    assert outcome.words == f"registered as version 1, champion since {record.events[-1].at}"
    assert list_events(record) == [("registered", 1, None), ("promoted", 1, None)]
    version = record.champion()
    assert set(version.files) == {
        "model.json", "model.safetensors", "about/decision.json", "about/metrics.json", "about/report.html",
        "about/card.html",
    }  # fmt: skip
    page = (Path(version.model) / "about" / "card.html").read_text()
    assert "Found better by first" in page and "Promote: first." in page
    assert "Promoted by" not in page, "only the record knows the alias"
    assert (version.run, version.task, version.reason) == ("first", "digits:Digits", "Promote: first.")
    assert version.metrics["accuracy"] > 0.3 and version.report.endswith("/about/report.html")
    assert record.spent == ()


def test_a_version_names_the_image_that_can_serve_it_and_not_the_light_one_that_registers_it(
    nights, challengers, monkeypatch
):
    monkeypatch.setenv("TRAINING_IMAGE", "i@sha256:light")
    monkeypatch.setenv("TRAINING_STEP_IMAGE", "i@sha256:gpu")
    nights.night("first", challengers[0])
    assert nights.record.champion().image == "i@sha256:gpu"


def test_each_night_has_the_champion_of_the_one_before_and_nothing_new_changes_nothing(nights, challengers, here):
    nights.night("one", challengers[0])
    outcome = nights.night("two", challengers[1])
    assert outcome.words.endswith("in place of version 1") and nights.record.aliases == {"champion": 2}
    same = nights.night("three", challengers[1], promote=False, reason="Keep: the same.", same=True, level=None)
    assert (same.code, nights.record.events[-1].what) == ("kept", "kept")
    assert same.words.startswith("not registered, version 2 stays the champion, since ")
    record = nights.record
    again = nights.night("four", challengers[1], promote=False, reason="Keep: the same.", same=True, level=None)
    assert again.code == "nothing new" and again.words.startswith("nothing new; three decided")
    assert nights.record == record
    assert [(spent.level, spent.version, spent.outcome) for spent in record.spent] == [(1e-4, 1, "promote")]


def test_after_a_rollback_the_same_nights_promote_nothing_again(nights, challengers, here):
    """A cache hit of the night that promoted, and the same weights tested against the champion that is back."""
    nights.night("one", challengers[0])
    asked = nights.inputs("two", challengers[1])
    release.release(asked, nights.root, "digits")
    nights.registry.change(lambda r: changes.rollback(r, who="ann", why="late features", key="r1"))
    outcome = nights.night("three", challengers[1])
    assert outcome.code == "nothing new" and outcome.words.endswith("by ann; the champion is version 1 now")
    assert "registered as version 2, rolled back on 20" in outcome.words
    tested_anew = nights.night("four", challengers[1], margin=0.001)
    event = nights.record.events[-1]
    assert (tested_anew.code, event.what) == ("kept", "kept")
    assert event.why.startswith("Not registered: version 2 has the same weights, and was taken back on 20")
    assert event.why.endswith(" by ann: late features.")
    assert tested_anew.words.startswith("not registered, version 1 stays the champion, since 20")
    assert tested_anew.words.endswith(f": {event.why.removeprefix('Not registered: ').removesuffix('.')}")
    assert nights.record.aliases == {"champion": 1} and len(nights.record.versions) == 2
    assert nights.night("five", challengers[2]).code == "promoted"


def test_the_alias_is_taken_only_from_the_champion_that_was_compared(nights, challengers, here):
    inputs = nights.inputs("slow", challengers[1])
    nights.night("fast", challengers[0])
    outcome = release.release(inputs, nights.root, "digits")
    assert (outcome.code, nights.record.aliases) == ("registered", {"champion": 1})
    assert outcome.words == (
        "registered as version 2, not champion: compared with no version of this registry; the champion is version 1 "
        "now"
    )
    assert nights.record.events[-1].why.endswith("while the champion is version 1 by now.")


def test_a_champion_that_was_deleted_meanwhile_is_an_outcome_in_words(nights, challengers, here):
    nights.night("one", challengers[0])
    inputs = nights.inputs("two", challengers[1])
    for change in (
        lambda r: changes.unalias(r, "champion", who="ann", why="", key="u"),
        lambda r: changes.delete(r, 1, who="ann", why="private rows", key="d"),
    ):
        nights.registry.change(change)
    outcome = release.release(inputs, nights.root, "digits")
    assert outcome.words == "registered as version 2, not champion: compared with version 1; the champion is none now"


def test_a_model_that_was_not_better_is_tested_anew_once_the_champion_is_gone(nights, challengers, here):
    nights.night("one", challengers[0])
    assert nights.night("two", challengers[1], promote=False).code == "kept"
    (Path(nights.record.champion().model) / "model.safetensors").unlink()
    assert nights.night("three", challengers[1], reference="baseline").code == "promoted"


def test_a_registry_that_was_moved_hands_on_where_its_versions_lie_now(nights, challengers, here):
    nights.night("one", challengers[0])
    (nights.folder / "registry").rename(nights.folder / "moved")
    moved = replace(nights, root=str(nights.folder / "moved"))
    saved = moved.night("two", challengers[0]).read()
    assert saved["versions"][0]["model"] == moved.registry.version_folder(saved["versions"][0]["key"])


def test_a_better_model_waits_for_a_person_where_the_tests_of_a_year_have_used_up_its_error(nights, challengers, here):
    nights.night("one", challengers[0])
    assert nights.night("two", challengers[1], promote=False, level=0.045).code == "kept"
    outcome = nights.night("three", challengers[2], level=0.01)
    assert (outcome.code, nights.record.aliases) == ("candidate", {"champion": 1, "candidate": 2})
    why = nights.record.events[-1].why
    assert why.startswith("Promote: three. Not champion: the 5% error budget of a year's tests is used up until 20")
    assert outcome.words == (
        "registered as version 2, which waits as a candidate: vgp models promote 2 --model digits; "
        + why.removeprefix("Promote: three. Not champion: ").removesuffix(".")
    )
    assert outcome.words.endswith(": 1 test took 4.5%, and one more would take 1%") and len(outcome.words) <= 300
    again = nights.night("four", challengers[2], level=0.01)
    assert again.words == f"nothing new; three decided on this model already: {outcome.words}"
    nights.registry.change(lambda r: changes.promote(r, 2, expected=1, who="ann", why="looked at it", key="p"))
    assert nights.record.aliases == {"champion": 2}, "a person's word needs none of the year's error"


def test_a_test_that_could_promote_nothing_takes_nothing_of_the_year(nights, challengers, here):
    """What was found does not matter, nor whether a person is asked: else one run too many would block a year's."""
    nights.night("one", challengers[0])
    nights.night("two", challengers[1], promote=False, level=0.045)
    nights.night("three", challengers[2], promote=False, level=0.01)
    nights.night("four", challengers[2], promote=False, level=0.01, margin=0.001, approve="manual")
    assert [spent.level for spent in nights.record.spent] == [0.045, 0.0, 0.0]
    assert nights.night("five", challengers[2], level=0.005, margin=0.002).code == "promoted"
    assert [spent.level for spent in nights.record.spent] == [0.045, 0.0, 0.0, 0.005]


def test_a_candidate_that_a_person_is_asked_about_takes_its_part_of_the_year(nights, challengers, here):
    nights.night("one", challengers[0])
    assert nights.night("two", challengers[1], level=0.05, approve="manual").words.endswith("--model digits")
    nights.registry.change(lambda r: changes.promote(r, 2, expected=1, who="ann", why="", key="p"))
    assert nights.night("three", challengers[2], level=0.05).code == "candidate"


def test_a_person_is_asked_and_decides(nights, challengers, here):
    nights.night("one", challengers[0])
    outcome = nights.night("two", challengers[1], approve="manual")
    assert nights.record.aliases == {"champion": 1, "candidate": 2} and outcome.code == "candidate"
    assert outcome.words.endswith("waits as a candidate: vgp models promote 2 --model digits")
    nights.registry.change(lambda r: changes.promote(r, 2, expected=1, who="ann", why="looked at it", key="p"))
    assert nights.night("two", challengers[1], approve="manual", champion=inputs_of(nights, 1)).words.startswith(
        "registered as version 2, champion since"
    )


def test_a_model_that_a_simple_one_beats_waits_with_the_reason_until_its_owner_says_otherwise(
    nights, challengers, here
):
    rival = {"model": "boosting", "value": 0.1, "difference": 0.2, "lower_bound": 0.1, "upper_bound": 0.3}
    waits = {"promote": False, "candidate": True, "reason": "Candidate: boosting is better.", "rivals": [rival]}
    for number, champion in ((1, None), (2, 2)):
        outcome = nights.night(f"night {number}", challengers[number], **waits)
        assert outcome.code == "candidate" and outcome.words.endswith("; a simpler model is better")
        assert nights.record.aliases.get("champion") == champion and outcome.version.reason == waits["reason"]
        if champion is None:
            said = {**waits, "promote": True, "candidate": False, "reason": "Promote: all the same."}
            forced = nights.night("said", challengers[1], approve="despite_rivals", **said)
            assert forced.code == "promoted" and nights.record.events[-1].why == "Promote: all the same."
    assert [spent.outcome for spent in nights.record.spent] == ["candidate"]


def inputs_of(nights, number):
    """The pins of a version that reigned."""
    record = nights.record
    return store.save(f"{nights.folder}/pins", reigning.pin(nights.registry, record, record.version(number), 1))


def test_a_model_that_nothing_judges_is_for_a_person_only(nights, challengers, here):
    undecided = {"promote": False, "decided": False, "reason": "Not decided.", "level": None}
    outcome = nights.night("one", challengers[0], **undecided)
    assert (outcome.code, nights.record.events) == ("not decided", ())
    assert nights.night("two", challengers[0], approve="manual", **undecided).code == "candidate"


def test_the_same_step_again_is_told_the_same_and_another_run_that_it_is_not_new(nights, challengers, here):
    first = nights.night("one", challengers[0])
    asked = nights.inputs("one", challengers[0], champion="")
    assert release.release(asked, nights.root, "digits").words == first.words
    assert (
        nights.night("one", challengers[0], champion="", again="two").words
        == f"nothing new; one decided on this model already: {first.words}"
    )


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (lambda data: data[: len(data) // 2], "cannot be read as weights"),
        (lambda data: data[:-64] + bytes(64), "predictions differ from the evaluated ones"),
    ],
)
def test_a_copy_that_is_not_what_was_evaluated_is_not_registered(nights, challengers, tmp_path, damage, message, here):
    """The evaluated weights were others than those that came to lie in the model's folder."""
    model = shutil.copytree(challengers[0].model, tmp_path / "model")
    weights = model / "model.safetensors"
    weights.write_bytes(damage(weights.read_bytes()))
    with pytest.raises((UserError, ProcessFailed), match=message):
        nights.night("one", replace(challengers[0], model=model))
    assert not nights.record.events and not nights.record.versions


def test_the_clean_process_tells_in_one_sentence_why_the_copy_failed(monkeypatch):
    said = "warning: slow\nerror: /versions/1 holds no model.json.\n"
    done = subprocess.CompletedProcess([], 2, stdout="", stderr=said)
    monkeypatch.setattr(release.subprocess, "run", create_autospec(subprocess.run, return_value=done))
    with pytest.raises(
        ProcessFailed, match=r"failed its check and was not registered: /versions/1 holds no model.json"
    ):
        release.check_copy("/versions/1", "data", "evaluation", "digits:Digits")


def test_of_many_that_end_at_once_one_is_champion_and_the_history_has_no_gap(nights, challengers, here, monkeypatch):
    monkeypatch.setattr(release, "check_copy", lambda *words: release.Checked(297, 297, 297, 0.0))
    asked = [nights.inputs(f"run-{i}", challengers[i % 3], champion="", reference="champion", margin=i / 1000)
             for i in range(30)]  # fmt: skip
    with ThreadPoolExecutor(16) as pool:
        outcomes = list(pool.map(lambda inputs: release.release(inputs, nights.root, "digits"), asked))
    record = nights.record
    assert Counter(outcome.code for outcome in outcomes) == {"promoted": 1, "registered": 29}
    assert [event.number for event in record.events] == list(range(1, 32)) and len(record.spent) == 30
    (first,) = [event for event in record.events if event.what == "promoted"]
    assert record.aliases == {"champion": first.version} and record.version(first.version).run == first.who
