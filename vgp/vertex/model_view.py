"""Registered models as a person sees them: the list, a version in full, versions side by side."""

from collections.abc import Sequence
from datetime import UTC, datetime

from rich.console import Group, RenderableType
from rich.text import Text

from vgp.base.documents.json_text import JsonObject
from vgp.base.text.figures import Cell, facts_table, format_count, format_duration, table
from vgp.base.text.printable import one_line, printable
from vgp.base.text.times import format_local

Values = JsonObject

#: Columns of metrics in the list: more do not fit beside the rest.
_METRICS = 3
#: Figures that describe the test, not the quality of a model.
_NO_METRICS = ("rows", "threshold")
_COLOURS = {"champion": "bold green", "candidate": "cyan"}
_STATES = {"deleted": "dim", "rejected": "dim", "candidate": "cyan"}
_DID = {
    "registered": "registered", "promoted": "promoted", "rolled_back": "champion again", "aliased": "given the alias",
    "unaliased": "lost the alias", "approved": "approved", "rejected": "rejected", "deleted": "deleted",
}  # fmt: skip


def newest(answer: Values, limit: int) -> Values:
    """The list with so many versions of each model, 0 = all; `left` says how many are left out."""
    cut = [
        {**one, "versions": one["versions"][: limit or None], "left": len(one["versions"][limit:]) if limit else 0}
        for one in answer["models"]
    ]
    return {**answer, "models": cut}


def listing(answer: Values) -> RenderableType:
    """Every model with its versions, the newest first."""
    notes = [Text(printable(words), "yellow") for words in answer.get("notes", ())]
    if not answer["models"]:
        empty = f"The registry {printable(answer['registry'])} holds no model yet; runs register models."
        return Group(Text(empty), *notes)
    parts: list[RenderableType] = []
    for one in answer["models"]:
        parts += [*([Text("")] if parts else []), _headline(one), *([_versions(one)] if one["versions"] else [])]
        if one["left"]:
            parts.append(Text(f"and {one['left']:,} older ones; more with --limit", "dim"))
        behind = answer.get("vertex", {}).get(one["model"], [])
        parts += [Text(f"Vertex AI: {printable(words)}", "yellow") for words in behind]
    return Group(*parts, *([Text("")] if notes else []), *notes)


def _headline(model: Values) -> Text:
    """`flights: version 3 is the champion since Nov 20 14:03 (2d 03h), in place of version 2`."""
    text = Text.assemble((printable(model["model"]), "bold"), ": ")
    reign = model["reign"]
    if not reign:
        return text.append("no champion" if model["versions"] else "no version yet: no model was better so far")
    text.append(f"version {reign['version']} is the champion since {since(reign['since'])}")
    return text.append(f", in place of version {reign['replaced']['number']}" if reign["replaced"] else "")


def _versions(model: Values) -> RenderableType:
    versions = model["versions"]
    named = dict.fromkeys(name for one in versions for name in one["metrics"] if name not in _NO_METRICS)
    names = list(named)[:_METRICS]
    rows = [
        (
            str(one["number"]), _aliases(one["aliases"]), Text(one["state"], _STATES.get(one["state"], "")),
            time(one["created"]), *(figure(one["metrics"].get(name)) for name in names), one["data"], one["run"],
        )
        for one in versions
    ]  # fmt: skip
    titles = ("version", "alias", "state", "registered", *names, "data", "run")
    return table(titles, rows, right=("version", *names), whole=("run",))


def version(answer: Values, now: datetime) -> RenderableType:
    """A version in full; of the champion first since when, why, and what it replaced."""
    head = Text.assemble((f"{printable(answer['model'])} version {answer['number']}", "bold"), "  ")
    head.append(
        _aliases(answer["aliases"]) if answer["aliases"] else Text(answer["state"], _STATES.get(answer["state"], ""))
    )
    if missing := answer.get("missing"):
        wrong = f"not whole: {', '.join(map(printable, missing[:3]))}. Restore its files, or promote another version"
        head.append(f"\n{wrong}", "bold red")
    rows = [*_reign(answer["reign"], answer["reason"], now), *_evidence(answer), *_standing(answer), *_origin(answer)]
    history = [
        (time(one["at"]), _did(one, answer["number"]), printable(one["who"]), _why(one["why"], answer["reason"]))
        for one in answer["history"]
    ]
    titles = ("when", "what", "who", "why")
    return Group(head, facts_table((name, value) for name, value in rows if value), Text(""), table(titles, history))


def _why(why: str, decision: str) -> str:
    """The reason of an event; without the decision's own reason, which is shown above."""
    if not (decision and why.startswith(decision)):
        return one_line(why)
    further = why.removeprefix(decision)
    return one_line(f"as decided.{further}") if further else "as decided"


def _reign(reign: Values | None, decision: str, now: datetime) -> list[tuple[Cell, Cell]]:
    if not reign:
        return []
    did = "promoted" if reign["by"] == "promoted" else "by a rollback"
    before = reign["replaced"]
    return [
        ("champion", f"since {since(reign['since'], now)}, {did}, by {printable(reign['who'])}"),
        ("why", _why(reign["why"], decision) or "no reason was given"),
        ("replaced", _named(before) if before else "no version: it was the first champion"),
        ("rollback", _way_back(reign)),
    ]


def _way_back(reign: Values) -> str:
    if not reign["rollback_to"]:
        return "to none: promote another one"
    further = "" if reign["by"] == "promoted" else f" --from {reign['version']}"
    return f"to version {reign['rollback_to']}: vgp models rollback{further}"


def _evidence(answer: Values) -> list[tuple[Cell, Cell]]:
    known = answer.get("evidence")
    return [("evidence", f"{known['words'].partition(': ')[2]}; {format_count(known['days'], 'day')}")] if known else []


def _standing(answer: Values) -> list[tuple[Cell, Cell]]:
    """How many challengers a champion has withstood; of a candidate, how it is decided about."""
    number, stood = answer["number"], answer["withstood"]
    if answer["state"] == "candidate":
        return [("waits", f"for approval: vgp models promote {number}, or reject {number}")]
    if not stood:
        return []
    return [("defended", f"{format_count(stood['challengers'], 'challenger')}, the last on {time(stood['last'])}")]


def _named(one: Values) -> str:
    data = f", data: {one_line(one['data'])}" if one["data"] else ""
    return f"version {one['number']}{data}" + ("" if one["state"] == "registered" else f" ({one['state']})")


def _origin(answer: Values) -> list[tuple[Cell, Cell]]:
    metrics = ", ".join(f"{name} {figure(value)}" for name, value in answer["metrics"].items())
    files = answer["files"]
    size = sum(file["bytes"] for file in files.values())
    against = f"version {answer['champion']}" if answer["champion"] else "no champion"
    gone = answer["state"] == "deleted"
    report = "" if gone else answer["report"]
    rows = [
        ("decision", one_line(answer["reason"])), ("against", against), ("metrics", metrics), ("data", answer["data"]),
        ("task", answer["task"]), ("run", answer["run"]), ("report", report), ("pins", answer["pins"]),
        ("commit", answer["commit"]), ("image", answer["image"]), ("registered", time(answer["created"])),
        ("labels", ", ".join(f"{name}={value}" for name, value in answer["labels"].items())),
        ("files", "" if gone else f"{answer['folder']}  ({format_count(len(files), 'file')}, {size / 2**20:,.1f} MiB)"),
    ]  # fmt: skip
    return [(name, printable(value)) for name, value in rows]


def _did(event: Values, number: int) -> str:
    """What became of a version: its own part in an event, or that another one took its place."""
    what = event["what"]
    if event["version"] != number:
        others = {"promoted": "replaced by", "rolled_back": "rolled back to"}
        return f"{others.get(what, event['alias'] + ' is')} version {event['version']}"
    return f"{_DID[what]} {event['alias']}" if what in ("aliased", "unaliased") else _DID[what]


def comparison(answer: Values) -> RenderableType:
    """Metrics and facts by rows, a column each version; of two also the difference."""
    numbers = [f"{one['number']}{''.join(f' {name}' for name in one['aliases'])}" for one in answer["versions"]]
    two = len(numbers) == 2
    metrics = [
        (name, *map(figure, values), *((_difference(*values),) if two else ()))
        for name, values in answer["metrics"].items()
    ]
    unlike = [(name, *map(_fact, values)) for name, values in answer["facts"].items() if len(set(values)) > 1]
    equal = [name for name, values in answer["facts"].items() if len(set(values)) == 1 and values[0]]
    parts: list[RenderableType] = [
        table(("metric", *numbers, *(("difference",) if two else ())), metrics, right=(*numbers, "difference")),
    ]
    if unlike:
        parts += [Text(""), table(("", *numbers), unlike)]
    if len(set(answer["facts"]["task"])) > 1:
        parts.append(Text("note: the tasks differ, so figures of one name may measure different things.", "yellow"))
    return Group(*parts, *([Text(f"equal: {', '.join(equal)}", "dim")] if equal else []))


def copies(answer: Values) -> RenderableType:
    """Copies that no version is: what goes, or went, and what stays."""
    rows = [
        (
            one["model"], one["key"][:12], f"{one['files']:,}", f"{one['bytes'] / 2**20:,.1f}",
            format_duration(one["untouched_s"]), _left_by(one), "goes" if one["goes"] else "stays",
        )
        for one in answer["copies"]
    ]  # fmt: skip
    titles = ("model", "key", "files", "MiB", "untouched", "left by", "")
    shown = [table(titles, rows, right=("files", "MiB"))] if rows else []
    return Group(*shown, Text(printable(answer["said"])))


def _left_by(copy: Values) -> str:
    return f"the deletion of version {copy['deleted']}" if copy["deleted"] else "a release that did not end"


def _difference(before: float | None, after: float | None) -> str:
    return "" if before is None or after is None else f"{after - before:+.4g}"


def _fact(value: object) -> str:
    return "" if value is None else one_line(str(value))


def _aliases(names: Sequence[str]) -> Text:
    return Text(", ").join([Text(printable(name), _COLOURS.get(name, "")) for name in names])


def figure(value: float | None) -> str:
    return "" if value is None else f"{value:.5g}"


def time(text: str) -> str:
    """`Nov 20 14:03` in the time zone of this machine; what is no time stays as it is."""
    moment = _moment(text)
    return format_local(moment) if moment else text


def since(text: str, now: datetime | None = None) -> str:
    """`Nov 20 14:03 (2d 03h)`."""
    moment = _moment(text)
    past = (now or datetime.now(UTC)) - moment if moment else None
    return f"{time(text)} ({format_duration(past.total_seconds())})" if past else time(text)


def _moment(text: str) -> datetime | None:
    try:
        return datetime.fromisoformat(text)
    except ValueError:
        return None
