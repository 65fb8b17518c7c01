"""Changes of a registry record: functions that return the changed record, and read nothing but the clock.

A change has a `key`, and is made once: if the record has an event of this kind with this key, it is returned unchanged.
A change raises UserError if it is not possible, and Conflict if the champion is not the expected version.
"""

import re
from itertools import groupby
from typing import Any

from vgp.base.exits import UserError
from vgp.base.text.printable import quote
from vgp.registry.documents import CANDIDATE, CHAMPION, Event, Record, Spent, State, Version, What, now
from vgp.registry.evidence import Evidence

#: https://cloud.google.com/vertex-ai/docs/reference/rest/v1/projects.locations.models#Model.FIELDS.version_aliases
ALIAS = re.compile(r"[a-z][a-zA-Z0-9-]{0,126}[a-z0-9]")
RESERVED = ("default",)


class Conflict(Exception):
    """The champion is not the version that the caller expected."""


def register(record: Record, version: Version, *, who: str, why: str = "") -> Record:
    """Adds the version with the next number; a candidate also gets the alias `candidate`."""
    if record.find_key(version.key):
        return record
    number = len(record.versions) + 1
    version = version.model_copy(update={"number": number, "created": version.created or now()})
    record = record.model_copy(update={"versions": (*record.versions, version)})
    before, name = None, ""
    if version.state == "candidate":
        before, name, record = record.aliases.get(CANDIDATE), CANDIDATE, _set_alias(record, CANDIDATE, number)
    why = why or version.reason
    return _add_event(record, "registered", number, who=who, why=why, key=version.key, before=before, alias=name)


def promote(record: Record, number: int, *, expected: int | None, who: str, why: str, key: str) -> Record:
    """Makes the version champion; does nothing if it is already.

    Args:
        expected: The version that must be champion now; None = there must be no champion.

    Raises:
        Conflict: another version is champion.
    """
    if record.event("promoted", key):
        return record
    version = find_usable(record, number)
    before = record.aliases.get(CHAMPION)
    if before == number:
        return record
    if before != expected:
        raise Conflict(f"the champion is now {_describe(before)}, not {_describe(expected)}")
    if version.state == "candidate":
        record = approve(record, number, who=who, why=why, key=key)
    record = _set_alias(_without_alias(record, number, CANDIDATE), CHAMPION, number)
    return _add_event(record, "promoted", number, who=who, why=why, key=key, before=before, alias=CHAMPION)


def rollback(record: Record, *, expected: int | None = None, who: str, why: str, key: str) -> Record:
    """Makes the version that the champion replaced champion again.

    Does nothing if the champion came by a rollback; give its number to roll it back further.

    Args:
        expected: The version to roll back; None = the last promoted one.
    """
    if record.event("rolled_back", key) or find_same_rollback(record, expected):
        return record
    champions, champion = list_champions(record), record.aliases.get(CHAMPION)
    if champion is None:
        raise UserError(f"{record.model} has no champion to roll back. Promote a version.")
    if expected is not None and expected != champion:
        find_usable(record, expected)
        raise Conflict(f"the champion is {_describe(champion)}, not {_describe(expected)}")
    if len(champions) < 2:
        raise UserError(
            f"version {champion} has no predecessor: it replaced no existing version. Promote another version, or "
            "remove its alias: unalias champion."
        )
    record = _set_alias(record, CHAMPION, champions[-2])
    return _add_event(record, "rolled_back", champions[-2], who=who, why=why, key=key, before=champion, alias=CHAMPION)


def alias(record: Record, name: str, number: int, *, who: str, why: str, key: str) -> Record:
    """Makes the name an alias of the version; another version loses it."""
    check_alias(name)
    before = record.aliases.get(name)
    if record.event("aliased", key) or (find_usable(record, number) and before == number):
        return record
    record = _set_alias(record, name, number)
    return _add_event(record, "aliased", number, who=who, why=why, key=key, before=before, alias=name)


def unalias(record: Record, name: str, *, who: str, why: str, key: str) -> Record:
    """Removes the alias, if there is one."""
    before = record.aliases.get(name)
    if record.event("unaliased", key) or before is None:
        return record
    record = _set_alias(record, name, None)
    return _add_event(record, "unaliased", before, who=who, why=why, key=key, before=before, alias=name)


def approve(record: Record, number: int, *, who: str, why: str, key: str) -> Record:
    """Approves a candidate."""
    if record.event("approved", key) or find_version(record, number).state == "registered":
        return record
    find_usable(record, number)
    return _decide(record, number, "registered", "approved", who=who, why=why, key=key)


def reject(record: Record, number: int, *, who: str, why: str, key: str) -> Record:
    """Rejects the version, so that it cannot be promoted."""
    if record.event("rejected", key) or find_version(record, number).state == "rejected":
        return record
    find_usable(record, number)
    record = _without_alias(record, number, CANDIDATE)
    _require_no_alias(record, number, "rejected")
    return _decide(record, number, "rejected", "rejected", who=who, why=why, key=key)


def delete(record: Record, number: int, *, who: str, why: str, key: str) -> Record:
    """Marks the version as deleted; its number and history stay. Refuses a version with an alias."""
    if record.event("deleted", key) or find_version(record, number).state == "deleted":
        return record
    _require_no_alias(record, number, "deleted")
    return _add_event(_set_state(record, number, "deleted"), "deleted", number, who=who, why=why, key=key)


def keep(record: Record, *, who: str, why: str, key: str) -> Record:
    """Records that a challenger was not better and the champion stays."""
    if record.event("kept", key):
        return record
    champion = record.aliases.get(CHAMPION)
    return _add_event(record, "kept", None, who=who, why=why, key=key, before=champion, alias=CHAMPION)


def spend(record: Record, spent: Spent) -> Record:
    """Records the level of a test, once per key."""
    if any(test.key == spent.key for test in record.spent):
        return record
    return record.model_copy(update={"spent": (*record.spent, spent)})


def weigh(record: Record, evidence: Evidence) -> Record:
    """Records the evidence after a night."""
    return record.model_copy(update={"format": 2, "evidence": evidence})


def list_champions(record: Record) -> list[int]:
    """Returns the stack of champions, the present one last: a promotion pushes, a rollback pops.

    Deleted and rejected versions are skipped.
    """
    stack: list[int] = []
    for event in record.events:
        if event.alias != CHAMPION or event.version is None:
            continue
        if event.what == "promoted":
            stack.append(event.version)
        elif event.what == "unaliased":
            stack.clear()
        elif event.what == "rolled_back":
            while stack and stack[-1] != event.version:
                stack.pop()
    usable = [number for number in stack if record.versions[number - 1].state not in ("deleted", "rejected")]
    return [number for number, _ in groupby(usable)]


def find_same_rollback(record: Record, expected: int | None) -> Event | None:
    """Returns the rollback that made the present champion, if the same rollback is requested again."""
    events = reversed(record.events)
    last = next((event for event in events if event.alias == CHAMPION and event.what != "kept"), None)
    if last is None or last.what != "rolled_back" or expected not in (None, last.before):
        return None
    return last


def check_alias(name: str) -> None:
    """Raises UserError if the alias is invalid on Vertex AI, or is `champion`."""
    if name == CHAMPION:
        raise UserError("the alias champion is moved by promote and rollback only.")
    if not ALIAS.fullmatch(name) or name in RESERVED:
        reserved = f" and not {', '.join(RESERVED)}, which Vertex AI keeps for itself" if name in RESERVED else ""
        raise UserError(
            f"{quote(name)} is not a valid alias: it needs 2 to 128 letters, digits and dashes, a small "
            f"letter first, and a small letter or digit last{reserved}."
        )


def find_usable(record: Record, number: int) -> Version:
    """Returns the version. Raises UserError if it does not exist, or is deleted or rejected."""
    version = find_version(record, number)
    if version.state in ("deleted", "rejected"):
        by = _describe_event(record, number, version.state)
        raise UserError(f"version {number} of {record.model} was {version.state}{by}. {suggest_versions(record)}")
    return version


def _describe_event(record: Record, number: int, kind: str) -> str:
    events = (event for event in reversed(record.events) if event.version == number and event.what == kind)
    event = next(events, None)
    return "" if event is None else f" on {event.at} by {event.who}" + (f" ({event.why})" if event.why else "")


def suggest_versions(record: Record) -> str:
    """Returns a sentence that lists the usable versions."""
    numbers = [str(version.number) for version in record.versions if version.state not in ("deleted", "rejected")]
    if numbers:
        return f"Take {'one of' if numbers[1:] else 'version'} {', '.join(numbers[-10:])}."
    return "It has no usable version; the next run with a better model registers one."


def find_version(record: Record, number: int) -> Version:
    """Returns the version in any state. Raises UserError if it never existed."""
    version = record.version(number)
    if version is None:
        raise UserError(f"{record.model} has no version {number}. {suggest_versions(record)}")
    return version


def _require_no_alias(record: Record, number: int, action: str) -> None:
    if names := record.aliases_of(number):
        fix = "promote another version or roll back" if CHAMPION in names else f"unalias {names[0]}"
        raise UserError(f"version {number} is not {action}: it is {' and '.join(names)}. First {fix}.")


def _decide(record: Record, number: int, state: State, what: What, **facts: str) -> Record:
    """Sets the state of a version, which is no candidate afterwards, and adds the event."""
    record = _without_alias(record, number, CANDIDATE)
    return _add_event(_set_state(record, number, state), what, number, **facts)


def _without_alias(record: Record, number: int, name: str) -> Record:
    """Returns the record without the alias, if it is an alias of this version."""
    return _set_alias(record, name, None) if record.aliases.get(name) == number else record


def _set_alias(record: Record, name: str, number: int | None) -> Record:
    others = {alias: target for alias, target in record.aliases.items() if alias != name}
    record = record.model_copy(update={"aliases": others if number is None else {**others, name: number}})
    if name == CHAMPION and record.evidence:  # it was about the champion before
        return record.model_copy(update={"evidence": record.evidence.against(number)})
    return record


def _set_state(record: Record, number: int, state: State) -> Record:
    versions = [
        version.model_copy(update={"state": state}) if version.number == number else version
        for version in record.versions
    ]
    return record.model_copy(update={"versions": tuple(versions)})


def _add_event(record: Record, what: What, version: int | None, **facts: Any) -> Record:
    event = Event(number=len(record.events) + 1, at=now(), what=what, version=version, **facts)
    return record.model_copy(update={"events": (*record.events, event)})


def _describe(number: int | None) -> str:
    return "none" if number is None else f"version {number}"
