"""The outcome of a release, read from the record alone, so that every reader gets the same one."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

from vgp.base.documents.json_text import JsonObject
from vgp.decision.release.effects import NOT_CHAMPION, NOT_REGISTERED, compared, named
from vgp.registry.documents import CHAMPION, Event, Record, Version

#: `nothing new`: another run has released this model already.
Code = Literal["promoted", "registered", "candidate", "kept", "not decided", "nothing new"]


@dataclass(frozen=True)
class Outcome:
    """The outcome of a release, for workflows that branch and for people."""

    code: Code
    #: A sentence without a full stop.
    words: str
    #: The registered version, or None.
    version: Version | None
    #: The record after the release.
    record: Record

    #: Reads the record again, as JSON.
    read: Callable[[], JsonObject] = dict

    @property
    def number(self) -> int | None:
        return self.version.number if self.version else None

    @property
    def uri(self) -> str:
        """Returns the folder of the version's files; "" without a version."""
        return self.version.model if self.version else ""

    @property
    def metadata(self) -> dict[str, str | int]:
        """Returns the metadata of the version's artifact."""
        metadata: dict[str, str | int] = {"outcome": self.code, "words": self.words, "model": self.record.model}
        if self.version is None:
            return metadata
        aliases = ", ".join(self.record.aliases_of(self.version.number))
        return {**metadata, "version": self.version.number, "key": self.version.key, "aliases": aliases}

    @property
    def markdown(self) -> str:
        """Returns the outcome as Markdown for the console."""
        lines = [f"# {self.record.model}: {self.words[:1].upper()}{self.words[1:]}"]
        if self.version:
            lines += [self.version.reason, f"- files: {self.version.model}\n- report: {self.version.report}"]
        return "\n\n".join(line for line in lines if line) + "\n"


def of(record: Record, key: str, who: str) -> Outcome:
    """Returns the outcome of the release with this key, for the run `who`."""
    event = _find_first_event(record, key)
    if event is None:
        return Outcome("not decided", "not registered: there are no predictions to judge the model by", None, record)
    version = record.find_key(key)
    code, words = _describe_registered(record, version, key) if version else ("kept", _describe_kept(record, event))
    if code != "promoted" and record.evidence and CHAMPION in record.aliases:
        evidence = record.evidence_now().words
        words = f"{words}; {evidence[:1].lower()}{evidence[1:]}"
    if event.who != who:
        words = f"nothing new; {event.who} decided on this model already: {words}"
        return Outcome("nothing new", words, version, record)
    return Outcome(code, words, version, record)


def _find_first_event(record: Record, key: str) -> Event | None:
    return next((event for event in record.events if event.key == key and event.what in ("registered", "kept")), None)


def _describe_kept(record: Record, event: Event) -> str:
    why = event.why.removeprefix(NOT_REGISTERED).removesuffix(".") if event.why.startswith(NOT_REGISTERED) else ""
    return f"not registered{_describe_unchanged(record, event)}{f': {why}' if why else ''}"


def _describe_unchanged(record: Record, event: Event) -> str:
    if event.before is None:
        return "; there is no champion"
    if record.aliases.get(CHAMPION) != event.before:
        return f"; the champion was {named(event.before)}, and is {_describe_champion(record)}"
    return f", {named(event.before)} stays the champion, since {_last(record, event.before).at}"


def _describe_registered(record: Record, version: Version, key: str) -> tuple[Code, str]:
    number, reigns = version.number, record.aliases.get(CHAMPION)
    promoted = record.event("promoted", key)
    if version.state in ("deleted", "rejected"):
        return "registered", f"version {number}, which was {version.state} since"
    if promoted and reigns == number:
        instead = f" in place of version {promoted.before}" if promoted.before else ""
        return "promoted", f"registered as version {number}, champion since {_last(record, number).at}{instead}"
    if (back := _rolled_back(record, number)) and reigns != number:
        words = f"registered as version {number}, rolled back on {back.at} by {back.who}"
        return "promoted" if promoted else "registered", f"{words}; the champion is {_describe_champion(record)}"
    if promoted:
        words = f"registered as version {number}, champion from {promoted.at}"
        return "promoted", f"{words}; the champion is {_describe_champion(record)}"
    if version.state == "candidate":
        event = record.event("registered", key)
        why = event.why.partition(NOT_CHAMPION)[2].removesuffix(".") if event else ""
        return "candidate", (
            f"registered as version {number}, which waits as a candidate: vgp models promote {number} --model "
            f"{record.model}{f'; {why}' if why else ''}"
        )
    if reigns == number:
        event = _last(record, number)
        return "registered", f"registered as version {number}, champion since {event.at} by {event.who}"
    return "registered", (
        f"registered as version {number}, not champion: compared with {compared(version.champion)}; "
        f"the champion is {_describe_champion(record)}"
    )


def _rolled_back(record: Record, number: int) -> Event | None:
    """Returns the rollback that took the alias from the version; None if it was promoted again."""
    took = (event for event in reversed(record.events) if event.what in ("promoted", "rolled_back"))
    last = next((event for event in took if number in (event.version, event.before)), None)
    return last if last and last.what == "rolled_back" and last.before == number else None


def _describe_champion(record: Record) -> str:
    return f"{named(record.aliases.get(CHAMPION))} now"


def _last(record: Record, number: int) -> Event:
    """Returns the event that made the version champion."""
    return next(
        event for event in reversed(record.events)
        if event.alias == CHAMPION and event.version == number and event.what in ("promoted", "rolled_back")
    )  # fmt: skip
