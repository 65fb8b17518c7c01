"""Changes of a registry record, as functions from a record to the next one that only read the clock.

Each is done once for each `key`: where an event of its kind has that key already, the record comes back as it is. Any
may raise UserError, in words; `Conflict` where the champion is another than the caller had seen.
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
    """The champion changed since the challenger was compared with it."""


def register(record: Record, version: Version, *, who: str, why: str = "") -> Record:
    """Adds the version with the next number; a candidate also gets the alias `candidate`."""
    if record.keyed(version.key):
        return record
    number = len(record.versions) + 1
    made = version.model_copy(update={"number": number, "created": version.created or now()})
    record = record.model_copy(update={"versions": (*record.versions, made)})
    before = None
    if made.state == "candidate":
        before, record = record.aliases.get(CANDIDATE), _pointed(record, CANDIDATE, number)
    return _told(record, "registered", number, who=who, why=why or version.reason, key=version.key, before=before,
                 alias=CANDIDATE if made.state == "candidate" else "")  # fmt: skip


def promote(record: Record, number: int, *, expected: int | None, who: str, why: str, key: str) -> Record:
    """Makes the version champion; does nothing if it is already.

    Args:
        expected: The version that must be champion now; None = there must be no champion.

    Raises:
        Conflict: another version is champion.
    """
    if record.event("promoted", key):
        return record
    version = usable(record, number)
    before = record.aliases.get(CHAMPION)
    if before == number:
        return record
    if before != expected:
        raise Conflict(f"the champion is {_named(before)} by now, and not {_named(expected)}")
    if version.state == "candidate":
        record = approve(record, number, who=who, why=why, key=key)
    record = _pointed(_without(record, number, CANDIDATE), CHAMPION, number)
    return _told(record, "promoted", number, who=who, why=why, key=key, before=before, alias=CHAMPION)


def rollback(record: Record, *, expected: int | None = None, who: str, why: str, key: str) -> Record:
    """Makes the version that the champion replaced champion again.

    Does nothing if the champion came by a rollback; give its number to roll it back further.

    Args:
        expected: The version to roll back; None = the last promoted one.
    """
    if record.event("rolled_back", key) or rolled_back_already(record, expected):
        return record
    reigns, champion = reigned(record), record.aliases.get(CHAMPION)
    if champion is None:
        raise UserError(f"{record.model} has no champion to roll back. Promote a version.")
    if expected is not None and expected != champion:
        usable(record, expected)
        raise Conflict(f"the champion is {_named(champion)}, not {_named(expected)}")
    if len(reigns) < 2:
        raise UserError(
            f"version {champion} has no predecessor: it replaced no existing version. Promote another version, or "
            "remove its alias: unalias champion."
        )
    record = _pointed(record, CHAMPION, reigns[-2])
    return _told(record, "rolled_back", reigns[-2], who=who, why=why, key=key, before=champion, alias=CHAMPION)


def alias(record: Record, name: str, number: int, *, who: str, why: str, key: str) -> Record:
    """The name for that version, and no longer for another."""
    check_alias(name)
    before = record.aliases.get(name)
    if record.event("aliased", key) or (usable(record, number) and before == number):
        return record
    return _told(
        _pointed(record, name, number), "aliased", number, who=who, why=why, key=key, before=before, alias=name
    )


def unalias(record: Record, name: str, *, who: str, why: str, key: str) -> Record:
    """Removes the alias, if there is one."""
    before = record.aliases.get(name)
    if record.event("unaliased", key) or before is None:
        return record
    return _told(
        _pointed(record, name, None), "unaliased", before, who=who, why=why, key=key, before=before, alias=name
    )


def approve(record: Record, number: int, *, who: str, why: str, key: str) -> Record:
    """Approves a candidate."""
    if record.event("approved", key) or known(record, number).state == "registered":
        return record
    usable(record, number)
    return _judged(record, number, "registered", "approved", who=who, why=why, key=key)


def reject(record: Record, number: int, *, who: str, why: str, key: str) -> Record:
    """Rejects the version, so that it cannot be promoted."""
    if record.event("rejected", key) or known(record, number).state == "rejected":
        return record
    usable(record, number)
    record = _without(record, number, CANDIDATE)
    _require_no_alias(record, number, "rejected")
    return _judged(record, number, "rejected", "rejected", who=who, why=why, key=key)


def delete(record: Record, number: int, *, who: str, why: str, key: str) -> Record:
    """Marks the version as deleted; its number and history stay. Refuses a version with an alias."""
    if record.event("deleted", key) or known(record, number).state == "deleted":
        return record
    _require_no_alias(record, number, "deleted")
    return _told(_in_state(record, number, "deleted"), "deleted", number, who=who, why=why, key=key)


def keep(record: Record, *, who: str, why: str, key: str) -> Record:
    """Records that a challenger was not better and the champion stays."""
    if record.event("kept", key):
        return record
    champion = record.aliases.get(CHAMPION)
    return _told(record, "kept", None, who=who, why=why, key=key, before=champion, alias=CHAMPION)


def spend(record: Record, spent: Spent) -> Record:
    """Records the level of a test, once per key."""
    if any(one.key == spent.key for one in record.spent):
        return record
    return record.model_copy(update={"spent": (*record.spent, spent)})


def weigh(record: Record, evidence: Evidence) -> Record:
    """Records the evidence after a night."""
    return record.model_copy(update={"format": 2, "evidence": evidence})


def reigned(record: Record) -> list[int]:
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
    there = [number for number in stack if record.versions[number - 1].state not in ("deleted", "rejected")]
    return [number for number, _ in groupby(there)]


def rolled_back_already(record: Record, expected: int | None) -> Event | None:
    """Returns the rollback that made the present champion, if the same rollback is requested again."""
    last = next((one for one in reversed(record.events) if one.alias == CHAMPION and one.what != "kept"), None)
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


def usable(record: Record, number: int) -> Version:
    """Returns the version. Raises UserError if it does not exist, or is deleted or rejected."""
    version = known(record, number)
    if version.state in ("deleted", "rejected"):
        told = (one for one in reversed(record.events) if one.version == number and one.what == version.state)
        by = next((f" on {one.at} by {one.who}" + (f" ({one.why})" if one.why else "") for one in told), "")
        raise UserError(f"version {number} of {record.model} was {version.state}{by}. {choice(record)}")
    return version


def choice(record: Record) -> str:
    """Returns a sentence that lists the usable versions."""
    there = [str(one.number) for one in record.versions if one.state not in ("deleted", "rejected")]
    if there:
        return f"Take {'one of' if there[1:] else 'version'} {', '.join(there[-10:])}."
    return "It has none that can be used: a run whose model is better registers the next."


def known(record: Record, number: int) -> Version:
    """Returns the version in any state. Raises UserError if it never existed."""
    version = record.version(number)
    if version is None:
        raise UserError(f"{record.model} has no version {number}. {choice(record)}")
    return version


def _require_no_alias(record: Record, number: int, done: str) -> None:
    if names := record.aliases_of(number):
        fix = "promote another version or roll back" if CHAMPION in names else f"unalias {names[0]}"
        raise UserError(f"version {number} is not {done}: it is {' and '.join(names)}. First {fix}.")


def _judged(record: Record, number: int, state: State, what: What, **told: str) -> Record:
    record = _without(record, number, CANDIDATE)
    return _told(_in_state(record, number, state), what, number, **told)


def _without(record: Record, number: int, name: str) -> Record:
    return _pointed(record, name, None) if record.aliases.get(name) == number else record


def _pointed(record: Record, name: str, number: int | None) -> Record:
    others = {alias: target for alias, target in record.aliases.items() if alias != name}
    record = record.model_copy(update={"aliases": others if number is None else {**others, name: number}})
    if name == CHAMPION and record.evidence:  # it was about the champion before
        return record.model_copy(update={"evidence": record.evidence.against(number)})
    return record


def _in_state(record: Record, number: int, state: State) -> Record:
    changed = [one.model_copy(update={"state": state}) if one.number == number else one for one in record.versions]
    return record.model_copy(update={"versions": tuple(changed)})


def _told(record: Record, what: What, version: int | None, **facts: Any) -> Record:
    event = Event(number=len(record.events) + 1, at=now(), what=what, version=version, **facts)
    return record.model_copy(update={"events": (*record.events, event)})


def _named(number: int | None) -> str:
    return "none" if number is None else f"version {number}"
