"""Registered models for the terminal: the list, one version, a comparison of versions."""

from collections.abc import Sequence
from datetime import UTC, datetime

from rich.console import Group, RenderableType
from rich.text import Text

from vgp.base.documents.json_text import JsonObject
from vgp.base.text.figures import Cell, facts_table, format_count, format_duration, table
from vgp.base.text.printable import one_line, printable
from vgp.base.text.times import format_local

Values = JsonObject

#: The most columns with metrics in the list, for its width.
_MAX_METRICS = 3
#: Figures that describe the test data or the decision, not the quality of a model.
_NO_METRICS = ("rows", "threshold")
_COLOURS = {"champion": "bold green", "candidate": "cyan"}
_STATES = {"deleted": "dim", "rejected": "dim", "candidate": "cyan"}
_EVENTS = {
    "registered": "registered", "promoted": "promoted", "rolled_back": "champion again", "aliased": "given the alias",
    "unaliased": "lost the alias", "approved": "approved", "rejected": "rejected", "deleted": "deleted",
}  # fmt: skip


def keep_newest(answer: Values, limit: int) -> Values:
    """Returns the list with the newest `limit` versions of each model (0 = all); `left` counts the others."""
    models = [
        {
            **model,
            "versions": model["versions"][: limit or None],
            "left": len(model["versions"][limit:]) if limit else 0,
        }
        for model in answer["models"]
    ]
    return {**answer, "models": models}


def render_list(answer: Values) -> RenderableType:
    """Renders every model with its versions, the newest first."""
    notes = [Text(printable(words), "yellow") for words in answer.get("notes", ())]
    if not answer["models"]:
        empty = f"The registry {printable(answer['registry'])} holds no model yet; runs register models."
        return Group(Text(empty), *notes)
    parts: list[RenderableType] = []
    for model in answer["models"]:
        space = [Text("")] if parts else []
        parts += [*space, _headline(model), *([_render_versions(model)] if model["versions"] else [])]
        if model["left"]:
            parts.append(Text(f"and {model['left']:,} older versions; to list them: --limit", "dim"))
        missing = answer.get("vertex", {}).get(model["model"], [])
        parts += [Text(f"Vertex AI: {printable(words)}", "yellow") for words in missing]
    return Group(*parts, *([Text("")] if notes else []), *notes)


def _headline(model: Values) -> Text:
    """Returns `flights: version 3 is the champion since Nov 20 14:03 (2d 03h), in place of version 2`."""
    text = Text.assemble((printable(model["model"]), "bold"), ": ")
    reign = model["reign"]
    if not reign:
        return text.append("no champion" if model["versions"] else "no version yet: no model was better so far")
    text.append(f"version {reign['version']} is the champion since {format_since(reign['since'])}")
    return text.append(f", in place of version {reign['replaced']['number']}" if reign["replaced"] else "")


def _render_versions(model: Values) -> RenderableType:
    versions = model["versions"]
    metrics = dict.fromkeys(name for version in versions for name in version["metrics"] if name not in _NO_METRICS)
    names = list(metrics)[:_MAX_METRICS]
    rows = [
        (
            str(version["number"]), _format_aliases(version["aliases"]),
            Text(version["state"], _STATES.get(version["state"], "")), format_time(version["created"]),
            *(format_metric(version["metrics"].get(name)) for name in names), version["data"], version["run"],
        )
        for version in versions
    ]  # fmt: skip
    titles = ("version", "alias", "state", "registered", *names, "data", "run")
    return table(titles, rows, right=("version", *names), whole=("run",))


def render_version(answer: Values, now: datetime) -> RenderableType:
    """Renders a version with its history; a champion begins with the date and reason of its promotion."""
    head = Text.assemble((f"{printable(answer['model'])} version {answer['number']}", "bold"), "  ")
    head.append(
        _format_aliases(answer["aliases"])
        if answer["aliases"]
        else Text(answer["state"], _STATES.get(answer["state"], ""))
    )
    if missing := answer.get("missing"):
        problem = f"incomplete: {', '.join(map(printable, missing[:3]))}. Restore its files, or promote another version"
        head.append(f"\n{problem}", "bold red")
    rows = [
        *_list_reign_rows(answer["reign"], answer["reason"], now),
        *_evidence_rows(answer),
        *_state_rows(answer),
        *_list_origin_rows(answer),
    ]
    history = [
        (
            format_time(event["at"]), _describe_event(event, answer["number"]), printable(event["who"]),
            _shorten_reason(event["why"], answer["reason"]),
        )
        for event in answer["history"]
    ]  # fmt: skip
    titles = ("when", "what", "who", "why")
    return Group(head, facts_table((name, value) for name, value in rows if value), Text(""), table(titles, history))


def _shorten_reason(why: str, decision: str) -> str:
    """Returns the reason of an event, with "as decided" in place of the decision's reason, which has its own row."""
    if not (decision and why.startswith(decision)):
        return one_line(why)
    further = why.removeprefix(decision)
    return one_line(f"as decided.{further}") if further else "as decided"


def _list_reign_rows(reign: Values | None, decision: str, now: datetime) -> list[tuple[Cell, Cell]]:
    if not reign:
        return []
    how = "promoted" if reign["by"] == "promoted" else "by a rollback"
    before = reign["replaced"]
    return [
        ("champion", f"since {format_since(reign['since'], now)}, {how}, by {printable(reign['who'])}"),
        ("why", _shorten_reason(reign["why"], decision) or "no reason was given"),
        ("replaced", _describe_version(before) if before else "no version: it was the first champion"),
        ("rollback", _describe_rollback(reign)),
    ]


def _describe_rollback(reign: Values) -> str:
    if not reign["rollback_to"]:
        return "no earlier champion: promote another version"
    further = "" if reign["by"] == "promoted" else f" --from {reign['version']}"
    return f"to version {reign['rollback_to']}: vgp models rollback{further}"


def _evidence_rows(answer: Values) -> list[tuple[Cell, Cell]]:
    """Returns the row with the evidence for a challenger, if the registry holds any."""
    evidence = answer.get("evidence")
    return (
        [("evidence", f"{evidence['words'].partition(': ')[2]}; {format_count(evidence['days'], 'day')}")]
        if evidence
        else []
    )


def _state_rows(answer: Values) -> list[tuple[Cell, Cell]]:
    """Returns a row with the commands for a candidate, or with the number of challengers that a champion has beaten."""
    number, defence = answer["number"], answer["withstood"]
    if answer["state"] == "candidate":
        return [("waits", f"for approval: vgp models promote {number}, or reject {number}")]
    if not defence:
        return []
    count, last = format_count(defence["challengers"], "challenger"), format_time(defence["last"])
    return [("defended", f"{count}, the last on {last}")]


def _describe_version(version: Values) -> str:
    data = f", data: {one_line(version['data'])}" if version["data"] else ""
    state = "" if version["state"] == "registered" else f" ({version['state']})"
    return f"version {version['number']}{data}{state}"


def _list_origin_rows(answer: Values) -> list[tuple[Cell, Cell]]:
    metrics = ", ".join(f"{name} {format_metric(value)}" for name, value in answer["metrics"].items())
    files = answer["files"]
    size = sum(file["bytes"] for file in files.values())
    against = f"version {answer['champion']}" if answer["champion"] else "no champion"
    is_deleted = answer["state"] == "deleted"
    report = "" if is_deleted else answer["report"]
    place = "" if is_deleted else f"{answer['folder']}  ({format_count(len(files), 'file')}, {size / 2**20:,.1f} MiB)"
    rows = [
        ("decision", one_line(answer["reason"])), ("against", against), ("metrics", metrics), ("data", answer["data"]),
        ("task", answer["task"]), ("run", answer["run"]), ("report", report), ("pins", answer["pins"]),
        ("commit", answer["commit"]), ("image", answer["image"]), ("code", answer["code"]),
        ("registered", format_time(answer["created"])),
        ("labels", ", ".join(f"{name}={value}" for name, value in answer["labels"].items())), ("files", place),
    ]  # fmt: skip
    return [(name, printable(value)) for name, value in rows]


def _describe_event(event: Values, number: int) -> str:
    """Returns the part of version `number` in an event, such as `promoted` or `replaced by version 4`."""
    kind = event["what"]
    if event["version"] != number:
        others = {"promoted": "replaced by", "rolled_back": "rolled back to"}
        return f"{others.get(kind, event['alias'] + ' is')} version {event['version']}"
    return f"{_EVENTS[kind]} {event['alias']}" if kind in ("aliased", "unaliased") else _EVENTS[kind]


def render_comparison(answer: Values) -> RenderableType:
    """Renders metrics and facts, with a column for each version; for two versions, also the differences."""
    numbers = [
        f"{version['number']}{''.join(f' {name}' for name in version['aliases'])}" for version in answer["versions"]
    ]
    is_pair = len(numbers) == 2
    metrics = [
        (name, *map(format_metric, values), *((_format_difference(*values),) if is_pair else ()))
        for name, values in answer["metrics"].items()
    ]
    different = [(name, *map(_format_fact, values)) for name, values in answer["facts"].items() if len(set(values)) > 1]
    equal = [name for name, values in answer["facts"].items() if len(set(values)) == 1 and values[0]]
    parts: list[RenderableType] = [
        table(("metric", *numbers, *(("difference",) if is_pair else ())), metrics, right=(*numbers, "difference")),
    ]
    if different:
        parts += [Text(""), table(("", *numbers), different)]
    if len(set(answer["facts"]["task"])) > 1:
        parts.append(Text("note: the tasks differ, so metrics of one name may measure different things.", "yellow"))
    return Group(*parts, *([Text(f"equal: {', '.join(equal)}", "dim")] if equal else []))


def render_copies(answer: Values) -> RenderableType:
    """Renders the copies of files that belong to no version, and which of them are deleted."""
    rows = [
        (
            copy["model"], copy["key"][:12], f"{copy['files']:,}", f"{copy['bytes'] / 2**20:,.1f}",
            format_duration(copy["untouched_s"]), _describe_copy_origin(copy), "goes" if copy["goes"] else "stays",
        )
        for copy in answer["copies"]
    ]  # fmt: skip
    titles = ("model", "key", "files", "MiB", "untouched", "left by", "")
    copies = [table(titles, rows, right=("files", "MiB"))] if rows else []
    return Group(*copies, Text(printable(answer["said"])))


def _describe_copy_origin(copy: Values) -> str:
    return f"the deletion of version {copy['deleted']}" if copy["deleted"] else "an interrupted release"


def _format_difference(before: float | None, after: float | None) -> str:
    return "" if before is None or after is None else f"{after - before:+.4g}"


def _format_fact(value: object) -> str:
    return "" if value is None else one_line(str(value))


def _format_aliases(names: Sequence[str]) -> Text:
    return Text(", ").join([Text(printable(name), _COLOURS.get(name, "")) for name in names])


def format_metric(value: float | None) -> str:
    return "" if value is None else f"{value:.5g}"


def format_time(text: str) -> str:
    """Returns `Nov 20 14:03` in the time zone of this machine, or the text if it is no time."""
    moment = _parse_moment(text)
    return format_local(moment) if moment else text


def format_since(text: str, now: datetime | None = None) -> str:
    """Returns the time and how long ago it was: `Nov 20 14:03 (2d 03h)`."""
    moment = _parse_moment(text)
    past = (now or datetime.now(UTC)) - moment if moment else None
    return f"{format_time(text)} ({format_duration(past.total_seconds())})" if past else format_time(text)


def _parse_moment(text: str) -> datetime | None:
    try:
        return datetime.fromisoformat(text)
    except ValueError:
        return None
