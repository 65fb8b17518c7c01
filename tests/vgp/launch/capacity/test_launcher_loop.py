import json
import signal

import pytest

from tools.emulator.cloud import lose_response, repeat_request, reset, status
from tools.emulator.errors import ApiError
from vgp.launch.capacity import attempt

from .conftest import CANCEL, CREATE, EXITED, GET, LIST, QUOTA, STOCKOUT, executor_input, ladder_of, rung


def last_job(launcher) -> str:
    return list(launcher.cloud.custom_jobs.jobs)[-1].rpartition("/")[2]


def rungs(launcher) -> list[str]:
    return [attempt["rung"] for attempt in launcher.ladder["attempts"]]


def test_a_job_that_succeeds_is_the_whole_way(launcher, monkeypatch, capsys):
    monkeypatch.setenv("VERTEX_AI_PIPELINES_RUN_LABELS", '{"vertex-ai-pipelines-run-billing-id": "7", "team": "x"}')
    launcher.jobs_do({"seconds": 3600})
    assert launcher.run() == 0
    (job,) = launcher.cloud.custom_jobs.jobs.values()
    attempt = launcher.ladder["attempts"][0]
    labels = dict(job.message.labels)
    assert labels["vertex-ai-pipelines-run-billing-id"] == "7" and labels["team"] == "a"
    assert labels["training-attempt"] == attempt["token"]
    (pool,) = job.message.job_spec.worker_pool_specs
    variables = {variable.name: variable.value for variable in pool.container_spec.env}
    assert variables == {"TRAINING_CAPACITY": launcher.folder.uri, "TRAINING_ATTEMPT": attempt["token"]}
    assert list(pool.container_spec.args) == ["--executor_input", executor_input()]
    assert attempt["outcome"] == "succeeded" and attempt["hours"] == 1.0 and attempt["usd"] == 3.6
    assert [rung["price_date"] for rung in launcher.ladder["rungs"]] == ["2026-07-30"]
    resources = launcher.folder.bucket.blob("runs/123456789012/run-1/train_-1234567/gcp_resources").download_as_text()
    uri = f"https://us-central1-aiplatform.googleapis.com/v1/{attempt['job']}"
    assert json.loads(resources) == {"resources": [{"resourceType": "CustomJob", "resourceUri": uri}]}
    assert "train succeeded: 1 attempt, 1h 00m of machines, $3.60" in capsys.readouterr().err


def test_a_lack_of_capacity_moves_on_and_a_users_error_does_not(launcher, capsys):
    launcher.plan = ladder_of(rung("spot"), rung("standard", strategy="standard"))
    launcher.cloud.fail(CREATE, status(429, QUOTA))
    launcher.jobs_do({"fail": EXITED.format(1)})
    launcher.cloud.on(CREATE, lambda call: launcher.cloud.logs.add("KeyError: 'label'", job_id=last_job(launcher)))
    assert launcher.run() == 1
    assert launcher.outcomes == ["quota", "user_error"] and rungs(launcher) == ["spot", "standard"]
    printed = capsys.readouterr().err
    assert "[workerpool0-0] KeyError: 'label'" in printed and "train failed on standard" in printed


def test_a_preempted_job_goes_on_with_the_time_that_is_left(launcher):
    launcher.jobs_do({"seconds": 1200, "fail": STOCKOUT}, {"seconds": 60})
    assert launcher.run() == 0 and launcher.outcomes == ["preempted", "succeeded"]
    timeouts = [job.message.job_spec.scheduling.timeout.seconds for job in launcher.cloud.custom_jobs.jobs.values()]
    assert timeouts == [7200, 6000]


def test_a_job_that_is_cancelled_by_hand_fails_the_step(launcher, capsys):
    launcher.jobs_do({"seconds": 36_000})
    launcher.at(300, lambda: launcher.cancel_in_console())
    assert launcher.run() == 1 and launcher.outcomes == ["cancelled"]
    assert "cancelled from outside the launcher" in capsys.readouterr().err


def test_a_refused_job_ends_the_step_in_googles_words(launcher, capsys):
    launcher.cloud.fail(CREATE, status(400, "Machine type h1000 is not supported."))
    assert launcher.run() == 1 and launcher.outcomes == ["user_error"]
    assert "Google refused the job: 400 Machine type h1000 is not supported." in capsys.readouterr().err
    assert launcher.run(task=7654321) == 1 and launcher.outcomes == ["user_error"], "no other job by Vertex AI's retry"


def test_what_waits_longer_than_its_rung_allows_is_cancelled_for_the_next(launcher, monkeypatch):
    monkeypatch.setattr(attempt, "POLL_S", 60.0)
    launcher.plan = ladder_of(rung("spot", max_wait_s=5), rung("standard", strategy="standard"))
    launcher.cloud.on(CREATE, lambda call: launcher.hold(launcher.first_job, 3600))
    launcher.jobs_do({"seconds": 60})
    assert launcher.run() == 0
    assert launcher.outcomes == ["wait_expired", "succeeded"] and rungs(launcher) == ["spot", "standard"]


def test_the_policy_moves_a_waiting_job_to_on_demand_when_time_runs_out(launcher):
    """Two hours of work, three hours in all: Spot that gives no machines may be waited for no longer than that."""
    spot, standard = rung("spot", max_wait_s=86_400), rung("standard", strategy="standard", usd_per_hour=9.0)
    launcher.plan = ladder_of(spot, standard, deadline_s=3 * 3600)
    launcher.cloud.on(CREATE, lambda call: launcher.hold(launcher.first_job, 86_400))
    launcher.jobs_do({"seconds": 7100})
    assert launcher.run() == 0
    assert launcher.outcomes == ["moved", "succeeded"] and rungs(launcher) == ["spot", "standard"]
    assert launcher.ladder["attempts"][1]["ended"] < launcher.ladder["deadline"]


def test_the_work_that_is_left_is_that_after_the_newest_checkpoint(launcher):
    launcher.jobs_do({"seconds": 600, "fail": STOCKOUT}, {"seconds": 60})
    launcher.at(300, lambda: launcher.progress(step=50, saved_step=40, steps=100))
    assert launcher.run() == 0
    first, second = launcher.ladder["attempts"]
    assert (first["step_from"], first["step_to"], first["steps_lost"], second["step_from"]) == (None, 40, 10, 40)


def test_steps_that_an_earlier_run_had_saved_are_none_of_an_attempts(launcher, capsys):
    """A rerun goes on from its checkpoints: what was not added to them in a whole timeout needs a larger one."""
    launcher.plan = ladder_of(rung("short", timeout_s=900), rung("long", timeout_s=3600))
    launcher.jobs_do({"seconds": 900, "fail": "The job ran too long."})
    launcher.at(300, lambda: launcher.progress(step=50, saved_step=40, steps=100, from_step=40))
    assert launcher.run() == 1 and launcher.outcomes == ["timeout"]
    assert "and saved no step. Set a larger timeout" in capsys.readouterr().err
    (attempt,) = launcher.ladder["attempts"]
    assert (attempt["step_from"], attempt["step_to"], attempt["steps_lost"]) == (40, 40, 10)


def test_a_program_that_ends_the_same_way_everywhere_ends_the_step_and_not_the_budget(launcher, capsys):
    launcher.jobs_do({"seconds": 60, "fail": EXITED.format(75)})
    assert launcher.run() == 1 and launcher.outcomes == ["preempted"] * 5
    assert "5 attempts in a row had machines and saved no step: exit code 75 after" in capsys.readouterr().err
    assert launcher.run(task=7654321) == 1 and len(launcher.jobs) == 5, "another attempt of Vertex AI repeats it"


@pytest.mark.parametrize("saved", [40, None], ids=["progress", "a script"])
def test_a_timeout_moves_on_only_where_something_was_saved(launcher, saved, capsys):
    launcher.plan = ladder_of(rung("short", timeout_s=900), rung("long", timeout_s=3600))
    launcher.jobs_do({"seconds": 900, "fail": "The job ran too long."}, {"seconds": 60})
    if saved:
        launcher.at(300, lambda: launcher.progress(step=50, saved_step=saved, steps=100))
    assert launcher.run() == (0 if saved else 1)
    assert launcher.outcomes == (["timeout", "succeeded"] if saved else ["timeout"])
    assert ("and saved no step. Set a larger timeout" in capsys.readouterr().err) is not bool(saved)


@pytest.mark.parametrize(
    ("deadline_s", "ends_s", "words"), [(None, 3600, "the limit of 7 days"), (1800, 1800, "the deadline has passed")]
)
def test_a_step_ends_at_its_deadline_and_before_its_seven_days_do(
    launcher, capsys, monkeypatch, deadline_s, ends_s, words
):
    monkeypatch.setattr("vgp.launch.capacity.situation.SEVEN_DAYS_S", 5400.0)
    launcher.plan = ladder_of(rung("spot", timeout_s=86_400), deadline_s=deadline_s)
    launcher.jobs_do({"seconds": 86_400})
    assert launcher.run() == 1 and launcher.outcomes == ["timeout"]
    (job,) = launcher.cloud.custom_jobs.jobs.values()
    assert ends_s - 2 <= job.message.job_spec.scheduling.timeout.seconds <= ends_s
    assert words in capsys.readouterr().err


@pytest.mark.parametrize(
    "fault", [status(503), status(408), status(429, "Too many requests a minute."), reset(), status(401)]
)
def test_answers_that_fail_are_asked_for_again(launcher, fault):
    launcher.cloud.fail(GET, fault, fault, fault)
    launcher.cloud.fail("storage.objects.insert", *[fault] * ("401" not in str(fault)))
    assert launcher.run() == 0 and launcher.outcomes == ["succeeded"]


@pytest.mark.parametrize(("times", "code"), [(7, 0), (10_000, 1)], ids=["a burst", "for ever"])
def test_documents_that_always_changed_meanwhile_are_written_with_pauses_for_an_hour(launcher, times, code, capsys):
    launcher.cloud.fail("storage.objects.insert", *[status(412)] * times)
    assert launcher.run() == code
    asked = launcher.calls.count("storage.objects.insert")
    assert asked < 100 and ("Google answers 412: ladder.json has changed" in capsys.readouterr().err)
    assert code or launcher.outcomes == ["succeeded"]


def test_a_job_that_google_does_not_know_yet_is_waited_for(launcher, monkeypatch):
    monkeypatch.setattr(attempt, "POLL_S", 60.0)
    launcher.cloud.fail(GET, *[status(404)] * 4)
    assert launcher.run() == 0 and launcher.outcomes == ["succeeded"]


def test_a_job_that_google_never_knows_is_lost_and_not_for_ever(launcher, capsys):
    launcher.cloud.fail(GET, status(404), forever=True)
    assert launcher.run() == 1 and launcher.outcomes == ["lost"] * 5
    assert "5 jobs in a row were lost" in capsys.readouterr().err
    assert set(launcher.jobs.values()) <= {"CANCELLED", "SUCCEEDED"}


@pytest.mark.parametrize(("tries", "code"), [(5, 0), (99, 1)])
def test_creations_that_are_not_answered_are_tried_for_an_hour_and_not_for_ever(launcher, tries, code, capsys):
    launcher.cloud.fail(CREATE, *[status(503)] * tries)
    assert launcher.run() == code and len(launcher.jobs) == (not code)
    assert launcher.outcomes[-1] == ("lost" if code else "succeeded") and set(launcher.outcomes[:-1]) == {"lost"}
    assert ("no job could be created for 1h 0" in capsys.readouterr().err) == bool(code)


def test_a_region_that_answers_no_creation_is_left_for_another(launcher):
    elsewhere = rung("elsewhere", region="us-east4", usd_per_hour=4.0)
    launcher.plan = ladder_of(rung("here"), elsewhere)

    def is_out_of_order(call):
        if "us-central1" in call.path:
            raise ApiError(503, "The service is currently unavailable.")

    launcher.cloud.on(CREATE, is_out_of_order, before=True)
    assert launcher.run() == 0
    assert rungs(launcher) == ["here", "here", "elsewhere"] and launcher.outcomes == ["lost", "lost", "succeeded"]


def test_a_lost_answer_of_create_is_found_by_its_label(launcher):
    launcher.cloud.fail(CREATE, lose_response())
    assert launcher.run() == 0 and launcher.outcomes == ["succeeded"] and len(launcher.jobs) == 1


def test_a_creation_that_timed_out_is_looked_for_and_no_mistake_of_the_users(launcher):
    launcher.cloud.fail(CREATE, status(408))
    assert launcher.run() == 0 and launcher.outcomes == ["lost", "succeeded"]


def test_a_list_that_lags_for_long_leaves_a_job_that_is_cancelled_once_it_is_seen(launcher):
    launcher.cloud.custom_jobs.list_lag_s = 200
    launcher.cloud.fail(CREATE, lose_response())
    launcher.jobs_do({"seconds": 900})
    assert launcher.run() == 0 and launcher.outcomes == ["lost", "succeeded"]
    assert list(launcher.jobs.values()) == ["CANCELLED", "SUCCEEDED"]


def test_a_request_that_arrives_twice_leaves_one_job(launcher):
    launcher.cloud.fail(CREATE, repeat_request())
    launcher.jobs_do({"seconds": 900})
    assert launcher.run() == 0 and sorted(launcher.jobs.values()) == ["CANCELLED", "SUCCEEDED"]


def test_too_many_requests_is_no_quota_and_no_job(launcher):
    launcher.cloud.fail(CREATE, status(429, "Too many requests a minute."), status(429, "Too many requests a minute."))
    assert launcher.run() == 0 and launcher.outcomes == ["succeeded"] and len(launcher.jobs) == 1


def test_sigterm_cancels_the_job_and_waits_for_its_end(launcher, capsys):
    launcher.jobs_do({"seconds": 36_000})
    launcher.at(300, lambda: signal.raise_signal(signal.SIGTERM))
    assert launcher.run() == 143
    assert launcher.outcomes == ["cancelled"] and list(launcher.jobs.values()) == ["CANCELLED"]
    assert launcher.heartbeat["attempt"] == ""
    assert "counts as cancelled, and no job of train is running" in capsys.readouterr().err


def test_sigterm_while_the_job_is_being_created_cancels_it_too(launcher):
    launcher.jobs_do({"seconds": 36_000})
    launcher.cloud.fail(CREATE, lose_response())
    launcher.cloud.on(LIST, lambda call: launcher.stop_once())
    assert launcher.run() == 143 and list(launcher.jobs.values()) == ["CANCELLED"]


def test_sigterm_to_a_launcher_that_was_replaced_leaves_the_run_alone(launcher, capsys):
    """Its machine was out of reach, so Vertex AI started another; when it is back its container is stopped."""
    launcher.jobs_do({"seconds": 7000})
    launcher.at(300, lambda: replaced(launcher))
    assert launcher.run() == 143
    assert "this launcher ends; another launcher of this step has taken over." in capsys.readouterr().err
    assert launcher.ladder["launcher"] == "newer" and launcher.outcomes == [None]
    assert list(launcher.jobs.values()) == ["RUNNING"] and launcher.heartbeat["attempt"]


def replaced(launcher):
    """A newer launcher begins its term, and this one gets SIGTERM."""
    there = launcher.folder.read("ladder.json")
    launcher.folder.write(
        "ladder.json", {**there.content, "launcher": "newer", "term": there.content["term"] + 1}, there.generation
    )
    signal.raise_signal(signal.SIGTERM)


def test_a_job_that_does_not_end_is_fenced_before_the_next_begins(launcher):
    """The job may continue on machines out of reach: its token is no longer valid."""
    launcher.plan = ladder_of(rung("spot", max_wait_s=5), rung("standard", strategy="standard"))
    launcher.cloud.fail(CANCEL, status(400), forever=True)
    launcher.cloud.on(CREATE, lambda call: launcher.hold(launcher.first_job, 86_400))
    launcher.jobs_do({"seconds": 60})
    assert launcher.run() == 0 and launcher.outcomes == ["wait_expired", "succeeded"]
    first, second = launcher.ladder["attempts"]
    assert launcher.allowed_at_create == [first["token"], second["token"]]


def test_another_attempt_of_vertex_ai_takes_the_work_over_with_a_job_of_its_own(launcher):
    """Its outputs belong elsewhere, so the job that still runs would write to a folder that no run reads."""
    launcher.jobs_do({"seconds": 36_000}, {"seconds": 60})
    launcher.at(300, launcher.kill)
    assert launcher.run(task=1234567) == -9
    assert launcher.run(task=7654321) == 0
    assert launcher.outcomes == ["moved", "succeeded"] and list(launcher.jobs.values()) == ["CANCELLED", "SUCCEEDED"]
    arguments = [job.message.job_spec.worker_pool_specs[0] for job in launcher.cloud.custom_jobs.jobs.values()]
    assert [list(pool.container_spec.args)[1] for pool in arguments] == [executor_input(), executor_input(7654321)]


def test_the_same_container_started_again_goes_on_with_its_job_and_repeats_its_verdict(launcher):
    launcher.jobs_do({"seconds": 900})
    launcher.at(300, launcher.kill)
    assert launcher.run() == -9 and launcher.run() == 0 and launcher.run() == 0
    assert launcher.outcomes == ["succeeded"] and len(launcher.jobs) == 1


def test_an_outage_longer_than_an_hour_ends_the_step_with_a_sentence(launcher, capsys):
    launcher.cloud.fail(GET, status(503), forever=True)
    assert launcher.run() == 1
    assert "look at the job: no answer for 1h 00m (Google answers 503" in capsys.readouterr().err
