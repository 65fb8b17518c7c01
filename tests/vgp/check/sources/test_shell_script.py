"""Shell scripts: gcloud commands over several lines, with variables, configuration files and mistakes."""

import pytest

from vgp.check.checker import check
from vgp.check.document_kinds import load, parse

POOL = (
    "--worker-pool-spec=machine-type={machine},accelerator-type={kind},accelerator-count={count},"
    "container-image-uri=a.b/c:1"
)
SOUND = {"machine": "g2-standard-4", "kind": "nvidia-l4", "count": "1"}


def script(before="", **changed):
    return f"{before}\ngcloud ai custom-jobs create --region=us-central1 {POOL.format(**{**SOUND, **changed})}\n"


def find(text, severity="error", folder=None):
    return [
        (each.rule, each.line) for each in check(parse("run.sh", text, folder)).findings if each.severity == severity
    ]


def test_a_command_is_judged_where_it_stands():
    assert not find(script())
    assert find(script(count="3")) == [("GPU003", 2)]


def test_variables_that_are_set_once_are_followed_and_others_are_not_known():
    assert find(script("export N='3'", count="$N")) == [("GPU003", 2)]
    assert not find(script("N=$(nproc)", count="$N")) and not find(script("N=3\nN=1", count="${N}"))
    assert not find(script(count="$N")) and ("GPU024", 2) in find(script(count="$N"), "note")


@pytest.mark.parametrize(("end", "lines"), [(" \\  # where", [2]), (" \\ ", [2]), (" \\\n  # where", [3]), (" \\", [])])
def test_what_cuts_a_command_is_named_with_its_line(end, lines):
    text = script().replace(" --worker", f"{end}\n  --worker")
    assert find(text) == [("GPU034", line) for line in lines]


def test_a_comment_below_which_no_flag_stands_cuts_nothing():
    assert not find(f"{script().rstrip()} \\\n  # --and more\n  # to do\n\necho submitted\n")


def test_the_file_of_config_is_read_beside_the_script_or_in_it(tmp_path):
    body = ("workerPoolSpecs:\n- machineSpec: {machineType: n1-standard-4, acceleratorType: NVIDIA_TESLA_T4,"
            " acceleratorCount: 8}\n  replicaCount: 1\n  containerSpec: {imageUri: $IMAGE}\n")  # fmt: skip
    command = "gcloud ai custom-jobs create --region=us-central1 --display-name=a --config=job.yaml\n"
    inside = f"IMAGE=a.b/c:1\ncat > job.yaml << EOF\n{body}EOF\n{command}"
    assert find(inside) == [("GPU003", 8)]
    (tmp_path / "job.yaml").write_text(body.replace("$IMAGE", "a.b/c:1"))
    (tmp_path / "run.sh").write_text(command)
    assert [each.rule for each in check([tmp_path / "run.sh"]).of_severity("error")] == ["GPU003"]
    assert len(load(tmp_path / "run.sh")) == 1


def test_flags_lie_over_the_file(tmp_path):
    (tmp_path / "job.yaml").write_text("workerPoolSpecs: []\nserviceAccount: a@b.iam.gserviceaccount.com\n")
    text = script().replace("--region", "--config=job.yaml --region")
    assert not find(text, folder=tmp_path)


CREATE = "gcloud ai custom-jobs create --region=us-central1 "
COMMANDS = {
    "beta": (CREATE.replace("ai", "beta ai", 1) + POOL.format(**SOUND), []),
    "substituted": (f"JOB=$({CREATE}{POOL.format(**{**SOUND, 'count': '3'})})", ["GPU003"]),
    "deployed": (
        ("gcloud ai endpoints deploy-model 1 --model=2 --region=us-central1 --machine-type=n1-standard-4 "
        "--accelerator=type=nvidia-tesla-t4,count=3 | tee log"), ["GPU003"],
    ),
    "legacy": (
        ("gcloud ai-platform jobs submit training j --region=us-central1 --scale-tier=custom "
        "--master-machine-type=n1-standard-8 --master-accelerator=count=3,type=nvidia-tesla-t4"), ["GPU003"],
    ),
    "others": ("gcloud storage cp a b; echo gcloud", []),
    "comment": ("# gcloud ai custom-jobs create --worker-pool-spec=machine-type=x", []),
}  # fmt: skip


@pytest.mark.parametrize("name", COMMANDS)
def test_commands_of_every_kind_are_read_and_others_left_alone(name):
    command, rules = COMMANDS[name]
    assert sorted({rule for rule, _ in find(command)}) == rules


def test_a_file_of_data_that_begins_like_a_program_is_read_as_data():
    text = "#!/usr/bin/env python\n# hyperparam.yaml\ntrainingInput:\n  scaleTier: BASIC_GPU\n"
    report = check(parse("hyperparam.yaml", text))
    assert not report.unreadable and [finding.rule for finding in report.of_severity("error")] == ["GPU011"]


def test_a_file_that_is_written_twice_is_for_each_command_what_it_was_then():
    write = (
        "cat > job.yaml << EOF\nworkerPoolSpecs:\n- machineSpec: {{machineType: n1-standard-4, acceleratorType: "
        "NVIDIA_TESLA_T4, acceleratorCount: {count}}}\n  replicaCount: 1\n  containerSpec: {{imageUri: a.b/c:1}}\nEOF\n"
    )
    command = "gcloud ai custom-jobs create --region=us-central1 --config=job.yaml\n"
    twice = write.format(count=2) + command + write.format(count=8) + command
    assert find(twice) == [("GPU003", twice.count("\n"))]
    assert find(write.format(count=8) + command + write.format(count=2) + command) == [("GPU003", 7)]
    assert find(f"run() {{\n{command}}}\n{write.format(count=8)}run\n") == [("GPU003", 2)]


@pytest.mark.parametrize(
    "name", ["a_$(date -u +%y%m%d_%H%M%S)", '"a_$(basename $(pwd) | tr - _)"', "a_`date +%s`", "$(id)"]
)
def test_what_the_shell_computes_in_a_command_does_not_end_it(name):
    named = script(count="3").replace("--region", f"--display-name={name} --region")
    assert find(named) == [("GPU003", 2)] and not find(named.replace("count=3", "count=1"))
    assert find(f"JOB=$({named.strip()} --format='value(name)')\necho $(date)\n") == [("GPU003", 1)]
    assert find(f"JOB=`{script(count='3').strip()}`\n") == [("GPU003", 1)]


@pytest.mark.parametrize("config", ["missing.yaml", "$UNKNOWN"])
def test_what_cuts_a_command_is_named_also_where_its_file_cannot_be_read(tmp_path, config):
    command = "gcloud ai custom-jobs create --region=us-central1 \\\n --display-name=a \\ # cut\n"
    (tmp_path / "run.sh").write_text(f"{command}  --config={config}\n")
    report = check([tmp_path / "run.sh"])
    findings = report.as_json()["findings"]
    assert [(each["rule"], each["line"]) for each in findings] == [("GPU034", 2), ("GPU031", 1)]
    assert not report.unreadable and report.exit_code == 2


@pytest.mark.parametrize("given", ["${N:-3}", "${N-3}", "${1:-3}", "${1:-${N:-3}}", "$OTHER"])
def test_a_variable_with_a_default_is_judged_by_it(given):
    assert find(script("OTHER=${OTHER:-3}\n", count=given)) == [("GPU003", 3)]
    assert not find(script("OTHER=${OTHER:=1}\n", count=given.replace("3", "1")))


@pytest.mark.parametrize(
    ("before", "given"),
    [("N=1", "${N:-3}"), ("N=$(nproc)", "${N:-3}"), ("N=1\nN=4", "${N:-3}"), ("N=3x", "${N%x}"),
     ("", "$1"), ("", "${N:?set it}"), ("", "${KIND^^}")],
)  # fmt: skip
def test_a_default_is_not_taken_where_the_script_sets_the_variable_and_an_operation_is_not_known(before, given):
    assert not find(script(before, count=given))


def everywhere(folder, name):
    """The findings of a file that is named, skipped where it is no request, and in a folder: all the same."""
    reports = [check([folder / name]), check([folder / name], skip_others=True), check([folder])]
    first, *others = [(report.exit_code, report.unreadable, report.as_json()["findings"]) for report in reports]
    assert others == [first, first]
    return reports[0]


FLAGS = f"--region=us-central1 {POOL.format(**{**SOUND, 'count': '3'})}"
KINDS = "machine-type=g2-standard-4,container-image-uri=a.b/c:1,accelerator-type=nvidia-l4"
#: Each asks for three GPUs of a machine that takes one.
WRONG = {
    "a pipe of both streams": (f"gcloud ai custom-jobs create {FLAGS} 2>&1 | tee log", 1),
    "an error that is hidden": (f"gcloud ai custom-jobs create 2>/dev/null {FLAGS} >>log", 1),
    "a redirection in what the shell computes": (f"gcloud ai custom-jobs create --display-name=$(id 2>&1) {FLAGS}", 1),
    "a value over two lines": ("gcloud ai custom-jobs create " + FLAGS.replace("l4,", "l4,\\\n"), 1),
    "an array": (f'ARGS=(\n  {FLAGS} # here\n)\ngcloud ai custom-jobs create "${{ARGS[@]}}"', 4),
    "an array of older scripts": (f'A=({FLAGS})\ngcloud ai custom-jobs create ${{A[@]+"${{A[@]}}"}}', 2),
    "an array that grows": (f'A=(--region=us-central1)\nA+=({FLAGS})\ngcloud ai custom-jobs create "${{A[@]}}"', 3),
    "a command in an array": (f'C=(gcloud ai custom-jobs create\n{FLAGS})\n"${{C[@]}}"', 2),
    "a command in a variable": (f'C="gcloud ai custom-jobs create {FLAGS}"\neval $C', 1),
    "a command in quotes": (f"bash -c 'cd x && gcloud ai custom-jobs create {FLAGS}'", 1),
    "a value of several lines": (f'P="{KINDS},\\\naccelerator-count=3"\n{CREATE}--worker-pool-spec="$P"', 3),
    "a value that grows": (f'P="{KINDS}"\nP+=",accelerator-count=3"\n{CREATE}--worker-pool-spec=$P', 3),
    "a flag of gcloud first": (f"gcloud --project=p --quiet ai custom-jobs create {FLAGS}", 1),
    "a name for gcloud": (f"$GCLOUD beta ai custom-jobs create {FLAGS}", 1),
    "a break behind gcloud": (f"gcloud \\\n ai custom-jobs \\\n create {FLAGS}", 3),
    "a quote over lines": (f"gcloud ai custom-jobs create --args='a\nb' {FLAGS}", 2),
    "lines that a shell gets": (f"ssh host << EOF\ngcloud ai custom-jobs create {FLAGS}\nEOF", 2),
    "the second of a line": (f"gcloud config list; gcloud ai custom-jobs create {FLAGS}", 1),
}  # fmt: skip


@pytest.mark.parametrize("name", WRONG)
def test_ordinary_shell_hides_no_request_in_any_mode(tmp_path, name):
    text, line = WRONG[name]
    (tmp_path / "run.sh").write_text(f"{text}\n")
    report = everywhere(tmp_path, "run.sh")
    assert [(each.rule, each.line) for each in report.of_severity("error")] == [("GPU003", line)]
    assert report.exit_code == 1


@pytest.mark.parametrize(
    ("flags", "reason"),
    [('"${ARGS[@]}"', "${ARGS[@]}"), ("$(flags)", "$(flags)"), ('"$@"', "$@"), ("--config=$FILE", "$FILE"),
     ("--config=lost.yaml", "lost.yaml"), ("--worker-pool-spec=$SPEC", "$SPEC"), ("--nosuch=1", "--nosuch"),
     ("--config=gs://b/x.yaml", "gs://b/x.yaml"), ("--args='never closed", "No closing quotation"),
     ("--worker-pool-spec=machine-type=a,$REST", "$REST")],
)  # fmt: skip
def test_a_request_that_only_the_shell_knows_is_a_finding_in_every_mode(tmp_path, flags, reason):
    (tmp_path / "run.sh").write_text(f"true\ngcloud ai custom-jobs create --region=us-central1 {flags}\n")
    report = everywhere(tmp_path, "run.sh")
    (finding,) = report.of_severity("error")
    assert (finding.rule, finding.line, report.exit_code) == ("GPU031", 2, 2)
    assert reason in finding.message and finding.suggestion


def test_what_may_be_added_to_a_request_is_named_and_the_rest_judged(tmp_path):
    (tmp_path / "run.sh").write_text(f'gcloud ai custom-jobs create {FLAGS} "${{MORE[@]}}"\n')
    report = everywhere(tmp_path, "run.sh")
    assert [each.rule for each in report.of_severity("error")] == ["GPU003"]
    assert any("${MORE[@]}" in each.message for each in report.of_severity("warning"))


@pytest.mark.parametrize("text", [
    "echo 'gcloud ai custom-jobs create --x'", 'printf "usage:\n  gcloud ai custom-jobs create\n"; true',
    "cat << EOF\ngcloud ai custom-jobs create\nEOF", "log \"with gcloud ai custom-jobs create it isn't\"",
    "gcloud ai custom-jobs list; create", "# gcloud ai custom-jobs create 'x",
])  # fmt: skip
def test_a_script_that_only_speaks_of_a_request_is_passed_over(tmp_path, text):
    (tmp_path / "run.sh").write_text(f"{text}\n")
    report = everywhere(tmp_path, "run.sh")
    assert (report.exit_code, report.steps, report.findings) == (0, [], [])


@pytest.mark.parametrize(
    "before", ["N=1\nif x; then\n  N+=1\nfi", "N=1\ntest x && N=3", "for N in 1 3; do true; done\nN=1"]
)
def test_a_variable_that_is_set_under_a_condition_is_not_known(before):
    assert not find(script(before, count="$N")) and ("GPU024", before.count("\n") + 2) in find(
        script(before, count="$N"), "note"
    )


def test_the_file_of_config_may_lie_in_a_folder_around_the_script(tmp_path, monkeypatch):
    (tmp_path / "bin").mkdir()
    (tmp_path / "conf").mkdir()
    (tmp_path / "conf/job.yaml").write_text("workerPoolSpecs:\n- machineSpec: {machineType: n1-standard-5}\n")
    (tmp_path / "bin/run.sh").write_text("gcloud ai custom-jobs create --region=us-central1 --config=conf/job.yaml\n")
    monkeypatch.chdir(tmp_path)
    assert "GPU001" in {each.rule for each in check(["bin/run.sh"]).findings}


def test_a_script_without_a_suffix_is_no_other_file(tmp_path):
    (tmp_path / "run").write_text(f"#!/bin/sh\ngcloud ai custom-jobs create {FLAGS}\n")
    assert [each.rule for each in check([tmp_path / "run"], skip_others=True).of_severity("error")] == ["GPU003"]
