"""What the parts of a task.toml must be to each other: each problem as the keys where it stands, and a sentence."""

from collections.abc import Iterator

from vgp.base.options import nearest
from vgp.base.printable import quoted
from vgp.data.tasks.table.declaration import Declared
from vgp.data.tasks.table.kinds import DATES, NUMBERS, kind

Problem = tuple[tuple[str, ...], str]


def problems(declared: Declared) -> list[Problem]:
    """Those of the names and types of columns; if there are none, those of what is said about them."""
    found = [*_types(declared), *_names(declared), *_references(declared)]
    return found or [*_target(declared), *_roles(declared), *_rest(declared)]


def _types(declared: Declared) -> Iterator[Problem]:
    for table, columns in (("columns", declared.columns), ("ignored", declared.ignored)):
        for name, text in columns.items():
            try:
                kind(text)
            except ValueError as error:
                if text or table == "columns":
                    yield (table, name), f"the column {quoted(name)}: {error}"


def _names(declared: Declared) -> Iterator[Problem]:
    spelled = dict[str, str]()
    for name in declared.columns:
        if not name.strip():
            yield ("columns", name), "a column without a name cannot be read: give it one in the file."
        if (other := spelled.setdefault(name.lower(), name)) != name:
            rule = "differ in case only, and engines do not tell them apart: leave one out, or rename it in the file."
            yield ("columns", name), f"{quoted(name)} and {quoted(other)} {rule}"
        if name in declared.ignored:
            yield ("ignored", name), f"{quoted(name)} stands in [columns] and in [ignored]: take one line out."


def _references(declared: Declared) -> Iterator[Problem]:
    for key in ("target", "key", "time", "group", "slices", "trusted"):
        value = getattr(declared, key)
        for name in filter(None, [value] if isinstance(value, str) else value):
            if name in declared.columns or key == "group" and name in ("day", "row"):
                continue
            fix = "It stands in [ignored]: move its line." if name in declared.ignored else ""
            yield (key,), f"{key}: [columns] has no {quoted(name)}. {fix or nearest(name, declared.columns)}"


def _target(declared: Declared) -> Iterator[Problem]:
    text, name = declared.columns[declared.target], declared.kinds[declared.target].name
    target = f"the target {quoted(declared.target)} is {quoted(text)}"
    if declared.kind == "regression":
        if name not in NUMBERS:
            rule = 'a regression learns a number (int, float, number). Write kind = "classes", or another target.'
            yield ("kind",), f"{target}, and {rule}"
        if not declared.quantiles or not all(0 < q < 1 for q in declared.quantiles):
            yield (
                ("quantiles",),
                f"quantiles = {declared.quantiles}: give some between 0 and 1, such as [0.1, 0.5, 0.9].",
            )
        elif sorted(set(declared.quantiles)) != declared.quantiles:
            yield ("quantiles",), f"quantiles = {declared.quantiles}: they rise, and none comes twice."
        for key in ("classes", "left_out"):
            if getattr(declared, key):
                yield (key,), f'{key} means nothing with kind = "regression": take the line out.'
    elif name not in ("bool", "category"):
        rule = '"category" (category int where a Parquet file stores numbers) or "bool". For a number write '
        yield ("columns", declared.target), f'{target}; classes are a {rule}kind = "regression".'
    elif len(declared.classes) < 2 or len(set(declared.classes)) < len(declared.classes):
        yield ("classes",), f"classes = {declared.classes}: name two or more, each once, in the order of their codes."
    elif name == "bool" and declared.classes != ["false", "true"]:
        yield ("classes",), f'classes = {declared.classes}: {target}, whose classes are ["false", "true"].'
    elif both := sorted({*declared.classes} & {*declared.left_out}):
        yield ("left_out",), f"{quoted(both[0])} stands in classes and in left_out: take it out of one."


def _roles(declared: Declared) -> Iterator[Problem]:
    time = declared.time and declared.kinds[declared.time]
    if time and time.name not in DATES:
        rule = f"the time {quoted(declared.time)} is {quoted(declared.columns[declared.time])}"
        yield ("columns", declared.time), f"{rule}; it must be a date or a timestamp."
    if len(set(declared.groups)) < len(declared.groups) or len(declared.groups) > 2:
        yield ("group",), f"group = {declared.group}: name one column, or two that differ."
    if "row" in declared.groups and len(declared.groups) > 1 and "row" not in declared.columns:
        yield ("group",), f'group = {declared.group}: "row" says that every row counts by itself, so it stands alone.'
    if "day" in declared.groups and not time and "day" not in declared.columns:
        yield ("group",), 'group = "day" is the day of the time: name the column of the time.'
    for role, names in (("key", declared.key), ("time", [declared.time]), ("group", declared.groups)):
        for name in filter(declared.kinds.__contains__, names):
            if role != "group" and declared.kinds[name].missing:
                text = quoted(declared.columns[name])
                yield ("columns", name), f"{quoted(name)} is {text}, and a {role} is never missing: take its rows out."
        if declared.target in names:
            yield (role,), f"{role} names the target, which is not known beforehand."
    for name in declared.slices:
        if name not in declared.features or declared.kinds[name].name != "category":
            yield ("slices",), f"slices: {quoted(name)} is no category that the model learns from."


def _rest(declared: Declared) -> Iterator[Problem]:
    if not declared.features and not declared.time:
        rule = "beside the target it needs at least one that is neither key nor group."
        yield ("columns",), f"[columns] leaves nothing to learn from: {rule}"
    if not declared.network.hidden or min(declared.network.hidden) < 1:
        yield ("network", "hidden"), f"hidden = {declared.network.hidden}: the width of each layer, 1 or more."
