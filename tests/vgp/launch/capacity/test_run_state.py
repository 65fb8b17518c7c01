"""SIGTERM means that the run is cancelled, or that the launcher's own machine goes: the run's state decides."""

import signal

import pytest

from tools.emulator.cloud import reset, status
from vgp.launch.capacity import step_run

from .conftest import CREATE, ladder_of, rung

ASK = "aiplatform.projects.locations.pipelineJobs.get"


def terminate() -> None:
    signal.raise_signal(signal.SIGTERM)


def ends_in_an_hour(launcher):
    """A job that takes an hour, in a run."""
    launcher.jobs_do({"seconds": 3600})
    return launcher.in_a_run()


def test_a_launcher_whose_machine_goes_leaves_the_job_to_the_next_one(launcher, capsys):
    run = ends_in_an_hour(launcher)
    launcher.at(300, terminate)
    launcher.at(600, launcher.kill)
    assert launcher.run() == -9 and list(launcher.jobs.values()) == ["RUNNING"]
    assert launcher.heartbeat["attempt"], "the job may go on"
    assert "The job keeps running for the next launcher" in capsys.readouterr().err
    assert launcher.run() == 0 and launcher.outcomes == ["succeeded"] and len(launcher.jobs) == 1
    assert run.state(launcher.cloud.clock.now()), "it is still there"


def test_one_that_is_not_killed_after_all_goes_on_itself(launcher):
    ends_in_an_hour(launcher)
    for seconds in (300, 600):
        launcher.at(seconds, terminate)
    assert launcher.run() == 0 and launcher.outcomes == ["succeeded"] and launcher.ladder["term"] == 1


def test_a_run_that_is_cancelled_takes_the_job_with_it(launcher, capsys):
    run = ends_in_an_hour(launcher)
    launcher.at(300, lambda: (launcher.cloud.pipeline_jobs.stop(run), terminate()))
    assert launcher.run() == 143 and list(launcher.jobs.values()) == ["CANCELLED"]
    assert launcher.ladder["attempts"][0]["words"] == "the run is cancelled"
    assert "the run is cancelled, and no job of train is running" in capsys.readouterr().err


def test_a_cancellation_that_shows_a_moment_late_is_one(launcher):
    run = ends_in_an_hour(launcher)
    launcher.at(300, terminate)
    launcher.at(302, lambda: launcher.cloud.pipeline_jobs.stop(run))
    assert launcher.run() == 143 and list(launcher.jobs.values()) == ["CANCELLED"]


@pytest.mark.parametrize(
    ("faults", "asked", "words"),
    [
        ([status(403)] * 3, 1, "Google answers 403"),
        ([status(404)] * 3, 1, "Google answers 404"),
        ([status(503)] * 3, 3, "Google answers 503"),
        ([reset()] * 3, 3, "no connection to Google"),
    ],
)
def test_where_the_runs_state_is_unknown_it_counts_as_cancelled(launcher, capsys, faults, asked, words):
    """A job that trains on for a run that is gone would cost money; one that is cancelled has saved."""
    ends_in_an_hour(launcher)
    launcher.at(300, terminate)
    launcher.cloud.fail(ASK, *faults)
    assert launcher.run() == 143 and launcher.outcomes == ["cancelled"] and launcher.calls.count(ASK) == asked
    printed = capsys.readouterr().err
    assert words in printed and "cancelling its job" in printed
    assert "so it counts as cancelled" in launcher.ladder["attempts"][0]["words"]


def test_one_answer_is_enough_to_know_that_the_run_goes_on(launcher):
    ends_in_an_hour(launcher)
    launcher.at(300, terminate)
    launcher.cloud.fail(ASK, status(503), reset())
    assert launcher.run() == 0 and launcher.outcomes == ["succeeded"]


def test_a_cancellation_whose_sigterm_comes_while_the_state_is_asked_is_one(launcher):
    """The first one was its machine's; the answers that were there by then show that the run continues."""
    run, asked = ends_in_an_hour(launcher), []

    def cancelled(call):
        asked.append(call)
        if len(asked) == 3:
            launcher.cloud.pipeline_jobs.stop(run)
            launcher.stop_once()

    launcher.at(300, terminate)
    launcher.cloud.on(ASK, cancelled)
    assert launcher.run() == 143 and launcher.outcomes == ["cancelled"] and len(asked) == 4


def test_many_sigterms_at_once_are_one(launcher):
    ends_in_an_hour(launcher)

    def burst(call):
        for _ in range(5):
            launcher.stopped = False
            launcher.stop_once()

    launcher.cloud.on(CREATE, burst)
    assert launcher.run() == 0 and launcher.outcomes == ["succeeded"]


def test_sigterm_after_the_end_changes_nothing(launcher):
    launcher.in_a_run()
    assert launcher.run() == 0
    terminate()


def test_an_answer_that_is_none_of_vertex_ai_counts_as_cancelled_too(launcher, monkeypatch):
    ends_in_an_hour(launcher)
    launcher.at(300, terminate)

    def nothing_known(name):
        raise AttributeError

    monkeypatch.setattr(step_run, "_state", nothing_known)
    assert launcher.run() == 143 and launcher.outcomes == ["cancelled"]


def test_a_launcher_that_is_ended_by_its_own_timeout_ends_the_job(launcher):
    """Half an hour after the deadline: no answer came around it, or the launcher stalled."""
    launcher.plan = ladder_of(rung(), deadline_s=1800.0)
    ends_in_an_hour(launcher)
    launcher.at(300, lambda: (launcher.cloud.clock.advance(3300), terminate()))
    assert launcher.run() == 1 and launcher.outcomes == ["timeout"] and list(launcher.jobs.values()) == ["CANCELLED"]


def test_a_plan_that_was_compiled_without_the_runs_region_cancels_as_before(launcher, capsys):
    launcher.jobs_do({"seconds": 3600})
    launcher.at(300, terminate)
    assert launcher.run() == 143 and ASK not in launcher.calls
    assert "the run's region is not known" in capsys.readouterr().err


def test_a_launcher_that_was_replaced_does_not_go_on(launcher, capsys):
    ends_in_an_hour(launcher)

    def another_works_a_while():
        launcher.at(200, launcher.kill)
        assert launcher.run() == -9
        terminate()

    launcher.at(300, another_works_a_while)
    assert launcher.run() == 1 and launcher.ladder["term"] == 2 and list(launcher.jobs.values()) == ["RUNNING"]
    assert "another launcher of this step has taken over" in capsys.readouterr().err


def test_the_next_attempt_of_vertex_ai_goes_on_from_what_its_job_saved(launcher):
    """Its outputs belong elsewhere: the job is moved, as after any kill."""
    launcher.plan = ladder_of(rung())
    ends_in_an_hour(launcher)
    launcher.at(300, terminate)
    launcher.at(600, launcher.kill)
    assert launcher.run() == -9
    assert launcher.run(task=7654321) == 0 and launcher.outcomes == ["moved", "succeeded"]
    assert launcher.calls.count(CREATE) == 2
