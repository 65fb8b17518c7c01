"""The table of permissions: every call that the code makes has its row, and every row is what Google publishes."""

import ast
import inspect
import re
import subprocess
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from tools.emulator.cloud import Cloud
from tools.emulator.discovery import document
from tools.emulator.front import DOCUMENTS
from vgp.__main__ import main
from vgp.cli.verbs import VERBS
from vgp.vertex import permissions
from vgp.vertex.images import cloud_build
from vgp.vertex.permissions import calls, holders, role_for, roles

ROOT = Path(__file__).parents[3]
#: Methods of hosts that have no discovery document, and of Google's own between its services.
UNDESCRIBED = {
    "*", "kfp_registry.upload", "kfp_registry.download", "docker.pull", "docker.push",
    "cloudkms.projects.locations.keyRings.cryptoKeys.encrypt", "logging.entries.write",
    "cloudquotas.projects.locations.services.quotaInfos.list", "bigquerystorage.createReadSession",
    "bigquerystorage.readRows",
}  # fmt: skip
FILE = """\
image = "us-central1-docker.pkg.dev/test-project/images/training:v1"
service_account = "pipelines@test-project.iam.gserviceaccount.com"
environment = "peered"
notify = { webhook = "projects/test-project/secrets/hook" }
encryption_key = "projects/test-project/locations/us-central1/keyRings/ring/cryptoKeys/key"
[steps.train]
machine = "g2-standard-24"
[environments.peered]
network = "projects/123456789012/global/networks/default"
[environments.boxed]
persistent_resource = "lab"
[environments.attached.steps.train]
persistent_resource = "lab"
tensorboard = "projects/test-project/locations/us-central1/tensorboards/12"
private_service_connect = { network_attachment = "projects/test-project/regions/us-central1/networkAttachments/lab" }
[steps.prepare.bigquery]
max_gb = 10
[schedules.nightly]
pipeline = "training"
cron = "30 2 * * *"
parameters = { data = "bq://test-project.flights.rows" }
"""
#: What a person does from the first build to a schedule that is gone again.
PLAYED = """\
image build --no-write --allow-dirty
submit training --experiment nights
cancel RUN
show RUN
logs RUN
runs
rerun RUN
submit training --env boxed
preflight training
preflight training --env attached
machines --ladder --accelerator L4 --gpus 2 --project test-project
upload training --tag v1
templates list
templates list training
templates tag training:v1 stable
templates tag training:v1 stable
templates untag training:stable
upload training --to gs://test-bucket/templates
templates list training --to gs://test-bucket/templates
schedule apply --yes
schedule apply --yes
schedule list
schedule pause nightly
schedule resume nightly
schedule delete nightly --yes
"""
VERBS_PLAYED = {words.split()[0] for words in PLAYED.splitlines()}
#: Of a header, and of an object that another one replaces: the loopback cloud looks at neither.
UNCHECKED = {"serviceusage.services.use", "storage.objects.delete"}
#: Methods of the storage library with names so common that only its own room is looked at.
#: What runs inside a step, as the account of the run.
RUN_ROOMS = ("steps", "launch", "serve", "decision", "registry", "evaluation", "train", "data", "protocol", "base")
STORAGE_VERBS = {"delete", "reload", "compose", "rewrite"}


@cache
def requests_of_google() -> set[str]:
    """The functions of the client classes in use that send a request."""
    tree = ast.parse((ROOT / "vgp/vertex/clients.py").read_text())
    imports = [
        node for node in ast.walk(tree) if isinstance(node, ast.ImportFrom) and "google.cloud" in str(node.module)
    ]
    classes = [getattr(import_module(str(node.module)), alias.name) for node in imports for alias in node.names]
    storage = import_module("google.cloud.storage")
    members = [pair for cls in [*classes, storage.Bucket, storage.Blob] for pair in inspect.getmembers(cls, callable)]
    return {name for name, member in members if not name.startswith("_") and _sends(name, member)}


def _sends(name: str, member: Any) -> bool:
    parameters = inspect.signature(member).parameters if inspect.isfunction(member) else {}
    return ("_" in name and bool({"retry", "timeout"} & set(parameters))) or name == "list_entries"


def attributes(folder: Path) -> dict[str, set[str]]:
    """File -> the names that it uses of other objects."""
    trees = {path.relative_to(ROOT).as_posix(): ast.parse(path.read_text()) for path in folder.rglob("*.py")}
    return {
        file: {node.attr for node in ast.walk(tree) if isinstance(node, ast.Attribute)} for file, tree in trees.items()
    }


@pytest.mark.parametrize(
    ("folder", "by"),
    [("vgp/vertex", "caller"), ("vgp/cli", "caller"), *((f"vgp/{room}", "runner") for room in RUN_ROOMS)],
)
def test_every_request_that_the_code_sends_has_a_row(folder: str, by: str) -> None:
    listed = {call.client for call in calls() if call.by == by}
    for file, names in attributes(ROOT / folder).items():
        # multiprocessing's get_context is none of Google's; the verbs of storage are called in one place
        sent = requests_of_google() - {"get_context"} | (STORAGE_VERBS if "vgp/base/storage/" in file else set())
        assert names & sent <= listed, file


def test_every_api_that_is_called_by_hand_has_a_row() -> None:
    listed = {call.method.split(".")[0] for call in calls() if call.client == "rest"}
    for path in (ROOT / "vgp").rglob("*.py"):
        tree = ast.parse(path.read_text())
        sent = [node for node in ast.walk(tree) if isinstance(node, ast.Call) and _by_hand(node)]
        named = {ast.unparse(node.args[1]) for node in sent if len(node.args) > 1} - {"api"}
        assigned = [node for node in tree.body if isinstance(node, ast.Assign)]
        constants = {ast.unparse(node.targets[0]): ast.unparse(node.value) for node in assigned}
        assert {constants.get(name, name).strip("'") for name in named} <= listed, path


def _by_hand(node: ast.Call) -> bool:
    return ast.unparse(node.func) in ("rest.call", "rest.pages", "rest.now", "_pages")


def test_every_api_that_a_step_reads_has_a_row() -> None:
    listed = {call.method.split(".")[0] for call in calls() if call.by == "runner"}
    hosts: set[str] = set()
    for folder in (*(f"vgp/{room}" for room in RUN_ROOMS), "training", "components"):
        for path in (ROOT / folder).rglob("*.py"):
            text = path.read_text()
            hosts |= set(re.findall(r"//(?:[\w{}.]*-)?([a-z]+)\.googleapis\.com", text)) - {"www"}  # a scope's name
            hosts |= set(re.findall(r"\b(?:google_api\.)?read\(f?[\"'](?:[^\"]*-)?([a-z]+)[\"']", text))
    assert {"aiplatform", "secretmanager"} <= hosts <= listed


@pytest.mark.parametrize("call", calls(), ids=lambda call: f"{call.by}-{call.method}-{call.on}")
def test_a_row_is_as_google_publishes_it(call: permissions.Call) -> None:
    api = call.method.split(".")[0]
    if call.method not in UNDESCRIBED:
        assert call.method in document(DOCUMENTS.get(api, f"{api}.v1")).methods
    assert call.page.startswith(("https://cloud.google.com/", "https://docs.cloud.google.com/"))
    assert bool(call.permissions) == bool(call.role)
    for permission in call.permissions:
        assert re.fullmatch(r"[a-z]+(\.[a-zA-Z]+){2}", permission)
        assert call.role in holders(permission), f"{call.role} does not hold {permission}"


def test_a_row_names_verbs_that_there_are() -> None:
    verbs = {name for verbs in VERBS.values() for name in verbs} | {"run", "ci"}
    assert {verb for call in calls() for verb in call.when} <= verbs


def test_roles_hold_nothing_that_no_call_takes() -> None:
    assert set().union(*roles().values()) == {permission for call in calls() for permission in call.permissions}
    assert role_for("storage.objects.get", "storage.objects.create") == "roles/storage.objectUser"
    assert role_for("pubsub.topics.publish") is None


def git(*words: str) -> None:
    subprocess.run(["git", *words], check=True)


@pytest.fixture
def line(cloud: Cloud, repository: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """The command line in a repository with a commit, whose caller may do the calls in the table, and nothing else."""
    monkeypatch.chdir(repository)
    (repository / "Dockerfile").write_text("FROM scratch\n")
    (repository / "pipelines.toml").write_text(FILE)
    git("init", "-q")
    git("add", ".")
    git("-c", "user.name=t", "-c", "user.email=t@example.com", "commit", "-qm", "x")
    cloud.policies.only = {permission for call in calls() if call.by == "caller" for permission in call.permissions}
    cloud.bigquery.add_dataset("flights", location="us-central1")
    cloud.bigquery.write("test-project.flights.rows", pa.table({"a": [1]}))
    cloud.artifacts.add_image(f"us-central1-docker.pkg.dev/test-project/images/training@sha256:{'0' * 64}", "v1")
    cloud.persistent_resources.add("lab", state="RUNNING")
    cloud.clock.run(600)

    def run(*words: str) -> None:
        with pytest.raises(SystemExit) as ended:
            main([*words])
        # Preflight ends with 1 here, since nothing was granted to the runner.
        assert not ended.value.code or words[0] == "preflight", words

    return run


def test_with_the_permissions_of_the_table_every_verb_works_and_each_of_them_is_asked_for(
    cloud: Cloud, line: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cloud_build, "LOOK_S", 0.05)
    for words in PLAYED.splitlines():
        run = next(reversed(cloud.jobs), "").rpartition("/")[2]
        line(*words.replace("RUN", run).split())
    mine = [call for call in calls() if call.by == "caller" and set(call.when) & VERBS_PLAYED]
    taken = {permission for call in mine for permission in call.permissions}
    assert taken - cloud.policies.asked == UNCHECKED
