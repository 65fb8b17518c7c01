"""Splits of tables without a time: never by the label, the same however the input is cut, and explained."""

import csv
import random
import re
from collections import Counter, defaultdict
from dataclasses import replace
from datetime import date
from pathlib import Path
from typing import ClassVar

import ibis
import numpy as np
import pyarrow as pa
import pytest
from sklearn.metrics import roc_auc_score

from tests.vgp.data.computed import engine_of, keep, stated_ids
from vgp.base.exits import UserError
from vgp.data import split_hash, split_parts, tasks
from vgp.data.identity import with_ids
from vgp.data.prepare import prepare
from vgp.data.rows import open_rows
from vgp.data.schema import Field, canonical_type
from vgp.data.split_hash import ByHash
from vgp.data.split_parts import NAMES as SPLITS
from vgp.data.splits import ByTime
from vgp.data.tables import features
from vgp.data.tables.preparation import count_rows
from vgp.data.tabular import TabularTask
from vgp.data.windows import windows
from vgp.evaluation import baseline

#: (class, age, sex): passengers who died and who survived; British Board of Trade 1912, as in Dawson 1995,
#: https://doi.org/10.1080/10691898.1995.11910499.
TITANIC = {
    ("1st", "child", "male"): (0, 5), ("1st", "child", "female"): (0, 1), ("1st", "adult", "male"): (118, 57),
    ("1st", "adult", "female"): (4, 140), ("2nd", "child", "male"): (0, 11), ("2nd", "child", "female"): (0, 13),
    ("2nd", "adult", "male"): (154, 14), ("2nd", "adult", "female"): (13, 80), ("3rd", "child", "male"): (35, 13),
    ("3rd", "child", "female"): (17, 14), ("3rd", "adult", "male"): (387, 75), ("3rd", "adult", "female"): (89, 76),
}  # fmt: skip


class Titanic(TabularTask):
    schema = (
        Field("class", pa.string()),
        Field("age", pa.string()),
        Field("sex", pa.string()),
        Field("survived", pa.bool_(), nullable=True, known="after"),
    )
    target = "survived"
    classes = ("died", "survived")


def passengers(seed: int = 0) -> list[list[str]]:
    rows = []
    for who, (died, survived) in TITANIC.items():
        rows += [[*who, "false"]] * died + [[*who, "true"]] * survived
    random.Random(seed).shuffle(rows)
    return rows


def write(path: Path, header: list[str], rows: list[list[str]]) -> str:
    with open(path, "w", newline="") as file:
        csv.writer(file).writerows([header, *rows])
    return str(path)


NAMES = ["class", "age", "sex", "survived"]


@pytest.fixture
def run(tmp_path, monkeypatch):
    """Prepares rows as a task; the manifest, and the split of each row by its position."""
    count = iter(range(100))

    def prepared(task: type[TabularTask], header: list[str], rows: list[list[str]]):
        number = next(count)
        monkeypatch.setattr(tasks, "find", lambda name: task)
        folder = tmp_path / f"data-{number}"
        made = prepare("test_splits:Mine", write(tmp_path / f"{number}.csv", header, rows), folder, workers=1)
        split = {int(row): name for name in made.splits for row in open_rows(folder, name).columns["row_id"]}
        return made, {i: split[row] for i, row in enumerate(ids(task, header, rows)) if row in split}, folder

    return prepared


@pytest.fixture
def placed(tmp_path):
    """What is planned for the rows of a task, and the split of each by its position: as `run`, with nothing written."""

    def split(task: type[TabularTask], header: list[str], rows: list[list[str]]):
        work = task()
        names = [field.name for field in work.schema]
        values = {
            name: [read(field, row[header.index(name)]) for row in rows]
            for name, field in zip(names, work.schema, strict=True)
        }
        table = pa.table({f.name: pa.array(values[f.name]).cast(f.type) for f in work.schema})
        with engine_of(table, tmp_path / "engine", work.schema, key=work.key or tuple(names)) as engine:
            identified = with_ids(engine, engine.source(), work.key, names)
            marked = features.add_kinds(work, features.add_marks(work, identified, "duckdb"), "duckdb")
            counted = count_rows(engine, work, marked)
            kinds = split_parts.count_kinds(engine, marked, features.KIND) if work.split.counts_kinds else None
            planned = work.split.plan(counted.labelled, counted.unlabelled, kinds)
            if isinstance(work.split, ByHash) and features.KIND in marked.columns:
                planned |= split_hash.move_rare_units(engine, marked, work.split, kinds)
            assigned = marked.mutate(_split=work.split.assign(marked, planned)).filter(marked[features.LABEL].notnull())
            codes = engine.read(assigned.select("_row_id", "_split")).to_pylist()
        by_id = {row["_row_id"]: SPLITS[row["_split"]] for row in codes}
        return planned, {i: by_id[row] for i, row in enumerate(ids(task, header, rows)) if row in by_id}

    return split


def ids(task: type[TabularTask], header: list[str], rows: list[list[str]]) -> list[int]:
    """The ids of rows of text, as they are stated."""
    fields = [field for field in task.schema if not task.key or field.name in task.key]
    ordered = sorted(fields, key=lambda field: task.key.index(field.name)) if task.key else fields
    kinds = [canonical_type(field) for field in ordered]
    positions = [header.index(field.name) for field in ordered]
    values = [tuple(read(field, row[i]) for field, i in zip(ordered, positions, strict=True)) for row in rows if row]
    return stated_ids(values, kinds)


def read(field: Field, text: str) -> object:
    return READ[canonical_type(field)](text)


READ = {
    "int64": lambda text: None if text in ("", "NA") else int(text),
    "float64": lambda text: None if text in ("", "NA") else float(text),
    "boolean": lambda text: None if text in ("", "NA") else text == "true",
    "string": lambda text: text,
    "date": date.fromisoformat,
}


@pytest.mark.parametrize("order", [0, "sorted"])
def test_a_table_of_few_kinds_of_rows_can_be_learned_and_tested(run, placed, order):
    """It was split by a hash of all columns: those who died of a kind to one split, its survivors to another."""
    rows = sorted(passengers()) if order == "sorted" else passengers(order)
    made, found, folder = run(Titanic, NAMES, rows)
    assert placed(Titanic, NAMES, rows)[1] == found
    assert (made.rows("test"), made.rows("validation")) == (pytest.approx(263, abs=4), pytest.approx(66, abs=2))
    learned = baseline.fit(*baseline.sample_rows(made, open_rows(folder, "train"), Titanic()), Titanic())
    test = open_rows(folder, "test").columns
    assert 0.76 < roc_auc_score(test["label"], learned(test)[:, 1]) < 0.90


def wide(count: int = 600, copies: int = 1) -> list[list[str]]:
    draw = random.Random(3)
    rows = [[f"{draw.random():.6f}", f"{draw.random():.6f}", draw.choice("ab")] for _ in range(count // copies)]
    return [[*row, draw.choice(["true", "false"])] for row in rows * copies]


class Wide(TabularTask):
    schema = (
        Field("x", pa.float64()),
        Field("y", pa.float64(), nullable=True),
        Field("word", pa.string()),
        Field("late", pa.bool_(), nullable=True, known="after"),
    )
    target = "late"


WIDE = ["x", "y", "word", "late"]


@pytest.mark.parametrize(
    ("task", "header", "rows"),
    [(Titanic, NAMES, passengers()), (Wide, WIDE, wide()), (Wide, WIDE, wide(copies=60))],
    ids=["few kinds", "all different", "each sixty times"],
)
def test_other_labels_change_nothing_of_the_split(placed, task, header, rows):
    _, before = placed(task, header, rows)
    labels = [row[-1] for row in rows]
    random.Random(0).shuffle(labels)
    _, after = placed(task, header, [[*row[:-1], label] for row, label in zip(rows, labels, strict=True)])
    assert by_kind(rows, after) == by_kind(rows, before)
    flipped = [[*row[:-1], "true" if row[-1] == "false" else "false"] for row in rows]
    assert by_kind(rows, placed(task, header, flipped)[1]) == by_kind(rows, before)


def by_kind(rows: list[list[str]], split: dict[int, str]) -> Counter[tuple[str, ...]]:
    """How many rows of each kind are in each split: which of them they are is no matter, they are alike."""
    return Counter((*rows[i][:-1], name) for i, name in split.items())


def test_an_unknown_label_leaves_a_row_out_and_changes_nothing_else(placed):
    rows = wide(copies=3)
    _, before = placed(Wide, WIDE, rows)
    some = [[*row[:-1], "" if i % 3 == 0 else row[-1]] for i, row in enumerate(rows)]
    assert placed(Wide, WIDE, some)[1] == {row: split for row, split in before.items() if row % 3}


@pytest.mark.parametrize("ordered", [True, False])
def test_rows_of_common_kinds_go_to_the_splits_whatever_their_label(placed, ordered):
    """In order of their ids, so that a kind of few labels is not dealt out by them."""
    rows = sorted(passengers(), key=lambda row: row[-1]) if ordered else passengers()
    _, found = placed(Titanic, NAMES, rows)
    survived = [rows[i][-1] == "true" for i, split in found.items() if split == "test"]
    assert 0.3 < np.mean(survived) < 0.46  # 499 of 1,316
    some = [[*row[:-1], "" if i % 3 == 0 else row[-1]] for i, row in enumerate(rows)]
    _, found = placed(Titanic, NAMES, some)
    assert Counter(found.values())["test"] / 877 == pytest.approx(0.2, abs=0.03)


def test_rows_that_are_alike_stay_together_unless_their_kind_is_common(placed):
    rows = wide(600, copies=3) + [["0", "", "c", random.Random(i).choice(["true", "false"])] for i in range(80)]
    planned, found = placed(Wide, WIDE, rows)
    of_kind = defaultdict(Counter)
    for number, row in enumerate(rows):
        of_kind[tuple(row[:-1])][found[number]] += 1
    common = of_kind.pop(("0", "", "c"))
    assert all(len(places) == 1 for places in of_kind.values())
    assert 8 <= common["test"] <= 24 and common["train"] > 40
    (note,) = planned["notes"]
    assert "680 of 680 rows are equal to another row in all columns known before the outcome: there are 201" in note
    assert (
        "Rows of common kinds (1 kinds, 80 rows) go to the splits one by one, by their number within the kind" in note
    )
    assert (
        "Rows of every other kind stay together" in note
        and "If you declare a key or a group, it decides instead." in note
    )


def test_the_dataset_does_not_depend_on_how_the_input_is_cut_or_ordered(run, tmp_path):
    rows = passengers()[:400]
    made, _, folder = run(Titanic, NAMES, rows)
    blank = [row for pair in zip(rows, [[]] * len(rows), strict=True) for row in pair]
    for other in (sorted(rows), blank):
        assert run(Titanic, NAMES, other)[0].splits == made.splits
    write(tmp_path / "part-a.csv", NAMES, rows[:7])
    write(tmp_path / "part-b.csv", NAMES, rows[7:])
    parts = prepare("test_splits:Mine", f"{tmp_path}/part-b.csv,{tmp_path}/part-a.csv", tmp_path / "parts", workers=2)
    assert parts.splits == made.splits


def test_more_rows_leave_the_others_where_they_are(placed):
    _, before = placed(Wide, WIDE, wide()[:400])
    _, after = placed(Wide, WIDE, wide())
    assert {row: after[row] for row in before} == before


def test_more_rows_of_common_kinds_move_few_of_the_others(placed):
    _, before = placed(Titanic, NAMES, passengers()[:900])
    _, after = placed(Titanic, NAMES, passengers())
    assert sum(after[row] == split for row, split in before.items()) > 0.93 * 900
    places = Counter(after.values())
    assert (places["test"], places["validation"]) == (pytest.approx(263, abs=4), pytest.approx(66, abs=2))


@pytest.mark.parametrize("size", [5, 7, 19, 20, 21, 1000])
def test_kinds_of_every_size_have_their_shares_to_a_row(size, tmp_path):
    kinds = 2000 // size
    ids = np.arange(kinds * size)
    table = pa.table({"_row_id": np.random.default_rng(0).permutation(ids), "_kind": ids % kinds * 7919 + 123_457})
    with engine_of(pa.table({"x": [0]}), tmp_path) as engine:
        keep(engine, "kinds", table)
        rows = ibis.table({"_row_id": "int64", "_kind": "int64"}, name="kinds")
        split = ByHash(("x",), "", (), 20, 5, "")
        common = tuple(set(table["_kind"].to_pylist()))
        rows = rows.mutate(split=split.assign(rows, {"_common": common}))
        counted = engine.read(rows.group_by(["_kind", "split"]).agg(n=rows.count())).to_pylist()
        counts = {(row["_kind"], row["split"]): row["n"] for row in counted}
    for code, share in ((2, 0.2), (1, 0.05)):
        each = [counts.get((kind, code), 0) for kind in common]
        assert np.abs(np.array(each) - share * size).max() < 1
        assert sum(each) == pytest.approx(share * kinds * size, abs=3 * kinds**0.5 / 2 + 1)


def test_many_duplicate_rows_are_reported_in_the_output_the_manifest_and_the_report(run, capfd, tmp_path):
    made, _, folder = run(Titanic, NAMES, passengers())
    (note,) = made.notes
    assert "1,315 of 1,316 rows are equal to another" in note and "12 kinds" in note
    assert f"note: {note}" in capfd.readouterr().err.splitlines()
    assert made.split["by"] == "number within the kind"


def test_rows_that_differ_are_not_worth_a_word(placed):
    planned, _ = placed(Wide, WIDE, wide())
    assert planned["notes"] == () and planned["split"]["by"] == "columns"


class Keyed(Wide):
    schema = (Field("id", pa.int64()), *Wide.schema)
    key = ("id",)


def test_a_key_alone_decides(placed):
    rows = [[str(i), *row] for i, row in enumerate(wide(copies=60))]
    planned, first = placed(Keyed, ["id", *WIDE], rows)
    again, second = placed(Keyed, ["id", *WIDE], [[row[0], "0", "", "a", row[-1]] for row in rows])
    assert first == second and planned["split"]["by"] == again["split"]["by"] == "key"
    assert planned["notes"] == ()


class KeyedByOutcome(Wide):
    schema = (Field("id", pa.int64()), *Wide.schema[:3], Field("late", pa.bool_(), known="after"))
    key = ("id", "late")


def test_a_key_that_holds_the_outcome_decides_without_it(placed):
    rows = [[str(i // 2), *wide(1)[0][:-1], "true" if i % 2 else "false"] for i in range(400)]
    planned, found = placed(KeyedByOutcome, ["id", *WIDE], rows)
    assert "400 of 400 rows are equal to another row in the columns of the key (id) known before" in planned["notes"][0]
    assert all(found[i] == found[i + 1] for i in range(0, 400, 2))


class Grouped(Keyed):
    group = "word"


def groups_of(values: list[str]) -> list[list[str]]:
    return [[str(i), *row[:2], values[i % len(values)], row[-1]] for i, row in enumerate(wide())]


def test_a_group_of_few_values_is_reported(placed):
    planned, found = placed(Grouped, ["id", *WIDE], groups_of([f"g{i}" for i in range(12)]))
    assert planned["split"]["by"] == "group word"
    assert "few groups hold most of the 600 rows (12 values of word)" in planned["notes"][0]
    assert all(found[i] == found[i % 12] for i in range(600))
    assert placed(Grouped, ["id", *WIDE], groups_of([f"g{i}" for i in range(300)]))[0]["notes"] == ()


def test_a_group_that_leaves_no_test_is_refused_with_the_reason(run):
    with pytest.raises(UserError, match=r"there is no row in the (test|train) split.*\(1 values of word\)"):
        run(Grouped, ["id", *WIDE], groups_of(["g"]))


class Unnamed(Grouped):
    schema = tuple(replace(field, nullable=field.nullable or field.name == "word") for field in Grouped.schema)


def test_each_row_without_a_group_goes_to_a_split_by_itself_and_they_are_counted(run, placed, capfd):
    """Thousands of rows without a patient were one patient, and went to one split together."""
    header, rows = ["id", *WIDE], groups_of([f"g{i}" for i in range(100)])
    empty = [i for i in range(len(rows)) if i % 100 < 50]
    for i in empty:
        rows[i][header.index("word")] = ""
    _, found = placed(Unnamed, header, rows)
    counts = Counter(found[i] for i in empty)
    assert set(counts) == set(SPLITS) and 0.1 < counts["test"] / len(empty) < 0.3
    assert all(found[i] == found[i % 100] for i in range(len(rows)) if i % 100 >= 50), "a group stays together"
    made, written, _ = run(Unnamed, header, rows)
    sentence = f"{len(empty)} of {len(rows)} rows have no value of word: each of them goes to a split by itself."
    assert written == found and sentence in made.notes and sentence in capfd.readouterr().err


class Derived(Keyed):
    group = "half"

    def features(self, rows):
        return {"x": rows.x, "half": (rows.id // 2).cast("string")}


def test_a_group_of_the_tasks_own_making_stays_together(run):
    """Its rows went to splits by their keys, which no one could see."""
    rows = [[str(i), *row] for i, row in enumerate(wide())]
    _, found, _ = run(Derived, ["id", *WIDE], rows)
    assert all(found[i] == found[i + 1] for i in range(0, 600, 2)) and len(set(found.values())) == 3


class Unknown(Keyed):
    group = "house"


def test_a_group_that_is_no_column_is_refused(run):
    with pytest.raises(UserError, match="Unknown.group is 'house': neither a feature, nor a column known before"):
        run(Unknown, ["id", *WIDE], groups_of(["g"]))


class Label(TabularTask):
    schema = (Field("late", pa.bool_(), known="after"),)
    target = "late"


def test_a_table_of_nothing_but_the_label_is_refused(run):
    with pytest.raises(UserError, match="Label.schema has no column known before the outcome"):
        run(Label, ["late"], [["true" if i % 3 else "false"] for i in range(100)])


@pytest.mark.parametrize("count", [1, 2, 3, 5, 9])
def test_very_few_rows_are_refused_in_a_sentence_or_split(run, count):
    rows = [["1st", "adult", "male", "true" if i % 2 else "false"] for i in range(count)]
    try:
        made, _, _ = run(Titanic, NAMES, rows)
        assert made.rows("train") and made.rows("test")
    except UserError as error:
        assert re.search(r"no row in the (test|train) split|does not occur in the train split", str(error))


def test_a_test_split_that_lacks_a_class_is_reported(run, placed, capfd):
    rows = wide()
    _, found = placed(Wide, WIDE, rows)
    one = [[*row[:-1], "false" if found[i] == "test" else row[-1]] for i, row in enumerate(rows)]
    run(Wide, WIDE, one)
    printed = capfd.readouterr().err
    assert (
        "note: The test split has no row of the class yes (train 216, validation 16, test 0): there will be no"
        in printed
    )


def sick(rows: list[list[str]], chosen: set[int]) -> list[list[str]]:
    return [[*row[:-1], "true" if i in chosen else "false"] for i, row in enumerate(rows)]


def counts(found: dict[int, str], chosen: set[int]) -> tuple[int, ...]:
    """How many of these rows train, validate and test."""
    return tuple(sum(found[i] == split for i in chosen) for split in SPLITS)


@pytest.mark.parametrize("task", ["key", "columns"])
@pytest.mark.parametrize("size", [2, 3, 8, 40, 100])
def test_a_rare_class_has_about_its_shares_of_the_splits(placed, task, size):
    """Of 8 rows none tested, once in six times."""
    for seed in range(2):
        chosen = set(random.Random(seed).sample(range(1500), size))
        rows = sick([[str(i), *row] for i, row in enumerate(wide(1500))], chosen)
        rows = rows if task == "key" else [row[1:] for row in rows]
        _, found = placed(*((Keyed, ["id", *WIDE]) if task == "key" else (Wide, WIDE)), rows)
        train, validation, test = counts(found, chosen)
        assert max(1, 0.1 * size) <= test <= 0.3 * size + 1 and train >= size / 2
        assert validation or size < 20
        assert Counter(found.values())["test"] / 1500 == pytest.approx(0.2, abs=0.04)


def test_groups_that_hold_a_rare_class_go_to_the_splits_by_their_shares_as_wholes(placed):
    rows = groups_of([f"g{i}" for i in range(150)])
    for first in range(0, 60, 21):
        chosen = {i for i in range(600) if i % 150 in range(first, first + 5)}
        _, found = placed(Grouped, ["id", *WIDE], sick(rows, chosen))
        assert all(found[i] == found[i % 150] for i in range(600))
        assert counts(found, chosen)[2] in (4, 8) and counts(found, chosen)[0] >= 12


def test_rows_of_a_rare_class_are_split_one_by_one_where_their_kinds_are_common(placed):
    rows = passengers()
    for first in range(0, 100, 34):
        chosen = set(range(first, first + 6))
        _, found = placed(Titanic, NAMES, sick(rows, chosen))
        assert counts(found, chosen)[0] >= 3 and counts(found, chosen)[2] in (1, 2)


def test_alike_rows_of_a_rare_and_a_frequent_class_stay_together(placed):
    rows = [row for row in wide(300) for _ in range(2)]
    chosen = set(range(0, 60, 10))
    _, found = placed(Wide, WIDE, sick(rows, chosen))
    assert all(found[i] == found[i + 1] for i in range(0, 600, 2)) and counts(found, chosen)[2] in (1, 2)


def test_more_rows_move_few_of_a_rare_class_and_none_of_the_others(placed):
    rows = [[str(i), *row] for i, row in enumerate(wide(1500))]
    chosen = set(random.Random(3).sample(range(1500), 16))
    moved = 0
    found = placed(Keyed, ["id", *WIDE], sick(rows[:700], chosen))[1]
    for until in range(900, 1600, 200):
        after = placed(Keyed, ["id", *WIDE], sick(rows[:until], chosen))[1]
        assert all(after[i] == split for i, split in found.items() if i not in chosen)
        moved += sum(after[i] != split for i, split in found.items())
        found = after
    assert 0 < moved <= 4


def test_a_class_of_one_group_trains_and_its_absence_from_the_test_split_is_reported(run, capfd):
    rows = groups_of([f"g{i}" for i in range(150)])
    made, found, _ = run(Grouped, ["id", *WIDE], sick(rows, {i for i in range(600) if i % 150 == 1}))
    assert found[1] == "train"
    sentence = next(doubt for doubt in made.doubts if "test split" in doubt)
    assert "class yes (train 4, validation 0, test 0)" in sentence
    assert sentence in made.notes and f"note: {sentence}" in capfd.readouterr().err


PENGUINS = ["species", "island", "bill_mm", "mass_g", "year", "sex", "sampled"]


class Penguins(TabularTask):
    """Every column but the label may be missing, and there is no key."""

    schema = (
        Field("species", pa.string(), known="after"),
        Field("island", pa.string(), nullable=True),
        Field("bill_mm", pa.float64(), nullable=True),
        Field("mass_g", pa.int64(), nullable=True),
        Field("year", pa.int16(), nullable=True),
        Field("sex", pa.bool_(), nullable=True),
    )
    target = "species"
    classes = ("Adelie", "Chinstrap", "Gentoo")


def test_numbers_that_may_be_missing_need_no_key(run):
    draw = random.Random(5)

    def maybe(value):
        return "NA" if draw.random() < 0.2 else value

    def penguin():
        mass = str(draw.randrange(3000, 6000))
        measured = [maybe(value) for value in (f"{draw.gauss(44, 5):.1f}", mass, "2008", "true")]
        return [draw.choice(Penguins.classes), "Dream", *measured, "x"]

    rows = [penguin() for _ in range(344)]
    made, _, folder = run(Penguins, PENGUINS, rows)
    missing = sum(np.isnan(open_rows(folder, split).columns["mass_g"]).sum() for split in made.splits)
    assert missing == sum(row[3] == "NA" for row in rows) > 40
    assert sum(made.rows(split) for split in made.splits) == 344


class Folded(Wide):
    schema = (*Wide.schema, Field("fold", pa.string(), nullable=True))
    settings: ClassVar = {**TabularTask.settings, "split": "fold"}


def folded(rows: list[list[str]]) -> list[list[str]]:
    return [[*row, ("train", "test", "train", "validation", "")[i % 5]] for i, row in enumerate(rows)]


def test_a_given_column_decides_and_is_no_feature(run):
    rows = folded(wide())
    made, found, _ = run(Folded, [*WIDE, "fold"], rows)
    assert found == {i: row[-1] for i, row in enumerate(rows) if row[-1]}
    assert made.split == {"by": "column fold"} and made.rows_dropped == {"no split in fold": 120}
    assert "fold" not in {column.name for column in made.columns}


def test_an_unlabelled_row_is_not_counted_twice(run):
    rows = folded(wide())
    rows[0][3] = rows[4][3] = ""  # one of train, one of no split
    made, _, _ = run(Folded, [*WIDE, "fold"], rows)
    assert made.rows_dropped == {"no label": 1, "no split in fold": 120}
    assert made.rows_read == 600 == sum(made.rows(split) for split in made.splits) + 121


def test_a_split_that_is_none_is_named_with_its_line(run):
    rows = folded(wide())
    rows[6][-1] = "Test"
    with pytest.raises(UserError, match=r"csv, line 8: the split 'Test' is none of train, validation, test"):
        run(Folded, [*WIDE, "fold"], rows)


@pytest.mark.parametrize(("test", "validation"), [(0.1, 0.1), (0.33, 0.07), (0.5, 0)])
def test_shares_are_options(placed, test, validation):
    class Shared(Keyed):
        settings: ClassVar = {**TabularTask.settings, "test_share": test, "validation_share": validation}

    _, found = placed(Shared, ["id", *WIDE], [[str(i), *row] for i, row in enumerate(wide(3000))])
    places = Counter(found.values())
    assert places["test"] / 3000 == pytest.approx(test, abs=0.03)
    assert places["validation"] / 3000 == pytest.approx(validation, abs=0.02)

    class Alike(Titanic):
        settings = Shared.settings

    _, found = placed(Alike, NAMES, passengers())
    assert Counter(found.values())["test"] / 1316 == pytest.approx(test, abs=0.01)


class Dated(Keyed):
    schema = (Field("day", pa.date32()), *Keyed.schema)
    time = "day"
    settings: ClassVar = {**TabularTask.settings, "split": "hash"}


def test_a_task_with_a_time_may_be_split_by_its_key(placed):
    rows = [[f"2024-01-{1 + i % 28:02}", str(i), *row] for i, row in enumerate(wide())]
    planned, found = placed(Dated, ["day", "id", *WIDE], rows)
    assert planned["split"]["by"] == "key" and found == placed(Keyed, ["id", *WIDE], [row[1:] for row in rows])[1]


@pytest.mark.parametrize("count", [0, 1, 4, 5, 9, 182])
def test_days_that_are_held_out_are_distinguished_from_the_others_however_many_they_are(count, tmp_path):
    days = sorted(random.Random(count).sample(range(-400, 400), count))
    split = ByTime(windows("1-6", "7"), 5, "day", "")
    with engine_of(pa.table({"_mark": [*range(-410, 410), None]}), tmp_path) as engine:
        source = engine.source()
        splits = split.assign(source, {"_spans": (((-500, 300),), ((300, 500),)), "_held_out": days})
        found = engine.read(source.select("_mark", split=splits)).to_pylist()
    assert found.pop() == {"_mark": None, "split": -1}
    for row in found:
        day = row["_mark"]
        assert row["split"] == (2 if day >= 300 else 1 if day in days else 0), day
