"""docs/vertex.md, line by line: the form of the console, and the commands that prepare a project, as bash runs them."""

import json
import os
import re
import subprocess
from pathlib import Path

import pytest

from tests.infra.terraform import custom_roles, locals_, resources
from vgp.vertex import permissions

REPOSITORY = Path(__file__).parents[2]
PAGE = (REPOSITORY / "docs/vertex.md").read_text()
KINDS = {
    "STRING": "text", "NUMBER_INTEGER": "whole number", "NUMBER_DOUBLE": "number", "STRUCT": "JSON object",
    "BOOLEAN": "true or false",
}  # fmt: skip

#: Writes down how it was called, a line a call.
TOOL = """#!/bin/sh
printf '%s\\037' "${0##*/}" "$@" >> "$CALLS"
echo >> "$CALLS"
"""


def test_the_form_on_the_page_is_that_of_the_spec() -> None:
    spec = json.loads((REPOSITORY / "tests/golden/training.json").read_text())
    rows = re.findall(r"^\| `(\w+)` \| ([\w ]+) \| (?:`([^`]+)`|\(empty\)) \|$", PAGE, re.MULTILINE)
    parameters = spec["root"]["inputDefinitions"]["parameters"]
    assert {name: kind for name, kind, _ in rows} == {n: KINDS[p["parameterType"]] for n, p in parameters.items()}
    for name, kind, default in rows:
        declared = parameters[name]["defaultValue"]
        declared = int(declared) if kind == "whole number" else declared
        assert default == (json.dumps(declared) if not isinstance(declared, str | dict) else declared or "")


def blocks(section: str) -> list[str]:
    """The fenced blocks of a section."""
    text = re.split(r"(?m)^## ", PAGE)
    (found,) = [part for part in text if part.startswith(section)]
    return re.findall(r"(?ms)^```\n(.*?)^```$", found)


def called(folder: Path, *scripts: str) -> list[list[str]]:
    """What the blocks call, one after another in one shell, as arguments."""
    for name in ("gcloud", "terraform", "vgp", "cp", "bq"):
        (folder / name).write_text(TOOL)
        (folder / name).chmod(0o755)
    (folder / "infra").mkdir()
    calls = folder / "calls"
    environment = {"PATH": f"{folder}:{os.environ['PATH']}", "CALLS": str(calls)}
    script = "set -euo pipefail\n" + "\n".join(scripts)
    done = subprocess.run(["bash", "-c", script], cwd=folder, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return [line.split("\037")[:-1] for line in calls.read_text().split("\n")[:-1]]


@pytest.fixture(scope="module")
def by_hand(tmp_path_factory: pytest.TempPathFactory) -> list[list[str]]:
    _, *hand = blocks("2. What the project needs")
    optional = blocks("Data in BigQuery, and Dataflow")
    return called(tmp_path_factory.mktemp("by-hand"), *optional, *hand, blocks("4. The image")[0])


def option(words: list[str], name: str) -> str:
    return words[words.index(name) + 1]


def granted(calls: list[list[str]], member: str) -> set[tuple[str, str]]:
    """(role, on what) of everything that the member is granted."""
    found = set()
    for words in calls:
        if "add-iam-policy-binding" in words and option(words, "--member") == member:
            found.add((option(words, "--role"), words[words.index("add-iam-policy-binding") + 1]))
    return found


def of_terraform(account: str) -> set[tuple[str, str]]:
    """(role, kind of thing) of everything that infra/ grants an account, but for further buckets of raw data."""
    found = set()
    for kind, name, body in resources():
        if kind.endswith("iam_member") and f"account.{account}." in body.get("member", "") and name not in OF_OTHERS:
            each = locals_()[f"{account}_roles"] if "each.value" in body["role"] else [body["role"]]
            found |= {(role, kind.removeprefix("google_").removesuffix("_iam_member")) for role in each}
    return found


#: What Terraform grants on further buckets and datasets, and on a secret.
OF_OTHERS = (
    "runner_data",
    "runner_data_bucket",
    "runner_tables",
    "runner_predictions",
    "runner_webhook",
    "runner_mlflow",
)
THINGS = {
    "my-project": "project",
    "gs://my-project-pipelines": "storage_bucket",
    "pipelines-images": "artifact_registry_repository",
    "pipelines-templates": "artifact_registry_repository",
    "pipelines-runner@my-project.iam.gserviceaccount.com": "service_account",
}


@pytest.mark.parametrize("account", ["runner", "builder"])
def test_by_hand_the_accounts_get_what_terraform_gives_them(by_hand: list[list[str]], account: str) -> None:
    member = f"serviceAccount:pipelines-{account}@my-project.iam.gserviceaccount.com"
    assert {(role, THINGS[thing]) for role, thing in granted(by_hand, member)} == of_terraform(account)


def test_the_builder_sees_the_folder_of_builds_only(by_hand: list[list[str]]) -> None:
    (words,) = [words for words in by_hand if "--condition" in words]
    (start,) = re.findall(r"startsWith\('([^']+)'\)", locals_()["builds_only"]["expression"])
    expected = start.replace("${local.bucket_name}", "my-project-pipelines")
    assert option(words, "--condition") == f'title=builds-only,expression=resource.name.startsWith("{expected}")'
    assert "builder" in option(words, "--member") and words == by_hand[-2], "nothing is granted on the bucket after it"


def test_the_image_is_built_as_an_account_that_is_there(by_hand: list[list[str]]) -> None:
    assert by_hand[-1] == ["vgp", "image", "build"]
    (builder,) = re.findall(r'^build_service_account = "([^"]+)"', PAGE, re.MULTILINE)
    assert builder.partition("@")[0] in [words[4] for words in by_hand if words[1:4] == MAKE_ACCOUNT]
    mine = granted(by_hand, "user:you@example.com")
    assert ("roles/iam.serviceAccountUser", builder) in mine
    assert ("roles/iam.serviceAccountUser", builder.replace("builder", "runner")) in mine


MAKE_ACCOUNT = ["iam", "service-accounts", "create"]
#: Where something is granted -> what the table of permissions calls it.
PLACES = {
    "my-project": "project", "gs://my-project-pipelines": "bucket", "pipelines-images": "images",
    "pipelines-templates": "templates", "pipelines-runner@my-project.iam.gserviceaccount.com": "runner",
    "pipelines-builder@my-project.iam.gserviceaccount.com": "builder",
}  # fmt: skip


#: What it calls a part of one of them, or what the page leaves out.
BESIDES = ("data", "secret", "builds", "made", "ladder")


@pytest.mark.parametrize(
    ("by", "member"),
    [
        ("caller", "user:you@example.com"),
        ("runner", "serviceAccount:pipelines-runner@my-project.iam.gserviceaccount.com"),
        ("builder", "serviceAccount:pipelines-builder@my-project.iam.gserviceaccount.com"),
    ],
)
def test_by_hand_everybody_may_do_what_their_calls_take(by_hand: list[list[str]], by: str, member: str) -> None:
    """But for what the page leaves out: CI, raw data of others, and the secrets of a webhook and of MLflow."""
    own = {
        f"projects/my-project/roles/{words[4]}": set(option(words, "--permissions").split(","))
        for words in by_hand
        if words[1:4] == ["iam", "roles", "create"]
    }
    assert own["projects/my-project/roles/pipelines_preflight"] == custom_roles()["preflight"]
    may: dict[str, set[str]] = {thing: set() for thing in (*PLACES.values(), *BESIDES)}
    for role, thing in granted(by_hand, member):
        may[PLACES[thing]] |= own.get(role) or permissions.roles()[role]
    may["builds"] = may["bucket"]
    for call in permissions.calls():
        if call.by == by and call.on not in ("data", "secret", "tables") and "ci" not in call.when:
            lacks = set(call.permissions) - may["project"] - may[call.on]
            assert not lacks, f"{call.method} on {call.on}: {lacks}"


def test_by_hand_the_apis_are_those_of_terraform(by_hand: list[list[str]]) -> None:
    *optional, enabled = [set(words[3:]) for words in by_hand if words[:3] == ["gcloud", "services", "enable"]]
    text = (REPOSITORY / "infra/apis.tf").read_text()
    assert all(api in text for apis in optional for api in apis) and len(optional) == 2
    always = re.search(r"concat\(\s*\[(.*?)\]", (REPOSITORY / "infra/apis.tf").read_text(), re.DOTALL)
    assert always and enabled == set(re.findall(r'"([\w.]+)"', always[1]))


def test_with_terraform_two_apis_are_on_first_and_its_environment_is_known(tmp_path: Path) -> None:
    calls = called(tmp_path, blocks("2. What the project needs")[0], blocks("4. The image")[0], "vgp $PIPELINES_ENV")
    apis = ["cloudresourcemanager.googleapis.com", "serviceusage.googleapis.com"]
    assert calls[0] == ["gcloud", "services", "enable", *apis]
    assert ["terraform", "apply"] in calls and calls.index(["terraform", "apply"]) > 0
    assert ["vgp", "image", "build"] in calls
    assert calls[-1] == ["vgp", "prod"]
    (declared,) = re.findall(r'variable "environment".*?default\s+= "(\w+)"', VARIABLES, re.DOTALL)
    assert declared == "prod"


VARIABLES = (REPOSITORY / "infra/variables.tf").read_text()
