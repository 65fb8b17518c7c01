"""Formats registry contents as JSON values and as lines for a terminal."""

from collections.abc import Sequence

from vgp.base.documents.json_text import JsonObject
from vgp.registry import changes, versions
from vgp.registry.documents import CHAMPION, Event, Record, Version
from vgp.registry.registry import Registry
from vgp.registry.sweep import Copy

Values = JsonObject


def model_values(record: Record) -> Values:
    """Returns a model with all its versions, newest first."""
    return {
        "model": record.model,
        "champion": record.aliases.get(CHAMPION),
        "reign": reign_values(record),
        "aliases": dict(sorted(record.aliases.items())),
        "versions": [brief_values(record, version) for version in reversed(record.versions)],
        "tests": len(record.spent),
    }


def brief_values(record: Record, version: Version) -> Values:
    """Returns a version without its files."""
    return {**version.model_dump(exclude={"files"}), "aliases": list(record.aliases_of(version.number))}


def version_values(registry: Registry, record: Record, version: Version) -> Values:
    """Returns a version with its files and history; for the champion, also `reign` and its defences (`withstood`)."""
    events = [event for event in record.events if version.number in (event.version, event.before)]
    tests = {test.key for test in record.spent if test.version == version.number}
    defences = [event for event in events if event.what == "kept" and event.key in tests]
    is_champion = record.aliases.get(CHAMPION) == version.number
    return {
        "registry": registry.root,
        **brief_values(record, registry.with_present_folder(version)),
        "model": record.model,
        "folder": registry.version_folder(version.key),
        "missing": [] if version.state == "deleted" else versions.missing(registry, version),
        "files": {name: file.model_dump() for name, file in version.files.items()},
        "reign": reign_values(record) if is_champion else None,
        "evidence": evidence_values(record) if is_champion else None,
        "withstood": {"challengers": len(defences), "last": defences[-1].at} if defences else None,
        "history": [event.model_dump(exclude={"key"}) for event in events if event.what != "kept"],
    }


def reign_values(record: Record) -> Values | None:
    """Returns the champion, when and why it became champion, and the target of a rollback; None without a champion."""
    event = _find_promotion(record)
    if event is None:
        return None
    before, earlier = record.version(event.before), changes.list_champions(record)[:-1]
    return {
        "version": event.version,
        "since": event.at,
        "by": event.what,
        "who": event.who,
        "why": event.why,
        "replaced": brief_values(record, before) if before else None,
        "rollback_to": earlier[-1] if earlier else None,
    }


def evidence_values(record: Record) -> Values | None:
    """Returns the evidence that challengers beat the champion; None before the first night that collected any."""
    if record.evidence is None or CHAMPION not in record.aliases:
        return None
    now = record.evidence_now()
    return {"total": now.total, "needed": now.needed, "days": now.days, "last_day": now.last_day, "words": now.words}


def _find_promotion(record: Record) -> Event | None:
    """Returns the event that made the champion champion, or None without a champion."""
    champion = record.aliases.get(CHAMPION)
    promotions = (event for event in reversed(record.events) if event.what in ("promoted", "rolled_back"))
    return next((event for event in promotions if event.version == champion), None) if champion else None


def comparison_values(record: Record, versions: list[Version]) -> Values:
    """Returns the metrics and facts of the versions, a list for each name."""
    names = dict.fromkeys(name for version in versions for name in version.metrics)
    origin = ("task", "data", "pipeline", "run", "pins", "commit", "image", "code", "created")
    facts = (*origin, "state", "champion", "report")
    return {
        "model": record.model,
        "versions": [brief_values(record, version) for version in versions],
        "metrics": {name: [version.metrics.get(name) for version in versions] for name in names},
        "facts": {name: [getattr(version, name) for version in versions] for name in facts},
    }


Copies = Sequence[tuple[Registry, Copy]]


def cleanup_values(root: str, going: Copies, stays: Copies, *, dry_run: bool) -> Values:
    """Returns the result of a cleanup: copies that were deleted (or would be), and copies that stay."""
    size = sum(copy.bytes for _, copy in going) / 2**20
    verb = "would be" if dry_run else "was" if len(going) == 1 else "were"
    deleted = f"{_count(going)} of no version {verb} removed from {root}, {size:,.1f} MiB"
    kept = f"{_count(stays)} stay{'s' if len(stays) == 1 else ''}: a release may be at work there"
    return {
        "registry": root,
        "changed": bool(going) and not dry_run,
        "said": "; ".join([deleted if going else f"nothing is left behind in {root}", *([kept] if stays else [])]),
        "copies": [*_copy_values(going, goes=True), *_copy_values(stays, goes=False)],
    }


def _count(copies: Copies) -> str:
    return f"{len(copies):,} {'copy' if len(copies) == 1 else 'copies'}"


def _copy_values(copies: Copies, *, goes: bool) -> list[Values]:
    return [
        {
            "model": place.model, "key": copy.key, "folder": copy.folder, "files": len(copy.files), "bytes": copy.bytes,
            "untouched_s": round(copy.untouched_s), "goes": goes, "deleted": copy.deleted and copy.deleted.number,
        }
        for place, copy in copies
    ]  # fmt: skip


def format_lines(values: Values) -> list[str]:
    """Formats the result of any verb as lines."""
    if "said" in values:
        return [values["said"]]
    if "models" in values:
        return [
            line
            for model in values["models"]
            for line in (f"{model['model']}:", *map(_format_version, model["versions"]))
        ]
    if "metrics" in values and "facts" in values:
        rows = {**values["metrics"], **values["facts"]}
        return [f"{name:20} {'   '.join(map(str, row))}" for name, row in rows.items()]
    return [f"{name:12} {value}" for name, value in values.items() if value not in ("", None, [], {})]


def _format_version(version: Values) -> str:
    names = ", ".join(version["aliases"]) or version["state"]
    return f"{version['number']:6}  {version['created']:20}  {names:20}  {version['reason']}".rstrip()
