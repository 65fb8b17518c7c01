"""Whatever a file holds, the check ends soon, with findings, and judges what stands beside it."""

import io
import json
import os
import signal
import subprocess
import sys
import time
from datetime import date
from pathlib import Path

import pytest

from tests.vgp.check.forms import rendered
from tests.vgp.check.hostile import FILES, WRONG, call, job, pipeline
from vgp.__main__ import main
from vgp.base.documents import bounded_text
from vgp.base.documents import document as documents
from vgp.base.documents.bounded_text import MAX_BYTES
from vgp.check import plain_step
from vgp.check.check_report import sarif
from vgp.check.checker import check
from vgp.check.document_kinds import parse

DAY = date(2026, 11, 20)
WRONG_YAML = "workerPoolSpecs:\n" + "\n".join(f"- {json.dumps(pool)}" for pool in WRONG["workerPoolSpecs"])
#: Processor time; the slowest takes a third of this.
SECONDS = 4.0
#: Of a process that checks one after another; half of it is Python and what is imported.
MEGABYTES = 100


@pytest.fixture
def alarm():
    """A check that does not end fails, and does not stop all other tests."""

    def ring(*_):
        raise TimeoutError("the check did not end")

    before = signal.signal(signal.SIGALRM, ring)
    signal.alarm(30)
    yield
    signal.alarm(0)
    signal.signal(signal.SIGALRM, before)


def exit_code(*arguments):
    with pytest.raises(SystemExit) as end:
        main(arguments)
    return end.value.code


def rules(report):
    return {finding.rule for finding in report.findings}


def not_json(name):
    raise AssertionError(f"{name} is no JSON")


#: The budget that a file reaches: the finding names it.
REACHED = {
    "aliases, seven levels.yaml": "1,000,000 values", "merged aliases.yaml": "1,000,000 values",
    "keys given again.yaml": "10,000 keys", "many cells.ipynb": "1,000 commands",
    "an alias inside of itself.yaml": "never ends", "deep JSON.json": "200 levels",
    "a long text a thousand times.yaml": "100,000,000 characters", "nested components.json": "10,000 steps",
    "a chain of components.json": "50 deep", "many wrong jobs.json": "500 searches",
    "many commands.sh": "1,000 commands", "one text for many steps.json": "50,000,000 characters",
    "millions of lists.json": "1,000,000 values",
}  # fmt: skip


@pytest.mark.parametrize("name", FILES)
def test_a_hostile_file_is_answered_in_time_and_the_next_one_is_judged(tmp_path, alarm, name):
    path = tmp_path / name
    path.write_text(FILES[name], encoding="utf-8")
    (tmp_path / "wrong.yaml").write_text(WRONG_YAML)
    before = time.process_time()
    report = check([path, tmp_path / "wrong.yaml"], as_of=DAY, regions=["us-central1"])
    forms = rendered(report)
    text = forms["text"]
    assert time.process_time() - before < SECONDS
    assert any(finding.rule == "GPU003" and finding.file.endswith("wrong.yaml") for finding in report.findings)
    assert text.isprintable() or all(line.isprintable() for line in text.split("\n"))
    assert text.encode() and len(text) < 5_000_000
    for form in ("json", "sarif"):
        json.loads(forms[form], parse_constant=not_json)
    if name in REACHED:
        ended = [each for each in report.findings if each.rule == "GPU031" and each.file.endswith(name)]
        assert len(ended) == 1 and REACHED[name] in ended[0].message
        assert report.exit_code == (2 if ended[0].severity == "error" else 1)


@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="the kernel reports no peak of a process")
def test_files_that_grow_when_they_are_read_stay_within_their_memory(tmp_path):
    """In a process of its own: this one holds more than the check may take."""
    growing = ("texts of texts.py", "variables that double.sh", "keys given again.yaml", "aliases, thirty levels.yaml")
    for name in growing:
        (tmp_path / name).write_text(FILES[name], encoding="utf-8")
    code = (
        "import sys\nfrom vgp.check.checker import check\nfrom vgp.check.check_report import lines\n"
        "assert list(lines(check(sys.argv[1:])))\n"
        "print(next(line.split()[1] for line in open('/proc/self/status') if line.startswith('VmHWM')))"
    )
    files = [str(tmp_path / name) for name in growing]
    done = subprocess.run([sys.executable, "-c", code, *files], capture_output=True, text=True, check=True, timeout=60)
    assert int(done.stdout) < MEGABYTES * 1024


@pytest.mark.parametrize("name", [name for name in FILES if name.endswith("yaml") and "many" not in name])
def test_a_hostile_document_leaves_the_others_of_its_file_alone(tmp_path, alarm, name):
    path = tmp_path / "two.yaml"
    path.write_text(f"{WRONG_YAML}\n---\n{FILES[name].removeprefix(chr(0xFEFF))}\n---\n{WRONG_YAML}\n")
    report = check([path], as_of=DAY)
    last = path.read_text().count("\n") - WRONG_YAML.count("\n") + 1
    assert [finding.line for finding in report.findings if finding.rule == "GPU003"] == [2, last]


GCLOUD = "gcloud ai custom-jobs create --region=us-central1 --worker-pool-spec=machine-type=n1-standard-4"
TEXTS = {
    "deep.py": ("CustomJob(worker_pool_specs=" + "not " * 20_000 + "x)", "deeper than Python's parser"),
    "long.py": ("# worker_pool_specs" + " " * 2_000_000, "2,000,000 characters of Python"),
    "long.sh": (f"{GCLOUD},container-image-uri={'x' * 100_000}\n", "The command has more than 100,000 characters"),
    "lines.sh": ("\n" * 100_000 + GCLOUD, "more than 100,000 lines"),
    "deep.ipynb": ('{"cells": ' + "[" * 100_000, "nested too deep"),
    "many.yaml": ("---\na: 1\n" * 2_001, "more than 2,000 documents"),
}


@pytest.mark.parametrize("name", TEXTS)
def test_an_exceeded_budget_is_a_finding_that_names_it(name):
    text, words = TEXTS[name]
    report = check(parse(name, text))
    assert report.exit_code == 2
    assert any(finding.rule == "GPU031" and words in finding.message for finding in report.findings)


def test_a_script_that_asks_for_nothing_below_its_last_line_that_is_read_is_read_to_its_end():
    text = f"{GCLOUD},container-image-uri=us-docker.pkg.dev/p/i/t:1\n" + "\n" * 100_000
    assert not check(parse("lines.sh", text)).errors


def test_time_is_the_last_budget(monkeypatch):
    monkeypatch.setattr(bounded_text, "SECONDS", -1)
    report = check(documents.parse("a.yaml", WRONG_YAML), as_of=DAY)
    assert "more than -1 seconds" in report.findings[0].message and report.exit_code == 2


@pytest.mark.parametrize("kind", ["TPU_V2", "TPU_V3", "TPU_V4_POD"])
def test_a_plain_step_may_ask_for_what_the_catalog_has_no_machine_for(kind):
    spec = pipeline({}, {"resources": {"accelerator": {"type": kind, "count": "1"}}}, {"t": call("step")})
    report = check([documents.Document("p.json", spec, json.dumps(spec))], as_of=DAY, regions=["us-central1"])
    assert "GPU031" not in rules(report) and report.findings and len(report.steps) == 1


def test_a_fault_of_the_checker_is_a_finding_of_its_step(monkeypatch):
    judge = plain_step.judge

    def breaking(judgement, step, container):
        if step == "b":
            raise ZeroDivisionError("broken")
        judge(judgement, step, container)

    monkeypatch.setattr(plain_step, "judge", breaking)
    executor = {"resources": {"accelerator": {"type": "NVIDIA_TESLA_T4", "count": "3"}}}
    spec = pipeline({}, executor, {name: call("step") for name in "abc"})
    report = check([documents.Document("p.json", spec, json.dumps(spec))], as_of=DAY)
    assert [(finding.step, finding.rule) for finding in report.findings if finding.severity == "error"] == [
        ("a", "GPU003"), ("b", "GPU031"), ("c", "GPU003"),
    ]  # fmt: skip
    failed = next(finding for finding in report.findings if finding.rule == "GPU031")
    assert "ZeroDivisionError: broken (test_hostile.py:" in failed.message and "report it" in failed.suggestion


def test_a_component_inside_of_itself_is_named_with_its_way(tmp_path):
    (tmp_path / "p.json").write_text(FILES["a component in itself.json"])
    report = check([tmp_path / "p.json"], as_of=DAY)
    assert {finding.message for finding in report.findings if finding.rule == "GPU025"} == {
        "The component 'c' contains itself: c > c."
    }
    assert [row.step for row in report.steps] == ["other"]


@pytest.mark.parametrize("form", ["json", "yaml"])
def test_a_key_that_is_given_twice_is_an_error_with_its_line(tmp_path, form):
    texts = {
        "json": '{"workerPoolSpecs": [{\n"replicaCount": 1, "machineSpec": {"machineType": "n1-standard-4",\n'
        '"machineType": "n1-standard-8"}, "containerSpec": {"imageUri": "r/i:1"}}]}',
        "yaml": "workerPoolSpecs:\n- machineSpec: {machineType: n1-standard-4, machineType: n1-standard-8}\n"
        "  containerSpec: {imageUri: 'r/i:1'}\n",
    }
    path = tmp_path / f"job.{form}"
    path.write_text(texts[form])
    found = [finding for finding in check([path], as_of=DAY).findings if finding.severity == "error"]
    assert [(each.rule, each.field, each.line) for each in found] == [
        ("GPU025", "workerPoolSpecs[0].machineSpec.machineType", 2)
    ]


@pytest.mark.parametrize("kind", ["fifo", "directory of nothing", "loop", "device", "large"])
def test_what_is_no_file_of_text_is_unreadable_at_once(tmp_path, alarm, kind):
    path = tmp_path / "spec.yaml"
    if kind == "fifo":
        os.mkfifo(path)
    elif kind == "directory of nothing":
        path = tmp_path / ("x" * 300)
    elif kind == "loop":
        path.symlink_to(path)
    elif kind == "device":
        path.symlink_to("/dev/zero")
    else:
        with path.open("wb") as file:
            file.truncate(MAX_BYTES + 1)
    report = check([path])
    assert report.exit_code == 2 and len(report.unreadable) == 1
    assert json.loads(rendered(report)["json"])["unreadable"] == report.unreadable


def test_a_folder_of_hostile_things_is_walked(tmp_path, alarm):
    (tmp_path / "wrong.yaml").write_text(WRONG_YAML)
    os.mkfifo(tmp_path / "pipe.yaml")
    (tmp_path / "folder.json").mkdir()
    (tmp_path / "round").symlink_to(tmp_path)
    (tmp_path / "loop.json").symlink_to(tmp_path / "loop.json")
    report = check([tmp_path], as_of=DAY)
    assert report.exit_code == 2 and len(report.steps) == 1 and "loop.json" in report.unreadable[0]
    assert [finding.rule for finding in report.of_severity("error")] == ["GPU003"] and len(report.unreadable) == 1


def test_no_control_character_of_a_file_reaches_the_terminal(tmp_path, capsys):
    name = tmp_path / "a\x1b[31m\n.json"
    name.write_text(FILES["controls.json"])
    (tmp_path / "odd.json").write_text(json.dumps({"\x1b[2J\u202e": 1}))
    paths = [str(path) for path in (name, tmp_path / "odd.json", tmp_path / "missing\x07.json")]
    assert exit_code("check", *paths, "--as-of", "2026-11-20") == 2
    printed = capsys.readouterr()
    assert all(line.isprintable() for line in (printed.out + printed.err).split("\n"))
    assert not any(line.lstrip().startswith("error: y") for line in printed.out.split("\n"))


def test_a_name_of_a_file_that_is_no_text_is_written_all_the_same(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    name = os.fsdecode(b"job\xff.json")
    with open(name, "w") as file:
        json.dump(WRONG, file)
    report = check([name], as_of=DAY)
    assert all(text.encode() for text in rendered(report).values())
    uri = sarif(report)["runs"][0]["results"][0]["locations"][0]["physicalLocation"]
    assert uri["artifactLocation"]["uri"] == "job%FF.json"


def test_standard_input_that_is_no_text_is_unreadable(monkeypatch, capsys):
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b"\xff\xfe\x00")))
    assert exit_code("check", "-") == 2
    assert "<stdin>: a UTF-16 text" in capsys.readouterr().err


def test_standard_input_without_a_word_is_no_proof_that_all_is_well(monkeypatch, capsys):
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b"")))
    assert exit_code("check", "-") == 2
    assert "<stdin>: the file is empty" in capsys.readouterr().err


def test_a_launcher_whose_job_is_not_json_is_reported():
    image = "gcr.io/ml-pipeline/google-cloud-pipeline-components:2.22.0"
    executor = {"image": image, "args": ["--payload", '{"job_spec": {"worker_pool_specs": [}']}
    spec = pipeline({}, executor, {"t": call("step")})
    report = check([documents.Document("p.json", spec, json.dumps(spec))], as_of=DAY)
    assert [(finding.rule, finding.severity) for finding in report.findings] == [("GPU024", "warning")]


def test_a_thousand_jobs_with_the_same_mistake_are_all_helped():
    jobs = [job("n1-standard-5") for _ in range(1_000)]
    report = check([documents.Document("jobs.json", jobs, json.dumps(jobs))], as_of=DAY)
    assert len(report.findings) == 1_000 and all("n1-standard-4" in finding.suggestion for finding in report.findings)
