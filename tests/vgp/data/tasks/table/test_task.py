"""The task of a declaration: its rows, its labels, and the errors of a file that holds something else."""

import math

import pyarrow.parquet as pq
import pytest
import torch

from tests.helpers.declared import TOML, passengers
from vgp.base.exits import UserError
from vgp.data import prepare as preparing
from vgp.data import tasks
from vgp.data.rows import open_rows
from vgp.networks.tabular import Grouped
from vgp.protocol.manifest import Column


@pytest.fixture(scope="module")
def prepared(tmp_path_factory):
    folder = tmp_path_factory.mktemp("table")
    return folder, preparing.prepare("table", str(passengers(folder)), folder / "out", options={"declaration": TOML})


def test_every_kind_of_column_becomes_numbers_and_categories(prepared):
    _, made = prepared
    kinds = {column.name: column.kind for column in made.columns}
    assert kinds == {
        "row_id": "id", "age": "number", "sex": "category", "fare": "number", "born_weekday": "category",
        "born_month": "number", "born_days": "number", "name_letters": "number", "name_words": "number",
        "name_digits": "number", "label": "label",
    }  # fmt: skip
    assert made.column("label").values == ("no", "yes") and made.column("age").missing > 0
    assert made.column("fare").missing > 0 and made.column("sex").values == ("", "f", "m")


def test_values_are_those_of_the_file(prepared):
    folder, _ = prepared
    rows = pq.ParquetDataset(sorted(map(str, (folder / "out").glob("*.parquet")))).read().to_pylist()
    assert len(rows) == 120 and {row["name_words"] for row in rows} == {3.0}
    assert all(1_000 < row["fare"] < 10_000 for row in rows if not math.isnan(row["fare"]))
    assert {row["born_month"] for row in rows} == {3.0} and {row["name_digits"] for row in rows} == {1.0, 2.0, 3.0}


def test_a_line_that_moves_nothing_moves_the_fingerprint(prepared, tmp_path):
    """One character more, in a comment, is another declaration: no result of the first is taken for it."""
    folder, made = prepared
    other = preparing.prepare(
        "table", str(folder / "passengers.csv"), tmp_path / "out", options={"declaration": TOML + "#"}
    )
    assert other.fingerprint != made.fingerprint


def test_a_value_of_another_type_names_the_line_of_the_declaration(prepared, tmp_path):
    folder, _ = prepared
    declaration = TOML.replace('missing = ["?"]', "")
    with pytest.raises(
        UserError, match=r"line 2, column age: '\?' is not of type double. Change line 11 of the task's"
    ) as e:
        preparing.prepare(
            "table", str(folder / "passengers.csv"), tmp_path / "out", options={"declaration": declaration}
        )
    assert 'age = "float", or name the text in `missing` there' in str(e.value)
    assert not (tmp_path / "out").exists()


def test_classes_that_are_left_out_are_no_rows_and_others_are_refused(prepared, tmp_path):
    folder, _ = prepared
    path = tmp_path / "more.csv"
    path.write_text((folder / "passengers.csv").read_text() + "900,maybe,0,1,m,$1,01.03.1990,x\n")
    with pytest.raises(UserError, match=r"more.csv, line 122: the label 'maybe' is none of no, yes"):
        preparing.prepare("table", str(path), tmp_path / "out", options={"declaration": TOML})
    left = TOML.replace("missing", 'left_out = ["maybe"]\nmissing')
    made = preparing.prepare("table", str(path), tmp_path / "out", options={"declaration": left})
    assert sum(made.rows(split) for split in made.splits) == 120 and made.rows_dropped == {"no survived": 1}


def test_a_class_of_one_row_is_refused(prepared, tmp_path):
    folder, _ = prepared
    path = tmp_path / "more.csv"
    path.write_text((folder / "passengers.csv").read_text() + "900,maybe,0,1,m,$1,01.03.1990,x\n")
    three = TOML.replace('"yes"]', '"yes", "maybe"]')
    with pytest.raises(UserError, match="the class maybe has one row in all"):
        preparing.prepare("table", str(path), tmp_path / "out", options={"declaration": three})


def test_a_regression_learns_the_number(prepared, tmp_path):
    folder, _ = prepared
    text = TOML.replace(
        'target = "survived"\nkind = "classes"\nclasses = ["no", "yes"]', 'target = "fare"\nkind = "regression"'
    )
    task = tasks.load("table", {"declaration": text})
    assert task.regression and task.quantiles == (0.1, 0.5, 0.9) and task.classes == ()
    preparing.prepare("table", str(folder / "passengers.csv"), tmp_path / "out", options={"declaration": text})
    labels = open_rows(tmp_path / "out", "train").columns["label"]
    assert labels.dtype == "float64" and labels.min() > 1_000 and labels.max() < 10_000


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({}, "the task table needs a declaration: give a file by --set task=FILE.toml"),
        ({"declaration": 3}, "needs a declaration"),
        ({"declaration": TOML, "hiden": [8]}, "has no option 'hiden'.*hidden"),
        ({"declaration": TOML + '[split]\ntrain = "1 month"\n'}, r"line 19: \[split\]: train would do nothing"),
    ],
)
def test_options_that_cannot_be_are_refused(options, message):
    with pytest.raises(UserError, match=message):
        tasks.load("table", options)


def test_a_run_may_override_the_declared_network_and_split():
    task = tasks.load("table", {"declaration": TOML + "[network]\nhidden = [8]\n", "test_share": 0.5})
    assert task.settings["hidden"] == [8] and task.split.test_percent == 50


def test_the_time_of_the_rows_dates_other_dates(tmp_path):
    text = (
        'target = "y"\nkind = "regression"\ntime = "at"\n[columns]\ny = "float"\nat = "timestamp"\nlast = "date"\n'
        '[split]\ntest = "1 month"\n'
    )
    lines = [f"{i},2024-0{1 + i % 3}-15 1{i % 10}:00:00,2024-0{1 + i % 3}-05" for i in range(60)]
    path = tmp_path / "t.csv"
    path.write_text("\n".join(["y,at,last", *lines]) + "\n")
    preparing.prepare("table", str(path), tmp_path / "out", options={"declaration": text})
    rows = pq.ParquetDataset(sorted(map(str, (tmp_path / "out").glob("*.parquet")))).read().to_pylist()
    assert {row["last_days"] for row in rows} == {10.0} and {row["at_hour"] for row in rows} == set(range(10, 20))


def test_rare_values_and_those_that_training_never_saw_share_one_embedding():
    column = Column(
        name="c", kind="category", type="int32", values=("", "a", "b", "c", "d"), counts=(0, 30, 2, 0, 20)
    )  # fmt: skip
    torch.manual_seed(0)
    grouped = Grouped(column, 10, 1_000)
    rows = grouped(torch.arange(5))
    assert rows[0].equal(rows[2]) and rows[2].equal(rows[3]) and not rows[0].any()
    assert not rows[1].equal(rows[4]) and rows[1].any() and rows[4].any()
    assert Grouped(column, 10, 1).positions_V.tolist() == [0, 1, 0, 0, 0]


def test_a_marker_and_a_second_spelling_that_the_proposal_did_not_see_are_notes(tmp_path, capfd):
    lines = ["row,dose,city,y"]
    lines += [
        f"{i},{-999 if i % 60 == 7 else i % 40},{'Bonn' if i % 3 else 'Ulm'},{'ab'[i * 7 % 5 > 2]}" for i in range(400)
    ]
    lines += [f"{i},{i % 40},bonn,{'ab'[i % 2]}" for i in range(400, 420)]
    (tmp_path / "t.csv").write_text("\n".join(lines) + "\n")
    text = 'target = "y"\nclasses = ["a", "b"]\nkey = ["row"]\n[columns]\nrow = "int"\ny = "category"\ncity = "category'

    def notes(name, city="", dose="int"):
        declared = f'{text}{city}"\ndose = "{dose}"\n'
        made = preparing.prepare("table", str(tmp_path / "t.csv"), tmp_path / name, options={"declaration": declared})
        return [note for note in made.notes if " holds " in note]

    marker, spelling = sorted(notes("one"), reverse=True)
    assert "dose holds -999 in " in marker and 'dose = "int missing -999"' in marker
    assert '"Bonn" and "bonn"' in spelling.replace("'", '"') and "any case" in spelling
    assert marker in capfd.readouterr().err
    assert notes("two", " any case", "int missing -999") == []
