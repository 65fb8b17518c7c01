"""What the specs of two folders ask for, side by side: the machines and the most that a run and a month can cost."""

import os
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from vgp.base.documents.reading import refuse_address
from vgp.base.documents.settings_file import FILE_NAME
from vgp.base.errors import RequestError
from vgp.check.check import own_regions
from vgp.check.cost import Cost, most_usd, unpriced
from vgp.check.finding import StepRow
from vgp.check.report import Report

Judged = Callable[..., Report]


@dataclass(frozen=True)
class Recurring:
    """A schedule of pipelines.toml."""

    name: str
    #: The workflow that it runs; empty where `problem` tells why it is not known.
    pipeline: str
    runs_per_month: float = 0.0
    problem: str = ""


@dataclass(frozen=True)
class State:
    """What the files of a folder ask for, by their paths in it, and its schedules."""

    report: Report
    files: Mapping[str, Sequence[StepRow]]
    schedules: Sequence[Recurring] = ()

    def month(self, schedule: Recurring) -> Cost | None:
        """The most that its runs cost in a month, by the spec with the pipeline's name; None: there is none."""
        specs = [rows for file, rows in sorted(self.files.items()) if Path(file).stem == schedule.pipeline and rows]
        if not specs:
            return None
        return Cost(most_usd(specs[0]) * schedule.runs_per_month, tuple(unpriced(specs[0])))


def run_cost(rows: Sequence[StepRow]) -> Cost:
    """The most that a run of these steps can cost."""
    return Cost(most_usd(rows), tuple(unpriced(rows)))


def sides(paths: Sequence[str], before: Path, regions: Sequence[str], judged: Judged) -> tuple[State, State]:
    """The folder `before` and the current one, as far as `paths` name them; what is only in one of them is new or gone.

    Args:
        paths: Files and folders, relative to the current folder.
        before: A folder with the same files as they were.
        regions: Where the specs must work; empty: in the region of each side's pipelines.toml.
        judged: `vgp.check.check.check` with its other options.

    Raises:
        RequestError: `before` is no folder; a path is outside of the current folder, or in neither of them.
    """
    refuse_address(before, "--compare")
    if not before.is_dir():
        raise RequestError(f"--compare {before}: there is no such folder. Give one with the files as they were.")
    relative = [_relative(path) for path in paths]
    lost = [path for path in relative if not os.path.lexists(path) and not os.path.lexists(before / path)]
    if lost:
        raise RequestError(f"{lost[0]}: neither here nor in {before}.")
    return _state(relative, before, regions, judged), _state(relative, Path(), regions, judged)


def _relative(path: str) -> str:
    inside = os.path.relpath(path)
    if path == "-" or inside == ".." or inside.startswith("../"):
        raise RequestError(f"{path}: with --compare, give files and folders below the current folder.")
    return inside


def _state(paths: Sequence[str], folder: Path, regions: Sequence[str], judged: Judged) -> State:
    settings = folder / FILE_NAME
    there = [folder / path for path in paths if os.path.lexists(folder / path)]
    where = regions or (own_regions(settings) if settings.is_file() else [])
    report = judged(there, regions=where, skip_others=True)
    files = {os.path.relpath(file, folder): rows for file, rows in report.by_file.items()}
    return State(report, files)


def pairs(before: Sequence[StepRow], after: Sequence[StepRow]) -> Iterator[tuple[StepRow | None, StepRow | None]]:
    """The rows of a file, each with that of the same step on the other side; None: it is not there.

    A step with several sets of machines has several rows, which are matched in their order.
    """
    old = {key: row for key, row in _numbered(before)}
    new = {key: row for key, row in _numbered(after)}
    yield from ((old.get(key), row) for key, row in new.items())
    yield from ((row, None) for key, row in old.items() if key not in new)


def _numbered(rows: Sequence[StepRow]) -> Iterator[tuple[tuple[str, int], StepRow]]:
    seen: Counter[str] = Counter()
    for row in rows:
        yield (row.step, seen[row.step]), row
        seen[row.step] += 1
