"""A look at the newest days of a table of BigQuery is the same as at those of a file."""

from datetime import date

from vgp.data import task_names
from vgp.decision.retraining import look
from vgp.protocol.pins import Request
from vgp.steps.pins.resolve import resolve

WINDOWS = {"train": "2026-01-01:2026-02-05", "test": "2026-02-06:2026-02-20"}
TRAINED = (date(2026, 2, 5) - date(1970, 1, 1)).days


def test_the_same_days_of_a_file_and_of_a_table_give_the_same_rows(cloud, warehouse, tmp_path):
    rows = warehouse.parcels()
    file = warehouse.write(tmp_path / "data", rows)
    cloud.bigquery.write(warehouse.TABLE, rows, at=warehouse.days_ago(cloud, 1))
    looks = []
    for data in (str(file), warehouse.URI):
        request = Request(data=data, task=task_names.spec(warehouse.TASK), task_options=WINDOWS, champion="")
        pins = resolve(request, f"{tmp_path}/pins", pipeline="retraining", now=cloud.clock.now())
        looks.append(look.read(pins.data, warehouse.TASK, after=TRAINED, most_days=10, known=(), run="night"))
    here, there = (
        seen.columns.append_column("day", [seen.days]).sort_by([(n, "ascending") for n in ORDER]) for seen in looks
    )
    assert here.equals(there) and here.num_rows == looks[0].rows > 50
    assert set(here["day"].to_pylist()) == set(range(TRAINED + 6, TRAINED + 16)), "the ten newest of fifteen"
    assert looks[0].what == looks[1].what == "2026-02-11 to 2026-02-20 (10 days)"


ORDER = ("day", "city", "weight", "root", "floor")
