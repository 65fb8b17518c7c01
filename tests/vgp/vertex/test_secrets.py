"""Canaries: a secret of the environment, of the settings or of the credentials appears nowhere that it must not."""

import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tools.emulator.cloud import Cloud, status
from vgp.__main__ import main
from vgp.vertex import clients

CANARY = "canary-7f3a9c51"
VARIABLES = {"WANDB_API_KEY": CANARY, "HF_TOKEN": CANARY, "AWS_SECRET_ACCESS_KEY": CANARY, "PGPASSWORD": CANARY}
SCHEDULE = """
[schedules.nightly]
pipeline = "training"
cron = "0 4 * * *"
"""


Command = Callable[..., tuple[int, str]]


@pytest.fixture
def pipelines(
    cloud: Cloud, repository: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> Iterator[Command]:
    """The command in this process, in the repository; returns its exit code and all that was printed."""

    def run(*words: str) -> tuple[int, str]:
        clients.credentials.cache_clear()
        capfd.readouterr()
        with pytest.raises(SystemExit) as ended:
            main(words)
        return int(ended.value.code or 0), "".join(capfd.readouterr())

    monkeypatch.chdir(repository)
    yield run
    clients.credentials.cache_clear()


def sent(cloud: Cloud) -> str:
    """All that went to Google, but for the header that carries the token."""
    headers = [{k: v for k, v in call.headers.items() if k.lower() != "authorization"} for call in cloud.requests]
    return " ".join(f"{call.path} {call.query} {call.body!r}" for call in cloud.requests) + json.dumps(headers)


def test_nothing_of_the_environment_is_sent_or_printed(
    cloud: Cloud, repository: Path, pipelines: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in VARIABLES.items():
        monkeypatch.setenv(name, value)
    (repository / "pipelines.toml").write_text(SCHEDULE)
    verbs = [
        ["submit", "training", "--no-preflight"],
        ["upload", "training"],
        ["schedule", "apply", "--yes", "--no-preflight"],
        ["preflight", "training"],
        ["show", "latest"],
        ["logs", "latest"],
        ["config"],
    ]
    for words in verbs:
        code, printed = pipelines(*words)
        assert code in (0, 1), printed
        assert CANARY not in printed, words
    assert cloud.jobs and cloud.schedules
    assert CANARY not in sent(cloud)


@pytest.mark.parametrize("flag", [[], ["--debug"]], ids=["message", "traceback"])
def test_no_error_shows_a_token_or_a_key(cloud: Cloud, repository: Path, pipelines: Command, flag: list[str]) -> None:
    (repository / "pipelines.toml").touch()
    cloud.fail("aiplatform.*", status(403, "no"), forever=True)
    code, printed = pipelines(*flag, "submit", "training", "--no-preflight")
    assert code == 1 and bool(flag) == ("Traceback" in printed)
    key = json.loads(Path(cloud.environment["GOOGLE_APPLICATION_CREDENTIALS"]).read_text())["private_key"]
    assert "ya29." not in printed and "Bearer " not in printed
    assert not any(line in printed for line in key.splitlines() if len(line) > 20)


@pytest.mark.parametrize("place", ["labels", "schedules.nightly.parameters"])
@pytest.mark.parametrize("secret", ["ya29.a0AfH6SMBx", "-----BEGIN PRIVATE KEY-----", "AIzaSyD-9tSrke72PouQMnMX"])
def test_a_setting_that_looks_like_a_secret_is_refused_and_not_shown(
    repository: Path, pipelines: Command, place: str, secret: str
) -> None:
    (repository / "pipelines.toml").write_text(f'{SCHEDULE}\n[{place}]\ntask = "{secret}"\n')
    code, printed = pipelines("config")
    assert code == 2
    assert secret not in printed
    assert "pipelines.toml:" in printed


#: A canary as the password of a repository's address; the verbs that read the settings.
ADDRESS = f"https://user:{CANARY}@us-central1-kfp.pkg.dev/test-project/templates"
READING = (
    ["config", "--json"], ["compile"], ["submit", "training", "--dry-run"], ["upload", "training"], ["templates"],
    ["preflight", "training"], ["schedule", "plan"], ["runs"],
    ["image", "build", "--dry-run"], ["convert", "--step", "train"],
)  # fmt: skip


@pytest.mark.parametrize("words", READING, ids=" ".join)
def test_a_password_in_a_repositorys_address_is_refused_and_not_shown(
    words: list[str], capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "pipelines.toml").write_text(f'template_repository = "{ADDRESS}"\n')
    with pytest.raises(SystemExit) as ended:
        main(["--debug", *words])
    out, err = capsys.readouterr()
    assert ended.value.code == 2
    assert CANARY not in out + err
    assert "pipelines.toml:1: template_repository: looks like a credential" in err


@pytest.mark.parametrize(
    "words",
    [
        ["submit", "training", "--template", f"{ADDRESS}/training/v1"],
        ["submit", "training", "--set", f"data={ADDRESS}"],
        ["submit", "training", "--set", f'task_options={{"a": ["{ADDRESS}"]}}'],
        ["run", "training", "--set", f"data={ADDRESS}"],
        ["image", "build", "--dry-run", "--allow-dirty", "--base", ADDRESS],
        ["init", "--template-repository", ADDRESS, "--yes", "--project", "my-project", "--settings", "new.toml"],
        ["show", ADDRESS],
    ],
    ids=lambda words: " ".join(words[:3]),
)
def test_a_password_in_an_address_on_the_command_line_is_refused_and_not_shown(
    words: list[str],
    cloud: Cloud,
    capsys: pytest.CaptureFixture[str],
    repository: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    (repository / "pipelines.toml").touch()
    monkeypatch.chdir(repository)
    with pytest.raises(SystemExit) as ended:
        main(["--debug", *words])
    out, err = capsys.readouterr()
    assert ended.value.code == 2, err
    assert CANARY not in out + err
    assert not cloud.jobs and sorted(os.listdir()) == ["pipelines", "pipelines.toml"]


def test_of_a_process_no_secret_is_an_argument_and_none_gets_anywhere(cloud: Cloud, repository: Path) -> None:
    """What `ps` shows while a command runs: the command line alone. Here also imports see the environment."""
    (repository / "pipelines.toml").touch()
    environment = {**os.environ, **cloud.environment, **VARIABLES}
    words = [sys.executable, "-m", "vgp", "--debug", "submit", "training", "--no-preflight", "--json"]
    seen = []

    def look(_: object) -> None:
        for path in Path("/proc").glob("[0-9]*/cmdline"):
            try:
                seen.append(path.read_bytes())
            except OSError:  # it has ended meanwhile
                continue

    cloud.on("aiplatform.projects.locations.pipelineJobs.create", look)
    done = subprocess.run(words, cwd=repository, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert CANARY not in done.stdout + done.stderr + sent(cloud)
    assert any(b"submit" in line for line in seen)
    assert not any(CANARY.encode() in line or b"ya29." in line for line in seen)
