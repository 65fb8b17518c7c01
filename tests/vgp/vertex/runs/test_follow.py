"""A run is followed to its end through outages, kills and Ctrl-C; the exit code is its outcome. Cancelling may be
repeated, comes too late without harm, and never meets the wrong run."""

import io
import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from tools.emulator.cloud import Cloud, lose_response, reset, slow, status
from vgp.base.errors import RequestError, WorkFailed
from vgp.settings import Settings
from vgp.vertex import clients
from vgp.vertex.runs import step_jobs
from vgp.vertex.runs.follow import FIRST_S, LONGEST_S, SILENCE_S, Display, cancel, follow

CANCEL = "aiplatform.projects.locations.pipelineJobs.cancel"


def asked(cloud: Cloud) -> int:
    return sum(call.method == CANCEL for call in cloud.requests)


def test_a_run_is_cancelled_once(cloud: Cloud, settings: Settings, start: Callable[..., str]) -> None:
    name = start(id="training-1")
    cloud.clock.advance(30)
    first, again = cancel(settings, "training-1"), cancel(settings, name)
    assert (first[0].state, first[1]) == ("cancelling", True)
    assert (again[0].state, again[1]) == ("cancelling", False)
    cloud.clock.advance(60)
    over, now = cancel(settings, "training-1")
    assert (over.state, now, asked(cloud)) == ("cancelled", False, 1)


def test_a_run_that_is_over_stays_as_it_is(cloud: Cloud, settings: Settings, start: Callable[..., str]) -> None:
    start(id="training-1")
    cloud.clock.advance(3600)
    run, now = cancel(settings, "training-1")
    assert (run.state, now, asked(cloud)) == ("succeeded", False, 0)


def test_a_run_that_ends_at_that_moment_is_no_error(
    cloud: Cloud, settings: Settings, start: Callable[..., str]
) -> None:
    start(id="training-1")
    cloud.clock.advance(30)
    cloud.on("aiplatform.projects.locations.pipelineJobs.get", lambda call: cloud.clock.advance(3600))
    run, now = cancel(settings, "training-1")
    assert (run.state, now, asked(cloud)) == ("succeeded", False, 1)


@pytest.mark.parametrize("fault", [lose_response(), status(503)], ids=["lost", "503"])
def test_faults_do_not_hide_what_happened(cloud: Cloud, settings: Settings, start: Callable, fault: Any) -> None:
    start(id="training-1")
    cloud.clock.advance(30)
    cloud.fail(CANCEL, fault)
    assert cancel(settings, "training-1")[0].state == "cancelling"


@pytest.mark.parametrize("given", ["latest", "latest:training"])
def test_the_latest_run_may_have_another_owner(settings: Settings, given: str) -> None:
    with pytest.raises(RequestError, match="give the id of the run"):
        cancel(settings, given)


def test_a_refusal_is_explained(cloud: Cloud, settings: Settings, start: Callable[..., str]) -> None:
    start(id="training-1")
    cloud.fail(CANCEL, status(403, "Permission 'aiplatform.pipelineJobs.cancel' denied"))
    with pytest.raises(WorkFailed, match="roles/aiplatform.user"):
        cancel(settings, "training-1")


LADDER = json.loads((Path(__file__).parents[3] / "data/ladder.json").read_text())
GET = "aiplatform.projects.locations.pipelineJobs.get"


def plain() -> Console:
    return Console(file=io.StringIO(), width=200)


def text(console: Console) -> str:
    return console.file.getvalue()  # type: ignore[attr-defined]


def lines(console: Console) -> list[str]:
    """Returns the lines printed while it ran, without the times of day."""
    found = [re.fullmatch(r"\d\d:\d\d:\d\d  (.*)", line) for line in text(console).splitlines()]
    return [each[1] for each in found if each]


def test_a_run_that_succeeds_is_reported_change_by_change(
    cloud: Cloud, settings: Settings, start: Callable[..., str], clock: Any
) -> None:
    cloud.script(seconds=120)
    console, name = plain(), start()
    outcome = follow(settings, name, console, clock=clock)
    assert outcome.exit_code == 0
    printed = lines(console)
    assert re.search(r" pending 0s, \$0.00 so far, at most \$\d+\.\d\d$", printed[0])
    changes = [line for line in printed if line.startswith("train: ")]
    assert changes[0] == "train: pending" and changes[1].startswith("train: running on ")
    assert re.fullmatch(r"train: succeeded after 2m 00s, \$\d+\.\d\d", changes[2])
    assert printed[-1].startswith(f"{outcome.result['id']} succeeded 14m 00s, $") and printed[-1].endswith("; trained")
    assert text(console).rstrip().endswith(outcome.result["url"])
    assert [step["state"] for step in outcome.result["steps"]] == ["succeeded"] * 7
    assert outcome.result["usd"] > 0 and outcome.result["exit_code"] == 0
    assert outcome.result["price_dates"] and f"prices of {outcome.result['price_dates'][0]}" in text(console)


def test_the_way_up_a_ladder_is_reported_and_counts_in_the_cost(
    cloud: Cloud, settings: Settings, start: Callable[..., str], clock: Any, monkeypatch: Any
) -> None:
    monkeypatch.setattr(step_jobs, "has_ladder", lambda content: True)
    name, console = start(), plain()
    blob = (
        clients.storage(settings).bucket("test-bucket").blob(f"runs/capacity/{name.rsplit('/', 1)[-1]}/t-1/ladder.json")
    )
    blob.upload_from_string(json.dumps(LADDER))
    result = follow(settings, name, console, clock=clock).result
    assert lines(console).count("train, attempt 3 on 8xA100 in europe-west4: succeeded") == 1
    assert result["ladders"][0]["usd"] == 280


def test_a_night_without_anything_new_is_reported_with_the_run_since(
    cloud: Cloud, settings: Settings, start: Callable[..., str], clock: Any
) -> None:
    cloud.script("decide", outputs={"Output": "keep"})
    start(id="first")
    cloud.clock.advance(7200)
    console = plain()
    result = follow(settings, start(id="second"), console, clock=clock).result
    words = "nothing new since first: nothing was trained"
    assert lines(console)[-1].endswith(f"; {words}")
    facts = (result["words"], result["nothing_new"], result["since"], result["decision"])
    assert facts == (words, True, "first", "keep")


def test_looks_are_close_after_a_change_and_rare_in_between(
    cloud: Cloud, settings: Settings, start: Callable[..., str], clock: Any
) -> None:
    cloud.script("train", seconds=1800)
    console = plain()
    follow(settings, start(), console, clock=clock)
    assert clock.pauses[0] == FIRST_S and max(clock.pauses) == LONGEST_S
    assert len(clock.pauses) < 1800 / LONGEST_S + 50
    still = [line for line in lines(console) if " running " in line and " so far" in line]
    assert len(still) > 1800 / (SILENCE_S + LONGEST_S) - 2, "a log without a line looks dead"


def test_a_failed_step_comes_with_its_error_advice_and_log(
    cloud: Cloud, settings: Settings, start: Callable[..., str], clock: Any
) -> None:
    reason = "The zone does not have enough resources: \x1b[2J[bold]stockout[/]\nsecond line"
    cloud.script("train", fail=reason)
    console = plain()
    outcome = follow(settings, start(), console, clock=clock)
    assert outcome.exit_code == 1 and outcome.result["state"] == "failed"
    shown = text(console)
    assert "train failed: The zone does not have enough resources: \\x1b[2J[bold]stockout[/]\n  second line" in shown
    assert re.search(r"g2-standard-24 elsewhere: [a-z0-9-]+ \(", shown) and "Other GPUs in us-central1: " in shown
    assert f"vgp logs {outcome.result['id']} train\n" in shown
    (train,) = (step for step in outcome.result["steps"] if step["step"] == "train")
    (job,) = train["custom_jobs"]
    assert (
        f"https://console.cloud.google.com/logs/query;query=resource.type%3D%22ml_job%22%20AND%20resource.labels.job_id%3D%22{job}"
        in shown
    )
    assert "\x1b" not in shown


def test_a_cancelled_run_has_a_code_of_its_own(
    cloud: Cloud, settings: Settings, start: Callable[..., str], clock: Any
) -> None:
    name = start()
    cloud.clock.advance(30)
    clients.pipeline_service(settings).cancel_pipeline_job(name=name)
    console = plain()
    outcome = follow(settings, name, console, clock=clock)
    assert outcome.exit_code == 3
    assert "resolve: cancelled" in text(console)


def test_waiting_ends_at_the_timeout_and_the_run_goes_on(
    cloud: Cloud, settings: Settings, start: Callable[..., str], clock: Any
) -> None:
    cloud.script(seconds=7200)
    console, name = plain(), start()
    outcome = follow(settings, name, console, timeout_s=600, clock=clock)
    assert outcome.exit_code == 124 and outcome.result["state"] == "running"
    assert f"vgp wait {outcome.result['id']}" in text(console)
    assert not [call for call in cloud.requests if call.method.endswith(".cancel")]


def test_the_timeout_counts_without_network_too(cloud: Cloud, settings: Settings, start: Callable, clock: Any) -> None:
    name = start()
    cloud.fail(GET, reset(), forever=True)
    outcome = follow(settings, name, plain(), timeout_s=600, clock=clock)
    assert outcome.exit_code == 124 and outcome.result == {"name": name, "exit_code": 124}


def test_the_timeout_counts_while_the_run_is_looked_for(cloud: Cloud, settings: Settings, clock: Any) -> None:
    cloud.fail("aiplatform.*", reset(), forever=True)
    console = plain()
    outcome = follow(settings, "latest", console, timeout_s=300, clock=clock)
    assert outcome.exit_code == 124 and "vgp wait latest" in text(console)


def test_a_long_outage_is_reported_and_waited_for(
    cloud: Cloud, settings: Settings, start: Callable[..., str], clock: Any
) -> None:
    cloud.script(seconds=120)
    console, name = plain(), start()
    cloud.clock.advance(60)
    seen = []

    def drop(call: Any) -> None:
        if not seen:
            seen.append(call)
            cloud.fail(GET, *[reset(), status(503), status(429), status(500)] * 3)

    cloud.on(GET, drop)
    outcome = follow(settings, name, console, clock=clock)
    assert outcome.exit_code == 0
    printed = lines(console)
    assert sum(line.endswith("retrying") for line in printed) == 1
    assert sum(line.startswith("the connection is back after 4m") for line in printed) == 1


def test_ctrl_c_leaves_the_run_alone(cloud: Cloud, settings: Settings, start: Callable[..., str], clock: Any) -> None:
    class Impatient(type(clock)):  # type: ignore[misc]
        def sleep(self, seconds: float) -> None:
            raise KeyboardInterrupt

    console, name = plain(), start()
    outcome = follow(settings, name, console, clock=Impatient(cloud))
    run_id = outcome.result["id"]
    assert outcome.exit_code == 130
    assert f"vgp wait {run_id}" in text(console) and f"vgp cancel {run_id}" in text(console)
    assert not [call for call in cloud.requests if call.method.endswith(".cancel")]


def test_a_run_that_is_not_there_is_an_error(cloud: Cloud, settings: Settings, clock: Any) -> None:
    with pytest.raises(WorkFailed, match="not found"):
        follow(settings, "projects/test-project/locations/us-central1/pipelineJobs/gone", plain(), clock=clock)


@pytest.mark.parametrize(("width", "height"), [(40, 8), (80, 24), (120, 40)])
def test_the_live_table_fits_every_terminal(
    cloud: Cloud, start: Callable[..., str], look: Callable, clock: Any, branching: dict, width: int, height: int
) -> None:
    cloud.script("flip", seconds=120)
    name = start(branching)
    console = Console(file=io.StringIO(), force_terminal=True, width=width, height=height, legacy_windows=False)
    display = Display(console, clock)
    for _ in range(4):
        display.update(look(name))
        display.patience.note = "no connection to Google for 42s; next try in 30s " * 3
        drawn = console.render_lines(display.render(), pad=False)
        shown = ["".join(piece.text for piece in line) for line in drawn]
        assert len(shown) <= height
        assert max(map(len, shown)) < width
        assert any(word in line for line in shown[2:] for word in ("waiting", "running", "pending", "succeeded"))
        cloud.clock.advance(60)


def test_the_terminal_is_left_as_it_was(
    cloud: Cloud, settings: Settings, start: Callable[..., str], clock: Any
) -> None:
    console = Console(file=io.StringIO(), force_terminal=True, width=80, height=24, legacy_windows=False)
    follow(settings, start(), console, clock=clock)
    shown = text(console)
    assert shown.count("\x1b[?25l") == shown.count("\x1b[?25h") == 1, "the cursor is shown again"


def test_killed_and_started_again_it_goes_on_where_the_run_is(cloud: Cloud, start: Callable[..., str]) -> None:
    cloud.script(seconds=60)
    name = start()
    # Google's libraries warn from a day in 2027 on that this Python is old.
    command = [sys.executable, "-W", "ignore", "-m", "vgp", "wait", name, "--json"]
    cloud.fail(GET, slow(0.1))
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as first:
        assert first.stderr
        line = first.stderr.readline()
        first.send_signal(signal.SIGKILL)
    assert b"pending" in line
    cloud.clock.advance(3600)
    second = subprocess.run(command, capture_output=True, text=True, env=dict(os.environ), timeout=120)
    assert second.returncode == 0, second.stderr
    assert '"state": "succeeded"' in second.stdout
    assert len(cloud.jobs) == 1
