"""Tables that can be read in two ways: each is read rightly or asked about, and the answer holds for later files."""

import json
import math
import random
import re
from datetime import date, timedelta

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.helpers.declared import proposed, write
from tests.vgp.data.computed import engine_of
from vgp.base.exits import UserError
from vgp.data import prepare as preparing
from vgp.data.engine import Uncomputable
from vgp.data.tasks.table import column_types, proposal, sample, task_toml
from vgp.data.tasks.table.parsing import parse
from vgp.data.tasks.table.proposal import ProposalRequest
from vgp.data.tasks.table.task import date_of
from vgp.steps.__main__ import main

DRAW = random.Random(11)
Y = [DRAW.choice("ab") for _ in range(240)]


#: A name by which whole numbers may be moments.
X = "at"


def cycled(*values):
    return lambda i: values[i % len(values)]


def counted(of, **special):
    """Numbers by a rule, but for some rows: `{'-999': 30}` is a value in every 30th row."""
    return lambda i: next((value for value, every in special.items() if i % every == every - 1), of(i))


#: Columns that are asked about, and the types that are offered; "" stands for a choice that is no type.
ASKED = {
    "thousands or decimals": (cycled("1,250", "950", "2,300"), ["number 1,234.5", "number 1.234,5"]),
    "thousands alone": (lambda i: f"{1000 + i:,}", ["number 1,234.5", "number 1.234,5"]),
    "points as thousands": (cycled("1.250", "950", "2.300"), ["float", "number 1.234,5"]),
    "three decimals": (lambda i: f"{i + 1}.{100 + i}", ["float", "number 1.234,5"]),
    "currency": (cycled("$1,250", "$950"), ["number $1,234.5", "number $1.234,5"]),
    "currency behind": (cycled("1.250 €", "950 €"), ["number 1,234.5 €", "number 1.234,5 €"]),
    "accounting": (cycled("(1,250)", "950"), ["number 1,234.5", "number 1.234,5"]),
    "negative": (cycled("-1,250", "950"), ["number 1,234.5", "number 1.234,5"]),
    "minus behind": (cycled("1,250-", "950"), ["number 1,234.5", "number 1.234,5"]),
    "percent of thousands": (cycled("1.250%", "3.500%"), ["number 1,234.5%", "number 1.234,5%"]),
    "percent and shares": (cycled("12%", "0.12", "7%"), ["number 1,234.5 percent", "number any 1,234.5"]),
    "two currencies": (cycled("$1.50", "€1.20"), ["number any 1,234.5", "category"]),
    "two conventions": (cycled("3.50", "1.250,00", "7"), ["", "category"]),
    "a bound among numbers": (lambda i: "<5" if i % 50 == 0 else i % 90, ["int missing <5", "category"]),
    "a word among numbers": (lambda i: "free" if i % 50 == 0 else i % 90, ["int missing free", "category"]),
    "leading zeros": (cycled("7", "07", "8", "12"), ["int", "category"]),
    "-999": (counted(lambda i: i % 40, **{"-999": 30}), ["int missing -999", "int"]),
    "-99 and -999": (counted(lambda i: i % 40, **{"-999": 30, "-99": 23}), ["int missing -999 -99", "int"]),
    "9999 above": (counted(lambda i: f"{i % 40}.5", **{"9999": 30}), ["float missing 9999", "float"]),
    "99 often": (lambda i: 99 if i % 3 == 0 else 18 + i % 90, ["int missing 99", "int"]),
    "-1": (counted(lambda i: i % 40, **{"-1": 9}), ["int missing -1", "int"]),
    "9 of a questionnaire": (cycled(1, 2, 3, 4, 5, 9), ["int missing 9", "int"]),
    "-999 among thousands": (
        counted(lambda i: f"{1000 + i:,}", **{"-999": 30}),
        ["number 1,234.5 missing -999", "number 1,234.5", "number 1.234,5 missing -999", "number 1.234,5"],
    ),
    "Yes and yes": (cycled("Yes", "yes ", "YES", "no"), ["category any case", "category"]),
    "blanks within": (cycled("New York", "New  York", "Bonn"), ["category any case", "category"]),
    "blanks that do not break": (cycled("Bonn", "Bonn\u00a0", "Köln"), ["category any case", "category"]),
    "yes and y": (cycled("yes", "y", "no", "n"), ["", "category"]),
    "NA": (cycled("NA", "EU", "US"), ["category missing NA", "category"]),
    "days up to 12": (lambda i: f"{i % 12 + 1:02}/{i % 11 + 1:02}/2026", ["date %m/%d/%Y", "date %d/%m/%Y"]),
    "days up to 12, dashes": (lambda i: f"{i % 12 + 1}-{i % 11 + 1}-2026", ["date %d-%m-%Y", "date %m-%d-%Y"]),
    "with a clock": (
        lambda i: f"{i % 12 + 1:02}/{i % 11 + 1:02}/2026 10:30",
        ["timestamp %m/%d/%Y %H:%M", "timestamp %d/%m/%Y %H:%M"],
    ),
    "three numbers of two digits": (
        lambda i: f"{i % 12 + 1:02}/{i % 11 + 1:02}/{i % 7 + 3:02}",
        ["date %m/%d/%y", "date %d/%m/%y", "date %y/%m/%d"],
    ),
    "two orders": (cycled("13/04/2026", "04/13/2026", "05/06/2026"), ["", "category"]),
    "20230101": (lambda i: (date(2023, 1, 1) + timedelta(i)).strftime("%Y%m%d"), ["date %Y%m%d", "int"]),
    "202301": (lambda i: f"2023{i % 12 + 1:02}", ["date %Y%m", "int"]),
    "a day that is none": (
        lambda i: "9999-12-31" if i % 20 == 0 else f"2024-01-{i % 28 + 1:02}", ["date missing 9999-12-31", "date"]
    ),
    "zeros in front": (lambda i: f"{i * 7 % 1000:05}", ["int", "category"]),
    "seconds": (lambda i: 1_704_067_200 + 3_600 * i, ["", "int"]),
    "days of a sheet": (lambda i: 45_292 + i % 90, ["", "int"]),
    "units": (lambda i: f"{i % 90} {('kg', 'g')[i % 2]}", ["", "category"]),
    "a moment with a zone and one without": (cycled("2024-01-01T10:00:00Z", "2024-01-02T10:00:00"), ["", "category"]),
    "years of two digits": (lambda i: f"{i % 17 + 13}.{i % 12 + 1:02}.{i % 50:02}", ["date %d.%m.%y", ""]),
    "a dash among amounts": (cycled("$1,250.50", "-", "$3.00"), ["number $1,234.5 missing -", ""]),
    "a clock of 12 hours and one of 24": (cycled("2026-01-31 1:30 PM", "2026-02-01 15:10"), ["", "category"]),
    "quarters": (lambda i: f"{2020 + i // 60}Q{i % 4 + 1}", ["", "category"]),
    "weeks": (lambda i: f"2026-W{i % 50 + 1:02}", ["", "category"]),
    "months of another language": (
        lambda i: f"{i % 28 + 1}. {('Januar', 'März', 'Mai')[i % 3]} 2026", ["", "category"]
    ),
    "moments of e-mails": (lambda i: f"Fri, {i % 28 + 1:02} Mar 2026 10:30:00 GMT", ["", "category"]),
    "seconds with a fraction": (lambda i: f"{1_704_067_200 + 3_600 * i}.5", ["", "float"]),
    "days of a sheet with a clock": (lambda i: f"{45_292 + i / 8:.3f}", ["", "float"]),
    "numbers with footnotes": (lambda i: f"{i % 90}{'*' * (i % 3 == 0)}", ["", "category"]),
    "about": (lambda i: f"{'~' * (i % 3 == 0)}{i % 90}", ["", "category"]),
    "Arabic digits": (lambda i: "".join(chr(0x660 + int(d)) for d in str(i % 90)), ["", "category"]),
    "zeros far below": (lambda i: 0 if i % 9 == 0 else f"{18 + i % 70 / 4}", ["float missing 0", "float"]),
    "subtotals": (lambda i: "Subtotal" if i % 20 == 19 else "abc"[i % 3], ["", "category"]),
    "oui and O": (cycled("oui", "O", "non", "N"), ["", "category"]),
    "a word among dates": (
        lambda i: "open" if i % 60 == 0 else f"{i % 28 + 1:02}.{i % 12 + 1:02}.2024",
        ["date %d.%m.%Y missing open", "category"],
    ),
}  # fmt: skip

#: Columns that can be read in one way only, their type, the first value as it is read, and that value.
READ = {
    "groups of three": (cycled("1,250,000", "950"), "number 1,234.5", 1_250_000),
    "Indian groups": (cycled("12,34,567", "950"), "number 1,234.5", 1_234_567),
    "both marks": (cycled("1,250.50", "950"), "number 1,234.5", 1250.5),
    "European": (cycled("1.250,00", "3,5"), "number 1.234,5", 1250),
    "European groups": (cycled("1.250.000", "950"), "number 1.234,5", 1_250_000),
    "decimals behind a comma": (cycled("1,25", "3,5", "950"), "number 1.234,5", 1.25),
    "below one": (cycled("0,250", "1,250"), "number 1.234,5", 0.25),
    "decimals behind a point": (cycled("0.125", "1.250"), "float", 0.125),
    "decimals of other lengths": (cycled("1.250", "2.5"), "float", 1.25),
    "blanks": (cycled("1 250", "950"), "number 1234", 1250),
    "blanks that do not break": (cycled("1\u00a0250", "950"), "number 1234", 1250),
    "blanks and a comma": (cycled("1 250,5", "950"), "number 1.234,5", 1250.5),
    "apostrophes": (cycled("1'250", "950"), "number 1234", 1250),
    "underscores": (cycled("1_250", "950"), "number 1234", 1250),
    "Swiss francs": (cycled("CHF 1'250.50", "CHF 3.00"), "number CHF 1,234.5", 1250.5),
    "percent": (cycled("12%", "7 %"), "number 1234%", 12),
    "accounting": (cycled("($1,250.50)", "$3.10"), "number $1,234.5", -1250.5),
    "another minus": (cycled("\u22125", "3"), "number 1234", -5),
    "exponents": (cycled("1.5e3", "2E-2"), "float", 1500),
    "a gap in the range": (lambda i: 999 if i == 7 else 900 + i, "int", 900),
    "digits from 0 to 9": (lambda i: i % 10, "int", 0),
    "amounts with zeros": (lambda i: 0 if i % 9 == 0 else i % 90, "int", 0),
    "zeros in a third of the rows": (lambda i: 40 + i % 30 if i % 3 else 0, "int", 0),
    "ages from 0, most of them adult": (
        lambda i: 0 if i % 40 == 0 else 2 + i % 9 if i % 30 == 7 else 30 + i % 60, "int", 0
    ),
    "a rating": (cycled("poor", "average", "good"), "category", "poor"),
    "a single high number": (lambda i: 99 if i == 7 else i % 40, "int", 0),
}  # fmt: skip


def asking(folder, column, **asked):
    """The types that are offered for the column, "" for another choice, and the message; or none, and the column."""
    try:
        made = proposed(folder, {X: column, "y": lambda i: Y[i], "z": lambda i: i * 37 % 101}, rows=240, **asked)
    except UserError as error:
        assert "can be read in more than one way" in str(error)
        lines = str(error).split("\n")[2:]
        return [_type(line) for line in lines if line.startswith("    ")], str(error)
    return [], next(found for found in made.columns if found.name == X)


def _type(line):
    given = re.search(r"--read ('.*'|\S+)$", line)
    return given[1].strip("'").replace("""'"'"'""", "'").removeprefix(f"{X}=") if given else ""


@pytest.mark.parametrize("name", ASKED)
def test_what_can_be_read_in_two_ways_is_asked_and_each_answer_is_taken(tmp_path, name):
    column, types = ASKED[name]
    offered, printed = asking(tmp_path, column)
    assert offered == types, printed
    for type_ in filter(None, types):
        again, found = asking(tmp_path, column, read=[f"{X}={type_}"], time="none")
        assert again == [] and found.type == type_


def prepared(folder, columns, name="night.csv"):
    """The first value of each column in a dataset of these columns; each is its type, and a value for every row."""
    header = [f"x{number}" for number in range(len(columns))]
    rows = [
        (i, *values, Y[i % len(Y)]) for i, values in enumerate(zip(*(values for _, values in columns), strict=True))
    ]
    types = "".join(f'{name} = "{type_}"\n' for name, (type_, _) in zip(header, columns, strict=True))
    text = f'target = "y"\nclasses = ["a", "b"]\n[columns]\nrow = "int"\ny = "category"\n{types}'
    path, out = write(folder / name, ["row", *header, "y"], rows), folder / f"{name}.out"
    preparing.prepare("table", str(path), out, options={"declaration": text})
    table = pq.ParquetDataset(sorted(map(str, out.glob("*.parquet")))).read().to_pylist()
    made = json.loads((out / "manifest.json").read_text())
    names = {c["name"]: c["values"] for c in made["columns"] if c["kind"] == "category"}
    first = next(row for row in table if row["row"] == 0)
    return [names[name][first[name]] if name in names else first[name] for name in header]


@pytest.fixture(scope="module")
def read_values(tmp_path_factory):
    """The first value of each column of READ as a dataset has it."""
    columns = [(type_, [column(i) for i in range(240)]) for column, type_, _ in READ.values()]
    return dict(zip(READ, prepared(tmp_path_factory.mktemp("read"), columns), strict=True))


@pytest.mark.parametrize("name", READ)
def test_what_can_be_read_in_one_way_is_read_so(tmp_path, read_values, name):
    column, type_, value = READ[name]
    offered, found = asking(tmp_path, column)
    assert offered == [] and found.type == type_, found
    assert read_values[name] == pytest.approx(value)


@pytest.mark.parametrize(
    ("column", "type_", "last"),
    [
        (lambda i: f"{2015 + i // 24}-{i % 12 + 1:02}", "date %Y-%m", date(2024, 12, 1)),
        (lambda i: date(2015 + i // 24, i % 12 + 1, 1).strftime("%b-%y"), "date %b-%y", date(2024, 12, 1)),
        (lambda i: f"2026-0{i % 8 + 1}-01 1:30 PM", "timestamp %Y-%m-%d %I:%M %p", date(2026, 8, 1)),
    ],
)
def test_months_and_clocks_of_12_hours_are_the_time_of_the_rows(tmp_path, column, type_, last):
    made = proposed(tmp_path, {X: column, "y": lambda i: Y[i], "z": lambda i: i * 37 % 101}, rows=240)
    assert made.time == X and next(found.type for found in made.columns if found.name == X) == type_
    text, table, out = task_toml.format_proposal(made), next(tmp_path.glob("*.csv")), tmp_path / "out"
    preparing.prepare("table", str(table), out, options={"declaration": text})
    assert json.loads((out / "manifest.json").read_text())["split"]["test"].endswith(f":{last}")


def test_a_year_without_another_time_is_named_with_the_options_that_split_by_it(tmp_path):
    columns = {"year": lambda i: 2010 + i % 12, "y": lambda i: Y[i], "z": lambda i: i * 37 % 101}
    why = {column.name: column.why for column in proposed(tmp_path, columns, rows=240).columns}["year"]
    assert why.startswith("2010 to 2021;") and why.endswith("--read 'year=date %Y' --time year --group row")
    assert "--time" not in str(proposed(tmp_path, columns, rows=240, time="none").columns)
    made = proposed(tmp_path, columns, rows=240, read=["year=date %Y"], time="year", group="row")
    options, out = {"declaration": task_toml.format_proposal(made)}, tmp_path / "out"
    preparing.prepare("table", str(tmp_path / "table.csv"), out, options=options)
    assert "2021-01-01" in json.loads((out / "manifest.json").read_text())["split"]["test"]
    assert 'group = "row"' in options["declaration"]


def test_names_that_differ_only_in_accents_are_reported(tmp_path):
    columns = {"city": cycled("Köln", "Bonn", "Koeln", "Suez", "Suz"), "y": lambda i: Y[i]}
    why = {column.name: column.why for column in proposed(tmp_path, columns).columns}["city"]
    assert "Köln, Koeln count as different names" in why


#: A type that the owner of a column chooses, a text in it, and its value in the dataset.
ANSWERS = (
    ("number 1,234.5", "1,250", 1250),
    ("number 1.234,5", "1,250", 1.25),
    ("float", "1.250", 1.25),
    ("number 1.234,5", "1.250", 1250),
    ("number $1,234.5", "($1,250)", -1250),
    ("number 1,234.5 percent", "12%", 0.12),
    ("number 1,234.5 percent", "0.12", 0.12),
    ("number any 1,234.5", "12%", 12),
    ("int missing <5", "<5", math.nan),
    ("int missing -999", "-999", math.nan),
    ("float missing 9999", "9999.0", math.nan),
    ("number 1,234.5 missing -999", "-999", math.nan),
    ("int", "-999", -999),
    ("category any case", "New \u00a0YORK ", "new york"),
    ("category missing NA", "NA", ""),
    ("category", "NA", "NA"),
)


def test_an_answer_is_what_the_rows_are_prepared_with(tmp_path):
    columns = [(type_, [text, *["k" if type_.startswith("category") else "7"] * 79]) for type_, text, _ in ANSWERS]
    values = prepared(tmp_path, columns)
    assert values == pytest.approx([value for *_, value in ANSWERS], nan_ok=True)


@pytest.mark.parametrize(
    ("type_", "text"),
    [
        ("number 1,234.5", "1,25"),
        ("number $1,234.5", "€5"),
        ("int", "1,250"),
        ("int", "1_250"),
        ("float", "1,250"),
        ("float missing <5", "1,250"),
        ("int missing <5", "<6"),
    ],
)
def test_a_later_file_that_is_written_otherwise_is_an_error_that_names_the_row(tmp_path, type_, text):
    usual = {"number $1,234.5": "$7"}.get(type_, "7")
    with pytest.raises(UserError, match=r"night\.csv, (line 42, )?.*" + re.escape(text)) as error:
        prepared(tmp_path, [(type_, [usual] * 40 + [text] + [usual] * 39)])
    assert "try_cast" not in str(error.value)


@pytest.mark.parametrize(
    ("form", "text"),
    [
        ("1,234.5", "1.250,00"),
        ("1,234.5", "12%"),
        ("1,234.5", "$5"),
        ("$1,234.5", "1,2,3"),
        ("1.234,5", "1.25"),
        ("1.234,5", "3.5"),
        ("1234", "1,250"),
        ("1234", "1.5"),
        ("1234%", "0.12"),
        ("", "1,25"),
        ("1,234.5", "1 250,125"),
    ],
)
def test_a_text_of_another_form_cannot_be_computed_and_stands_in_the_reason(tmp_path, form, text):
    with engine_of(pa.table({"x": [text]}), tmp_path) as engine:
        value = column_types.to_number(engine.source().x, column_types.form_of(form), f'x = "number {form}"')
        with pytest.raises(Uncomputable, match=re.escape(text)):
            engine.read(engine.source().select(value=value))


@pytest.mark.parametrize(
    ("type_", "usual", "text"),
    [
        ("date %d/%m/%Y", "03/04/2026", "03/04/26"),
        ("date", "2026-04-03", "Total"),
    ],
)
def test_a_date_of_another_form_in_a_later_file_is_an_error(tmp_path, type_, usual, text):
    with pytest.raises(UserError, match=r"night\.csv, line 42.*" + re.escape(text)):
        prepared(tmp_path, [(type_, [usual] * 40 + [text] + [usual] * 39)])


@pytest.mark.parametrize(
    ("type_", "text"),
    [("date %d/%m/%Y", "04/13/2026"), ("date %d/%m/%Y", "2026-04-03"), ("date %Y%m%d", "2026-04-03")],
)
def test_a_date_of_another_form_cannot_be_computed(tmp_path, type_, text):
    with engine_of(pa.table({"x": [text]}), tmp_path) as engine:
        value = date_of(engine.source().x, column_types.parse_kind(type_), ())
        with pytest.raises(Uncomputable, match=re.escape(text)):
            engine.read(engine.source().select(value=value))


@pytest.mark.parametrize(
    ("column", "example", "asked"),
    [
        (cycled("red,blue", "red", "blue", "blue,red,green", "green"), "red,blue", True),
        (lambda i: "postive" if i % 40 == 0 else ("positive", "negative")[i % 2], "postive", True),
        (lambda i: "grade 1" if i % 40 == 0 else ("grade 2", "grade 3")[i % 2], "", False),
        (cycled("black/white", "red"), "", False),
    ],
)
def test_lists_of_labels_and_misspelled_classes_are_asked_about(tmp_path, column, example, asked):
    columns = {"x": lambda i: i * 37 % 101, "y": column}
    if not asked:
        assert proposed(tmp_path, columns, rows=240).target.classes
        return
    with pytest.raises(UserError, match=re.escape(f"y: '{example}' (row ")):
        proposed(tmp_path, columns, rows=240)


def test_the_target_is_asked_about_as_any_column(tmp_path):
    columns = {"x": lambda i: i * 37 % 101}
    for target, kind, type_ in (
        (lambda i: f"{900 + i:,}", "", "number 1,234.5"),
        (counted(lambda i: i % 40 + 0.5, **{"-999": 20}), "", "float missing -999"),
        (counted(lambda i: i % 2, **{"-999": 20}), "", "int missing -999"),
        (cycled("Yes", "yes", "no"), "", "category any case"),
        (cycled("yes", "no", "unknown"), "", "category missing unknown"),
        (cycled("1", "1.0", "0"), "", "category float"),
        (cycled("yes", "no", "-"), "", "category missing -"),
    ):
        with pytest.raises(UserError, match=re.escape(type_)):
            proposed(tmp_path, columns | {"y": target}, kind=kind)
        text = task_toml.format_proposal(proposed(tmp_path, columns | {"y": target}, read=[f"y={type_}"]))
        made, out = parse(text), tmp_path / f"{type_}.out".replace(" ", "_")
        classes = {"yes", "no", "0", "1"}
        assert made.kinds["y"].missing or made.columns["y"].startswith(type_) and set(made.classes) <= classes
        data = preparing.prepare("table", str(tmp_path / "table.csv"), out, options={"declaration": text})
        assert bool(data.rows_dropped) == ("missing" in type_)


def test_numbers_that_parquet_stores_are_asked_about_and_read_as_answered(tmp_path):
    days = [int((date(2024, 1, 1) + timedelta(i)).strftime("%Y%m%d")) for i in range(240)]
    temperature = [-999 if i % 30 == 0 else i % 35 for i in range(240)]
    table = pa.table({"row": range(240), "day": days, "t": temperature, "y": [Y[i] for i in range(240)]})
    pq.write_table(table, tmp_path / "a.parquet")
    seen = sample.read_sample(str(tmp_path / "a.parquet"))
    with pytest.raises(UserError, match="--read 'day=date int %Y%m%d'(.|\n)*--read 't=int missing -999'"):
        proposal.propose(seen, ProposalRequest("y"))
    made = proposal.propose(seen, ProposalRequest("y", read=["day=date int %Y%m%d", "t=int missing -999"]))
    assert made.time == "day"
    options = {"declaration": task_toml.format_proposal(made).replace("rare = 10", "rare = 1")}
    out = preparing.prepare("table", str(tmp_path / "a.parquet"), tmp_path / "out", options=options)
    rows = pq.ParquetDataset(sorted(map(str, (tmp_path / "out").glob("*.parquet")))).read()["t"].to_pylist()
    known = [value for value in rows if not math.isnan(value)]
    assert out.column("t").missing > 0 and len(rows) - len(known) == 8 and min(known) >= 0


def test_two_dates_are_asked_about_and_none_is_an_answer(tmp_path):
    columns = {
        "ordered": lambda i: date(2024, 1, 1) + timedelta(i),
        "paid on": lambda i: date(2024, 1, 9) + timedelta(i * 3 // 2),
        "y": lambda i: Y[i],
    }
    with pytest.raises(UserError, match="ordered, paid on are dates(.|\n)*--time ordered\n(.|\n)*--time 'paid on'"):
        proposed(tmp_path, columns)
    assert proposed(tmp_path, columns, time="paid on").time == "paid on"
    assert proposed(tmp_path, columns, time="none").time == ""


def test_a_date_that_a_few_rows_lack_is_asked_about(tmp_path):
    columns = {"at": lambda i: "" if i == 9 else date(2024, 1, 1) + timedelta(i), "y": lambda i: Y[i]}
    with pytest.raises(UserError, match="at: .* in 1 row\n(.|\n)*--time none"):
        proposed(tmp_path, columns)
    assert proposed(tmp_path, columns, time="none").time == ""


@pytest.mark.parametrize("first", ["Total", "Summe:", "", "GRAND TOTAL"])
def test_a_row_of_sums_below_a_sheet_is_no_row(tmp_path, first):
    rows = [(date(2024, 1, 1) + timedelta(i), i % 7 + 0.5, Y[i]) for i in range(200)]
    total = (first, sum(row[1] for row in rows), "")
    write(tmp_path / "a.csv", ["day", "amount", "y"], [*rows, total])
    seen = sample.read_sample(str(tmp_path / "a.csv"))
    with pytest.raises(UserError, match="row 201 of 201") as error:
        proposal.propose(seen, ProposalRequest("y"))
    assert str(error.value).count("--read") == 1, "the other doubts would come of that row alone"
    type_ = re.search(r"--read day=(\w+)", str(error.value))[1]
    asked = ProposalRequest("y", read=[f"day={type_}"], time="none")
    assert proposal.propose(seen, asked).time == ""


def test_a_choice_may_name_columns_by_a_pattern(tmp_path):
    columns = {f"price {i}": lambda i: f"{1000 + i:,}" for i in range(3)} | {"name": cycled("a", "b")}
    made = proposed(tmp_path, columns | {"y": lambda i: Y[i]}, read=["price*=number 1,234.5"])
    assert [c.type for c in made.columns][:4] == ["number 1,234.5"] * 3 + ["category"]


@pytest.mark.parametrize(
    ("read", "message"),
    [
        ("x", "--read x: write COLUMN=TYPE"),
        ("nix=int", "the table has no column 'nix'"),
        ("x=nummer", "'nummer' is not a type"),
        ("x=int missing", "is not a type"),
        ("x=date missing open", "a date without a format needs days"),
        ("x=number 1.234,5", "'1,250.5' in row 3 of the sample"),
        ("x=date %d/%m/%Y", "'1,250' in row 1 "),
    ],
)
def test_an_answer_that_does_not_fit_is_refused(tmp_path, read, message):
    columns = {"x": cycled("1,250", "950", "1,250.5"), "y": lambda i: Y[i]}
    with pytest.raises(UserError, match=re.escape(message)):
        proposed(tmp_path, columns, read=[read])


def test_a_marker_of_one_column_is_a_value_of_another(tmp_path):
    """As `none` of a class, where a column of numbers has it for a missing one."""
    columns = {"x": lambda i: "none" if i % 9 == 0 else i % 51, "y": cycled("none", "some")}
    made = proposed(tmp_path, columns, read=["y=category"])
    assert made.missing == [] and parse(task_toml.format_proposal(made)).columns["x"] == "int missing none"


def test_na_is_missing_in_names_where_numbers_have_it_too(tmp_path):
    """As R writes it in every column; of the target it is asked about all the same."""
    columns = {"x": lambda i: "NA" if i % 9 == 0 else i % 51, "name": cycled("NA", "a", "b"), "y": cycled("a", "b")}
    made = proposed(tmp_path, columns)
    assert made.missing == ["NA"] and parse(task_toml.format_proposal(made)).columns["x"] == "int"
    with pytest.raises(UserError, match="name=category missing NA"):
        proposed(tmp_path, columns, target="name")


def test_the_command_ends_with_2_and_shows_both_readings_and_the_row(tmp_path, capsys):
    rows = [(f"{900 + 10 * i:,}", Y[i]) for i in range(60)]
    table, out = write(tmp_path / "a.csv", ["price", "y"], rows), tmp_path / "a.toml"
    with pytest.raises(SystemExit) as ended:
        main(["table", str(table), "--target", "y", "--out", str(out)])
    printed = capsys.readouterr().err
    assert ended.value.code == 2 and not out.exists()
    assert (
        "price: '1,000' (row 11)\n    1000  --read 'price=number 1,234.5'\n    1     --read 'price=number 1.234,5'"
        in printed
    )
    main(["table", str(table), "--target", "y", "--out", str(out), "--read", "price=number 1,234.5"])
    assert 'price        = "number 1,234.5"' in out.read_text()


def test_without_a_target_the_columns_are_listed(tmp_path, capsys):
    path = write(tmp_path / "a.csv", ["price", "y"], [(i, Y[i]) for i in range(60)])
    with pytest.raises(SystemExit):
        task_toml.write_proposal(str(path), str(tmp_path / "a.toml"))
    assert (
        "--target; " in (printed := capsys.readouterr().err)
        and "  price  int, 0 to 59\n  y      category, 2" in printed
    )


def test_what_a_number_with_signs_is_is_the_same_for_the_proposal_and_for_an_engine(tmp_path):
    texts = ["1,250", "-$5.50", "$-3", "(1,250.5)", "$(2)", "1 250.5", "1'250", "1e3", "7-", "\u22124", ".5", "5."]
    form = column_types.form_of("$1,234.5")
    assert column_types.form_of(form.text) == form
    with engine_of(pa.table({"x": texts}), tmp_path) as engine:
        value = column_types.to_number(engine.source().x, form, "x")
        computed = engine.read(engine.source().select("_record", value=value).order_by("_record"))["value"].to_pylist()
    assert computed == pytest.approx(column_types.parse_numbers(pa.array(texts), form).tolist())
