"""Rows of the table as text, and their totals."""

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any

Row = dict[str, Any]
NUMBERS = ("attempts", "jobs", "trained", "lost", "most_lost")
HEAD = f"{'name':20} attempts  jobs trained again  most  hours     usd  seconds  ends; kills"


def lines(row: Row) -> Iterator[str]:
    attempts, jobs, trained, lost, most = (row[name] for name in NUMBERS)
    yield (
        f"{row['name']:20} {attempts:8} {jobs:5} {trained:7} {lost:5} {most:5} {row['hours']:6.2f} {row['usd']:7.2f} "
        f"{row['seconds']:8.1f}  {format_counts(row['outcomes'])}; {format_counts(row['kills'])}"
    )
    for problem in row["problems"]:
        yield f"    WRONG: {problem}"


def format_counts(counts: dict[str, int]) -> str:
    return ", ".join(f"{count} {name}" for name, count in sorted(counts.items())) or "none"


def of(found: Sequence[Row]) -> str:
    attempts, jobs, trained, lost, _ = (sum(row[name] for row in found) for name in NUMBERS)
    wrong = [row["name"] for row in found if row["problems"]]
    return "\n".join(
        (
            f"{len(found)} climbs, {len(found) - len(wrong)} as they must be"
            + (f"; wrong: {', '.join(wrong)}" if wrong else ""),
            f"  {attempts} attempts: {format_counts(total(found, 'outcomes'))}",
            f"  {jobs} jobs created, {trained} of them trained; machines went: {format_counts(total(found, 'ends'))}",
            f"  jobs that waited beside one on demand: {format_counts(total(found, 'waiting'))}",
            f"  killed: {format_counts(total(found, 'kills'))}",
            f"  {lost} steps done again, {max((row['most_lost'] for row in found), default=0)} at one end at most",
        )
    )


def total(found: Sequence[Row], name: str) -> Counter[str]:
    return sum((Counter(row[name]) for row in found), Counter())
