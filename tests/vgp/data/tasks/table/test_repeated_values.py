"""Columns with repeated values: the ones that group rows, the questions, and the remarks on the other columns."""

import random
import uuid
from collections.abc import Callable

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.helpers.declared import proposed
from vgp.base.exits import UserError
from vgp.data.tasks.table import proposal, sample, task_toml
from vgp.data.tasks.table.parsing import parse
from vgp.data.tasks.table.proposal import ProposalRequest
from vgp.data.tasks.table.task import Table

DRAW = random.Random(11)
ROWS = 1200
NOISE = [DRAW.gauss(0, 1) for _ in range(ROWS)]
#: Who each row is of: 200 people with six rows each, in no order; and what each of them is.
WHO = DRAW.sample([number // 6 for number in range(ROWS)], ROWS)
SICK = [DRAW.random() < 0.5 for _ in range(200)]
#: Whether the people of a hospital fare worse.
HOSPITALS = [DRAW.random() < 0.5 for _ in range(30)]
NAMES = [str(uuid.UUID(int=DRAW.getrandbits(128))) for _ in range(200)]
NUMBERS = DRAW.sample(range(1000, 9000), 200)
INCOMES = [round(DRAW.lognormvariate(10, 1), 2) for _ in range(200)]

LABELS = [int(SICK[who] if DRAW.random() < 0.85 else DRAW.random() < 0.5) for who in WHO]

Column = Callable[[int], object]


def people(**columns: Column) -> dict[str, Column]:
    return {**columns, "x": lambda i: f"{NOISE[i]:.3f}", "y": lambda i: LABELS[i]}


def roles(made: proposal.Proposal) -> dict[str, str]:
    return {column.name: column.role for column in made.columns}


def types(made: proposal.Proposal) -> dict[str, str]:
    return {column.name: column.type for column in made.columns}


@pytest.mark.parametrize(
    "who",
    [
        lambda i: WHO[i] + 1,
        lambda i: NUMBERS[WHO[i]],
        lambda i: f"{NUMBERS[WHO[i]]}.0",
        lambda i: NAMES[WHO[i]],
        lambda i: f"Smith, J. {NAMES[WHO[i]][:5]}",
        lambda i: "" if i % 9 == 0 else NUMBERS[WHO[i]],
        lambda i: f"{INCOMES[WHO[i]]}",
    ],
    ids=["counted", "numbers", "floats", "uuids", "names", "missing", "incomes"],
)
def test_what_rows_belong_to_is_asked_for_with_both_readings_and_an_example(tmp_path, who):
    with pytest.raises(UserError) as refused:
        proposed(tmp_path, people(patient=who), rows=ROWS)
    text = str(refused.value)
    assert "rows that share a value of patient have similar targets" in text
    assert (
        "--group patient: all rows with one value stay in one split" in text
        and "--group row: rows with one value" in text
    )
    assert "values in 1," in text and "For example" in text and "of them" in text
    made = proposed(tmp_path, people(patient=who), rows=ROWS, group="patient")
    assert roles(made) == {"patient": "group", "x": "learned", "y": "target"} and made.group == "patient"
    row = proposed(tmp_path, people(patient=who), rows=ROWS, group="row")
    assert roles(row)["patient"] == "learned" and parse(task_toml.format_proposal(row)).groups == ("row",)


def test_numbers_that_are_names_are_no_amounts(tmp_path):
    for values in (lambda i: NUMBERS[WHO[i]], lambda i: f"{NUMBERS[WHO[i]]}.0"):
        assert types(proposed(tmp_path, people(patient=values), rows=ROWS, group="row"))["patient"] == "category"
    table = pa.table({
        "patient": pa.array([float(NUMBERS[who]) for who in WHO]), "x": pa.array(NOISE), "y": pa.array(LABELS),
    })  # fmt: skip
    pq.write_table(table, tmp_path / "a.parquet")
    for group in ("row", "patient"):
        made = proposal.propose(sample.read_sample(str(tmp_path / "a.parquet")), ProposalRequest("y", group=group))
        assert types(made)["patient"] == "category float"


def test_an_id_by_name_and_values_is_the_group_and_the_other_reading_is_named(tmp_path):
    made = proposed(tmp_path, people(user_id=lambda i: WHO[i]), rows=ROWS)
    (column,) = [column for column in made.columns if column.name == "user_id"]
    assert made.group == "user_id" and "200 values in 1,200 rows; correlation of y within a value 0." in column.why
    text = task_toml.format_proposal(made)
    assert 'group = "user_id"  # rows that share a value stay in one split' in text


def test_ids_of_two_rows_each_are_enough(tmp_path):
    pairs = DRAW.sample([number // 2 for number in range(ROWS)], ROWS)
    sick = [DRAW.random() < 0.5 for _ in range(ROWS // 2)]
    columns = {"who": lambda i: f"c{pairs[i]}", "x": lambda i: f"{NOISE[i]:.3f}", "y": lambda i: int(sick[pairs[i]])}
    with pytest.raises(UserError, match="who: 600 values in 1,200 rows; correlation of y within a value 1.00"):
        proposed(tmp_path, columns, rows=ROWS)


def test_of_a_regression_too(tmp_path):
    means = [DRAW.gauss(0, 2) for _ in range(200)]
    columns = {
        "store": lambda i: WHO[i],
        "x": lambda i: f"{NOISE[i]:.3f}",
        "y": lambda i: f"{means[WHO[i]] + NOISE[-i]:.2f}",
    }
    with pytest.raises(UserError, match="store = '.*' is in 6 rows, with y .* to "):
        proposed(tmp_path, columns, rows=ROWS)


def test_of_several_candidates_one_is_asked_for_and_what_stands_for_another_is_none(tmp_path):
    worse = [DRAW.gauss(0, 3) + 3 * HOSPITALS[who % 30] for who in range(200)]
    label = [int(DRAW.gauss(0, 1) + worse[WHO[i]] > 1.5) for i in range(ROWS)]
    columns = {
        "hospital": lambda i: f"H{WHO[i] % 30}",
        "patient": lambda i: NUMBERS[WHO[i]],
        "income": lambda i: INCOMES[WHO[i]],
        "x": lambda i: f"{NOISE[i]:.3f}",
        "y": lambda i: label[i],
    }
    with pytest.raises(UserError, match="--group hospital or --group patient: all") as refused:
        proposed(tmp_path, columns, rows=ROWS)
    assert "income" not in str(refused.value)
    made = proposed(tmp_path, columns, rows=ROWS, group="patient")
    assert roles(made)["income"] == "learned" and types(made)["income"] == "float"
    assert set(made.repeats) == {"patient", "hospital"}


def test_with_a_time_the_answer_is_the_day_or_the_group(tmp_path):
    columns = people(member=lambda i: NUMBERS[WHO[i]], at=lambda i: f"2024-{i % 12 + 1:02}-15")
    with pytest.raises(
        UserError, match="--group member: the decision counts .* --group day: the model learns the value"
    ):
        proposed(tmp_path, columns, rows=ROWS)
    day = proposed(tmp_path, columns, rows=ROWS, group="day")
    assert parse(task_toml.format_proposal(day)).groups == ("day",) and roles(day)["member"] == "learned"
    made = proposed(tmp_path, columns, rows=ROWS, group="member")
    assert parse(task_toml.format_proposal(made)).groups == ("day", "member")
    with pytest.raises(UserError, match="--group day counts days of the time"):
        proposed(tmp_path, people(), rows=ROWS, group="day")


@pytest.mark.parametrize(
    "column",
    [
        lambda i: f"{round(2 * LABELS[i] + NOISE[-i], 1) + 20:.2f}",  # prices: near ones agree as well
        lambda i: int(30 * NOISE[-i] + 40 * LABELS[i]),
        lambda i: 10_000 + i * 7919 % 531,  # another name for nothing
        lambda i: f"c{i * 7919 % 331}",
        lambda i: f"town {i * 7919 % 61}",
        lambda i: NUMBERS[i % 200] if i < 60 else 20_000 + i,
    ],
    ids=["prices", "amounts", "zips", "names", "towns", "few"],
)
def test_what_repeats_and_does_not_share_the_target_is_no_group_and_no_question(tmp_path, column):
    made = proposed(tmp_path, people(thing=column), rows=ROWS)
    assert made.group == "" and not made.repeats


def test_a_category_of_many_rows_each_that_predicts_a_little_is_learned_and_named(tmp_path):
    shares = [DRAW.random() for _ in range(40)]
    town = [DRAW.randrange(40) for _ in range(4000)]
    label = [int(DRAW.random() < 0.25 + 0.5 * shares[town[i]]) for i in range(4000)]
    columns = {"town": lambda i: f"town {'abcdefghij'[town[i] // 10] * (town[i] % 10 + 1)}", "y": lambda i: label[i],
               "x": lambda i: f"{NOISE[i % ROWS]:.3f}"}  # fmt: skip
    made = proposed(tmp_path, columns, rows=4000)
    (why,) = [column.why for column in made.columns if column.name == "town"]
    assert made.group == "" and roles(made)["town"] == "learned" and "40 values in 4,000 rows; correlation of y" in why


def test_the_report_names_the_use_of_a_column_that_repeats(tmp_path):
    columns = people(patient=lambda i: NUMBERS[WHO[i]])
    remarks = {}
    for group in ("patient", "row"):
        made = proposed(tmp_path, columns, rows=ROWS, group=group)
        (remarks[group],) = Table({"declaration": task_toml.format_proposal(made)}).remarks
    facts = "Repeated values of patient (200 values in 1,200 rows; correlation of y within a value 0."
    assert remarks["patient"].startswith(facts) and remarks["row"].startswith(facts)
    assert remarks["patient"].endswith("All rows with one value are in one split, so the figures hold for new values.")
    assert remarks["row"].endswith("so the figures do not hold for new values.")
    columns["y"] = lambda i: int(SICK[WHO[i]])  # which the patient alone predicts
    made = proposed(tmp_path, columns, rows=ROWS, group="row")
    (left_out,) = Table({"declaration": task_toml.format_proposal(made)}).remarks
    assert roles(made)["patient"] == "leak"
    assert "The model does not learn the value" in left_out


def test_a_column_of_few_values_that_predicts_the_target_may_group_the_rows(tmp_path):
    columns = {"patient": lambda i: i % 12, "x": lambda i: f"{NOISE[i]:.3f}", "y": lambda i: int(SICK[i % 12])}
    made = proposed(tmp_path, columns, rows=ROWS)
    (column,) = [column for column in made.columns if column.name == "patient"]
    assert column.role == "leak" and "as a patient does, give --group patient" in column.why
    grouped = proposed(tmp_path, columns, rows=ROWS, group="patient")
    assert roles(grouped)["patient"] == "group"
