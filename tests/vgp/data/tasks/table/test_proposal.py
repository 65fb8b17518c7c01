"""What is proposed for a table: types, roles, leaks, kinds of targets; and what is refused, with the reason."""

import gzip
import random
from datetime import date, timedelta
from decimal import Decimal

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.helpers.declared import passengers, proposed, write
from training.tasks import flights
from vgp.base.exits import UserError
from vgp.data import tasks
from vgp.data.prepare import prepare
from vgp.data.sources import file_bytes, table_files
from vgp.data.tasks.table import proposal, sample, spread_sample, task_toml
from vgp.data.tasks.table.parsing import parse
from vgp.data.tasks.table.proposal import ProposalRequest
from vgp.evaluation import predictions
from vgp.protocol import outcome

DRAW = random.Random(5)
NOISE = [DRAW.gauss(0, 1) for _ in range(400)]
FLIPS = [DRAW.random() < 0.3 for _ in range(400)]


def y(number):
    return "yes" if FLIPS[number] else "no"


def types(made):
    return {column.name: column.type for column in made.columns}


def roles(made):
    return {column.name: column.role for column in made.columns}


def test_types_follow_from_all_values_and_markers_are_found(tmp_path):
    made = proposed(
        tmp_path,
        {
            "y": y,
            "whole": lambda i: i % 50 - 7,
            "real": lambda i: "?" if i % 9 == 0 else f"{NOISE[i]:.3f}",
            "unforeseen": lambda i: "none" if i % 9 == 0 else i % 40,
            "money": lambda i: f"${i},{100 + i % 900}.50",
            "plz": lambda i: f"0{1000 + i % 7}",
            "zip code": lambda i: 10115 + i % 7,
            "flag": lambda i: "true" if i % 3 else "false",
            "day": lambda i: f"{i % 28 + 1:02}.0{i % 9 + 1}.2024",
            "at": lambda i: f"2024-0{i % 9 + 1}-01 10:00:00",
            "zone": lambda i: f"2024-0{i % 9 + 1}-01T10:00:00Z",
            "mixed": lambda i: ("2024-01-31", "soon", "late")[i % 3],
            "words": lambda i: f"it said, in so many words, {NOISE[i]}",
            "many": lambda i: f"v{i % 60}",
        },
        time="at",
    )
    assert types(made) == {
        "y": "category", "whole": "int", "real": "float", "unforeseen": "int", "money": "number $1,234.5",
        "plz": "category",
        "zip code": "category", "flag": "bool", "day": "date %d.%m.%Y", "at": "timestamp", "zone": "timestamp UTC",
        "mixed": "category", "words": "text", "many": "category",
    }  # fmt: skip
    assert list(made.missing) == ["?", "none"]


def test_columns_that_predict_nothing_or_are_the_target_are_left_out_with_the_reason(tmp_path):
    made = proposed(
        tmp_path,
        {
            "": lambda i: i,
            "id": lambda i: i,
            "token": lambda i: f"t{i}",
            "ticket": lambda i: f"t{i - i % 3 // 2}",
            "same": lambda i: "x",
            "none": lambda i: "",
            "alive": lambda i: {"yes": 1, "no": 0}[y(i)],
            "refund": lambda i: f"{NOISE[i] + (90 if FLIPS[i] else 0):.3f}",
            "x": lambda i: f"{NOISE[i]:.3f}",
            "X": lambda i: f"{NOISE[i]:.3f}",
            "y": y,
        },
        rows=400,
    )
    why = {column.name: column.why for column in made.columns}
    assert roles(made) == {
        "": "ignored", "id": "key", "token": "ignored", "ticket": "ignored", "same": "ignored", "none": "ignored",
        "alive": "leak", "refund": "leak", "x": "learned", "X": "ignored", "y": "target",
    }  # fmt: skip
    assert "a different value in each row" in why["token"] and "nearly unique" in why["ticket"]
    assert why["alive"] == "would leak: equivalent to the target: each value belongs to one class"
    assert "alone it separates" in why["refund"] and "only in case" in why["X"] and "without a name" in why[""]


def test_parts_of_a_sum_row_counters_and_numbers_that_are_names_are_left_out(tmp_path):
    made = proposed(
        tmp_path,
        {
            "instant": lambda i: i + 7,
            "casual": lambda i: i * 37 % 101,
            "registered": lambda i: i * 53 % 211,
            "temp": lambda i: f"{NOISE[i]:.2f}",
            "order_id": lambda i: i * 7 % 150,
            "shop_id": lambda i: i % 7,
            "warehouse_id": lambda i: i * 3 % 170,
            "y": lambda i: i * 37 % 101 + i * 53 % 211,
        },
        rows=400,
    )
    why = {column.name: column.why for column in made.columns}
    assert roles(made) == {
        "instant": "ignored", "casual": "leak", "registered": "leak", "temp": "learned", "order_id": "ignored",
        "shop_id": "learned", "warehouse_id": "ignored", "y": "target",
    }  # fmt: skip
    assert why["casual"] == "would leak: the target is a sum of casual, registered"
    assert why["instant"] == "counts the rows" and types(made)["shop_id"] == "category"


def test_numbers_of_the_rows_in_another_order_are_no_count_of_them(tmp_path):
    order = DRAW.sample(range(1, 401), 400)
    columns = {"rank": lambda i: order[i], "down": lambda i: 900 - i, "y": y}
    made = proposed(tmp_path, columns | {"x": lambda i: NOISE[i]}, rows=400)
    assert roles(made) == {"rank": "learned", "down": "ignored", "y": "target", "x": "learned"}


def test_a_category_of_nearly_one_value_is_no_slice(tmp_path):
    columns = {"y": y, "street": lambda i: "gravel" if i == 9 else "paved", "sex": lambda i: "fm"[i % 2]}
    assert proposed(tmp_path, columns).slices == ["sex"]


@pytest.mark.parametrize("name", [*predictions.MODELS, *predictions.GROUPS, "weight", "label", "row_id"])
def test_a_slice_may_be_called_as_a_column_of_the_predictions(tmp_path, name):
    """The feature then has another name: evaluation would refuse it, hours later."""
    columns = {"y": y, name: lambda i: "fm"[i % 2], "x": lambda i: NOISE[i]}
    made = proposed(tmp_path, columns)
    assert made.slices == [name]
    task = tasks.load("table", {"declaration": task_toml.format_proposal(made)})
    data = prepare("table", str(tmp_path / "table.csv"), tmp_path / "out", options=task.options)
    assert task.slices == (f"{name}_",) and data.column(f"{name}_").values == ("", "f", "m")


def test_a_task_whose_slice_is_called_so_is_refused_before_it_trains():
    class Sliced(flights.Flights):
        slices = ("group",)

    with pytest.raises(UserError, match="slices names 'group', but predictions reserve row_id, label"):
        Sliced()


def test_the_names_of_the_predictions_are_known_to_a_task():
    assert {*predictions.MODELS, *predictions.GROUPS, "row_id", "label", "weight"} == {*outcome.PREDICTED}


def test_a_sum_with_something_else_in_it_is_no_leak(tmp_path):
    columns = {
        "a": lambda i: i * 37 % 101,
        "b": lambda i: i * 53 % 211,
        "y": lambda i: i * 37 % 101 + i * 53 % 211 + round(NOISE[i]),
    }
    assert roles(proposed(tmp_path, columns, rows=400)) == {"a": "learned", "b": "learned", "y": "target"}


def test_a_header_parted_by_comma_and_blank_gives_its_columns_without_the_blank(tmp_path):
    lines = ["age, income"] + [f"{30 + i % 9}, {('low', 'high')[FLIPS[i]]}" for i in range(60)]
    (tmp_path / "adult.csv").write_text("\n".join(lines))
    made = proposal.propose(sample.read_sample(str(tmp_path / "adult.csv")), ProposalRequest(target="income"))
    assert made.target.name == " income" and made.target.classes == ("low", "high")


def test_empty_columns_at_the_end_of_a_sheet_are_no_columns(tmp_path):
    lines = ["x;y;;;"] + [f"{i % 9};{('low', 'high')[FLIPS[i]]};;;" for i in range(60)] + [";;;;"] * 3
    (tmp_path / "sheet.csv").write_bytes("\r\n".join(lines).encode("utf-8-sig"))
    made = proposal.propose(sample.read_sample(str(tmp_path / "sheet.csv")), ProposalRequest(target="y"))
    assert roles(made) == {"x": "learned", "y": "target"}


@pytest.mark.parametrize("form", ["%d-%b-%y", "%d.%m.%y"])
def test_dates_with_years_of_two_digits_are_dates(tmp_path, form):
    day = date(2021, 1, 1)
    made = proposed(tmp_path, {"y": y, "d": lambda i: (day + timedelta(i % 50)).strftime(form)})
    assert types(made)["d"] == f"date {form}"


@pytest.mark.parametrize(
    ("target", "kind", "classes"),
    [
        (lambda i: i % 2, "classes", ("0", "1")),
        (lambda i: 10 * (i % 3), "classes", ("0", "10", "20")),
        (lambda i: ("ham", "spam")[FLIPS[i]], "classes", ("ham", "spam")),
        (lambda i: ("b", "a")[FLIPS[i]], "classes", ("b", "a")),
        (lambda i: ("true", "false")[FLIPS[i]], "classes", ("false", "true")),
        (lambda i: i % 21, "regression", ()),
        (lambda i: 0.5 * (i % 4), "regression", ()),
    ],
)
def test_the_kind_of_the_target_and_the_positive_class_follow_from_its_values(tmp_path, target, kind, classes):
    made = proposed(tmp_path, {"y": target, "x": lambda i: NOISE[i]})
    assert made.target.regression == (kind == "regression") and made.target.classes == classes
    assert parse(task_toml.format_proposal(made)).kind == kind


def test_the_user_overrides_kind_and_positive_class(tmp_path):
    columns = {"y": lambda i: i % 21, "x": lambda i: NOISE[i]}
    assert len(proposed(tmp_path, columns, kind="classes").target.classes) == 21
    two = {"y": lambda i: i % 2, "x": lambda i: NOISE[i]}
    assert proposed(tmp_path, two, positive="0").target.classes == ("1", "0")


def test_a_number_that_is_a_function_of_a_numeric_target_would_leak(tmp_path):
    made = proposed(
        tmp_path, {"y": lambda i: f"{NOISE[i]:.4f}", "twice": lambda i: f"{2 * NOISE[i]:.4f}", "x": lambda i: NOISE[-i]}
    )
    assert roles(made) == {"y": "target", "twice": "leak", "x": "learned"}


def test_a_column_that_is_missing_where_the_target_is_comes_with_it(tmp_path):
    """Such as the delay of a departure, of a flight that never arrived."""
    made = proposed(
        tmp_path,
        {
            "y": lambda i: "" if i % 8 == 0 else y(i),
            "departure": lambda i: "" if i % 8 == 0 and i % 16 else f"{NOISE[i]:.2f}",
            "left": lambda i: "" if i % 8 == 0 else f"{NOISE[i]:.2f}",
            "other": lambda i: "" if i % 5 == 0 else f"{NOISE[-i]:.2f}",
        },
        rows=400,
    )
    why = {column.name: column.why for column in made.columns if column.role == "leak"}
    assert why == {"left": "would leak: probably known only with the outcome: it is missing where the target is"}


def test_time_and_group_are_found_and_the_last_fifth_of_the_rows_tests(tmp_path):
    made = proposed(
        tmp_path,
        {
            "customer_id": lambda i: i // 4,
            "ordered_at": lambda i: f"2024-{i % 12 + 1:02}-15",
            "birth_date": lambda i: f"19{50 + i % 40}-01-01",
            "x": lambda i: NOISE[i],
            "y": y,
        },
    )
    assert (made.group, made.time, made.split.test) == ("customer_id", "ordered_at", "2 months")
    text = task_toml.format_proposal(made)
    assert 'group = ["day", "customer_id"]  # rows of one day, or with one value of this column' in text
    assert parse(text).groups == ("day", "customer_id")


@pytest.mark.parametrize(
    ("days", "step", "test"),
    [(30, 1, "7 days"), (60, 1, "3 weeks"), (45, 2, "4 weeks"), (60, 7, "3 months"), (400, 1, "3 months")],
)
def test_a_test_is_long_enough_to_decide_by_where_the_table_is(tmp_path, days, step, test):
    first = date(2024, 1, 1)
    made = proposed(
        tmp_path,
        {"at": lambda i: first + timedelta(i % days * step), "x": lambda i: NOISE[i], "y": y},
        rows=400,
        time="at",
    )
    assert made.split.test == test


@pytest.mark.parametrize("other", ["x", "day"])
def test_a_time_is_written_with_its_day_as_the_group(tmp_path, other):
    columns = {other: lambda i: i % 31, "at": lambda i: f"2024-{i % 12 + 1:02}-15", "y": y}
    text = task_toml.format_proposal(proposed(tmp_path, columns))
    assert 'group = "day"  # rows of one day are not independent' in text and '"row": count each row' in text
    assert list(parse(text).features) == [other]
    untimed = task_toml.format_proposal(proposed(tmp_path, {"x": lambda i: NOISE[i], "y": y}))
    assert "group" not in untimed


@pytest.mark.parametrize(
    ("column", "asked", "message"),
    [
        (lambda i: "a", {}, "'y' has the same value in every row, 'a'"),
        (lambda i: "", {}, "'y' has no value in any row"),
        (lambda i: f"text {NOISE[i]}", {}, "'y' has 200 different texts in 200 rows"),
        (lambda i: "ab"[i % 2], {"kind": "regression"}, "is text .a, b., and a regression learns a number"),
        (lambda i: f"2024-01-{i % 28 + 1:02}", {}, "'y' is a date: a target must be a number"),
        (lambda i: "c" if i == 3 else "ab"[i % 2], {}, "only one row has the class c.*--leave-out 'c'"),
        (y, {"target": "z"}, "--target z: the table has no column 'z'"),
        (y, {"time": "x"}, "--time x: the column holds float, not dates"),
        (y, {"key": ["y"]}, "--key y: this is the target"),
        (y, {"positive": "maybe"}, "--positive maybe: .* it has no, yes"),
        (lambda i: NOISE[i], {"positive": "1"}, "--positive: the target 'y' is a number"),
    ],
)
def test_a_target_or_a_role_that_cannot_be_is_refused_with_the_reason(tmp_path, column, asked, message):
    with pytest.raises(UserError, match=message):
        proposed(tmp_path, {"y": column, "x": lambda i: NOISE[i]}, **asked)


def test_a_class_is_left_out_on_request(tmp_path):
    columns = {"y": lambda i: "c" if i == 3 else "ab"[i % 2], "x": lambda i: NOISE[i]}
    declared = parse(task_toml.format_proposal(proposed(tmp_path, columns, left_out=["c"])))
    assert declared.classes == ["a", "b"] and declared.left_out == ["c"]


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("a.csv", "", "is empty: its first line must name the columns"),
        ("a.csv", "a,b\n", "has no rows"),
        ("a.csv", "a\n1\n2\n", "has one column, a: a table needs the target and at least one other"),
        ("a.csv", "a,b\n1,2\n", "has 1 row: too few to train and test"),
        ("a.csv", "a,b,a\n1,2,3\n", "line 1: the column a occurs twice"),
        ("a.csv", "a,b,c\n1,2,3\n4,5\n", "line 3 has 2 fields where the header has 3"),
        ("a.csv", ",".join(f"c{i}" for i in range(100_000)) + "\n", "100,000 columns are too many: .* at most 2,000"),
        ("a.jsonl", '[{"a": 1}]', "is one JSON array"),
        ("a.jsonl", '{"a": 1}\n' * 3 + '\n{"a": 1e400}\n', "line 5, column a: the number is beyond 1.8e308"),
        ("a.jsonl", '{"a": 1}\n' * 3 + '{"a": "x"}\n', r"line 4: Column\(/a\) changed from number to string\. Each"),
        ("a.jsonl", '{"a": 1}\n' * 3 + '{"a": 1', r"line 4 is not one JSON object .* seems to be cut off there\. Each"),
        ("a.txt", "a,b\n", "its name must end in .csv"),
    ],
)
def test_a_file_that_is_no_table_is_refused(tmp_path, name, content, message):
    (tmp_path / name).write_text(content)
    with pytest.raises(UserError, match=message):
        sample.read_sample(str(tmp_path / name))


def test_files_are_read_however_they_are_written(tmp_path):
    """A mark and semicolons, decimals behind a comma, Windows' letters."""
    (tmp_path / "a.csv").write_text("größe;y\n1,5;ja\n2,5;nein\n" * 1, encoding="utf-8-sig")
    (tmp_path / "b.csv").write_bytes("stadt,y\nKöln,0\nBonn,1\n".encode("windows-1252"))
    first, second = sample.read_sample(str(tmp_path / "a.csv")), sample.read_sample(str(tmp_path / "b.csv"))
    assert first.rows.column_names == ["größe", "y"] and first.reading.separator == ";" and first.whole
    assert second.rows["stadt"].to_pylist() == ["Köln", "Bonn"] and second.reading.encoding == "windows-1252"


def test_numbers_that_parquet_stores_may_be_classes_and_categories(tmp_path):
    columns = {"y": pa.array([0.0, 1.0] * 50), "code": pa.array([7, 8] * 50), "x": pa.array(NOISE[:100])}
    pq.write_table(pa.table({**columns, "nested": pa.array([[1]] * 100)}), tmp_path / "a.parquet")
    made = proposal.propose(sample.read_sample(str(tmp_path / "a.parquet")), ProposalRequest("y"))
    assert types(made) == {"y": "category float", "code": "category int", "x": "float", "nested": ""}
    assert made.target.classes == ("0", "1") and roles(made)["nested"] == "ignored"


def test_decimals_without_a_fraction_are_whole_numbers(tmp_path):
    """Oracle and Snowflake export every whole number so."""
    stored = [Decimal(10**16 + i) for i in range(100)]
    columns = {"id": pa.array(stored, pa.decimal128(38, 0)), "y": pa.array([Decimal(i % 2) for i in range(100)])}
    price = pa.array([Decimal(i) / 4 for i in range(100)], pa.decimal128(10, 2))
    huge = pa.array([Decimal(10**30)] * 100, pa.decimal128(38, 0))
    pq.write_table(pa.table({**columns, "price": price, "huge": huge}), tmp_path / "a.parquet")
    made = proposal.propose(sample.read_sample(str(tmp_path / "a.parquet")), ProposalRequest("y"))
    assert types(made) == {"id": "int", "y": "category int", "price": "float", "huge": "float"}
    assert made.target.classes == ("0", "1") and roles(made)["id"] == "key"


def test_names_that_toml_reads_otherwise_are_quoted(tmp_path):
    names = ['weird "name"\n.x', "toml]=hostile #", "a.b", "Straße", "\x7f", "true", "1"]
    made = proposed(tmp_path, {**{name: lambda i: NOISE[i] for name in names}, "y": y}, rows=50)
    assert list(parse(task_toml.format_proposal(made)).columns) == [*names, "y"]


def test_the_file_is_written_once_and_never_over_another(tmp_path):
    table, out = passengers(tmp_path), tmp_path / "task.toml"
    proposal = task_toml.write_proposal(str(table), str(out), target="survived")
    text = out.read_text()
    assert proposal["next"].startswith(f"vgp run training --set task={out} --set data={table} --set global_batch_size=")
    assert str(tmp_path) not in text, "the text travels, and holds no path"
    with pytest.raises(SystemExit):
        task_toml.write_proposal(str(table), str(out), target="age")
    assert out.read_text() == text
    task_toml.write_proposal(str(table), str(out), force=True, target="age")
    assert out.read_text() != text and list(tmp_path.glob(".task*")) == []


def test_a_name_that_is_no_toml_is_refused(tmp_path, capsys):
    with pytest.raises(SystemExit):
        task_toml.write_proposal("x.csv", str(tmp_path / "task.txt"), target="y")
    assert "the name must end in .toml" in capsys.readouterr().err


def test_the_proposal_of_a_table_of_many_files_notes_that_it_read_some(tmp_path):
    for number in range(10):
        write(tmp_path / f"{number}.csv", ["x", "y"], [(i, i % 2) for i in range(20)])
    seen = sample.read_sample(f"{tmp_path}/*.csv")
    assert not seen.whole and seen.files == 10 and seen.rows.num_rows == 160


@pytest.fixture(scope="module")
def sorted_by_target(tmp_path_factory):
    """A table whose last fifth alone is of the class yes, as each kind of file."""
    folder, rows = tmp_path_factory.mktemp("sorted"), 6_000
    columns = {"n": list(range(rows)), "x": [f"a, b {i % 7}" for i in range(rows)],
               "y": ["yes" if i >= rows * 4 // 5 else "no" for i in range(rows)]}  # fmt: skip
    write(folder / "a.csv", list(columns), list(zip(*columns.values(), strict=True)))
    (folder / "b.csv.gz").write_bytes(gzip.compress((folder / "a.csv").read_bytes()))
    (folder / "c.jsonl").write_text(
        "".join(
            f'{{"n": {i}, "x": "a{i % 7}", "y": "{y}"}}\n' for i, y in zip(*list(columns.values())[::2], strict=True)
        )
    )
    pq.write_table(pa.table(columns), folder / "d.parquet")
    pq.write_table(pa.table(columns), folder / "e.parquet", row_group_size=50)
    return folder


@pytest.mark.parametrize("name", ["a.csv", "b.csv.gz", "c.jsonl", "d.parquet", "e.parquet"])
def test_a_large_table_is_looked_at_all_over_so_that_one_in_order_shows_all_its_classes(
    sorted_by_target, name, monkeypatch
):
    monkeypatch.setattr(sample, "MOST_ROWS", 1_000)
    monkeypatch.setattr(spread_sample, "HEAD_BYTES", 1 << 12)
    monkeypatch.setattr(spread_sample, "LEAST_BYTES", 1 << 7)
    seen, again = (sample.read_sample(str(sorted_by_target / name)) for _ in range(2))
    numbers = list(map(int, map(str, seen.rows["n"].to_pylist())))
    assert len(set(numbers)) == len(numbers) and 700 <= len(numbers) <= 1_000
    assert 0.15 <= seen.rows["y"].to_pylist().count("yes") / len(numbers) <= 0.25
    assert again.rows.equals(seen.rows) and seen.words == f"{len(numbers):,} rows from all parts of it"
    made = proposal.propose(seen, ProposalRequest("y"))
    assert roles(made)["n"] == "ignored", "pieces of a count are a count"


def test_each_of_several_large_files_is_looked_at(sorted_by_target, tmp_path, monkeypatch):
    monkeypatch.setattr(sample, "MOST_ROWS", 1_000)
    write(tmp_path / "z.csv", ["n", "x", "y"], [(-i, "later", "maybe") for i in range(1, 2_000)])
    seen = sample.read_sample(f"{sorted_by_target}/a.csv,{tmp_path}/z.csv")
    assert set(seen.rows["y"].to_pylist()) == {"no", "yes", "maybe"}


def test_what_cannot_be_looked_at_all_over_is_looked_at_from_its_start(tmp_path, monkeypatch):
    monkeypatch.setattr(sample, "MOST_ROWS", 100)
    monkeypatch.setattr(table_files, "BATCH_ROWS", 50)
    monkeypatch.setattr(file_bytes, "BLOCK_BYTES", 400)
    (tmp_path / "a.csv").write_text("x,y\n" + "1,2\n" * 900, encoding="utf-16")
    (tmp_path / "b.csv").write_text("x,y\n" + "1,2\n" * 900 + "1,2,3\n")
    for name in ("a.csv", "b.csv"):
        assert sample.read_sample(str(tmp_path / name)).words == "the first 100 rows"
