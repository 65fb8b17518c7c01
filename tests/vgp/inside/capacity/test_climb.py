import json

from vgp.inside.capacity.plan import Plan

from .conftest import CREATE, EXITED, STOCKOUT, executor_input, rung


def ladder_of(*rungs, **changed) -> Plan:
    return Plan(**{"step": "train", "rungs": rungs, "project": "test-project", **changed})


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
    told = {variable.name: variable.value for variable in pool.container_spec.env}
    assert told == {"TRAINING_CAPACITY": launcher.folder.uri, "TRAINING_ATTEMPT": attempt["token"]}
    assert list(pool.container_spec.args) == ["--executor_input", executor_input()]
    assert attempt["outcome"] == "succeeded" and attempt["hours"] == 1.0 and attempt["usd"] == 3.6
    resources = launcher.folder.bucket.blob("runs/123456789012/run-1/train_-1234567/gcp_resources").download_as_text()
    uri = f"https://us-central1-aiplatform.googleapis.com/v1/{attempt['job']}"
    assert json.loads(resources) == {"resources": [{"resourceType": "CustomJob", "resourceUri": uri}]}
    assert "train succeeded: 1 attempt, 1h 00m of machines, $3.60" in capsys.readouterr().err


def test_a_lack_of_capacity_moves_on_and_a_users_error_does_not(launcher, capsys):
    launcher.plan = ladder_of(rung("spot"), rung("standard", strategy="standard"))
    launcher.jobs_do({"seconds": 0, "fail": STOCKOUT}, {"fail": EXITED.format(1)})
    launcher.cloud.on(CREATE, lambda call: launcher.cloud.logs.add("KeyError: 'label'", job_id=last_job(launcher)))
    assert launcher.run() == 1
    assert launcher.outcomes == ["preempted", "user_error"]
    assert [attempt["rung"] for attempt in launcher.ladder["attempts"]] == ["spot", "standard"]
    said = capsys.readouterr().err
    assert "[workerpool0-0] KeyError: 'label'" in said and "train failed on standard" in said


def last_job(launcher) -> str:
    return list(launcher.cloud.custom_jobs.jobs)[-1].rpartition("/")[2]
