"""Notebooks: cells as one program, commands behind !, cells of bash, files that cells write."""

import json

import pytest

from tests.vgp.check.forms import rendered
from vgp.check.checker import check
from vgp.check.document_kinds import parse
from vgp.check.sources import notebook as notebooks

RUN = 'job.run(machine_type="g2-standard-24", accelerator_type="NVIDIA_L4", accelerator_count=GPUS)'
COMMAND = "gcloud ai custom-jobs create --region=us-central1 --config=job.yaml"
BODY = (
    "%%writefile job.yaml\nworkerPoolSpecs:\n- machineSpec: {machineType: n1-standard-4, acceleratorType: "
    "NVIDIA_TESLA_T4, acceleratorCount: 8}\n  replicaCount: 1\n  containerSpec: {imageUri: a.b/c:1}"
)


def errors(*cells):
    data = {"cells": [{"cell_type": "code", "source": cell.splitlines(keepends=True)} for cell in cells], "nbformat": 4}
    return [each.rule for each in check(parse("train.ipynb", json.dumps(data))).of_severity("error")]


def test_cells_are_one_program():
    assert errors("GPUS = 2", RUN) == [] and errors("GPUS = 4", RUN) == ["GPU003"]


def test_a_cell_that_is_no_python_does_not_hide_the_others():
    assert errors("GPUS = 4", "%%html\n<b>", "this is no Python", "!pip install x", "%matplotlib inline\n" + RUN) == [
        "GPU003"
    ]


def test_commands_stand_behind_a_mark_or_in_a_cell_of_bash():
    assert errors(BODY, f"! {COMMAND}") == ["GPU003"] and errors(BODY, f"%%bash\n{COMMAND}") == ["GPU003"]
    pool = "--worker-pool-spec=machine-type=n1-standard-5,container-image-uri={IMAGE}"
    assert errors(f"! gcloud ai custom-jobs create --region={{REGION}} \\\n  {pool}") == ["GPU001"]


def test_a_notebook_without_a_request_is_no_finding():
    assert errors("print(1)") == [] and errors() == []


def test_what_a_program_lacks_may_stand_in_a_cell_that_is_left_out():
    job = 'aiplatform.CustomJob("a", [{"machine_spec": {"machine_type": "n1-standard-4"}, "replica_count": 1,'
    job += ' "container_spec": {"image_uri": "a.b/c:1"}}])'
    assert errors(job) == ["GPU034"] and errors("no Python at all", job) == []


def notebook(*cells, **form):
    """The text of a notebook as Jupyter writes it; the first cell of each has prose."""
    code = [{"cell_type": "code", "outputs": [], "source": cell} for cell in cells]
    data = {"cells": [{"cell_type": "markdown", "source": ["# A\n", "prose"]}, *code], "metadata": {}, "nbformat": 4}
    return json.dumps(data, **{"indent": 1, **form})


def found(text):
    """(rule, the file's line, the text there, the cell) of each error."""
    report = check(parse("train.ipynb", text))
    lines, numbers = text.split("\n"), report.lines()
    return [
        (each.rule, numbers[id(each)], lines[numbers[id(each)] - 1].strip(' ",').removesuffix("\\n"), each.cell)
        for each in report.of_severity("error")
    ]


def test_a_finding_stands_on_the_line_of_the_file_and_names_its_cell():
    run = ["# train\n", "job.run(\n", "    machine_type='g2-standard-24',\n", "    accelerator_type='NVIDIA_L4',\n"]
    text = notebook(["import this\n", "GPUS = 4"], [*run, "    accelerator_count=3,\n", ")"])
    line = next(number for number, each in enumerate(text.split("\n"), 1) if "accelerator_count=3" in each)
    assert found(text) == [("GPU003", line, "accelerator_count=3,", "cell 3, line 5")]
    shown = rendered(check(parse("train.ipynb", text)))
    assert f"train.ipynb:{line}  cell 3, line 5, " in shown["text"]
    region = json.loads(shown["sarif"])["runs"][0]["results"][0]["locations"][0]["physicalLocation"]["region"]
    assert region == {"startLine": line}


def test_a_command_below_a_cell_that_writes_a_file_has_its_own_place():
    text = notebook(BODY.splitlines(keepends=True), ["# submit\n", f"! {COMMAND}"])
    assert [(rule, shown, cell) for rule, _, shown, cell in found(text)] == [
        ("GPU003", f"! {COMMAND}", "cell 3, line 2")
    ]


def test_what_cuts_a_command_is_named_by_its_cell():
    command = [
        "gcloud ai custom-jobs create --region=us-central1 \\\n",
        "  # where\n",
        "  --worker-pool-spec=machine-type=n1-standard-4\n",
    ]
    report = check(parse("train.ipynb", notebook(["%%bash\n", *command])))
    cut = next(each for each in report.findings if each.rule == "GPU034")
    assert (cut.field, cut.cell) == ("cell 2, line 3", "cell 2, line 3")
    text = notebook(["%%bash\n", *command])
    number = 1 + [line.strip() for line in text.split("\n")].index('"  # where\\n",')
    assert f"  train.ipynb:{number}  cell 2, line 3" in rendered(report)["text"].split("\n")


@pytest.mark.parametrize("form", [{}, {"indent": None}])
def test_a_source_that_is_one_text_stands_where_it_begins(form):
    text = notebook("import this", f"x = 1\n\n{RUN.replace('GPUS', '3')}", **form)
    begins = 1 + next(number for number, line in enumerate(text.split("\n")) if "x = 1" in line)
    assert [(rule, line, cell) for rule, line, _, cell in found(text)] == [("GPU003", begins, "cell 3, line 3")]


def test_a_notebook_with_too_many_cells_is_read_in_part_with_a_finding(monkeypatch):
    monkeypatch.setattr(notebooks, "MAX_CELLS", 2)
    source = "!gcloud ai custom-jobs create --region=us-central1 --worker-pool-spec=machine-type=n1-standard-4"
    cell = {"cell_type": "code", "source": source, "outputs": []}
    for count in (2, 3):
        text = json.dumps({"cells": [cell] * count, "nbformat": 4, "nbformat_minor": 5, "metadata": {}})
        report = check(parse("many.ipynb", text))
        messages = [finding.message for finding in report.findings if finding.rule == "GPU031"]
        assert len(report.steps) == 2 and len(messages) == (count > 2)
        assert not messages or messages[0].startswith("The notebook has more than 2 code cells.")


FLAGS = "--region=us-central1 --worker-pool-spec=machine-type=n1-standard-5,container-image-uri=a.b/c:1"


@pytest.mark.parametrize("cell", [
    f"%bash\ngcloud ai custom-jobs create {FLAGS}", f"made = !gcloud ai custom-jobs create {FLAGS}",
    f"%%time\n!gcloud ai custom-jobs create {FLAGS}", f"%system gcloud ai custom-jobs create {FLAGS}",
    f"!gcloud ai custom-jobs create\\\n  {FLAGS}",
    f"print('%s'\n  % (1,))\n!gcloud ai custom-jobs create {FLAGS}",
])  # fmt: skip
def test_every_way_to_a_shell_is_read(cell):
    assert errors(cell) == ["GPU001"]


def test_a_line_of_values_below_its_text_is_no_magic():
    assert errors(f"GPUS = 4\nprint('%s'\n  % GPUS)\n{RUN}") == ["GPU003"]


def test_variables_of_a_shell_end_with_its_cell():
    cell = "%%bash\nM={}\ngcloud ai custom-jobs create --region=us-central1 --worker-pool-spec=machine-type=$M,"
    cell += "container-image-uri=a.b/c:1"
    assert errors(cell.format("n1-standard-4"), cell.format("n1-standard-5")) == ["GPU001"]


@pytest.mark.parametrize(("cell", "line"), [
    ("print 'x'\naiplatform.CustomJob('a')", "cell 2, line 1"), ("job = CustomJob(\n  1 2)", "cell 2, line 2"),
])  # fmt: skip
def test_a_broken_cell_with_a_request_is_a_finding_in_every_mode(tmp_path, cell, line):
    (tmp_path / "a.ipynb").write_text(notebook(cell, "GPUS = 4", RUN))
    for report in (check([tmp_path / "a.ipynb"]), check([tmp_path / "a.ipynb"], skip_others=True), check([tmp_path])):
        assert sorted(each.rule for each in report.of_severity("error")) == ["GPU003", "GPU031"]
        assert report.exit_code == 2 and line in [each.cell for each in report.findings]


def test_a_broken_notebook_with_a_request_is_a_finding_and_another_is_passed_over(tmp_path):
    (tmp_path / "a.ipynb").write_text(notebook("aiplatform.CustomJob()").replace('"nbformat": 4', "4"))
    (tmp_path / "b.ipynb").write_text(notebook("print(1)").replace('"nbformat": 4', "4"))
    (report,) = {check([tmp_path]).exit_code, check([*tmp_path.iterdir()], skip_others=True).exit_code}
    assert report == 2 and {each.file[-7:] for each in check([tmp_path]).findings} == {"a.ipynb"}
