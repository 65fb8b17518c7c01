"""`vgp models`, as people call it: on this machine, and in the bucket of a project."""

import getpass
import hashlib
import json
import os
import re
from collections.abc import Callable
from pathlib import Path

import pytest

from tools.emulator.cloud import Cloud
from vgp.__main__ import main
from vgp.registry import changes
from vgp.registry.documents import Spent, Version
from vgp.registry.registry import open as open_

from .conftest import ROOT, Result, filled

Models = Callable[..., Result]


def unspaced(text: str) -> str:
    return re.sub(r" +", " ", text)


@pytest.fixture
def registry(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """A folder of the user's, with the registry of local runs: version 2 of three reigns."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "200")
    filled("runs/registry", tmp_path)
    return str(tmp_path / "runs/registry")


def test_show_champion_prints_what_runs_since_when_why_and_what_it_replaced(
    training_here: None, registry: str, models: Models
) -> None:
    code, out, err = models("show", "champion")
    assert (code, err) == (0, "")
    lines = [line.strip() for line in unspaced(out).splitlines()]
    assert lines[0] == "flights version 2 champion"
    assert re.fullmatch(r"champion since \w{3} \d\d \d\d:\d\d \(\d+s\), promoted, by the run", lines[1])
    assert lines[2:6] == [
        "why as decided", "replaced version 1, data: month 1", "rollback to version 1: vgp models rollback",
        "decision better by 2",
    ]  # fmt: skip
    assert "metrics roc_auc 0.72" in lines and any("promoted the run as decided" in line for line in lines)


def test_list_and_compare_show_metrics_side_by_side(training_here: None, registry: str, models: Models) -> None:
    out = unspaced(models("list")[1])
    assert re.search(r"^flights: version 2 is the champion since .*, in place of version 1$", out, re.MULTILINE)
    assert re.search(r"^ 3 registered .* 0.73 month 3 training-3 ?$", out, re.MULTILINE)
    assert re.search(r"^ 1 registered .* training-1 ?$", out, re.MULTILINE) and "older ones" not in out
    assert " 1 registered" not in (cut := unspaced(models("list", "--limit", "2")[1]))
    assert "and 1 older versions; to list them: --limit" in cut
    assert re.search(r"^ 2 champion registered .* 0.72 month 2 training-2 ?$", out, re.MULTILINE)
    out = unspaced(models("compare", "1", "champion")[1])
    assert "metric 1 2 champion difference" in out and "roc_auc 0.71 0.72 +0.01" in out
    assert "data month 1 month 2" in out and "equal: task" in out and "note:" not in out
    other = Version(key="f" * 64, model="elsewhere", task="prices", metrics={"loss": 3.0})
    open_("runs/registry", "flights").change(lambda record: changes.register(record, other, who="a run"))
    assert "note: the tasks differ, so metrics of one name may measure different" in models("compare", "4", "1")[1]


def test_a_decision_is_made_once_and_its_history_names_who_and_why(
    training_here: None, registry: str, models: Models
) -> None:
    code, out, _ = models("rollback", "--why", "it's slow; --sudden=yes")
    assert (code, out) == (0, "version 1 is the champion of flights again, in place of version 2\n")
    assert "(there is no earlier champion); nothing was changed" in models("rollback")[1]
    code, _, err = models("rollback", "--from", "1")
    assert code == 2 and err.startswith("error: version 1 has no predecessor")
    printed = json.loads(models("show", "--json")[1])
    assert printed["number"] == 1 and printed["reign"]["why"] == "it's slow; --sudden=yes"
    assert models("alias", "stable", "1")[1] == "stable is version 1 of flights\n"
    assert models("promote", "3")[:2] == (0, "version 3 is the champion of flights, in place of version 1\n")
    assert models("unalias", "stable")[0] == models("reject", "2")[0] == 0


def test_show_prints_the_history_of_a_version(training_here: None, registry: str, models: Models) -> None:
    """Of a champion whom it withstood, of a candidate who decides, of others who took their place."""
    place = open_("runs/registry", "flights")
    for night in ("mon", "tue", "the same model again"):
        place.change(lambda record, night=night: changes.keep(record, who="the run", why="not better", key=night))
        if night != "the same model again":  # of which there is no test
            test = Spent(key=night, at="2026-11-22T10:00:00Z", level=0.05 / 365, version=2, outcome="keep")
            place.change(lambda record, test=test: changes.spend(record, test))
    key = hashlib.sha256(b"candidate").hexdigest()
    waiting = Version(key=key, model="", state="candidate")
    place.change(lambda record: changes.register(record, waiting, who="the run"))
    out = unspaced(models("show")[1])
    assert re.search(r"^defended 2 challengers, the last on \w{3} \d\d", out, re.MULTILINE) and "not better" not in out
    out = unspaced(models("show", "candidate")[1])
    assert "flights version 4 candidate" in out
    assert "waits for approval: vgp models promote 4, or reject 4" in out
    for words in (("alias", "stable", "1"), ("alias", "stable", "2"), ("rollback",)):
        models(*words)
    out = unspaced(models("show", "1")[1])
    rows = [line.split(maxsplit=3)[3] for line in out.splitlines() if re.match(r"\w{3} \d\d \d\d:\d\d ", line)]
    assert [line.partition(" the run")[0].partition(f" {getpass.getuser()}")[0].strip() for line in rows] == [
        "registered", "promoted", "replaced by version 2", "given the alias stable", "stable is version 2",
        "champion again",
    ]  # fmt: skip


def test_delete_asks_and_without_a_terminal_wants_yes(training_here: None, registry: str, models: Models) -> None:
    code, _, err = models("delete", "1")
    assert code == 2 and "repeat with --yes" in err
    for words in (("delete", "2"), ("delete", "champion", "--yes")):  # no question about a deletion that is refused
        assert "version 2 is not deleted: it is champion" in models(*words)[2]
    assert models("delete", "1", "--yes")[:2] == (0, "version 1 of flights is deleted\n")
    assert models("delete", "1")[:2] == (0, "version 1 of flights is deleted already; nothing was changed\n")


def test_the_report_of_a_version_without_files_is_not_named(training_here: None, registry: str, models: Models) -> None:
    record = Path(registry) / "flights" / "registry.json"
    document = json.loads(record.read_text())
    document["versions"][0]["report"] = f"{registry}/about/report.html"
    record.write_text(json.dumps(document))
    assert "about/report.html" in models("show", "1")[1]
    models("delete", "1", "--yes")
    assert "about/report.html" not in models("show", "1")[1]


def test_clean_shows_what_a_kill_left_asks_and_counts(training_here: None, registry: str, models: Models) -> None:
    left = Path(registry) / "flights" / "versions" / hashlib.sha256(b"killed").hexdigest()
    left.mkdir()
    (left / "model.safetensors").write_bytes(bytes(3 << 20))
    assert "1 copy stays: a release may be at work there" in models("clean", "--yes")[1] and left.exists()
    os.utime(left / "model.safetensors", (1, 1))
    code, out, _ = models("clean", "--dry-run")
    assert code == 0 and left.exists()
    assert re.search(r"^flights \w{12} 1 3\.0 \d+d \d\dh an interrupted release goes", unspaced(out), re.MULTILINE)
    assert "1 copy of no version would be removed from" in out
    code, out, err = models("clean")
    assert code == 2 and "an interrupted release" in err and "repeat with --yes" in err and left.exists()
    printed = json.loads(models("clean", "--yes", "--json", "--model", "flights")[1])
    assert printed["said"] == f"1 copy of no version was removed from {registry}, 3.0 MiB" and not left.exists()
    assert models("clean")[1] == f"nothing is left behind in {registry}\n"
    assert models("clean", "--model", "delays")[0] == 2 and models("show")[0] == 0


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("show", "7"), "error: flights has no version 7. Take one of 1, 2, 3."),
        (("alias", "Big", "1"), "error: 'Big' is not a valid alias"),
        (("alias", "stable", "--", "-1"), "error: '-1' is neither a version nor an alias"),
        (("list", "--registry", "nowhere"), "/nowhere; the first run that registers a model creates it"),
        (("list", "--registry", "s3://x"), "only buckets of Google Cloud"),
        (("list", "--env", "none"), "there is no environment 'none'"),
    ],
)
def test_a_wrong_request_is_one_message(
    training_here: None, registry: str, models: Models, words: tuple[str, ...], message: str
) -> None:
    code, out, err = models(*words)
    assert (code, out) == (2, "") and message in err


def test_without_a_bucket_there_is_no_registry_on_vertex_ai(
    training_here: None, registry: str, models: Models, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PIPELINES_BUCKET", "")
    code, _, err = models("list", "--vertex")
    assert code == 2 and "name no bucket" in err and "--registry gs://" in err


def test_the_registry_of_the_bucket_is_meant_with_an_environment_and_keeps_the_account(
    training_here: None, cloud: Cloud, tmp_path: Path, models: Models
) -> None:
    place = filled("gs://test-bucket/registry", tmp_path)
    assert models("rollback", "--vertex")[:2] == (
        0,
        "version 1 is the champion of flights again, in place of version 2\n",
    )
    assert "(serviceAccount:" in place.read().events[-1].who
    assert json.loads(models("show", "--registry", "gs://test-bucket/registry", "--json")[1])["number"] == 1


def test_a_process_of_the_repository_s_own_answers(registry: str, models: Models, tmp_path: Path) -> None:
    (tmp_path / "training").mkdir()
    (tmp_path / "training" / "__init__.py").write_text("raise SystemExit('not this one')")
    code, out, err = models("rollback")
    assert (code, err) == (0, "") and out.startswith("version 1 is the champion")


def test_without_the_extra_of_the_registry_the_error_names_the_package_to_install(
    registry: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    from vgp.__main__ import main
    from vgp.workflow.local import training_code

    monkeypatch.setattr(training_code.importlib.util, "find_spec", lambda name: None)
    with pytest.raises(SystemExit, match="2"):
        main(["models", "list", "--settings", str(ROOT / "pipelines.toml")])
    assert "numpy is not installed. Install the extra training" in capsys.readouterr().err


def test_the_list_names_the_environments_that_share_the_registry_and_the_models_that_stayed_behind(
    training_here: None,
    cloud: Cloud,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    filled("gs://test-bucket/registry", tmp_path)
    file = tmp_path / "pipelines.toml"
    monkeypatch.setenv("COLUMNS", "400")

    def listed(text: str, *words: str) -> str:
        file.write_text(text)
        with pytest.raises(SystemExit, match="0"):
            main(["models", "list", "--settings", str(file), "--env", "dev", *words])
        return capsys.readouterr().out

    for folder in ("pipelines", "training"):
        (tmp_path / folder).symlink_to(ROOT / folder)
    shared = "[environments.dev]\n%s\n[environments.prod]\n"
    out = listed(shared % "")
    assert "flights: version 2 is the champion" in out
    assert "warning: registry: dev and prod share gs://test-bucket/registry: " in out
    assert json.loads(listed(shared % "", "--json"))["notes"][0].startswith("warning: registry: dev and prod share")
    out = listed(shared % 'registry = "gs://test-bucket/registry-dev"')
    assert "gs://test-bucket/registry-dev holds no model yet" in out and "warning" not in out
    assert "note: gs://test-bucket/registry holds models: flights; to use them, write registry =" in out


def test_a_champion_whose_weights_are_gone_is_not_shown_as_whole_nor_promoted_again(
    training_here: None, registry: str, models: Models
) -> None:
    assert "not whole" not in models("show", "champion")[1]
    folder = json.loads(models("show", "champion", "--json")[1])["folder"]
    (Path(folder) / "model.json").unlink()
    assert (
        "incomplete: model.json is gone. Restore its files, or promote another version" in models("show", "champion")[1]
    )
    assert json.loads(models("show", "champion", "--json")[1])["missing"] == ["model.json is gone"]
    code, out, err = models("promote", "champion")
    assert (code, out) == (2, "") and "version 2 of flights is incomplete" in err
    assert models("rollback")[0] == 0


def test_a_version_that_no_registry_has_is_refused_before_a_run_starts(
    cloud: Cloud, registry: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """On this machine the registry lies beside the run; on Vertex AI the submission looks into the bucket's."""
    filled("gs://test-bucket/registry", tmp_path)
    settings = ["--settings", str(ROOT / "pipelines.toml")]
    for words in (
        ["run", "training", *settings, "--out", f"{Path(registry).parent}/next"],
        ["submit", "training", *settings],
        ["submit", "batch_prediction", *settings],
    ):
        name = "model" if "batch_prediction" in words else "champion"
        with pytest.raises(SystemExit, match="2"):
            main([*words, "--set", f"{name}=99"])
        assert "flights has no version 99" in capsys.readouterr().err
    assert not cloud.jobs and not (Path(registry).parent / "next").exists()
    with pytest.raises(SystemExit, match="0"):
        main(["submit", "training", *settings, "--set", "champion=3"])
    assert len(cloud.jobs) == 1
