"""Small tables, and the declarations that tests make of them."""

import csv
import random
from collections.abc import Callable, Sequence
from pathlib import Path

from vgp.data.tasks.table import proposal, sample
from vgp.data.tasks.table.proposal import Proposal, ProposalRequest

TOML = """\
target = "survived"
kind = "classes"
classes = ["no", "yes"]
key = ["id"]
slices = ["sex"]
missing = ["?"]

[columns]
id       = "int"
survived = "category"
age      = "float"  # years
sex      = "category"
fare     = "number"
born     = "date %d.%m.%Y"
name     = "text"

[ignored]
alive    = "category"  # would leak
"""


def write(path: Path, header: Sequence[str], rows: Sequence[Sequence[object]], separator: str = ",") -> Path:
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file, delimiter=separator, lineterminator="\n")
        writer.writerow(header)
        writer.writerows(rows)
    return path


def passengers(folder: Path, rows: int = 120) -> Path:
    """A table that TOML declares."""
    draw = random.Random(7)
    header = ("id", "survived", "alive", "age", "sex", "fare", "born", "name")
    lines = []
    for number in range(rows):
        yes = draw.random() < 0.4
        age = "?" if number % 10 == 0 else f"{draw.gauss(30 - 8 * yes, 5):.1f}"
        fare, born = f"${draw.randint(1, 9)},{draw.randint(100, 999)}.50", f"{number % 28 + 1:02}.03.1990"
        fare = "?" if number % 11 == 0 else fare
        lines.append(
            (
                number,
                "yes" if yes else "no",
                int(yes),
                age,
                "?" if number % 7 == 0 else draw.choice("mf"),
                fare,
                born,
                f"Mr. No {number}",
            )
        )
    return write(folder / "passengers.csv", header, lines)


def proposed(folder: Path, columns: dict[str, Callable[[int], object]], rows: int = 200, **asked: object) -> Proposal:
    """What is proposed for a table whose columns are functions of the row's number."""
    lines = [[column(number) for column in columns.values()] for number in range(rows)]
    path = write(folder / "table.csv", list(columns), lines)
    return proposal.propose(sample.read_sample(str(path)), ProposalRequest(**{"target": "y", **asked}))  # type: ignore[arg-type]
