"""infra/by-hand.sh grants what Terraform grants, and what the calls of the accounts take."""

import os
import re
import subprocess
from pathlib import Path

import pytest

from tests.infra.terraform import custom_roles, locals_, resources
from vgp.vertex import permissions

ROOT = Path(__file__).parents[2]
#: Writes down how it was called, a line a call.
TOOL = """#!/bin/sh
printf '%s\\037' "${0##*/}" "$@" >> "$CALLS"
echo >> "$CALLS"
"""


@pytest.fixture(scope="module")
def by_hand(tmp_path_factory: pytest.TempPathFactory) -> list[list[str]]:
    """Returns the calls of gcloud that the script makes, as lists of arguments."""
    folder = tmp_path_factory.mktemp("by-hand")
    (folder / "gcloud").write_text(TOOL)
    (folder / "gcloud").chmod(0o755)
    environment = {"PATH": f"{folder}:{os.environ['PATH']}", "CALLS": str(folder / "calls")}
    command = [ROOT / "infra/by-hand.sh", "my-project", "us-central1", "user:you@example.com", "bigquery", "dataflow"]
    subprocess.run(command, check=True, capture_output=True, text=True, env=environment)
    return [line.split("\037")[:-1] for line in (folder / "calls").read_text().split("\n")[:-1]]


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
    assert "builder" in option(words, "--member") and words == by_hand[-1], "nothing is granted on the bucket after it"


def test_the_member_may_act_as_both_accounts(by_hand: list[list[str]]) -> None:
    accounts = [words[4] for words in by_hand if words[1:4] == ["iam", "service-accounts", "create"]]
    mine = granted(by_hand, "user:you@example.com")
    for name in accounts:
        assert ("roles/iam.serviceAccountUser", f"{name}@my-project.iam.gserviceaccount.com") in mine


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
        if (
            call.by == by
            and call.on not in ("data", "secret", "tables")
            and "ci" not in call.when
            and not call.method.startswith("compute.advice.")
        ):
            lacks = set(call.permissions) - may["project"] - may[call.on]
            assert not lacks, f"{call.method} on {call.on}: {lacks}"


def test_by_hand_the_apis_are_those_of_terraform(by_hand: list[list[str]]) -> None:
    always, *optional = [set(words[3:-2]) for words in by_hand if words[:3] == ["gcloud", "services", "enable"]]
    text = (ROOT / "infra/apis.tf").read_text()
    assert all(api in text for apis in optional for api in apis) and len(optional) == 2
    declared = re.search(r"concat\(\s*\[(.*?)\]", text, re.DOTALL)
    assert declared and always == set(re.findall(r'"([\w.]+)"', declared[1]))
