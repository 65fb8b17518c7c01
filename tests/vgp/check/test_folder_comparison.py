"""Two folders side by side: machines and cost before and after, and what passes as no request."""

import json
import os
import shutil
from datetime import date, timedelta
from pathlib import Path

import pytest

from vgp.__main__ import main
from vgp.base.errors import RequestError
from vgp.check.checker import check
from vgp.check.folder_comparison import Recurring, State, code, markdown, read_states

JOB = """\
displayName: fit
jobSpec:
  scheduling: {timeout: 7200s}
  workerPoolSpecs:
  - machineSpec: {machineType: g2-standard-8, acceleratorType: NVIDIA_L4, acceleratorCount: 1}
    replicaCount: 1
    containerSpec: {imageUri: gcr.io/p/i}
"""
SPOT = JOB.replace("timeout: 7200s", "timeout: 7200s, strategy: SPOT")
UNPRICED = (
    JOB.replace("g2-standard-8", "a4x-highgpu-4g")
    .replace("NVIDIA_L4", "NVIDIA_GB200")
    .replace("Count: 1}", "Count: 4}")
)


@pytest.fixture
def folders(tmp_path, monkeypatch):
    """The current folder, and the same one before."""
    (tmp_path / "now").mkdir()
    (tmp_path / "now/pipelines.toml").write_text('region = "us-central1"\n')
    shutil.copytree(tmp_path / "now", tmp_path / "before")
    monkeypatch.chdir(tmp_path / "now")
    return Path(), Path("../before")


def written(folders, now, before):
    for folder, texts in zip(folders, (now, before), strict=True):
        for name, text in texts.items():
            (folder / name).write_text(text)


def compare(folders, *paths, schedules=()):
    before, after = read_states(paths or (".",), folders[1], (), check)
    return markdown(State(before.report, before.files, schedules), State(after.report, after.files, schedules))


def test_a_step_that_changed_shows_machine_and_cost_before_and_after(folders):
    written(folders, {"job.yaml": JOB.replace("g2-standard-8", "g2-standard-16")}, {"job.yaml": JOB})
    (old,), (new,) = (state.files["job.yaml"] for state in read_states(["."], folders[1], (), check))
    (line,) = [line for line in compare(folders).splitlines() if line.startswith("| `fit`")]
    assert "| `g2-standard-8` → `g2-standard-16` | `1 x NVIDIA_L4` | `us-central1`, standard |" in line
    assert old.max_usd < new.max_usd == pytest.approx(2 * (new.usd_per_hour + new.disk_price.usd_per_hour))
    assert line.endswith(
        f"| {old.usd_per_hour:.2f} → {new.usd_per_hour:.2f} | ${old.max_usd:.2f} → ${new.max_usd:.2f} |"
    )
    assert f"**${old.max_usd:.2f} → ${new.max_usd:.2f} (+${new.max_usd - old.max_usd:.2f})**" in compare(folders)


def test_what_has_no_price_is_at_least_with_its_reason(folders, b200_without_price):
    written(folders, {"job.yaml": UNPRICED + "---\n" + JOB}, {"job.yaml": JOB + "---\n" + JOB})
    text = compare(folders)
    assert " → at least $" in text and "(+$" not in text and "(-$" not in text
    assert "Not included: `fit (no price of 4 x NVIDIA_GB200 on a4x-highgpu-4g in us-central1, standard)`" in text


def test_the_comment_dates_its_prices(folders, b200_without_price):
    written(folders, {"job.yaml": JOB}, {"job.yaml": SPOT})
    before, after = read_states(["."], folders[1], (), check)
    first, last = (price.date for price in (after.report.steps[0].disk_price, after.report.steps[0].price))
    day, told_at = f"{first} to {last}", date.fromisoformat(first)
    assert markdown(before, after, told_at + timedelta(60)).endswith(f"\n\nPrices of {day}.\n")
    assert f"Prices of {day}, up to 61 days old; refresh:" in markdown(before, after, told_at + timedelta(61))
    written(folders, {"job.yaml": UNPRICED}, {"job.yaml": UNPRICED})
    assert "rices of" not in compare(folders)


def test_files_are_new_gone_or_as_they_were(folders):
    written(folders, {"new.yaml": JOB, "same.yaml": JOB}, {"gone.yaml": JOB, "same.yaml": JOB})
    text = compare(folders, "new.yaml", "gone.yaml", "./same.yaml")
    assert "`new.yaml`, new\n" in text and "`gone.yaml`, gone\n" in text
    assert "Unchanged: 1 file." in text and "`same.yaml`" not in text
    assert "No file requests a machine." in compare(folders, "pipelines.toml")


def test_a_change_of_the_provisioning_alone_is_a_change(folders):
    written(folders, {"job.yaml": SPOT}, {"job.yaml": JOB})
    assert "`us-central1`, standard → `us-central1`, spot" in compare(folders)


def test_each_side_is_priced_in_the_region_of_its_own_settings(folders):
    written(folders, {"job.yaml": JOB, "pipelines.toml": 'region = "europe-west4"\n'}, {"job.yaml": JOB})
    assert "`us-central1`, standard → `europe-west4`, standard" in compare(folders)


def test_a_schedule_costs_its_runs_in_a_month(folders):
    written(folders, {"fit.yaml": JOB}, {"fit.yaml": JOB})
    schedules = [
        Recurring("nightly", "fit", 30.0),
        Recurring("other", "eval", 4.0),
        Recurring("odd", "", problem="cron: no"),
    ]
    text = compare(folders, schedules=schedules)
    ((row,),) = read_states(["."], folders[1], (), check)[1].files.values()
    assert f"| `nightly` | `fit` | 30.0 | ${30 * row.max_usd:.2f} |" in text
    assert "| `other` | `eval` | 4.0 | its spec is not among the files |" in text
    assert "| `odd` | - | `cron: no` | - |" in text


def test_names_of_a_stranger_stay_in_code(folders):
    name = "a|b`<img src=x> @everyone [x](https://evil.example)"
    assert code(name) == "`a¦b'<img src=x> @everyone [x](https://evil.example)`"
    assert code("one\ntwo") == "`one two`"
    step = "x` | <b> `"
    written(folders, {"job.yaml": JOB.replace("fit", json.dumps(step)).replace("g2-", "h2-")}, {})
    lines = compare(folders).splitlines()
    assert {line.count("|") for line in lines if line.startswith("|")} == {7}
    named = [line for line in lines if "<b>" in line]
    assert named and all("<b>" in "".join(line.split("`")[1::2]) for line in named), "inside of the spans"


def test_what_cannot_be_compared_is_refused(folders, tmp_path):
    for paths, before, said in (
        (["."], Path("nowhere"), "no such folder"),
        (["-"], folders[1], "inside the current folder"),
        (["../before"], folders[1], "inside the current folder"),
        (["lost.yaml"], folders[1], "not in the current folder and not in"),
    ):
        with pytest.raises(RequestError, match=said):
            read_states(paths, before, (), check)


OTHERS = {
    "values.yaml": "image: {{ .Values.image }}\n  containers: [\n",
    "logging.yaml": "root: {level: INFO}\n",
    "mkdocs.yml": "a: !!python/name:material.emoji.twemoji x\n",
    "tsconfig.json": '{"compilerOptions": {"rootDir": "."}, // why\n}',
    "glue.yaml": "workerType: G.1X\n",
    "empty.yaml": "",
    "list.json": "[1, 2]",
    "schema.json": '{"properties": {"workerPoolSpecs": {"type": "array"}}}',
    "old.py": "print 'worker_machine_type'\n",
    "run.sh": "echo 'unclosed\n",
}


def test_files_that_ask_for_no_machine_are_passed_over(tmp_path):
    for name, text in OTHERS.items():
        (tmp_path / name).write_text(text)
    (tmp_path / "bytes.json").write_bytes(b"\xff\xfe\x00workers")
    report = check([*tmp_path.iterdir()], skip_others=True)
    assert (report.findings, report.unreadable, report.steps) == ([], [], [])
    assert check([tmp_path], skip_others=True).exit_code == 0


@pytest.mark.parametrize(
    ("text", "code"),
    [(JOB, 0), (JOB.replace("g2-", "h2-"), 1), (JOB + "  broken: [\n", 2), (JOB.replace("jobSpec", "job-spec"), 0)],
    ids=["right", "wrong", "unreadable", "dashes"],
)
def test_a_request_is_judged_all_the_same(tmp_path, text, code):
    (tmp_path / "job.yaml").write_text(text)
    report = check([tmp_path / "job.yaml"], skip_others=True)
    assert report.exit_code == code and (report.steps or report.findings or report.unreadable)


FAULTY = {
    "two.yaml": ("a: 1\n---\n" + JOB + "---\njobSpec: [\n", "invalid YAML"),
    "job.json": ('{\n"jobSpec": {"workerPoolSpecs": [}', "invalid JSON"),
    "JOB.YAML": ("jobSpec: [\n", "invalid YAML"),
    "lines.ndjson": ('{"workerPoolSpecs": []}\n{"workerPoolSpecs": [', "line 2 is not JSON"),
    "old.py": ("print 'x'\naiplatform.CustomJob()\n", "no Python"),
    "large.json": ('{"workerPoolSpecs": "' + "x" * 20_000_000 + '"}', "larger than 20 MB"),
    "latin.py": ("aiplatform.CustomJob('\xe9')".encode("latin-1"), "not a text file"),
    "utf16.yaml": (JOB.encode("utf-16"), "UTF-16"),
    "job.ipynb": ('{"cells": [{"source": "CustomJob("', "no JSON"),
    "run.sh": ("gcloud ai custom-jobs create --config=$X 2>&1 | tee log", "only the shell knows"),
}


@pytest.mark.parametrize("name", FAULTY)
def test_a_request_that_cannot_be_read_is_a_finding_in_every_mode_and_form(tmp_path, capsys, name):
    text, reason = FAULTY[name]
    path = tmp_path / name
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    ways = [[str(path)], [str(path), "--skip-others"], *([] if name.endswith("ndjson") else [[str(tmp_path)]])]
    for way in ways:
        for form in ("text", "json", "sarif"):
            with pytest.raises(SystemExit) as end:
                main(["check", *way, "--format", form])
            printed = capsys.readouterr().out
            assert end.value.code == 2 and "GPU031" in printed and "is not judged" in printed and reason in printed
            assert form == "text" or str(path.name) in printed and json.loads(printed)


@pytest.mark.skipif(os.geteuid() == 0, reason="the root user may read everything")
def test_a_file_that_may_not_be_read_is_named_in_every_mode(tmp_path):
    (tmp_path / "job.yaml").write_text(JOB)
    (tmp_path / "job.yaml").chmod(0)
    for report in (check([tmp_path]), check([tmp_path / "job.yaml"], skip_others=True)):
        assert report.exit_code == 2 and "job.yaml" in report.unreadable[0]


def test_a_named_file_that_is_not_there_is_an_error_also_then(tmp_path):
    assert check([tmp_path / "lost.yaml"], skip_others=True).exit_code == 2


def test_a_folder_with_a_list_of_jobs_is_judged(tmp_path):
    (tmp_path / "jobs.json").write_text(json.dumps([{"displayName": "a", "jobSpec": {"workerPoolSpecs": []}}]))
    assert check([tmp_path]).findings
