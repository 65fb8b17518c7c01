"""The plan as a person sees it, and as JSON."""

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
#: Rows of a table; further ones are added up.
_MOST = 100


def size(count: int) -> str:
    """1.3 GB, of 10**9 bytes, as Google bills them."""
    for unit, factor in (("TB", 1e12), ("GB", 1e9), ("MB", 1e6), ("kB", 1e3)):
        if count >= factor:
            return f"{count / factor:.1f} {unit}"
    return f"{count} B"


def drawn(plan: Plan) -> RenderableType:
    if not plan.decisions:
        return Text(f"There is nothing in {plan.root.uri}.")
    rows = list(_rows(plan))
    shown = table(_TITLES, [row for row, _ in rows[:_MOST]], right=("objects", "size", "age"), whole=("what",))
    more = [Text(f"and {len(rows) - _MOST} more; --json lists all", "dim")] if len(rows) > _MOST else []
    return Lines(Text(plan.root.uri, "bold"), shown, *more, Text(summary(plan)))


def summary(plan: Plan) -> str:
    groups = plan.going
    objects = sum(len(group.items) for group in groups)
    if not objects:
        return "Nothing goes."
    kinds = Counter(group.kind for group in groups)
    words = {"run": "run", "checkpoints": "folder", "capacity": "folder", "pins": "document"}
    parts = [f"{format_count(kinds[kind], word)} of {kind}" if kind != "run" else format_count(kinds[kind], word)
             for kind, word in words.items() if kinds[kind]]  # fmt: skip
    return f"Goes: {', '.join(parts)}; {format_count(objects, 'object')}, {size(sum(group.bytes for group in groups))}."


def _rows(plan: Plan) -> Iterator[tuple[list[Cell], Decision]]:
    """A row for each group, but one for all pins with the same reason."""
    pins: dict[tuple[bool, str], list[Decision]] = {}
    for decision in plan.decisions:
        if decision.group.kind == "pins":
            pins.setdefault((decision.goes, decision.why), []).append(decision)
        else:
            yield _row(plan, [decision], decision.group.folder), decision
    for same in pins.values():
        yield _row(plan, same, "pins"), same[0]


def _row(plan: Plan, decisions: list[Decision], what: str) -> list[Cell]:
    groups, first = [decision.group for decision in decisions], decisions[0]
    days = (plan.now - max(group.updated for group in groups)).days
    objects, count = sum(len(group.items) for group in groups), sum(group.bytes for group in groups)
    mark = Text("goes", "yellow") if first.goes else Text("stays", "green")
    return [mark, what, f"{objects:,}", size(count), f"{days}d", first.why]


def as_json(plan: Plan, removed: Removed | None) -> JsonObject:
    """The plan, and what was deleted; None: nothing was to be."""
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
