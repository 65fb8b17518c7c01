"""A table without names of columns is asked about; a table whose names look like values is not."""

import re

import pytest

from tests.helpers.declared import write
from vgp.base.exits import UserError
from vgp.data.prepare import prepare
from vgp.data.tasks.table import proposal, sample
from vgp.data.tasks.table.proposal import ProposalRequest


def iris(i):
    return [f"{4 + i % 30 / 10}", f"{2 + i % 20 / 10}", f"{i % 7 / 10}", ("setosa", "virginica")[i % 2]]


#: Rows of tables, by a rule, whose first row is taken for names.
VALUES = {
    "numbers and a class": iris,
    "numbers": lambda i: [i * 37 % 101 + 7, i % 9, i * 13 % 50 + 60],
    "numbers that differ in each row": lambda i: [f"{0.1234567 + i / 7:.6f}", f"{0.7 + i * i / 3:.6f}"],
    "dates and numbers": lambda i: [f"2026-01-{i % 28 + 1:02}", f"{i / 7 + 3:.3f}"],
    "a class and a text": lambda i: [("ham", "spam")[i % 2], f"a message of several words, number {i}"],
    "names": lambda i: ["pe"[i % 2], "xb"[(i + (i > 0)) % 2], "sy"[i // 2 % 2]],
}

#: Names of columns, and a rule for the rows.
NAMES = {
    "numbered columns": (["0", "1", "2"], lambda i: [i % 5, i % 3, i % 2]),
    "years": (["country", "1990", "1991"], lambda i: [f"c{i % 9}", i * 37 % 101, i * 13 % 97]),
    "numbered columns and a label": (["label", "17", "3"], lambda i: [i % 2, i % 20, i % 5]),
    "a name that is a value": (["other", "amount"], lambda i: [("other", "food")[i % 2], i * 37 % 101]),
    "texts with a value": (["text", "kind", "place"], lambda i: [f"t{i % 30}", ("kind", "mean")[i % 2], f"p{i % 7}"]),
}


@pytest.mark.parametrize("name", VALUES)
def test_a_first_row_of_values_is_asked_about_before_the_target(tmp_path, name):
    first, *rows = [VALUES[name](i) for i in range(100)]
    seen = sample.read_sample(str(write(tmp_path / "a.csv", first, rows)))
    with pytest.raises(UserError, match="add a line with the names") as error:
        proposal.propose(seen, ProposalRequest("species"))
    assert "add a line with the names" in proposal.list_columns(seen)
    column, type_ = re.search(r"--read '?([^=\n]*)=([^'\n]*)", str(error.value)).groups()
    with pytest.raises(UserError, match="the table has no column 'species'"):
        proposal.propose(seen, ProposalRequest("species", read=[f"{column}={type_}"]))


@pytest.mark.parametrize("name", NAMES)
def test_names_that_look_like_values_are_names(tmp_path, name):
    names, rule = NAMES[name]
    seen = sample.read_sample(str(write(tmp_path / "a.csv", names, [rule(i) for i in range(100)])))
    assert proposal.propose(seen, ProposalRequest(names[0], group="row")).target.name == names[0]


def test_a_value_that_occurs_twice_in_the_first_row_is_refused_with_the_fix(tmp_path):
    rows = [[i % 3 // 2, i % 2, i * 37 % 101] for i in range(30)]
    with pytest.raises(UserError, match="column 0 occurs twice.*add a line with the names"):
        sample.read_sample(str(write(tmp_path / "a.csv", rows[0], rows[1:])))


def test_a_later_file_without_names_is_an_error_that_lists_the_missing_names(tmp_path):
    names = ["length", "width", "petal", "species"]
    rows = [iris(i) for i in range(100)]
    text = 'target = "species"\nclasses = ["setosa", "virginica"]\n[columns]\nspecies = "category"\n'
    text += "".join(f'{name} = "float"\n' for name in names[:3])
    write(tmp_path / "1.csv", names, rows)
    write(tmp_path / "2.csv", rows[0], rows[1:])
    with pytest.raises(UserError, match=r"2\.csv.* lacks the columns species, length, width, petal"):
        prepare("table", str(tmp_path), tmp_path / "out", options={"declaration": text})
