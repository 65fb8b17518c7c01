"""schedule on the command line: what it prints, asks and exits with, and what it does to the loopback cloud."""

import json
import os
import pty
import re
import sys
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from tools.emulator.cloud import Cloud
from vgp.__main__ import main

FILE = """\
[schedules.nightly]
pipeline = "training"
cron = "30 2 * * *"
time_zone = "Europe/Berlin"
parameters = {epochs = 5.0}
"""
SECRET = "ya29.canary-in-the-environment"


class Line:
    """The command line in a folder with a pipelines.toml."""

    def __init__(self, folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
        self.file, self.capsys = folder / "pipelines.toml", capsys

    def __call__(self, *words: str) -> tuple[int, str, str]:
        """Exit code, stdout and stderr of `vgp schedule ...`."""
        with pytest.raises(SystemExit) as ended:
            main(["schedule", *words])
        out, err = self.capsys.readouterr()
        return int(ended.value.code or 0), out, err

    def json(self, *words: str) -> Any:
        code, out, _ = self(*words, "--json")
        assert code == 0
        return json.loads(out)


@pytest.fixture
def line(cloud: Cloud, repository: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Line:
    monkeypatch.chdir(repository)
    monkeypatch.setenv("GOOGLE_OAUTH_ACCESS_TOKEN_CANARY", SECRET)
    made = Line(repository, capsys)
    made.file.write_text(FILE)
    return made


def test_from_nothing_to_a_schedule_and_back(cloud: Cloud, line: Line) -> None:
    code, out, _ = line("plan", "--exit-code")
    assert code == 3
    assert re.search(
        r"\+ create +nightly\n +next runs +\w+ 20\d\d-\d\d-\d\d 02:30 CES?T +20\d\d-\d\d-\d\d 0[01]:30 UTC", out
    )
    assert out.count(" UTC\n") == 5
    assert "1 to create" in out
    assert cloud.schedules == {}

    assert line("apply", "--yes")[0] == 0
    assert len(cloud.schedules) == 1
    assert line("plan", "--exit-code")[0] == 0
    assert "Nothing to do" in line("apply")[1]  # asks nothing, since there is nothing to do

    line.file.write_text(
        FILE.replace("5.0", "6.5").replace("30 2", "0 4") + '[steps.train]\nmachine = "g2-standard-48"\n'
    )
    code, out, _ = line("plan", "--exit-code", "--full")
    assert code == 3
    assert "cron               CRON_TZ=Europe/Berlin 30 2 * * * -> CRON_TZ=Europe/Berlin 0 4 * * *" in out
    assert "parameters.epochs  5 -> 6.5" in out
    assert re.search(r"train: machine +1 x e2-standard-4 .* -> 1 x g2-standard-48 with 4 x NVIDIA_L4", out)
    assert re.search(r'^ +\+ .*"machine_type": "g2-standard-48"', out, re.M)
    assert "nightly: updated" in line("apply", "nightly", "-y")[1]

    assert "nightly is paused\npipelines.toml differs" in line("pause", "nightly")[1]
    assert "nightly is already paused" in line("pause", "nightly")[1]
    assert "nightly is active" in line("resume", "nightly")[1]
    assert "deleted nightly\npipelines.toml still declares it" in line("delete", "nightly", "--yes")[1]
    code, out, _ = line("delete", "nightly", "--yes")
    assert (
        code,
        "nightly is not on Vertex AI; there is nothing to delete\npipelines.toml still declares it" in out,
    ) == (0, True)
    code, _, err = line("delete", "nihgtly", "--yes")
    assert (code, "there is no schedule 'nihgtly'. Did you mean nightly?" in err) == (2, True)


def test_each_verb_prints_its_json(cloud: Cloud, line: Line) -> None:
    planned = line.json("plan")
    (row,) = planned["schedules"]
    assert (planned["pending"], row["action"], row["cron"]) == (True, "create", "CRON_TZ=Europe/Berlin 30 2 * * *")
    assert len(row["runs"]) == 5
    assert set(row["runs"][0]) == {"local", "utc"}
    assert row["max_usd_per_month"] == pytest.approx(row["max_usd_per_run"] * row["runs_per_month"], rel=0.01)
    assert "the clocks of Europe/Berlin go from" in row["warnings"][0]
    applied = line.json("apply", "--yes")["applied"]
    assert applied[0]["name"] == "nightly"
    listed = line.json("list")
    assert (listed[0]["name"], listed[0]["state"], listed[0]["declared"]) == ("nightly", "active", True)
    assert line.json("pause", "nightly")[0]["changed"] is True
    assert line.json("delete", "nightly", "--yes")["deleted"] == [applied[0]["schedule"]]


def test_the_plan_shows_for_each_step_whether_it_may_take_an_earlier_result(cloud: Cloud, line: Line) -> None:
    line.file.write_text("caching = true\n" + FILE)
    printed = line("plan")[1]
    (cache,) = [line for line in printed.splitlines() if line.startswith("    cache ")]
    assert "prepare, train, evaluate and decide" in cache and "resolve" not in cache
    assert "warning: caching = true counts for submit only" in printed
    (row,) = line.json("plan")["schedules"]
    assert [step for step, cached in row["cached"].items() if not cached] == ["resolve", "register", "notify"]
    assert any("caching = true" in each for each in row["warnings"])
    line.file.write_text("caching = false\n" + FILE)
    assert set(line.json("plan")["schedules"][0]["cached"].values()) == {False}


def test_a_backfill_runs_past_nights_and_reports_the_data_they_could_see(
    cloud: Cloud, line: Line, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("vgp.vertex.schedules.backfill.FIRST_S", 0.1)
    from google.cloud.storage import Client

    for task in ("prepare", "train", "evaluate", "decide", "notify"):
        cloud.script(task, seconds=1)
    cloud.script("resolve", seconds=1, outputs={"uri": f"gs://test-bucket/runs/pins/{'a' * 64}.json"})
    Client().bucket("test-bucket").blob(f"runs/pins/{'a' * 64}.json").upload_from_string('{"seen": "windows"}')
    first, last = (cloud.clock.now() - timedelta(days=days) for days in (3, 2))
    days = ("--from", f"{first:%Y-%m-%d}", "--to", f"{last:%Y-%m-%d}")
    code, out, _ = line("backfill", "nightly", *days, "--dry-run")
    assert (code, "dry run: 2 nights of nightly: 2 to run, at most $" in out) == (0, True)
    assert not cloud.jobs
    cloud.clock.run(3600)
    answer = line.json("backfill", "nightly", *days, "--no-preflight")
    assert (answer["started"], [night["state"] for night in answer["nights"]]) == (2, ["succeeded"] * 2)
    assert {night["seen"] for night in answer["nights"]} == {"windows"}
    code, out, _ = line("backfill", "nightly", *days)
    assert (code, out.startswith("nothing was started: 2 nights of nightly: none to run; 2 ran before")) == (4, True)
    assert "windows: today's data, through that night's windows" in out
    code, _, err = line("backfill", "nihgtly", *days)
    assert (code, "Did you mean nightly" in err) == (2, True)
    code, _, err = line("backfill", "nightly", "--from", "1 October", "--to", "2026-10-31")
    assert (code, "--from 1 October: write a date like" in err) == (2, True)


def test_doctor_exits_with_an_error_if_something_is_wrong(
    cloud: Cloud, line: Line, capsys: pytest.CaptureFixture[str]
) -> None:
    def doctor(*words: str) -> tuple[int, str]:
        with pytest.raises(SystemExit) as ended:
            main(["doctor", *words])
        return int(ended.value.code or 0), capsys.readouterr()[0]

    cloud.clock.wait_for_noon()
    code, out = doctor()
    assert (code, "declared, and not on Vertex AI: vgp schedule apply nightly" in out) == (1, True)
    line("apply", "--yes")
    assert doctor()[0] == 0
    cloud.script("train", fail="CUDA out of memory")
    cloud.clock.advance(2 * 86400)
    code, out = doctor("--json")
    printed = json.loads(out)
    assert (code, printed["ok"], printed["schedules"][0]["counts"]) == (1, False, {"failed": 2})
    assert printed["schedules"][0]["nights"][-1]["failed"] == [{"step": "train", "error": "CUDA out of memory"}]
    assert doctor("nightly", "--since", "1h")[0] == 0


def test_without_a_terminal_it_does_not_guess_the_answer(cloud: Cloud, line: Line) -> None:
    for words in (["apply"], ["delete", "nightly"]):
        if words[0] == "delete":
            line("apply", "--yes")
        code, _, err = line(*words)
        assert (code, "repeat with --yes" in err) == (2, True)
    assert len(cloud.schedules) == 1


@pytest.mark.parametrize(("answer", "left"), [("n", 0), ("y", 1)])
def test_on_a_terminal_it_asks(
    cloud: Cloud, line: Line, monkeypatch: pytest.MonkeyPatch, answer: str, left: int
) -> None:
    leader, follower = pty.openpty()
    with open(follower, closefd=False) as typed, open(follower, "w") as screen, monkeypatch.context() as terminal:
        terminal.setattr(sys, "stdin", typed)
        terminal.setattr(sys, "stdout", screen)
        terminal.setattr(sys, "stderr", screen)
        os.write(leader, f"{answer}\n".encode())
        with pytest.raises(SystemExit) as ended:
            main(["schedule", "apply"])
        screen.flush()
        shown = b""
        while b"Continue?" not in shown:  # a read returns what has arrived so far
            shown += os.read(leader, 65536)
    os.close(leader)
    assert len(cloud.schedules) == left
    assert ended.value.code == (0 if answer == "y" else 1)


def test_terraform_needs_no_account(line: Line, monkeypatch: pytest.MonkeyPatch, cloud: Cloud) -> None:
    monkeypatch.delenv("GOOGLE_APPLICATION_CREDENTIALS")
    code, out, _ = line("plan", "--terraform")
    assert (code, list(json.loads(out)["resource"]["google_vertex_ai_schedule"])) == (0, ["nightly"])
    assert cloud.requests == []


def test_environments_have_schedules_of_their_own(cloud: Cloud, line: Line) -> None:
    text = "[environments.dev]\n[environments.prod]\n" + FILE.replace("[schedules.", "[environments.prod.schedules.")
    line.file.write_text(text)
    assert "no schedule" in line("plan", "nightly", "--env", "dev")[2]
    assert line("apply", "--env", "prod", "--yes")[0] == 0
    (made,) = cloud.schedules.values()
    assert made.display_name == "nightly (prod)"
    assert "belongs to another environment" not in line("pause", "nightly", "--env", "prod")[2]
    code, _, err = line("delete", made.name, "--env", "dev", "--yes")
    assert (code, "Use --env prod" in err) == (2, True)


def test_no_secret_of_the_environment_is_sent_or_shown(cloud: Cloud, line: Line) -> None:
    shown = "".join(
        "".join(line(*words)[1:]) for words in (["plan"], ["apply", "--yes"], ["list"], ["plan", "--terraform"])
    )
    sent = "".join(f"{call.path}{call.query}{call.body}" for call in cloud.requests)
    assert SECRET not in shown + sent
    assert "PRIVATE KEY" not in shown + sent


def test_an_empty_list_suggests_what_to_do(line: Line) -> None:
    assert "vgp schedule apply" in line("list")[1]
    line.file.write_text("")
    assert "Nothing to do" in line("plan")[1]
