"""The plan of `vgp clean` for the terminal, and as JSON."""

from collections import Counter
from collections.abc import Iterator

from rich.console import Group as Lines
from rich.console import RenderableType
from rich.text import Text

from vgp.base.documents.json_text import JsonObject
from vgp.base.text.figures import Cell, format_count, table
from vgp.base.text.times import rfc3339
from vgp.vertex.run_cleanup import Decision, Plan, Removed

_TITLES = ("", "what", "objects", "size", "age", "why")
#: The most rows of the table.
_MAX_ROWS = 100


def format_size(count: int) -> str:
    """Formats a number of bytes in Google's billing units: `1.3 GB` is 1.3 * 10**9 bytes."""
    for unit, factor in (("TB", 1e12), ("GB", 1e9), ("MB", 1e6), ("kB", 1e3)):
        if count >= factor:
            return f"{count / factor:.1f} {unit}"
    return f"{count} B"


def render_plan(plan: Plan) -> RenderableType:
    """Returns a table with a row for each group, and the summary."""
    if not plan.decisions:
        return Text(f"There is nothing in {plan.root.uri}.")
    rows = list(_rows(plan))
    visible = [row for row, _ in rows[:_MAX_ROWS]]
    cells = table(_TITLES, visible, right=("objects", "size", "age"), whole=("what",))
    more = [Text(f"and {len(rows) - _MAX_ROWS} more; --json lists all", "dim")] if len(rows) > _MAX_ROWS else []
    return Lines(Text(plan.root.uri, "bold"), cells, *more, Text(summarize(plan)))


def summarize(plan: Plan) -> str:
    """Returns a sentence with the number and size of the groups to delete."""
    groups = plan.going
    objects = sum(len(group.items) for group in groups)
    if not objects:
        return "Nothing goes."
    kinds = Counter(group.kind for group in groups)
    words = {"run": "run", "checkpoints": "folder", "capacity": "folder", "pins": "document"}
    parts = [f"{format_count(kinds[kind], word)} of {kind}" if kind != "run" else format_count(kinds[kind], word)
             for kind, word in words.items() if kinds[kind]]  # fmt: skip
    size = format_size(sum(group.bytes for group in groups))
    return f"Goes: {', '.join(parts)}; {format_count(objects, 'object')}, {size}."


def _rows(plan: Plan) -> Iterator[tuple[list[Cell], Decision]]:
    """Yields a row for each group; pins with the same reason share one row."""
    pins: dict[tuple[bool, str], list[Decision]] = {}
    for decision in plan.decisions:
        if decision.group.kind == "pins":
            pins.setdefault((decision.goes, decision.why), []).append(decision)
        else:
            yield _build_row(plan, [decision], decision.group.folder), decision
    for decisions in pins.values():
        yield _build_row(plan, decisions, "pins"), decisions[0]


def _build_row(plan: Plan, decisions: list[Decision], name: str) -> list[Cell]:
    groups, first = [decision.group for decision in decisions], decisions[0]
    days = (plan.now - max(group.updated for group in groups)).days
    objects, count = sum(len(group.items) for group in groups), sum(group.bytes for group in groups)
    mark = Text("goes", "yellow") if first.goes else Text("stays", "green")
    return [mark, name, f"{objects:,}", format_size(count), f"{days}d", first.why]


def as_json(plan: Plan, removed: Removed | None) -> JsonObject:
    """Returns the plan, and the deleted objects, for --json; `removed` is None if the command only planned."""
    groups = [
        {
            "kind": decision.group.kind, "folder": f"{plan.root.uri}/{decision.group.folder}",
            "objects": len(decision.group.items), "bytes": decision.group.bytes,
            "updated": rfc3339(decision.group.updated), "goes": decision.goes, "why": decision.why,
        }
        for decision in plan.decisions
    ]  # fmt: skip
    going = plan.going
    return {
        "root": plan.root.uri, "older_than_days": plan.older_than.days, "groups": groups,
        "goes": {"groups": len(going), "objects": sum(len(group.items) for group in going),
                 "bytes": sum(group.bytes for group in going)},
        "deleted": removed and {"objects": removed.objects, "bytes": removed.bytes, "changed": removed.changed},
    }  # fmt: skip
