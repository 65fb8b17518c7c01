"""What decides is pinned, and nothing else: the same state has the same pins, another state has others."""

import hashlib
import json
import os
import random
import shutil
import time
from datetime import timedelta
from pathlib import Path

import pytest

from vgp.base.exits import UserError
from vgp.base.storage import pinned, storage
from vgp.data.prepare import prepare, read_pinned_input


@pytest.fixture
def raw(visits, tmp_path):
    return visits.write(tmp_path / "raw", a=(0, 20), b=(21, 40))


def test_the_same_state_has_the_same_pins_whatever_the_order_the_run_the_clock_and_the_tick(raw, pin, visits, now):
    first = pin(raw, run="run-0")
    drawn = random.Random(1)
    for night in range(6):
        parts = [f"{raw}/{name}" for name in drawn.sample(["a.csv", "b.csv", "*.csv", "[ab].csv"], 4)]
        later = now + timedelta(hours=night)
        moved = pin(raw, run=f"run-{night}", now=later, scheduled=later.isoformat())
        assert (moved.digest, moved.data) == (first.digest, first.data)
        assert pin(",".join(parts), run=f"run-{night}", now=later).data == first.data


@pytest.mark.parametrize(
    "change",
    [
        lambda raw: (raw / "a.csv").write_bytes((raw / "a.csv").read_bytes().replace(b"3", b"4")),
        lambda raw: os.utime(raw / "a.csv", (1, 1)),
        lambda raw: (raw / "b.csv").unlink(),
        lambda raw: shutil.copy(raw / "a.csv", raw / "c.csv"),
        lambda raw: (raw / "a.csv").rename(raw / "z.csv"),
    ],
)
def test_another_state_has_other_pins(raw, pin, change):
    options = {"train": "7 days", "test": "7 days"}
    first = pin(raw, options=options)
    change(raw)
    assert pin(raw, options=options).data != first.data


def test_what_a_job_left_beside_its_files_is_not_pinned(raw, pin):
    first = pin(f"{raw}/**")
    (raw / "_temporary" / "0").mkdir(parents=True)
    shutil.copy(raw / "a.csv", raw / "_temporary" / "0" / "part-0.csv")
    shutil.copy(raw / "a.csv", raw / ".part-1.csv")
    (raw / "_SUCCESS").touch()
    assert pin(f"{raw}/**").data == first.data


@pytest.mark.parametrize(
    "options",
    [{"train": "30 days"}, {"validation_share": 0.1}, {"train": "2026-01", "test": "2026-02"}, {"hidden": [9]}],
)
def test_other_options_are_other_pins(raw, pin, options):
    assert pin(raw, options=options).data != pin(raw).data


def test_a_document_is_named_by_its_bytes_and_written_once(raw, pin):
    result = pin(raw)
    for uri in (result.uri, result.data):
        data = Path(uri).read_bytes()
        assert hashlib.sha256(data).hexdigest() == pinned.read_digest(uri)
        assert data == json.dumps(json.loads(data), sort_keys=True, separators=(",", ":"), ensure_ascii=False).encode()
    written = os.stat(result.data).st_mtime_ns
    assert pin(raw) == result and os.stat(result.data).st_mtime_ns == written


def test_nothing_is_written_in_a_dry_run_nor_after_an_error(raw, pin, tmp_path):
    assert pin(raw, dry_run=True).digest == pin(raw, folder=f"{tmp_path}/other/pins").digest
    with pytest.raises(UserError, match="the folder has no model.json"):
        pin(raw, champion=tmp_path)
    assert not (tmp_path / "runs").exists()


def test_a_step_reads_what_was_pinned_and_nothing_that_came_later(raw, pin, visits, tmp_path):
    result = pin(raw)
    straight = prepare(visits.TASK, str(raw), tmp_path / "straight", options={"train": "2026-01", "test": "2026-02"})
    (raw / "c.csv").write_bytes(visits.table(41, 45))
    data, options = read_pinned_input(result.data, visits.TASK)
    made = prepare(visits.TASK, data, tmp_path / "made", options=options)
    assert made.splits == straight.splits and made.sources == straight.sources


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda path: path.write_bytes(path.read_bytes() + b"\n"), "changed after it was pinned"),
        (lambda path: os.utime(path, (1, 1)), "changed after it was pinned"),
        (lambda path: path.unlink(), "was pinned but cannot be read: .*start a new run"),
    ],
)
def test_a_file_that_moved_underneath_is_an_error_with_its_name(raw, pin, visits, tmp_path, change, words):
    result = pin(raw)
    change(raw / "b.csv")
    with pytest.raises(UserError, match=f"{raw}/b.csv {words}"):
        prepare(visits.TASK, result.data, tmp_path / "made", options={})
    assert not (tmp_path / "made").exists()


NAMES = ["a b.csv", "one,two.csv", "part#1.csv", "no#17", "größe 表.csv", "pins", "quote'\".csv"]


def test_names_with_spaces_commas_hashes_and_letters_of_all_kinds_are_pinned(pin, tmp_path, read):
    (tmp_path / "raw").mkdir()
    for name in NAMES:
        (tmp_path / "raw" / name).write_text(f"text of {name}\n" * 9)
    result = pin(tmp_path / "raw", task="language_model", options={"test_share": 0.5})
    assert sorted(file["title"] for file in read(result.data)["files"]) == sorted(NAMES)
    assert {file.path for file in storage.find(result.data)} == {f"{tmp_path}/raw/{name}" for name in NAMES}
    alone = pin(tmp_path / "raw" / "one,two.csv", task="language_model")
    assert [file["title"] for file in read(alone.data)["files"]] == ["one,two.csv"]


def test_the_files_of_a_language_model_keep_the_names_that_split_them(pin, tmp_path):
    from vgp.data import text

    (tmp_path / "raw" / "deep").mkdir(parents=True)
    for name in ("a.txt", "deep/b.txt", "deep/c.txt"):
        (tmp_path / "raw" / name).write_text(name)
    result = pin(f"{tmp_path}/raw", task="language_model")
    assert [each.name for each in text.find(result.data)] == [each.name for each in text.find(f"{tmp_path}/raw")]


def test_a_name_that_is_no_text_is_explained(pin, tmp_path):
    (tmp_path / "raw").mkdir()
    with open(os.fsencode(tmp_path / "raw") + b"/\xff.txt", "w") as file:
        file.write("x")
    with pytest.raises(UserError, match="the name of a file is not UTF-8"):
        pin(tmp_path / "raw", task="language_model")


def test_the_data_of_a_package_is_pinned_by_its_version_which_is_checked(pin, read, monkeypatch):
    result = pin(task="language_model")
    assert read(result.data)["package"]["name"] == "python" and not read(result.data)["files"]
    assert read_pinned_input(result.data, "language_model") == ("", {})
    from training.tasks.language_model import LanguageModel

    monkeypatch.setattr(LanguageModel, "package", lambda self: ("python", "3.99"))
    with pytest.raises(UserError, match=r"pinned as python 3\.\d+\.\d+, but here it is python 3.99"):
        read_pinned_input(result.data, "language_model")
    assert pin(task="language_model").data != result.data


@pytest.mark.parametrize(("task", "data"), [("visits:Own", ""), ("visits:Self", "a stream")])
def test_data_without_a_version_belongs_to_one_run_and_that_is_reported(pin, task, data):
    first, again, other = (pin(data, task=task, run=run) for run in ("one", "one", "two"))
    assert first.data == again.data != other.data
    assert "without cache hits" in first.words[0]
    assert read_pinned_input(first.data, task) == (data, {})


def test_ten_thousand_files_are_pinned_and_found_at_once(pin, tmp_path):
    objects = [
        {"name": f"gs://bucket/raw/part {n:05},#.csv", "generation": 10**15 + n, "bytes": n, "title": ""}
        for n in range(10_000)
    ]
    document = {"kind": "data", "objects": objects}
    data = json.dumps(document).encode()
    uri = tmp_path / "pins" / f"{hashlib.sha256(data).hexdigest()}.json"
    uri.parent.mkdir()
    uri.write_bytes(data)
    started = time.process_time()
    files = storage.find(str(uri))
    assert time.process_time() - started < 30
    assert files[-1].path == "gs://bucket/raw/part 09999,#.csv#1000000000009999" and len(files) == 10_000


def test_the_pins_of_another_task_are_refused(raw, pin):
    with pytest.raises(UserError, match="holds the pins of the task visits:Visits, not of visits:Untimed"):
        read_pinned_input(pin(raw).data, "visits:Untimed")
