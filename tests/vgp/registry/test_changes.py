"""What can be done to a record, and what cannot."""

import pytest

from tests.vgp.registry.records import WORDS, champion, key_of, promoted, registered, rolled_back, version
from vgp.base.exits import UserError
from vgp.registry import changes
from vgp.registry.changes import Conflict
from vgp.registry.documents import Record, Spent


def test_versions_are_numbered_in_turn_and_a_key_is_registered_once():
    record = registered("a", "b")
    again = changes.register(record, version("a", reason="another try"), who="run")
    assert again == record
    assert [one.number for one in record.versions] == [1, 2]
    assert [(one.number, one.what, one.version) for one in record.events] == [
        (1, "registered", 1),
        (2, "registered", 2),
    ]
    assert all(one.created.endswith("Z") for one in record.versions)


def test_a_version_is_promoted_only_over_the_champion_that_it_was_compared_with():
    record = promoted(registered("a", "b", "c"), 1)
    with pytest.raises(Conflict, match="the champion is now version 1, not none"):
        changes.promote(record, 2, expected=None, **WORDS, key="k")
    record = changes.promote(record, 2, expected=1, **WORDS, key="k")
    assert champion(record) == 2
    assert record.events[-1].before == 1 and record.events[-1].who == "ana" and record.events[-1].why == "a reason"


def test_a_change_by_a_key_is_not_repeated_even_after_a_rollback():
    record = promoted(registered("a", "b"), 1)
    record = changes.promote(record, 2, expected=1, **WORDS, key="the run")
    record = rolled_back(record)
    assert changes.promote(record, 2, expected=1, **WORDS, key="the run") == record
    assert champion(record) == 1


def test_a_rollback_goes_to_what_the_champion_replaced_and_repeated_nowhere():
    record = rolled_back(promoted(registered("a", "b", "c"), 1, 2, 3))
    assert champion(record) == 2 and record.events[-1].before == 3
    assert rolled_back(record) == record
    assert rolled_back(record, expected=3) == record


def test_a_rollback_goes_further_back_only_from_the_version_that_is_named():
    record = rolled_back(rolled_back(promoted(registered("a", "b", "c"), 1, 2, 3)), expected=2)
    assert champion(record) == 1
    assert rolled_back(record, expected=2) == record
    with pytest.raises(UserError, match="version 1 has no predecessor"):
        rolled_back(record, expected=1)
    with pytest.raises(Conflict, match="the champion is version 1, not version 3"):
        rolled_back(record, expected=3)


def test_a_rollback_after_a_promotion_that_followed_a_rollback_goes_to_what_reigned_then():
    record = promoted(rolled_back(promoted(registered("a", "b", "c"), 1, 2)), 3)
    assert changes.list_champions(record) == [1, 3]
    assert champion(rolled_back(record)) == 1


def test_a_rollback_passes_over_versions_that_are_deleted():
    record = promoted(registered("a", "b"), 1, 2, 1)
    record = changes.delete(record, 2, **WORDS, key="d")
    with pytest.raises(UserError, match="version 1 has no predecessor: it replaced no existing version"):
        rolled_back(record)
    record = promoted(changes.register(record, version("c"), who="run"), 3)
    assert champion(rolled_back(record)) == 1


def test_without_a_champion_nothing_is_rolled_back():
    with pytest.raises(UserError, match="flights has no champion"):
        rolled_back(registered("a"))
    gone = changes.unalias(promoted(registered("a", "b"), 1, 2), "champion", **WORDS, key="u")
    assert champion(gone) is None
    with pytest.raises(UserError, match="no champion"):
        rolled_back(gone)
    with pytest.raises(UserError, match="version 1 has no predecessor"):
        rolled_back(promoted(gone, 1))


def test_the_target_of_an_alias_is_neither_deleted_nor_rejected():
    record = changes.alias(promoted(registered("a", "b"), 1), "stable", 2, **WORDS, key="s")
    with pytest.raises(UserError, match="version 1 is not deleted: it is champion. First promote another version"):
        changes.delete(record, 1, **WORDS, key="d")
    with pytest.raises(UserError, match="version 2 is not rejected: it is stable. First unalias stable"):
        changes.reject(record, 2, **WORDS, key="r")
    record = changes.unalias(record, "stable", **WORDS, key="u")
    record = changes.delete(record, 2, **WORDS, key="d")
    assert record.versions[1].state == "deleted" and changes.delete(record, 2, **WORDS, key="e") == record


@pytest.mark.parametrize("done", ["delete", "reject"])
def test_what_was_deleted_or_rejected_is_not_promoted(done):
    record = getattr(changes, done)(registered("a", "b"), 1, who="ana", why="too slow", key="k")
    with pytest.raises(
        UserError, match=rf"version 1 of flights was {done}e?d on .* by ana \(too slow\). Take version 2\."
    ):
        promoted(record, 1)
    with pytest.raises(UserError, match="was"):
        changes.alias(record, "stable", 1, **WORDS, key="a")


def test_a_candidate_waits_under_its_alias_until_a_person_promotes_or_rejects_it():
    record = promoted(registered("a"), 1)
    record = changes.register(record, version("b", state="candidate"), who="run")
    assert record.aliases == {"champion": 1, "candidate": 2} and record.events[-1].alias == "candidate"
    taken = promoted(record, 2)
    assert taken.aliases == {"champion": 2} and taken.versions[1].state == "registered"
    assert [one.what for one in taken.events[-2:]] == ["approved", "promoted"]
    named = changes.alias(registered("a"), "candidate", 1, **WORDS, key="n")
    assert promoted(named, 1).aliases == {"champion": 1}
    refused = changes.reject(record, 2, **WORDS, key="r")
    assert refused.aliases == {"champion": 1} and refused.versions[1].state == "rejected"


@pytest.mark.parametrize("name", ["Stable", "7", "a", "-a", "a-", "default", "a b", "a" * 129, "ä1", ""])
def test_an_alias_that_vertex_ai_would_not_take_is_refused(name):
    with pytest.raises(UserError, match="is not a valid alias: it needs 2 to 128 letters, digits and dashes"):
        changes.alias(registered("a"), name, 1, **WORDS, key="k")


def test_an_alias_moves_and_the_champions_is_moved_by_promotions_alone():
    record = changes.alias(registered("a", "b"), "stable", 1, **WORDS, key="1")
    assert changes.alias(record, "stable", 1, **WORDS, key="2") == record
    record = changes.alias(record, "stable", 2, **WORDS, key="3")
    assert record.aliases == {"stable": 2} and record.events[-1].before == 1
    with pytest.raises(UserError, match="moved by promote and rollback"):
        changes.alias(record, "champion", 2, **WORDS, key="4")
    with pytest.raises(UserError, match="flights has no version 9. Take one of 1, 2."):
        changes.alias(record, "stable", 9, **WORDS, key="5")


def test_a_challenger_that_was_not_better_is_an_event_and_its_level_is_spent_once():
    record = promoted(registered("a"), 1)
    spent = Spent(key=key_of("b"), at="2026-11-22T10:00:00Z", level=0.05 / 365, version=1, outcome="keep")
    for _ in range(2):
        record = changes.spend(changes.keep(record, **WORDS, key=key_of("b")), spent)
    assert record.spent == (spent,)
    assert [(one.what, one.version, one.before) for one in record.events[2:]] == [("kept", None, 1)]


def test_a_metric_that_is_no_number_is_left_out():
    assert version("a", metrics={"auc": 0.7, "loss": float("nan"), "rows": 3}).metrics == {"auc": 0.7, "rows": 3}


@pytest.mark.parametrize("name", ["../registry.json", "/etc/passwd", "a//b", ".", "a/.."])
def test_a_file_of_a_version_lies_below_its_folder(name):
    with pytest.raises(ValueError, match="names no file below the version's folder"):
        version("a", files={name: {"bytes": 1, "sha256": key_of("")}})


@pytest.mark.parametrize(
    ("broken", "message"),
    [
        ({"aliases": {"champion": 2}}, "the alias champion names version 2, which does not exist"),
        ({"events": registered("a", "b").events[1:]}, "events are not numbered"),
        ({"versions": (*registered("a").versions, version("a", number=2))}, "two versions have one key"),
        ({"versions": (version("a", number=2),)}, "versions are not numbered"),
    ],
)
def test_a_record_that_contradicts_itself_is_none(broken, message):
    values = {**dict(registered("a")), **broken}
    with pytest.raises(ValueError, match=message):
        Record(**values)
