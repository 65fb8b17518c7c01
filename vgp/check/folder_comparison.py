"""Compares the specs of two folders: machines, and the maximum cost of a run and of a month; also as Markdown.

In Markdown, text from the files stands in code spans, where GitHub reads neither links, mentions nor HTML.
"""

import os
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from pathlib import Path

from vgp.base.documents.bounded_text import refuse_address
from vgp.base.documents.toml_text import FILE_NAME
from vgp.base.errors import RequestError
from vgp.base.text.figures import format_count, format_usd
from vgp.base.text.printable import one_line
from vgp.base.text.times import price_dates as words
from vgp.check.check_finding import Finding, StepRow
from vgp.check.check_report import Report
from vgp.check.checker import read_project_regions
from vgp.check.cost_bound import Cost, build_line, find_unpriced_steps, format_unpriced_steps, most_usd, price_dates

Judged = Callable[..., Report]


@dataclass(frozen=True)
class Recurring:
    """A schedule of pipelines.toml."""

    name: str
    #: Its workflow; empty if `problem` explains why it is unknown.
    pipeline: str
    runs_per_month: float = 0.0
    problem: str = ""


@dataclass(frozen=True)
class State:
    """The requests of a folder's files by their relative paths, and its schedules."""

    report: Report
    files: Mapping[str, Sequence[StepRow]]
    schedules: Sequence[Recurring] = ()

    def month(self, schedule: Recurring) -> Cost | None:
        """Returns the maximum monthly cost of the schedule, from the spec with the pipeline's name; None without such a
        spec."""
        specs = [rows for file, rows in sorted(self.files.items()) if Path(file).stem == schedule.pipeline and rows]
        if not specs:
            return None
        return Cost(most_usd(specs[0]) * schedule.runs_per_month, tuple(find_unpriced_steps(specs[0])))


def run_cost(rows: Sequence[StepRow]) -> Cost:
    """Returns the maximum cost of a run of these steps."""
    return Cost(most_usd(rows), tuple(find_unpriced_steps(rows)))


def read_states(paths: Sequence[str], before: Path, regions: Sequence[str], judged: Judged) -> tuple[State, State]:
    """Returns the states of the folder `before` and of the current folder, restricted to `paths`.

    Args:
        paths: Files and folders, relative to the current folder.
        before: A folder with the earlier state of the files.
        regions: Regions in which the specs must work; empty: the region of each side's pipelines.toml.
        judged: `vgp.check.checker.check` with its other options.

    Raises:
        RequestError: `before` is not a folder, or a path is outside of the current folder or in neither of the two.
    """
    refuse_address(before, "--compare")
    if not before.is_dir():
        raise RequestError(f"--compare {before}: no such folder. Pass a folder with the earlier state of the files.")
    relative = [_relative_path(path) for path in paths]
    lost = [path for path in relative if not os.path.lexists(path) and not os.path.lexists(before / path)]
    if lost:
        raise RequestError(f"{lost[0]}: not in the current folder and not in {before}.")
    return _state(relative, before, regions, judged), _state(relative, Path(), regions, judged)


def _relative_path(path: str) -> str:
    inside = os.path.relpath(path)
    if path == "-" or inside == ".." or inside.startswith("../"):
        raise RequestError(f"{path}: with --compare, pass files and folders inside the current folder.")
    return inside


def _state(paths: Sequence[str], folder: Path, regions: Sequence[str], judged: Judged) -> State:
    settings = folder / FILE_NAME
    existing = [folder / path for path in paths if os.path.lexists(folder / path)]
    where = regions or (read_project_regions(settings) if settings.is_file() else [])
    report = judged(existing, regions=where, skip_others=True)
    files = {os.path.relpath(file, folder): rows for file, rows in report.by_file.items()}
    return State(report, files)


def pairs(before: Sequence[StepRow], after: Sequence[StepRow]) -> Iterator[tuple[StepRow | None, StepRow | None]]:
    """Pairs the rows of a file with those of the same step on the other side; None stands for a missing row.

    A step with several sets of machines has several rows, which are matched in their order.
    """
    old = {key: row for key, row in _number_rows(before)}
    new = {key: row for key, row in _number_rows(after)}
    yield from ((old.get(key), row) for key, row in new.items())
    yield from ((row, None) for key, row in old.items() if key not in new)


def _number_rows(rows: Sequence[StepRow]) -> Iterator[tuple[tuple[str, int], StepRow]]:
    seen: Counter[str] = Counter()
    for row in rows:
        yield (row.step, seen[row.step]), row
        seen[row.step] += 1


#: A comment on GitHub has at most 65,536 characters.
MOST_ROWS, MOST_FINDINGS = 100, 10
_HEAD = ("step", "machines", "GPUs", "where", "$/hour", "at most")
_NONE = "-"


def markdown(before: State, after: State, today: date | None = None) -> str:
    """Returns the report: errors, then the steps that changed by file, then the schedules."""
    lines = ["### Machines, and what a run can cost at most", "", *_format_findings(after.report)]
    rows = {
        file: [list(side.files.get(file, ())) for side in (before, after)] for file in {*before.files, *after.files}
    }
    changed = [file for file, (old, new) in sorted(rows.items()) if old != new]
    left = MOST_ROWS
    for file in changed:
        table = _format_file(before.files.get(file, ()), after.files.get(file, ()))
        if len(table) > left:
            lines += ["", f"Not shown: {format_count(len(changed) - changed.index(file), 'further file')}."]
            break
        left -= len(table)
        lines += ["", f"{code(file)}{_describe_presence(file, before, after)}", "", *table]
    same = len([file for file, rows in after.files.items() if rows and file not in changed])
    if same or not changed:
        lines += [
            "",
            f"Unchanged: {format_count(same, 'file')}." if same else "No file requests a machine.",
        ]
    return "\n".join([*lines, *_schedule_rows(before, after), *_format_price_dates([before, after], today)]) + "\n"


def _format_price_dates(states: Sequence[State], today: date | None) -> Iterator[str]:
    """Yields a line with the dates of the prices, if there are any."""
    rows = [row for state in states for rows in state.files.values() for row in rows]
    text = words(price_dates(rows), today)
    yield from ["", f"{text[0].upper()}{text[1:]}."] if text else []


def code(text: str, most: int = 120) -> str:
    """Returns text of a file as a code span that is also safe within a table."""
    # A backslash before | has different meanings in a code span and in a table.
    plain = one_line(text, most).replace("`", "'").replace("|", "¦").strip()
    return f"`{plain}`" if plain else "` `"


def _describe_presence(file: str, before: State, after: State) -> str:
    if not before.files.get(file):
        return ", new"
    return "" if after.files.get(file) else ", gone"


def _format_findings(report: Report) -> Iterator[str]:
    yield report.summary
    errors = report.of_severity("error")
    numbers = report.lines()
    if errors:
        yield ""
    yield from (_format_finding(error, numbers.get(id(error), 1)) for error in errors[:MOST_FINDINGS])
    if len(errors) > MOST_FINDINGS:
        yield f"- and {format_count(len(errors) - MOST_FINDINGS, 'further error')}"
    yield from (f"- not judged: {code(line, 300)}" for line in report.unreadable[:MOST_FINDINGS])


def _format_finding(error: Finding, line: int) -> str:
    text = f"{error.step}: {error.message} {error.suggestion}"
    return f"- {error.rule} {code(f'{error.file}:{line}')} {code(text, 400)}"


def _format_file(before: Sequence[StepRow], after: Sequence[StepRow]) -> list[str]:
    alone = not before or not after
    rows = [_format_row(old, new, alone) for old, new in pairs(before, after)]
    old, new = (run_cost(side) if side else None for side in (before, after))
    total = ["**a run**", "", "", "", "", f"**{_cost_change(old or new, new or old)}**"]
    table = [
        _format_line(_HEAD),
        _format_line(["---", "---", "---", "---", "---:", "---:"]),
        *map(_format_line, [*rows, total]),
    ]
    left_out = format_unpriced_steps(after)
    return [*table, "", f"Not included: {code(left_out, 400)}"] if left_out else table


def _format_row(old: StepRow | None, new: StepRow | None, alone: bool) -> list[str]:
    names = {row.step for row in (old, new) if row}
    both = [_format_cells(old), _format_cells(new)]
    if alone:
        both = [_format_cells(new or old)] * 2
    return [code(names.pop()), *(_format_change(*texts) for texts in zip(*both, strict=True))]


def _format_cells(row: StepRow | None) -> list[str]:
    if row is None:
        return [_NONE] * 5
    line = build_line(row)
    machines = code(line["machine"]) if line["nodes"] == "1" else f"{line['nodes']} x {code(line['machine'])}"
    gpus = code(line["GPUs"]) if row.accelerator_type else _NONE
    where = f"{code(row.region) if row.region else 'any region'}, {line['provisioning'].replace('_', '-')}"
    return [machines, gpus, where, line["$/hour"], _bound(run_cost([row]))]


def _format_change(old: str, new: str) -> str:
    return new if old == new else f"{old} → {new}"


def _cost_change(old: Cost | None, new: Cost | None) -> str:
    """Returns `$19.64 → at least $20.50 (+$0.86)`; the difference only if both costs are bounds."""
    both = _format_change(*(_NONE if cost is None else _bound(cost) for cost in (old, new)))
    if old is None or new is None or old.unpriced or new.unpriced or old.usd == new.usd:
        return both
    more = new.usd - old.usd
    return f"{both} ({'+' if more > 0 else '-'}{format_usd(abs(more))})"


def _bound(cost: Cost) -> str:
    return "not known" if cost.unpriced and not cost.usd else str(cost)


def _schedule_rows(before: State, after: State) -> Iterator[str]:
    old, new = ({each.name: each for each in state.schedules} for state in (before, after))
    if not {*old, *new}:
        return
    yield from ["", "### Schedules, a month at most", ""]
    yield _format_line(["schedule", "pipeline", "runs a month", "a month"])
    yield _format_line(["---", "---", "---:", "---:"])
    for name in [*new, *(name for name in old if name not in new)][:MOST_ROWS]:
        was, now = old.get(name), new.get(name)
        texts = (_format_change(*pair) for pair in zip(_schedule(was), _schedule(now), strict=True))
        costs = (state.month(each) if each else None for state, each in ((before, was), (after, now)))
        yield _format_line([code(name), *texts, _format_month(was, now, *costs)])


def _schedule(schedule: Recurring | None) -> tuple[str, str]:
    if schedule is None:
        return _NONE, _NONE
    pipeline = code(schedule.pipeline) if schedule.pipeline else _NONE
    return pipeline, code(schedule.problem, 200) if schedule.problem else f"{schedule.runs_per_month:.1f}"


def _format_month(was: Recurring | None, now: Recurring | None, old: Cost | None, new: Cost | None) -> str:
    """Returns the monthly cost; it is unknown if the spec of the pipeline is not among the files."""
    if any(each and each.pipeline and cost is None for each, cost in ((was, old), (now, new))):
        return _format_change(_format_monthly_cost(was, old), _format_monthly_cost(now, new))
    return _cost_change(old, new)


def _format_monthly_cost(schedule: Recurring | None, cost: Cost | None) -> str:
    if schedule is None or not schedule.pipeline:
        return _NONE
    return "its spec is not among the files" if cost is None else _bound(cost)


def _format_line(texts: Sequence[str]) -> str:
    return f"| {' | '.join(texts)} |"
