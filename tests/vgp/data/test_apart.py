"""Groups, such as users, whose rows are in the train split and in another."""

import numpy as np
import pyarrow as pa
import pytest

from vgp.data import shares
from vgp.data.prepare import prepare


def marks(values, kind=None) -> shares.Marks:
    return shares.group_marks(pa.chunked_array([pa.array(values, kind)]))


def told(**splits) -> list[str]:
    return list(shares.notes_on_groups("user", splits))


@pytest.mark.parametrize("kind", [pa.int64(), pa.int32(), pa.dictionary(pa.int32(), pa.string())])
def test_the_share_of_the_groups_of_a_split_that_are_in_the_train_split_is_told(kind):
    def of(numbers):
        return marks([str(number) for number in numbers] if pa.types.is_dictionary(kind) else list(numbers), kind)

    (note,) = told(train=of(range(30)), test=of(range(20, 60)), validation=of(range(60, 70)))
    assert note.startswith("Of the values of user in the test split 25.0% are in the train split too")
    assert not told(train=of(range(30)), test=of(range(30, 60))) and not told(train=of(range(3)))


def test_of_more_groups_than_are_remembered_the_share_is_told_about():
    train, test = np.arange(100_000), np.arange(80_000, 130_000)
    (note,) = told(train=marks(train), test=marks(test))
    assert len(marks(train)) == shares.MOST_MARKS
    assert abs(float(note.split()[9].rstrip("%")) - 40) < 5


def test_what_is_remembered_depends_on_no_order_and_no_cut():
    values = np.arange(20_000)
    parts = [{"train": marks(part)} for part in np.array_split(values[::-1], 7)]
    whole = parts[0]
    for part in parts[1:]:
        whole = shares.merged_marks(part, whole)
    assert np.array_equal(whole["train"], marks(values))


@pytest.mark.parametrize(
    "task, says", [("Together", "in the test split 100.0% are in the train split"), ("Pieces", "")]
)
def test_a_task_that_makes_its_rows_itself_is_told_where_it_names_a_group(visits_module, tmp_path, capfd, task, says):
    prepare(f"{visits_module}:{task}", "", tmp_path / "data", workers=1)
    words = capfd.readouterr().err
    assert says in words and ("Of the values of user" in words) == bool(says)
