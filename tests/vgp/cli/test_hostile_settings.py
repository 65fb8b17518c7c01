"""A pipelines.toml of anybody: a verb that reads it answers in a sentence, and soon."""

import os
import time

import pytest

from vgp.__main__ import main

JOB = "workerPoolSpecs:\n- machineSpec: {machineType: n1-standard-4}\n  containerSpec: {imageUri: 'r/i:1'}\n"
DEEP = {
    "arrays": f"a = {'[' * 100_000}", "tables": f"a = {'{a = ' * 100_000}", "names": f"{'a.' * 100_000}a = 1",
    "table names": f"[{'a.' * 100_000}a]",
}  # fmt: skip


def run(capsys, *arguments):
    before = time.process_time()
    with pytest.raises(SystemExit) as end:
        main(arguments)
    printed = capsys.readouterr()
    assert time.process_time() - before < 30, "it took too long"
    return end.value.code or 0, printed.out, printed.err


@pytest.fixture(autouse=True)
def elsewhere(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "job.yaml").write_text(JOB)


@pytest.mark.parametrize("kind", DEEP)
@pytest.mark.parametrize(
    "verb", [["config"], ["convert", "--step", "train"], ["config", "--settings", "pipelines.toml"]]
)
def test_deep_nesting_is_the_users_mistake(capsys, tmp_path, kind, verb):
    (tmp_path / "pipelines.toml").write_text(DEEP[kind])
    code, _, err = run(capsys, *verb)
    assert code == 2 and "pipelines.toml: nested more than 50 levels deep" in err and "fault of ours" not in err


def test_a_check_in_a_subfolder_takes_the_region_of_the_file_above(capsys, tmp_path, monkeypatch):
    (tmp_path / "pipelines.toml").write_text('region = "nowhere1"\n')
    (tmp_path / "below").mkdir()
    monkeypatch.chdir(tmp_path / "below")
    assert "nowhere1" in run(capsys, "check", "../job.yaml")[1]


def test_a_current_folder_that_is_gone_is_no_fault_of_ours(capsys, tmp_path, monkeypatch):
    (tmp_path / "gone").mkdir()
    monkeypatch.chdir(tmp_path / "gone")
    (tmp_path / "gone").rmdir()
    assert run(capsys, "check", str(tmp_path / "job.yaml"))[0] == 0
    code, _, err = run(capsys, "config")
    assert code == 2 and "the current folder cannot be read" in err


@pytest.mark.parametrize("kind", [*DEEP, "pipe", "zeros", "no text"])
def test_a_check_needs_nothing_of_it(capsys, tmp_path, kind):
    path = tmp_path / "pipelines.toml"
    if kind == "pipe":
        os.mkfifo(path)
    elif kind == "zeros":
        with path.open("wb") as file:
            file.truncate(30_000_000_000)
    else:
        path.write_bytes(DEEP.get(kind, "\udcff").encode(errors="surrogateescape"))
    code, out, _ = run(capsys, "check", "job.yaml")
    assert code == 0 and "1 machine request, 0 errors" in out


def test_a_pipe_as_settings_is_refused_and_not_waited_for(capsys, tmp_path):
    os.mkfifo(tmp_path / "pipe.toml")
    code, _, err = run(capsys, "config", "--settings", "pipe.toml")
    assert code == 2 and "not a regular file" in err


def test_a_first_file_is_written_beside_one_that_cannot_be_read(capsys, tmp_path):
    (tmp_path / "pipelines.toml").write_text(DEEP["arrays"])
    code, _, err = run(capsys, "init", "--project", "my-project", "--yes")
    assert code == 2 and " exists. " in err
