"""The CI templates: every command in them exists with its options, nothing has more rights than it needs."""

import os
import re
import shlex
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import typer
import yaml

from tests.infra.terraform import resources
from vgp.__main__ import app
from vgp.vertex.images.cloud_build import Target, configuration

ROOT = Path(__file__).resolve().parents[2]
WORKFLOWS = sorted((ROOT / ".github/workflows").glob("*.yml"))
CLOUD_BUILD = ROOT / "cloudbuild.yaml"
#: What Cloud Build calls before it uploads or schedules, in a project of two workflows.
BEFORE = ["image build", "list --json", "preflight one", "preflight two"]


def load(path: Path) -> dict[str, Any]:
    # YAML 1.1 reads the key `on` as true.
    return {"on" if key is True else key: value for key, value in yaml.safe_load(path.read_text()).items()}


def jobs() -> Iterator[tuple[str, dict[str, Any]]]:
    for path in WORKFLOWS:
        yield from ((f"{path.name}: {name}", job) for name, job in load(path)["jobs"].items())


def scripts() -> Iterator[str]:
    """Every piece of shell."""
    yield from (step["run"] for _, job in jobs() for step in job["steps"] if "run" in step)
    yield from (step["script"] for step in load(CLOUD_BUILD)["steps"])


def commands() -> list[str]:
    """Every call of our command line, without what the shell does with it."""
    found = [call for script in scripts() for call in re.findall(r"(?m)(?:^|[\s(])\.venv/bin/vgp (.+)$", script)]
    return [re.split(r"\s(?:>|\|\||\|)|;", call)[0] for call in found]


def parse(line: str) -> None:
    """The command with its options, parsed and not run."""
    command: Any = typer.main.get_command(app)
    words = shlex.split(line)
    while hasattr(command, "commands"):
        command = command.commands[words.pop(0)]
    command.make_context(line, words)


@pytest.mark.parametrize("line", sorted(set(commands())))
def test_every_command_is_one_that_the_command_line_takes(line: str) -> None:
    parse(line)


def test_a_command_that_is_wrong_is_noticed() -> None:
    # Typer's own kind of UsageError is private.
    with pytest.raises(Exception, match="No such option: --environment"):
        parse("upload training --environment prod")
    with pytest.raises(Exception, match="Missing parameter: name"):
        parse("upload --env prod")
    with pytest.raises(KeyError):
        parse("schedules apply")


def test_both_templates_do_all_of_it() -> None:
    text = "\n".join(scripts())
    for wanted in ("./test.sh", "./compile.sh", "--format sarif > check.sarif"):
        assert text.count(wanted) == 2, wanted
    verbs = [line.split(" --")[0] for line in commands()]
    for verb in ('upload "$name"', "schedule apply", "image build", 'preflight "$name"'):
        assert verbs.count(verb) == 2, verb


def test_scripts_that_are_called_are_there_and_can_be_run() -> None:
    called = {name for script in scripts() for name in re.findall(r"(?m)^\s*(\./[\w/]+\.sh)", script)}
    assert called == {"./test.sh", "./compile.sh", "./scripts/setup.sh"}
    for name in called:
        assert (ROOT / name).stat().st_mode & 0o100, name


def test_actions_are_pinned_to_a_commit_with_their_version_beside() -> None:
    lines = [line for path in WORKFLOWS for line in path.read_text().splitlines() if "uses:" in line]
    assert len(lines) >= 8
    for line in lines:
        assert re.search(r"uses: [\w-]+/[\w/-]+@[0-9a-f]{40} # v\d+\.\d+\.\d+$", line), line


def test_images_of_builds_are_named_by_digest() -> None:
    images = [step["name"] for step in load(CLOUD_BUILD)["steps"]]
    images += [
        step["name"] for step in configuration([Target("gpu", ["r/i:t"], {})], "Dockerfile", logs="gs://b")["steps"]
    ]
    assert len(images) >= 4
    for image in images:
        assert re.search(r"@sha256:[0-9a-f]{64}$", image), image


@pytest.mark.parametrize(
    ("variables", "verbs"),
    [
        ({}, []),
        ({"BRANCH_NAME": "feature"}, []),
        ({"BRANCH_NAME": "feature", "TAG_NAME": "", "COMMIT_SHA": "5c0d"}, []),
        ({"BRANCH_NAME": "main", "COMMIT_SHA": "5c0d"}, [*BEFORE, "upload one", "upload two"]),
        ({"BRANCH_NAME": "main"}, [*BEFORE, "upload one", "upload two"]),
        ({"TAG_NAME": "v1"}, [*BEFORE, "schedule plan", "schedule apply"]),
        ({"TAG_NAME": "v1", "BRANCH_NAME": ""}, [*BEFORE, "schedule plan", "schedule apply"]),
    ],
)
def test_cloud_build_deploys_by_branch_and_tag_whichever_of_them_is_set(
    tmp_path: Path, variables: dict[str, str], verbs: list[str]
) -> None:
    """The script as bash runs it; a command line that only writes down how it was called."""
    tools = tmp_path / ".venv/bin"
    tools.mkdir(parents=True)
    (tools / "python").symlink_to(sys.executable)
    (tools / "vgp").write_text(
        '#!/bin/sh\necho "$*" >> calls\n'
        'if [ "$1" = list ]; then echo \'[{"name": "one"}, {"name": "two"}]\'\n'
        'else echo \'{"image": "i@sha256:0", "light_image": null}\'; fi\n'
    )
    (tools / "vgp").chmod(0o755)
    (deploy,) = [step["script"] for step in load(CLOUD_BUILD)["steps"] if step["id"] == "deploy"]
    environment = {"PATH": os.environ["PATH"], "_ENVIRONMENT": "prod", "_BUILDER": "b@p.iam.gserviceaccount.com"}
    done = subprocess.run(
        ["bash", "-c", deploy], cwd=tmp_path, env={**environment, **variables}, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    calls = (tmp_path / "calls").read_text().splitlines() if verbs else []
    assert [" ".join(line.split()[:2]) for line in calls] == verbs
    if "upload two" in verbs:
        assert calls[-1].endswith(f"--tag {variables.get('COMMIT_SHA', 'main')}")
    for line in calls:
        parse(line)


def test_a_job_has_the_rights_that_it_names_and_an_end() -> None:
    for path in WORKFLOWS:
        assert load(path)["permissions"] == {}, path
    held = {name: (job["permissions"], job["timeout-minutes"] <= 90) for name, job in jobs()}
    assert held == {
        "ci.yml: test": ({"contents": "read"}, True),
        "ci.yml: newer-torch": ({"contents": "read"}, True),
        "ci.yml: check": ({"contents": "read", "security-events": "write"}, True),
        "ci.yml: docs": ({"contents": "read"}, True),
        "deploy.yml: deploy": ({"contents": "read", "id-token": "write"}, True),
        "refresh.yml: refresh": ({"contents": "read", "id-token": "write"}, True),
        "refresh.yml: pull-request": ({"contents": "write", "pull-requests": "write"}, True),
    }
    for name, job in jobs():
        (checkout,) = [step for step in job["steps"] if "checkout" in step.get("uses", "")]
        assert checkout["with"] == {"persist-credentials": False}, name


def test_a_job_that_may_write_installs_nothing_and_signs_in_nowhere() -> None:
    writing = {name: job for name, job in jobs() if "write" in (job["permissions"].get("contents"),)}
    assert list(writing) == ["refresh.yml: pull-request"]
    (job,) = writing.values()
    used = [step["uses"].split("@")[0] for step in job["steps"] if "uses" in step]
    assert used == ["actions/checkout", "actions/download-artifact"]
    (run,) = [step["run"] for step in job["steps"] if "run" in step]
    assert run == "python3 -I scripts/refresh/pull_request.py refreshed/report refreshed/data"
    script = (ROOT / "scripts/refresh/pull_request.py").read_text()
    assert not set(re.findall(r"(?m)^\s*(?:from|import) (\w+)", script)) - set(sys.stdlib_module_names)
    other = load(ROOT / ".github/workflows/refresh.yml")["jobs"]["refresh"]
    assert "github.token" not in str(other) and job["needs"] == "refresh"
    (given, taken) = (
        step["with"] for steps in (other["steps"], job["steps"]) for step in steps if "artifact" in step.get("uses", "")
    )
    assert (given["name"], given["path"]) == (taken["name"], taken["path"]) == ("refreshed", "refreshed")


def test_the_refresh_waits_for_no_approval_and_its_account_may_only_read_machine_types() -> None:
    (name,) = {job["environment"] for _, job in jobs() if "environment" in job} - {"prod"}
    assert load(ROOT / ".github/workflows/refresh.yml")["jobs"]["refresh"]["environment"] == name == "refresh"
    grants = {type_: body for type_, key, body in resources() if "member" in body and key == "refresher"}
    roles = {type_: body["role"] for type_, body in grants.items()}
    assert roles == {
        "google_project_iam_member": "roles/compute.viewer",
        "google_service_account_iam_member": "roles/iam.workloadIdentityUser",
    }
    assert grants["google_service_account_iam_member"]["member"].endswith("attribute.environment/refresh")


def test_only_the_protected_environment_deploys_and_never_two_at_once() -> None:
    deploy = load(ROOT / ".github/workflows/deploy.yml")
    assert deploy["on"] == {"push": {"branches": ["main"]}, "release": {"types": ["published"]}}
    assert deploy["jobs"]["deploy"]["environment"] == "prod"
    assert deploy["concurrency"] == {"group": "deploy", "cancel-in-progress": False}
    assert "id-token" not in str(load(ROOT / ".github/workflows/ci.yml"))


def test_no_secret_and_no_text_of_strangers_reaches_a_shell() -> None:
    for path in [*WORKFLOWS, CLOUD_BUILD]:
        assert "secrets." not in path.read_text(), path
    for script in scripts():
        assert "${{" not in script


def test_the_variables_are_those_that_terraform_prints() -> None:
    used = set(re.findall(r"vars\.(\w+)", "\n".join(path.read_text() for path in WORKFLOWS)))
    printed = (ROOT / "infra/outputs.tf").read_text() + (ROOT / "infra/README.md").read_text()
    assert used == {"DEPLOY", "GOOGLE_BUILDER", "GOOGLE_SERVICE_ACCOUNT", "GOOGLE_WORKLOAD_IDENTITY_PROVIDER"}
    for name in used:
        assert re.search(rf"\b{name}\b", printed), name


def test_the_findings_are_uploaded_also_when_the_check_failed() -> None:
    steps = load(ROOT / ".github/workflows/ci.yml")["jobs"]["check"]["steps"]
    assert steps[-1]["with"]["sarif_file"] == "check.sarif"
    assert "!cancelled()" in steps[-1]["if"]
