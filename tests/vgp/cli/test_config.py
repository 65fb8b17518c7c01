"""init and config: the settings file made by asking or from flags, and shown with the place of every value."""

import json
import os
import pty
import re
import subprocess
import sys
import threading
from pathlib import Path

import pytest
from click.testing import Result
from typer.testing import CliRunner

from vgp import settings
from vgp.base.errors import RequestError
from vgp.cli import config

FILE = """\
environment = "dev"
region = "us-east1"
image = "a/b:1"

[steps.train]
machine = "g2-standard-24"
env = {NCCL_DEBUG = "INFO"}

[schedules.nightly]
pipeline = "training"
cron = "30 2 * * *"
start = 2027-01-01
parameters = {task_options = {depth = 2}}

[environments.dev]
bucket = "gs://bucket-dev"
[environments.prod]
bucket = "gs://bucket-prod"
"""


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for name in list(os.environ):
        if name.startswith(("PIPELINES_", "CLOUDSDK_", "GOOGLE_CLOUD_PROJECT")):
            monkeypatch.delenv(name)
    monkeypatch.setenv("CLOUDSDK_CONFIG", str(tmp_path / "gcloud"))
    monkeypatch.chdir(tmp_path)
    return tmp_path


def run(*arguments: str) -> Result:
    return CliRunner().invoke(config.app, arguments, catch_exceptions=True)


def write(text: str) -> None:
    """A pipelines.toml in this folder, beside the workflows of this repository."""
    Path("pipelines").symlink_to(Path(__file__).parents[3] / "pipelines")
    Path("pipelines.toml").write_text(text)


def output(*arguments: str) -> str:
    done = run(*arguments)
    assert done.exit_code == 0, done.exception
    return done.stdout


def refusal(*arguments: str) -> str:
    done = run(*arguments)
    assert isinstance(done.exception, RequestError), done.output
    assert done.stdout == ""
    return str(done.exception)


# config


def test_config_shows_every_value_with_its_place(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write(FILE)
    monkeypatch.setenv("PIPELINES_EXPERIMENT", "flights")
    found = json.loads(output("config", "--env", "prod", "--json"))
    assert (found["file"], found["environment"]) == ("pipelines.toml", "prod")
    assert found["environments"] == ["dev", "prod"]
    rows = {row["key"]: row for row in found["values"]}
    assert {key.split(".")[0] for key in rows} == set(settings.Settings.model_fields) - {"mlflow"}  # all of it is empty
    shown = {key: (rows[key]["value"], rows[key]["place"]) for key in rows}
    assert shown["environment"] == ("prod", "--env")
    assert shown["bucket"] == ("gs://bucket-prod", "pipelines.toml:18")
    assert shown["region"] == ("us-east1", "pipelines.toml:2")
    assert shown["experiment"] == ("flights", "PIPELINES_EXPERIMENT")
    assert shown["project"] == (None, "default")
    assert shown["steps.train.machine"] == ("g2-standard-24", "pipelines.toml:6")
    assert shown["steps.train.env.NCCL_DEBUG"] == ("INFO", "pipelines.toml:7")
    assert shown["steps.train.nodes"] == (1, "default")
    assert shown["schedules.nightly.start"] == ("2027-01-01T00:00:00+00:00", "pipelines.toml:12")
    assert shown["schedules.nightly.parameters.task_options"] == ({"depth": 2}, "pipelines.toml:13")
    assert rows["bucket"]["name"] == "environments.prod.bucket" and rows["bucket"]["line"] == 18


def test_config_as_a_table_has_the_same(folder: Path) -> None:
    write(FILE)
    text = output("config")
    assert re.search(r"^bucket +gs://bucket-dev +pipelines\.toml:16 *$", text, re.MULTILINE)
    assert re.search(r"^caching +- +default *$", text, re.MULTILINE)
    assert "environments: dev, prod; file: pipelines.toml" in text


@pytest.mark.parametrize(
    ("key", "text"),
    [
        ("bucket", "gs://bucket-dev\n"),
        ("steps.train.nodes", "1\n"),
        ("schedules.nightly.paused", "false\n"),
        ("schedules.nightly.parameters.task_options", '{"depth": 2}\n'),
        ("environment", "dev\n"),
    ],
)
def test_one_value_is_printed_bare_for_scripts(folder: Path, key: str, text: str) -> None:
    write(FILE)
    assert output("config", key) == text


def test_a_table_shows_what_is_in_it(folder: Path) -> None:
    write(FILE)
    rows = json.loads(output("config", "steps.train", "--json"))
    assert {row["key"] for row in rows} == {
        f"steps.train.{key}" for key in ("machine", "nodes", "strategy", "env.NCCL_DEBUG")
    }
    assert "steps.train.machine" in output("config", "steps") and "bucket" not in output("config", "steps")


@pytest.mark.parametrize(
    ("key", "message"),
    [
        ("network", "network is not set. Write it into pipelines.toml, or set PIPELINES_NETWORK."),
        ("labels", "labels is not set."),
        ("steps.train.timeout", "steps.train.timeout is not set. Write it into pipelines.toml, or set PIPELINES_STEPS"),
        ("buckett", "there is no setting 'buckett'. Did you mean bucket?"),
    ],
)  # fmt: skip
def test_a_key_without_a_value_is_refused(folder: Path, key: str, message: str) -> None:
    write(FILE)
    assert refusal("config", key).startswith(message)


def test_config_of_a_wrong_file_names_the_line(folder: Path) -> None:
    Path("pipelines.toml").write_text("\nregion = 'mars'\n")
    assert refusal("config").startswith("pipelines.toml:2: region: ")


# init


def test_init_from_flags_writes_a_right_file_and_prints_the_next_command(folder: Path) -> None:
    text = output("init", "--project", "my-project", "--prod-project", "my-prod", "--region", "europe-west4", "--yes")
    assert text.startswith("Wrote pipelines.toml")
    assert "vgp preflight training" in text
    prod = settings.load(environment="prod")
    assert (prod.project, prod.region, prod.bucket) == ("my-prod", "europe-west4", "gs://my-prod-pipelines")
    assert prod.request("train").machine == "g2-standard-24", "the machines of the shipped file"
    dev = settings.load()
    assert dev.environment == "dev" and dev.request("train").accelerator == "T4"
    assert dev.build_service_account == "pipelines-builder@my-project.iam.gserviceaccount.com"


def test_init_with_every_flag_needs_no_terminal_and_no_yes(folder: Path) -> None:
    flags = {
        "project": "my-project", "prod-project": "my-project", "region": "us-east1", "bucket": "gs://mine/folder",
        "image": "a/b:1", "template-repository": "https://us-kfp.pkg.dev/my-project/r", "service-account": "",
        "build-service-account": "builder@my-project.iam.gserviceaccount.com",
    }  # fmt: skip
    output("init", *[word for name, value in flags.items() for word in (f"--{name}", value)], "--settings", "x/y.toml")
    loaded = settings.load(Path("x/y.toml"))
    assert (loaded.bucket, loaded.image, loaded.service_account) == ("gs://mine/folder", "a/b:1", None)
    assert loaded.template_repository == "https://us-kfp.pkg.dev/my-project/r"
    assert loaded.build_service_account == "builder@my-project.iam.gserviceaccount.com"


def test_init_takes_the_project_of_the_environment(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GOOGLE_CLOUD_PROJECT", "from-variable")
    assert json.loads(output("init", "--yes", "--json"))["answers"]["project"] == "from-variable"
    assert settings.load().project == "from-variable"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["init"], "there is no terminal to ask on. Set --project, --prod-project, --region, --bucket, --i"),
        (["init", "--project", "my-project", "--region", "us-east1"], "Set --prod-project, --bucket, --image, "),
        (["init", "--yes"], "no project is known. Use --project, or set GOOGLE_CLOUD_PROJECT."),
        (["init", "--yes", "--project", "X"], "--project: 'X' is not a project id"),
        (["init", "--yes", "--project", "my-project", "--region", "us-east9"], "--region: Vertex AI training has no"),
        (["init", "--yes", "--project", "ya29.canary"], "--project: looks like a credential."),
        (["init", "--yes", "--project", "my-project", "--settings", "/proc/none/x.toml"], "cannot be written"),
    ],
)  # fmt: skip
def test_init_without_what_it_needs_is_refused_and_writes_nothing(
    folder: Path, arguments: list[str], message: str
) -> None:
    complaint = refusal(*arguments)
    assert message in complaint and "canary" not in complaint
    assert list(folder.iterdir()) == []


def test_init_overwrites_only_when_forced_and_keeps_the_steps(folder: Path) -> None:
    write(FILE)
    assert "pipelines.toml exists" in refusal("init", "--yes", "--project", "my-project")
    assert Path("pipelines.toml").read_text() == FILE
    output("init", "--yes", "--project", "my-project", "--force")
    loaded = settings.load()
    assert loaded.project == "my-project" and loaded.schedules == {}
    assert loaded.request("train").env == {"NCCL_DEBUG": "INFO"} and set(loaded.steps) == {"train"}


def typed(folder: Path, *lines: str, arguments: tuple[str, ...] = ()) -> tuple[int, str]:
    """What `init` shows on a terminal where a person types `lines`, and its exit code."""
    main, terminal = pty.openpty()
    command = [sys.executable, "-c", "from vgp.cli import config; config.app()", "init", *arguments]
    environment = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[3]), "TERM": "dumb"}
    child = subprocess.Popen(command, stdin=terminal, stdout=terminal, stderr=terminal, cwd=folder, env=environment)
    os.close(terminal)
    guard = threading.Timer(30, child.kill)
    guard.start()
    os.write(main, "".join(f"{line}\n" for line in lines).encode())
    shown = b""
    while True:
        try:
            read = os.read(main, 4096)
        except OSError:  # Linux ends a terminal whose other side is closed with EIO
            break
        if not read:
            break
        shown += read
    os.close(main)
    guard.cancel()
    return child.wait(timeout=120), shown.decode()


def test_init_asks_and_asks_again_after_a_wrong_answer(folder: Path) -> None:
    answers = ["My Project", "my-project", "", "us-centrl1", "europe-west4", "", "", "", "", ""]
    code, shown = typed(folder, *answers)
    assert code == 0, shown
    assert "'My Project' is not a project id" in shown
    assert "Did you mean us-central1?" in shown
    assert "Bucket of the runs [gs://my-project-pipelines]" in shown
    loaded = settings.load(environment="prod")
    assert (loaded.project, loaded.region) == ("my-project", "europe-west4")
    assert loaded.image == "europe-west4-docker.pkg.dev/my-project/pipelines-images/training:0.1.0"


def test_init_asks_only_for_what_no_flag_gives(folder: Path) -> None:
    code, shown = typed(folder, "", "", "", "", "", "", arguments=("--project", "my-project", "--region", "us-east1"))
    assert code == 0, shown
    assert "Google Cloud project" not in shown and "Region" not in shown
    assert settings.load().region == "us-east1"


def test_init_that_is_stopped_writes_nothing(folder: Path) -> None:
    code, shown = typed(folder, "my-project", "\x04")  # Ctrl-D
    assert code == 1 and "Aborted" in shown
    assert list(folder.iterdir()) == []


def test_init_replaces_a_file_without_a_project_and_keeps_its_steps(folder: Path) -> None:
    Path("pipelines.toml").write_text('region = "us-central1"\n\n[steps.train]\nmachine = "a3-highgpu-8g"\n')
    output("init", "--yes", "--project", "my-project")
    written = Path("pipelines.toml").read_text()
    assert "a3-highgpu-8g" in written and "my-project" in written


def test_environments_that_share_a_registry_are_named() -> None:
    write('bucket = "gs://one"\n[environments.dev]\n[environments.prod]\n')
    out = run("config", "--env", "dev").output
    assert "registry of models: gs://one/registry" in out
    assert "warning: registry: dev and prod share gs://one/registry" in out
    overview = json.loads(run("config", "--env", "dev", "--json").output)
    assert (overview["registry"], overview["registry_shared_with"]) == ("gs://one/registry", ["prod"])
    Path("pipelines.toml").write_text(FILE)
    assert "warning" not in run("config").output
