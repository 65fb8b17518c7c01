import csv
import errno
import hashlib
import importlib
import io
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from datetime import date, timedelta
from pathlib import Path

import psutil
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from vgp.base.exits import UserError
from vgp.data import dataset_checks, tasks
from vgp.data.identity import BITS
from vgp.data.prepare import prepare
from vgp.data.tables import preparation, sorting
from vgp.data.task import Task
from vgp.protocol import manifest
from vgp.protocol.manifest import Manifest, ShardFile

from .conftest import HEADER, visit_rows


@pytest.fixture
def visits(visits_module):
    return f"{visits_module}:Visits"


def rows_of(folder: Path) -> dict[str, list[dict]]:
    made = manifest.load(folder)
    pages = made.column("page").values
    tables = {
        split: [row for file in files for row in pq.read_table(folder / file.path).to_pylist()]
        for split, files in made.splits.items()
    }
    return {split: [row | {"page": pages[row["page"]]} for row in rows] for split, rows in tables.items()}


@pytest.fixture
def small_shards(monkeypatch):
    """Two thousand rows are several shards, and several ranges that are sorted."""
    monkeypatch.setattr(preparation, "SHARD_BYTES", 1_000)
    monkeypatch.setattr(sorting, "RANGE_BYTES", 10_000)


@dataclass
class Made:
    """The visits as they are prepared by one process, in small shards; no test writes to the folder."""

    folder: Path
    source: Path
    manifest: Manifest
    #: Of the stages of the work, as a log names them.
    stages: list[str]


@pytest.fixture(scope="module")
def made(visits_folder, tmp_path_factory):
    folder, stages = tmp_path_factory.mktemp("made"), []
    source = folder / "visits.csv"
    source.write_text("\n".join([HEADER, *visit_rows()]) + "\n")
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(visits_folder)
        patch.setattr(preparation, "SHARD_BYTES", 1_000)
        patch.setattr(sorting, "RANGE_BYTES", 10_000)
        patch.setattr("vgp.data.pool._print_lines", lambda work, ended: stages.append(work.title))
        document = prepare("visits_task:Visits", str(source), folder / "data", workers=1)
    return Made(folder / "data", source, document, stages)


def test_every_row_of_the_window_arrives_once_and_unchanged(visits, write_csv, tmp_path, small_shards):
    lines = visit_rows()
    path = write_csv(lines)
    made = prepare(visits, str(path), tmp_path / "data", options={"train": "1-2", "test": "3"}, workers=1)
    assert [file.rows for file in made.splits["train"]] == [1024, 1140 - 1024]
    rows = [row for split in rows_of(tmp_path / "data").values() for row in split]
    assert len({row["row_id"] for row in rows}) == len(rows)
    read = [row for row in csv.DictReader([HEADER, *lines]) if row["day"] < "2024-04"]
    expected = sorted((row["day"], row["page"], row["seconds"][:6], int(row["bought"] == "true")) for row in read)
    dates = [str(date(1970, 1, 1) + timedelta(row["_day"])) for row in rows]
    seconds = [f"{row['seconds']:.3f}"[:6].replace("nan", "") for row in rows]
    assert expected == sorted(
        (day, row["page"], spent, row["label"]) for day, row, spent in zip(dates, rows, seconds, strict=True)
    )


def test_rows_lie_in_the_order_of_their_ids_which_follow_from_the_key(visits, made, write_csv, tmp_path, small_shards):
    for rows in rows_of(made.folder).values():
        ids = [row["row_id"] for row in rows]
        assert ids == sorted(ids)
    prepare(visits, str(write_csv(visit_rows()[::-1])), tmp_path / "data", workers=1)
    one, other = contents(made.folder), contents(tmp_path / "data")
    assert one.pop("manifest.json") != other.pop("manifest.json")  # it names the file
    assert one == other


@pytest.mark.parametrize("dealt_bytes", [1, 100, 1 << 20])
def test_rows_are_sorted_however_many_are_dealt_to_their_ranges_at_once(dealt_bytes, tmp_path, monkeypatch):
    monkeypatch.setattr(sorting, "DEALT_BYTES", dealt_bytes)
    monkeypatch.setattr(sorting, "RANGE_BYTES", 100)
    ids = [(7919 * i % 97) << (BITS - 7) for i in range(96)]
    with sorting.Sorting(tmp_path / "finished", "label") as finished:
        finished.expected = len(ids)
        for start in range(0, len(ids), 10):
            some = ids[start : start + 10]
            finished.add(pa.record_batch({"row_id": some, "_split": [0] * len(some), "label": [1] * len(some)}))
        tables = list(finished.tables())
    assert len(tables) > 3
    assert [id_ for _, table in tables for id_ in table["row_id"].to_pylist()] == sorted(ids)


def test_windows_split_by_time_and_validation_takes_whole_days(visits, write_csv, tmp_path):
    path = write_csv(visit_rows())
    made = prepare(visits, str(path), tmp_path / "data", options={"train": "1-2", "test": "4"}, workers=1)
    days = {split: {row["_day"] for row in rows} for split, rows in rows_of(tmp_path / "data").items()}
    first_of = {month: (2024 - 1970) * 365 + 13 + offset for month, offset in ((1, 0), (3, 60), (4, 91))}
    assert days["train"] | days["validation"] == set(range(first_of[1], first_of[3]))
    assert not days["train"] & days["validation"]
    assert len(days["validation"]) == 3  # 60 days, one in twenty
    assert days["test"] <= set(range(first_of[4], first_of[4] + 30))
    assert (made.split["train"], made.split["test"]) == ("2024-01:2024-02", "2024-04")
    assert made.rows_read == 2400
    assert made.rows_dropped == {"outside the windows": 31 * 20}


@pytest.mark.parametrize(
    ("options", "train", "test"),
    [
        (
            {"train": "4 weeks", "test": "2024-02-05:2024-02-11"},
            ("2024-01-08", "2024-02-04"),
            ("2024-02-05", "2024-02-11"),
        ),
        ({"train": "2024-W01:2024-W03", "test": "5 days"}, ("2024-01-01", "2024-01-21"), ("2024-01-22", "2024-01-26")),
        ({"train": "1 month", "test": "10 days"}, ("2024-03-20", "2024-04-19"), ("2024-04-20", "2024-04-29")),
    ],
)
def test_a_window_of_any_length_holds_exactly_the_rows_of_its_days(visits, write_csv, tmp_path, options, train, test):
    made = prepare(visits, str(write_csv(visit_rows())), tmp_path / "data", options=options, workers=1)
    dates = {
        split: {date(1970, 1, 1) + timedelta(row["_day"]) for row in rows}
        for split, rows in rows_of(tmp_path / "data").items()
    }
    for days, (first, last) in ((dates["train"] | dates["validation"], train), (dates["test"], test)):
        assert (min(days).isoformat(), max(days).isoformat()) == (first, last)
        assert len(days) == (max(days) - min(days)).days + 1
    assert (made.split["train"], made.split["test"]) == (":".join(train), ":".join(test))
    kept = sum(made.rows(split) for split in made.splits)
    assert made.rows_dropped == {"outside the windows": made.rows_read - kept}


def test_the_share_of_validation_days_is_an_option(visits, write_csv, tmp_path):
    path = str(write_csv(visit_rows()))
    for share, days in ((0.1, 9), (0, 0)):
        made = prepare(visits, path, tmp_path / "data", options={"validation_share": share}, workers=1)
        assert len(made.statistics["validation_days"]) == days  # of 91 in January to March
        assert made.rows("validation") == 20 * days


def test_the_manifest_describes_the_train_split_and_the_files(made):
    train, described = rows_of(made.folder)["train"], made.manifest
    page, label, seconds = (described.column(name) for name in ("page", "label", "seconds"))
    assert page.values == ("", "help, and more", "home", "offer")
    assert page.counts == tuple(sum(row["page"] == value for row in train) for value in page.values)
    assert (label.kind, label.values, sum(label.counts)) == ("label", ("no", "yes"), len(train))
    known = [row["seconds"] for row in train if row["seconds"] == row["seconds"]]
    assert (seconds.count, seconds.missing) == (len(known), len(train) - len(known))
    assert seconds.mean == pytest.approx(sum(known) / len(known))
    for file in described.splits["train"]:
        data = (made.folder / file.path).read_bytes()
        assert (file.bytes, file.sha256) == (len(data), hashlib.sha256(data).hexdigest())
    assert described.sources[0].sha256 == hashlib.sha256(made.source.read_bytes()).hexdigest()
    assert manifest.load(made.folder) == described
    read = json.loads((made.folder / "manifest.json").read_text(), parse_constant=pytest.fail)
    assert read["task"] == "visits_task:Visits"
    assert [Path(source["path"]).name for source in read["sources"]] == ["visits.csv"]


def contents(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir()}


def test_bytes_do_not_depend_on_threads_memory_or_an_earlier_run(visits, made, tmp_path, monkeypatch, small_shards):
    prepare(visits, str(made.source), tmp_path / "data", options={"train": "1"}, workers=1)  # fewer shards
    monkeypatch.setenv("PREPARE_ENGINES", json.dumps({"memory_gb": 0.1}))
    prepare(visits, str(made.source), tmp_path / "data", workers=3)
    assert contents(tmp_path / "data") == contents(made.folder)


def test_the_fingerprint_changes_with_data_and_configuration(visits, visits_module, made, write_csv, tmp_path):
    first, sources = made.manifest.fingerprint, made.manifest.sources
    copied = write_csv(visit_rows(), "again.csv")
    assert prepare(visits, str(copied), tmp_path / "data", workers=1).fingerprint == first

    def fingerprint(task=visits, sources=sources, **options) -> str:
        return dataset_checks.fingerprint(task, tasks.load(task, options), sources, {})

    assert fingerprint() == first
    others = [
        fingerprint(sources=[sources[0].model_copy(update={"sha256": "0" * 64})]),
        fingerprint(train="1"),
        fingerprint(dropout=0.2),
        fingerprint(f"{visits_module}:Timeless"),
    ]
    assert len({first, *others}) == 5


def test_the_fingerprint_of_a_task_that_names_no_sources_changes_with_the_shards(visits_module):
    task = f"{visits_module}:Pieces"

    def fingerprint(checksum: str) -> str:
        shard = ShardFile(path="train-00000.parquet", rows=1, bytes=1, sha256=checksum)
        return dataset_checks.fingerprint(task, tasks.load(task), (), {"train": (shard,)})

    assert fingerprint("0" * 64) == fingerprint("0" * 64) != fingerprint("1" * 64)


def test_rows_without_an_outcome_are_left_out_and_counted(visits, write_csv, tmp_path):
    lines = visit_rows()
    lines[7] = lines[7].rpartition(",")[0] + ","
    made = prepare(visits, str(write_csv(lines)), tmp_path / "data", workers=1)
    assert made.rows_dropped == {"not over yet": 1}
    assert sum(made.rows(split) for split in made.splits) == made.rows_read - 1 == len(lines) - 1


def test_a_key_that_occurs_twice_in_different_files_is_named_in_both(visits, write_csv, tmp_path):
    lines = visit_rows()
    first, second = write_csv(lines[:1000], "a.csv"), write_csv([*lines[1000:], lines[500]], "b.csv")
    with pytest.raises(UserError) as refusal:
        prepare(visits, f"{first},{second}", tmp_path / "data", workers=1)
    assert "b.csv, line 1402 repeats the key of" in str(refusal.value)
    assert "a.csv, line 502: visitor=500, day=2024-01-26" in str(refusal.value)
    assert not (tmp_path / "data").exists()


@pytest.mark.parametrize(
    ("task", "message"),
    [
        ("Leaky", "asks for refunded, which is known only after"),
        ("Hidden", "the column hint alone predicts"),
    ],
)
def test_a_label_that_leaks_is_refused(visits_module, write_csv, tmp_path, task, message):
    with pytest.raises(UserError, match=message):
        prepare(f"{visits_module}:{task}", str(write_csv(visit_rows())), tmp_path / "data", workers=1)
    assert not (tmp_path / "data").exists()


def test_a_column_that_the_task_trusts_is_no_leak(visits_module, write_csv, tmp_path):
    made = prepare(f"{visits_module}:Trusting", str(write_csv(visit_rows())), tmp_path / "data", workers=1)
    assert "hint" in {column.name for column in made.columns}
    assert made.statistics.keys() == {"validation_days"}  # what only the split needs stays out of the manifest


def test_without_a_time_rows_of_the_first_group_stay_together_and_the_second_travels(
    visits_module, write_csv, tmp_path
):
    lines = [f"{i % 400},2024-01-{1 + i // 400:02},home,1,0,{'true' if i % 3 else 'false'}" for i in range(4000)]
    made = prepare(f"{visits_module}:Timeless", str(write_csv(lines)), tmp_path / "data", workers=1)
    rows = rows_of(tmp_path / "data")
    assert {len({row["week"] for row in rows["test"]}), len({row["week"] for row in rows["train"]})} == {2}
    groups = {split: {row["visitor"] for row in rows} for split, rows in rows.items()}
    assert sum(map(len, groups.values())) == len(set.union(*groups.values())) == 400
    assert 50 < len(groups["test"]) < 110
    assert made.split == {"by": "group visitor", "test_share": "0.2", "validation_share": "0.05"}


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"options": {"train": "13"}}, "no month 13"),
        ({"options": {"train": "1-4", "test": "4"}}, "overlap"),
        ({"options": {"train": "1-4", "test": "5"}}, "no rows in 2024-05, which test needs; .* in 2024-01:2024-04"),
        ({"options": {"droput": 1}}, "no option 'droput'.*dropout"),
        ({"workers": 0}, "workers is 0"),
    ],
)
def test_a_wrong_request_writes_nothing(visits, write_csv, tmp_path, given, message):
    path = write_csv(visit_rows())
    with pytest.raises(UserError, match=message):
        prepare(visits, str(path), tmp_path / "data", **{"workers": 1, **given})
    assert not (tmp_path / "data").exists()


def test_an_outcome_that_never_changes_is_refused(visits, write_csv, tmp_path):
    lines = [line.rpartition(",")[0] + ",true" for line in visit_rows()]
    with pytest.raises(UserError, match="does not occur in the train split"):
        prepare(visits, str(write_csv(lines)), tmp_path / "data", workers=1)


def test_a_failure_keeps_the_dataset_that_was_there(visits, made, write_csv, tmp_path):
    shutil.copytree(made.folder, tmp_path / "data")
    before, path = contents(tmp_path / "data"), write_csv([*visit_rows(), "x,2024-01-01,home,1,0,true"])
    with pytest.raises(UserError, match="column visitor: 'x' is not of type int64"):
        prepare(visits, str(path), tmp_path / "data", workers=2)
    assert contents(tmp_path / "data") == before


def test_a_disk_that_fills_up_while_writing_leaves_nothing(visits, write_csv, tmp_path, monkeypatch):
    write = Path.write_bytes

    def full_after_one(path: Path, data) -> int:
        if path.name.startswith("validation"):
            write(path, bytes(data)[:100])
            raise OSError(errno.ENOSPC, "No space left on device", str(path))
        return write(path, data)

    monkeypatch.setattr(Path, "write_bytes", full_after_one)
    with pytest.raises(UserError, match="validation-00000.parquet: No space left on device. Free some"):
        prepare(visits, str(write_csv(visit_rows())), tmp_path / "data", workers=1)
    assert not (tmp_path / "data").exists()


def test_a_full_scratch_disk_is_named(visits_module, tmp_path):
    with pytest.raises(UserError, match="No space left on device.*TMPDIR"):
        prepare(f"{visits_module}:Failing", "", tmp_path / "data", workers=1)


def test_other_peoples_files_are_left_alone(visits, write_csv, tmp_path):
    path = write_csv(visit_rows())
    with pytest.raises(UserError, match=r"holds other files \(visits.csv\): choose an empty or new folder"):
        prepare(visits, str(path), tmp_path, workers=1)
    with pytest.raises(UserError, match="is a file"):
        prepare(visits, str(path), path, workers=1)
    with pytest.raises(UserError, match="data cannot be created: .*visits.csv is a file"):
        prepare(visits, str(path), path / "data", workers=1)
    with pytest.raises(UserError, match="cannot be written"):
        prepare(visits, str(path), "/proc/nothing/data", workers=1)
    with pytest.raises(UserError, match="must be a folder, such as /gcs/"):
        prepare(visits, str(path), "gs://bucket/data", workers=1)
    assert os.listdir(tmp_path) == ["visits.csv"]


def test_a_worker_that_is_killed_is_an_error_and_not_a_hang(visits_module, tmp_path):
    with pytest.raises(UserError, match="a process died while making rows.*fewer than 2 workers"):
        prepare(f"{visits_module}:Dying", "", tmp_path / "data", workers=2)


@pytest.mark.parametrize("workers, code, ending", [(1, 0, "visits_task.py:.*SystemExit: 0"), (2, 4, "SystemExit: 4")])
def test_a_task_that_calls_exit_is_an_error_with_its_record_and_no_success(
    visits_module, tmp_path, workers, code, ending
):
    message = rf"ended the program while making rows: mail.txt, record 3 \(.*{ending}\)"
    with pytest.raises(UserError, match=message):
        prepare(f"{visits_module}:Leaving", "", tmp_path / "data", options={"code": code}, workers=workers)
    assert not (tmp_path / "data").exists()
    with pytest.raises(SystemExit):  # as a stop from outside the step would
        prepare(f"{visits_module}:Leaving", "", tmp_path / "data", options={"code": 143}, workers=1)


def test_the_features_are_asked_for_once_and_once_of_the_past(visits, visits_module, write_csv, tmp_path, monkeypatch):
    kind, asked = importlib.import_module(visits_module).Visits, []
    features = kind.features
    monkeypatch.setattr(kind, "features", lambda self, rows: asked.append(rows) or features(self, rows))
    prepare(visits, str(write_csv(visit_rows())), tmp_path / "data", workers=1)
    assert len(asked) == 2


def test_a_read_only_disk_is_reported(visits, write_csv, tmp_path, monkeypatch):
    def refused(**given):
        raise OSError(errno.EROFS, os.strerror(errno.EROFS))

    monkeypatch.setattr(os, "access", lambda *given: False)
    monkeypatch.setattr(tempfile, "TemporaryFile", refused)
    with pytest.raises(UserError, match="data cannot be written: Read-only file system."):
        prepare(visits, str(write_csv(visit_rows())), tmp_path / "data", workers=1)


def test_workers_end_and_scratch_is_removed_when_their_parent_is_killed(visits_module, tmp_path, monkeypatch):
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    monkeypatch.setenv("TMPDIR", str(scratch))
    monkeypatch.setattr(tempfile, "tempdir", None)
    folder = next(Path(p) for p in sys.path if (Path(p) / f"{visits_module}.py").exists())
    code = f"from vgp.data.prepare import prepare; prepare('{visits_module}:Slow', '', 'data', workers=2)"
    paths = os.pathsep.join([str(folder), os.environ.get("PYTHONPATH", "")])
    with subprocess.Popen(
        [sys.executable, "-c", code], cwd=tmp_path, stdout=subprocess.PIPE, env={**os.environ, "PYTHONPATH": paths}
    ) as process:
        try:
            first = process.stdout.readline()
            children = psutil.Process(process.pid).children(recursive=True)
        finally:
            process.send_signal(signal.SIGKILL)
    assert first == b"started\n"
    _, alive = psutil.wait_procs(children, timeout=30)
    assert children and not alive
    assert any(path.is_dir() for path in scratch.glob("prepare-*"))
    prepare(f"{visits_module}:Pieces", "", tmp_path / "data", workers=1)
    assert not list(scratch.glob("prepare-*"))


def test_progress_is_a_line_now_and_then_where_there_is_no_terminal(visits_module, tmp_path, monkeypatch, capfd):
    from vgp.data import pool

    monkeypatch.setattr(pool, "LINE_EVERY_S", 0)
    prepare(f"{visits_module}:Pieces", "", tmp_path / "data", workers=1)
    lines = capfd.readouterr().err.splitlines()
    assert lines[:8:7] == ["making rows: 1 of 8 shards", "making rows: 8 of 8 shards"]
    assert lines[-1].startswith("prepared 32 rows (")


def test_the_stages_of_a_table_are_named_while_they_last(made):
    assert made.stages[:3] == ["reading the source", "looking for keys that occur twice", "counting rows"]
    assert {"looking back", "computing features", "writing"} < set(made.stages)


def test_a_stage_prints_a_line_now_and_then_for_as_long_as_it_lasts(monkeypatch):
    from vgp.data import pool
    from vgp.data.pool import stage

    monkeypatch.setattr(pool, "LINE_EVERY_S", 0.001)
    monkeypatch.setattr(sys, "stderr", io.StringIO())
    until = time.monotonic() + 60
    with stage("counting rows"):
        while sys.stderr.getvalue().count("counting rows (") < 2 and time.monotonic() < until:
            time.sleep(0.001)
    assert sys.stderr.getvalue().splitlines()[1].startswith("counting rows (")


@pytest.mark.parametrize("split", ["", "../up", "x" * 200, "a\0b"])
def test_a_split_that_cannot_be_a_file_name_is_refused(split, tmp_path, monkeypatch):
    class Odd(Task):
        def shards(self, data):
            return [0]

        def rows(self, shard, statistics):
            table = pa.table({"label": pa.array([0, 1], pa.int64()), "x": [0.5, 1.5]})
            return {"train": table, "test": table, split: table}

        def model(self, data): ...
        def loss(self, model, batch): ...
        def predict(self, model, batch): ...

    monkeypatch.setattr("vgp.data.tasks.find", lambda name: Odd)
    with pytest.raises(UserError, match="Odd.rows names a split .*: use letters, digits, _ and - only"):
        prepare("odd:Odd", "", tmp_path / "data", workers=1)
    assert not (tmp_path / "data").exists()


def test_an_infinite_number_is_refused_in_the_test_split_too(visits, write_csv, tmp_path):
    lines = visit_rows()
    row = next(i for i, line in enumerate(lines) if "2024-04-" in line)
    visitor, day, *_ = lines[row].split(",")
    lines[row] = f"{visitor},{day},home,1e999,0,false"
    with pytest.raises(
        UserError,
        match=r"column seconds holds infinite values: .* The first is in .*visits.csv, line \d+ \(seconds = inf\)",
    ):
        prepare(visits, str(write_csv(lines)), tmp_path / "data", workers=1)


def test_free_text_is_refused_before_it_fills_the_memory(visits, write_csv, tmp_path, monkeypatch):
    from vgp.data import columns

    monkeypatch.setattr(columns, "MAX_VALUES", 300)
    lines = [line.replace('"home"', f'"home {i}"') for i, line in enumerate(visit_rows())]
    with pytest.raises(UserError, match="the category page has more than 300 values: drop the column, or group"):
        prepare(visits, str(write_csv(lines)), tmp_path / "data", workers=1)
    monkeypatch.setattr(columns, "MAX_VALUES", 10_000)
    monkeypatch.setattr(columns, "MAX_VALUE_BYTES", 1_000)
    with pytest.raises(
        UserError, match="the values of the category page take more than 0 MiB: drop the column, or group"
    ):
        prepare(visits, str(write_csv(lines)), tmp_path / "data", workers=1)


def test_a_manifest_that_could_not_be_read_is_not_written(visits, write_csv, tmp_path, monkeypatch):
    from vgp.base.storage import files

    monkeypatch.setattr(files, "MOST_JSON_BYTES", 2_000)
    with pytest.raises(UserError, match="the manifest would have .* largest, page"):
        prepare(visits, str(write_csv(visit_rows())), tmp_path / "data", workers=1)
    assert not (tmp_path / "data").exists()
