"""The commands upload and templates, as people and CI call them, against the loopback cloud."""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from killing import ask, ended, forks

from tools.emulator.cloud import Cloud, lose_response, slow
from vgp.__main__ import main
from vgp.workflow.compiling import source_commit

REPOSITORY = "https://us-central1-kfp.pkg.dev/test-project/pipelines"
VERSIONS = "artifactregistry.projects.locations.repositories.packages.versions"
TAGS = "artifactregistry.projects.locations.repositories.packages.tags"
BOUNDARIES = [f"{VERSIONS}.get", "kfp_registry.upload", "kfp_registry.download", f"{TAGS}.get", f"{TAGS}.create"]
#: A repository of one workflow, which compiles in a moment.
SMALL = Path(__file__).parents[1] / "small"
SHA = "0123456789abcdef0123456789abcdef01234567"


@pytest.fixture(autouse=True)
def committed(cloud: Cloud, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(source_commit, "read_commit", lambda folder: source_commit.Commit(SHA))


def run(capsys: pytest.CaptureFixture[str], *words: str) -> tuple[int, str, str]:
    with pytest.raises(SystemExit) as ended:
        main(words)
    out, err = capsys.readouterr()
    return int(ended.value.code or 0), out, err


def tags(cloud: Cloud) -> dict[str, str]:
    found = cloud.artifacts.tags.values()
    return {tag.name.rpartition("/")[2]: tag.version.rpartition("/")[2] for tag in found}


def test_upload_prints_its_changes_as_json(cloud: Cloud, capsys: pytest.CaptureFixture[str]) -> None:
    code, out, _ = run(capsys, "upload", "training", "--tag", "v3", "--json")
    printed = json.loads(out)
    [version] = [name.rpartition("/")[2] for name in cloud.artifacts.content]
    assert code == 0
    assert printed.pop("created").endswith("Z")
    assert printed == {
        "name": "training", "version": version, "uri": f"{REPOSITORY}/training/{version}",
        "tags": ["v3", SHA[:12], SHA, "latest"], "moved": {}, "uploaded": True,
        "size": len(next(iter(cloud.artifacts.content.values()))), "commit": SHA,
    }  # fmt: skip
    assert tags(cloud) == dict.fromkeys(printed["tags"], version)
    code, out, _ = run(capsys, "upload", "training", "--tag", "v3", "--json")
    assert (code, json.loads(out)["uploaded"], json.loads(out)["version"]) == (0, False, version)


def test_upload_and_compile_make_the_same_bytes(
    cloud: Cloud, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    run(capsys, "upload", "training")
    main_compiled = run(capsys, "compile", "training", "--out", str(tmp_path), "--json")
    assert main_compiled[2].count("prices of 20") == 1  # below all tables
    [(name, content)] = cloud.artifacts.content.items()
    assert (tmp_path / "training.json").read_bytes() == content
    assert name.endswith(json.loads(main_compiled[1])[0]["sha256"])


def test_upload_prints_its_changes_as_text(
    cloud: Cloud, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    run(capsys, "upload", "training", "--tag", "v3")
    monkeypatch.setattr(
        source_commit, "read_commit", lambda folder: source_commit.Commit(SHA, "code.py changed since 0123456789ab")
    )
    code, out, _ = run(capsys, "upload", "training", "--tag", "v4")
    version = next(iter(cloud.artifacts.content)).rpartition("/")[2]
    lines = out.splitlines()
    assert code == 0
    assert lines[0] == f"training@{version}"
    assert lines[1].startswith("existed already, ") and lines[1].endswith(" bytes, verified by download")
    assert lines[2:] == [
        f"{REPOSITORY}/training/{version}",
        "tags: v4, latest",
        "not tagged with the commit: code.py changed since 0123456789ab",
    ]


def test_a_tag_that_moved_is_reported(cloud: Cloud, capsys: pytest.CaptureFixture[str], repository: Path) -> None:
    run(capsys, "upload", "training")
    before = tags(cloud)["latest"]
    other = repository / "other.toml"
    other.write_text('[steps.train]\nmachine = "n1-standard-4"\n')
    _, out, _ = run(capsys, "upload", "training", "--settings", str(other))
    assert f"latest (before: {before[:19]})" in out and len(cloud.artifacts.content) == 2


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["upload", "trainin"], "there is no pipeline 'trainin'. Did you mean training?"),
        (["upload", "training", "--tag", ""], "'' cannot be a tag"),
        (["upload", "training", "--to", "s3://bucket"], "not a repository of pipeline templates"),
        (["upload", "training", "--max-usd", "0.01"], "can cost"),
        (["templates", "show", "training"], "no template 'training'. None was uploaded there yet."),
        (["templates", "tag", "training", "a/b"], "cannot be a tag"),
        (["templates", "untag", "training"], "names no tag"),
    ],
)
def test_a_wrong_request_uploads_nothing_and_exits_with_2(
    cloud: Cloud, capsys: pytest.CaptureFixture[str], words: list[str], message: str
) -> None:
    code, _, err = run(capsys, *words)
    assert code == 2 and message in err and "Traceback" not in err
    assert cloud.artifacts.content == {} and tags(cloud) == {}


def test_templates_lists_shows_pins_and_downloads(
    cloud: Cloud, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    run(capsys, "upload", "training", "--tag", "v3")
    [version] = [name.rpartition("/")[2] for name in cloud.artifacts.content]
    [content] = cloud.artifacts.content.values()
    assert [row["name"] for row in json.loads(run(capsys, "templates", "--json")[1])] == ["training"]
    [row] = json.loads(run(capsys, "templates", "training", "--json")[1])
    assert (row["version"], row["size"]) == (version, len(content))
    assert row["tags"] == sorted([SHA, SHA[:12], "latest", "v3"])
    table = run(capsys, "templates", "list", "training")[1]
    assert version[:19] in table and SHA[:12] in table and SHA not in table
    shown = json.loads(run(capsys, "templates", "show", "training:v3", "--json")[1])
    assert shown["tags"] == row["tags"]
    assert {"name": "epochs", "type": "NUMBER_DOUBLE", "default": 3.0}.items() <= {
        key: value for each in shown["parameters"] if each["name"] == "epochs" for key, value in each.items()
    }.items()
    card = run(capsys, "templates", "show", "training:v3")[1]
    assert "number = 3: Passes" in card and "whole number = 1024: Rows" in card and 'text = "auto": auto' in card
    assert run(capsys, "templates", "pin", "training:v3")[1] == f"{REPOSITORY}/training/{version}\n"
    assert run(capsys, "templates", "download", "training")[1].encode() == content
    out = tmp_path / "training.json"
    assert run(capsys, "templates", "download", "training", "--out", str(out))[0] == 0
    assert out.read_bytes() == content
    code, _, err = run(capsys, "templates", "download", "training", "--out", str(tmp_path))
    assert code == 2 and "cannot be written" in err


def test_tags_are_moved_and_taken_away(cloud: Cloud, capsys: pytest.CaptureFixture[str]) -> None:
    run(capsys, "upload", "training")
    [version] = [name.rpartition("/")[2] for name in cloud.artifacts.content]
    assert run(capsys, "templates", "tag", f"training@{version[:15]}", "stable")[1] == f"training:stable -> {version}\n"
    printed = json.loads(run(capsys, "templates", "tag", "training", "stable", "--json")[1])
    assert printed == {"name": "training", "tag": "stable", "version": version, "before": version}
    _, out, _ = run(capsys, "templates", "untag", "training:stable")
    assert out == f"removed training:stable; the version training@{version} stays\n"
    assert "stable" not in tags(cloud)


def test_a_limit_shows_the_newest_and_counts_them_all(cloud: Cloud, capsys: pytest.CaptureFixture[str]) -> None:
    repository = "projects/test-project/locations/us-central1/repositories/pipelines"
    for number in range(5):
        cloud.artifacts.add_version(repository, "training", f"sha256:{number:064}", b"{}")
        cloud.clock.advance(60)
    _, out, err = run(capsys, "templates", "training", "--limit", "2", "--json")
    assert [row["version"] for row in json.loads(out)] == [f"sha256:{4:064}", f"sha256:{3:064}"]
    assert err == "showing 2 of 5; show all with --limit 0\n"
    _, out, err = run(capsys, "templates", "training", "--limit", "0", "--json")
    assert len(json.loads(out)) == 5 and err == ""


def test_a_bucket_takes_the_same_commands(cloud: Cloud, capsys: pytest.CaptureFixture[str]) -> None:
    place = ["--to", "gs://test-bucket/templates"]
    printed = json.loads(run(capsys, "upload", "training", *place, "--json")[1])
    assert printed["uri"] == f"gs://test-bucket/templates/training/{printed['version'][7:]}.json"
    [row] = json.loads(run(capsys, "templates", "training", *place, "--json")[1])
    assert (row["uri"], row["tags"]) == (printed["uri"], sorted([SHA, SHA[:12], "latest"]))
    assert run(capsys, "templates", "pin", printed["uri"])[1].strip() == printed["uri"]
    assert cloud.artifacts.content == {}


@pytest.fixture(scope="module")
def process() -> Iterator[subprocess.Popen[str]]:
    with forks(Path(__file__).with_name("commands.py"), SMALL) as process:
        yield process


@pytest.mark.parametrize("when", ["before", "after"])
@pytest.mark.parametrize("method", BOUNDARIES)
def test_a_command_killed_at_any_request_and_repeated_makes_one_version(
    cloud: Cloud,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    process: subprocess.Popen[str],
    method: str,
    when: str,
) -> None:
    monkeypatch.chdir(SMALL)
    cloud.fail(method, slow(2) if when == "before" else lose_response())
    number = ask(process, cloud.environment, words=["upload", "small"])
    until = time.monotonic() + 60
    while not any(call.method == method and (when == "before" or call.status) for call in cloud.requests):
        assert time.monotonic() < until, "the command never asked"
        time.sleep(0.005)
    os.kill(number, signal.SIGKILL)
    assert ended(process) == -signal.SIGKILL
    code, _, err = run(capsys, "upload", "small")
    assert code == 0, err
    [version] = [name.rpartition("/")[2] for name in cloud.artifacts.content]
    assert tags(cloud)["latest"] == version


def test_in_ci_there_is_no_spinner_and_no_secret(cloud: Cloud) -> None:
    canary = "canary-7f3a9c"
    words = [sys.executable, "-m", "vgp", "upload", "training", "--tag", SHA]
    environment = {**os.environ, "WANDB_API_KEY": canary, "MY_TOKEN": canary}
    done = subprocess.run(words, env=environment, text=True, capture_output=True)
    out, err = done.stdout, done.stderr
    assert done.returncode == 0, err
    assert "\x1b" not in out + err and "\r" not in out + err and "compiling" not in out + err
    assert canary not in out + err
    assert all(canary.encode() not in content for content in cloud.artifacts.content.values())
    assert SHA in tags(cloud)
