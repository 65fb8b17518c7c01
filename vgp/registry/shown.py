"""Formats registry contents as JSON values and as lines for a terminal."""

from collections.abc import Sequence

from vgp.base.documents.json_text import JsonObject
from vgp.registry import changes, versions
from vgp.registry.documents import CHAMPION, Event, Record, Version
from vgp.registry.registry import Registry
from vgp.registry.sweep import Copy

Values = JsonObject


def model(record: Record) -> Values:
    """Returns a model with all its versions, newest first."""
    return {
        "model": record.model,
        "champion": record.aliases.get(CHAMPION),
        "reign": reign(record),
        "aliases": dict(sorted(record.aliases.items())),
        "versions": [brief(record, version) for version in reversed(record.versions)],
        "tests": len(record.spent),
    }


def brief(record: Record, version: Version) -> Values:
    """Returns a version without its files."""
    return {**version.model_dump(exclude={"files"}), "aliases": list(record.aliases_of(version.number))}


def version(registry: Registry, record: Record, shown: Version) -> Values:
    """Returns a version with its files and history; for a champion, since when and whom it replaced."""
    about = [event for event in record.events if shown.number in (event.version, event.before)]
    tested = {test.key for test in record.spent if test.version == shown.number}
    stood = [event for event in about if event.what == "kept" and event.key in tested]
    is_champion = record.aliases.get(CHAMPION) == shown.number
    return {
        "registry": registry.root,
        **brief(record, registry.placed(shown)),
        "model": record.model,
        "folder": registry.version_folder(shown.key),
        "missing": [] if shown.state == "deleted" else versions.missing(registry, shown),
        "files": {name: file.model_dump() for name, file in shown.files.items()},
        "reign": reign(record) if is_champion else None,
        "evidence": evidence(record) if is_champion else None,
        "withstood": {"challengers": len(stood), "last": stood[-1].at} if stood else None,
        "history": [event.model_dump(exclude={"key"}) for event in about if event.what != "kept"],
    }


def reign(record: Record) -> Values | None:
    """Returns since when and why the champion is champion, and the target of a rollback; None without a champion."""
    event = crowned(record)
    if event is None:
        return None
    before, behind = record.version(event.before), changes.reigned(record)[:-1]
    return {
        "version": event.version,
        "since": event.at,
        "by": event.what,
        "who": event.who,
        "why": event.why,
        "replaced": brief(record, before) if before else None,
        "rollback_to": behind[-1] if behind else None,
    }


def evidence(record: Record) -> Values | None:
    """Returns the evidence that challengers beat the champion; None before the first night that collected any."""
    if record.evidence is None or CHAMPION not in record.aliases:
        return None
    now = record.evidence_now()
    return {"total": now.total, "needed": now.needed, "days": now.days, "last_day": now.last_day, "words": now.words}


def crowned(record: Record) -> Event | None:
    """Returns the event that made the version champion."""
    champion = record.aliases.get(CHAMPION)
    happened = (event for event in reversed(record.events) if event.what in ("promoted", "rolled_back"))
    return next((event for event in happened if event.version == champion), None) if champion else None


def compared(record: Record, versions: list[Version]) -> Values:
    """Compares versions: all their metrics, and the facts in which they differ."""
    names = dict.fromkeys(name for one in versions for name in one.metrics)
    facts = ("task", "data", "pipeline", "run", "pins", "commit", "image", "created", "state", "champion", "report")
    return {
        "model": record.model,
        "versions": [brief(record, one) for one in versions],
        "metrics": {name: [one.metrics.get(name) for one in versions] for name in names},
        "facts": {name: [getattr(one, name) for one in versions] for name in facts},
    }


Copies = Sequence[tuple[Registry, Copy]]


def cleaned(root: str, going: Copies, stays: Copies, *, dry_run: bool) -> Values:
    """Returns deleted (or deletable) and kept copies, each with the reason."""
    size = sum(copy.bytes for _, copy in going) / 2**20
    done = "would be" if dry_run else "was" if len(going) == 1 else "were"
    said = f"{_copies(going)} of no version {done} removed from {root}, {size:,.1f} MiB"
    left = f"{_copies(stays)} stay{'s' if len(stays) == 1 else ''}: a release may be at work there"
    return {
        "registry": root,
        "changed": bool(going) and not dry_run,
        "said": "; ".join([said if going else f"nothing is left behind in {root}", *([left] if stays else [])]),
        "copies": [*_listed(going, goes=True), *_listed(stays, goes=False)],
    }


def _copies(copies: Copies) -> str:
    return f"{len(copies):,} {'copy' if len(copies) == 1 else 'copies'}"


def _listed(copies: Copies, *, goes: bool) -> list[Values]:
    return [
        {
            "model": place.model, "key": copy.key, "folder": copy.folder, "files": len(copy.files), "bytes": copy.bytes,
            "untouched_s": round(copy.untouched_s), "goes": goes, "deleted": copy.deleted and copy.deleted.number,
        }
        for place, copy in copies
    ]  # fmt: skip


def lines(told: Values) -> list[str]:
    """Formats any verb's values as lines."""
    if "said" in told:
        return [told["said"]]
    if "models" in told:
        return [line for one in told["models"] for line in (f"{one['model']}:", *map(_line, one["versions"]))]
    if "metrics" in told and "facts" in told:
        pairs = {**told["metrics"], **told["facts"]}
        return [f"{name:20} {'   '.join(map(str, values))}" for name, values in pairs.items()]
    return [f"{name:12} {value}" for name, value in told.items() if value not in ("", None, [], {})]


def _line(one: Values) -> str:
    names = ", ".join(one["aliases"]) or one["state"]
    return f"{one['number']:6}  {one['created']:20}  {names:20}  {one['reason']}".rstrip()
