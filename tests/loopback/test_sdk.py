"""Google's own SDK, whose ways nobody here chose, at work on the loopback cloud."""

import json
from functools import partial

import pytest

from loopback.conftest import PARENT


@pytest.fixture
def sdk(cloud, monkeypatch):
    from google.cloud import aiplatform, resourcemanager
    from google.cloud.aiplatform import initializer

    # The one client of the SDK that does not heed api_transport; it finds us through the proxy.
    rest = partial(resourcemanager.ProjectsClient, transport="rest")
    monkeypatch.setattr(resourcemanager, "ProjectsClient", rest)
    before = dict(vars(initializer.global_config))
    aiplatform.init(
        project="test-project", location="us-central1", api_endpoint=cloud.endpoint("aiplatform"), api_transport="rest"
    )
    yield aiplatform
    vars(initializer.global_config).update(before)


@pytest.fixture
def template(spec, tmp_path):
    path = tmp_path / "pipeline.json"
    path.write_text(json.dumps(spec))
    return str(path)


def pipeline_job(sdk, template, **more):
    known = {"display_name": "hello", "template_path": template, "pipeline_root": "gs://test-bucket/runs"}
    return sdk.PipelineJob(**known, **more)


def test_a_job_is_submitted_followed_found_and_cancelled(cloud, sdk, template):
    cloud.script("train", metrics={"auc": 0.75})
    job = pipeline_job(sdk, template, job_id="hello-1", parameter_values={"epochs": 2}, labels={"team": "a"})
    job.submit(service_account="pipelines@test-project.iam.gserviceaccount.com")
    assert job.resource_name == f"{PARENT.replace('test-project', '123456789012')}/pipelineJobs/hello-1"
    cloud.clock.advance(300)
    job.wait()
    assert job.state.name == "PIPELINE_STATE_SUCCEEDED"
    [train] = [each for each in job.task_details if each.task_name == "train"]
    assert train.outputs["metrics"].artifacts[0].metadata["auc"] == 0.75

    found = sdk.PipelineJob.get(job.resource_name)
    assert (found.labels["team"], found.done(), found.has_failed) == ("a", True, False)
    other = pipeline_job(sdk, template, job_id="hello-2")
    other.submit()
    other.cancel()
    cloud.clock.advance(60)
    listed = sdk.PipelineJob.list(filter='state="PIPELINE_STATE_CANCELLED"')
    assert [each.name for each in listed] == ["hello-2"]
    assert [each.name for each in sdk.PipelineJob.list(enable_simple_view=True)] == ["hello-2", "hello-1"]
    assert "storage.buckets.get" in [call.method for call in cloud.requests]
    assert cloud.tunnel.strays == []


def test_a_failed_job_raises_with_its_error(cloud, sdk, template):
    cloud.script("prepare", fail="CUDA out of memory")
    job = pipeline_job(sdk, template)
    job.submit()
    cloud.clock.advance(300)
    with pytest.raises(RuntimeError, match=r"The failed tasks are: \[prepare\]"):
        job.wait()


def test_a_schedule_is_created_changed_paused_resumed_and_deleted(cloud, sdk, template):
    schedule = sdk.PipelineJobSchedule(pipeline_job=pipeline_job(sdk, template), display_name="nightly")
    schedule.create(cron="TZ=Europe/Berlin 0 3 * * *", max_concurrent_run_count=1, max_run_count=3)
    assert schedule.state.name == "ACTIVE"
    schedule.update(cron="0 4 * * *", max_run_count=2)
    assert (schedule.cron, schedule.max_run_count) == ("0 4 * * *", 2)
    schedule.pause()
    cloud.clock.advance(2 * 86400)
    assert schedule.state.name == "PAUSED" and not cloud.jobs
    schedule.resume()
    cloud.clock.advance(3 * 86400)
    assert len(schedule.list_jobs()) == 2
    assert [each.name for each in sdk.PipelineJobSchedule.list(filter='state="COMPLETED"')] == [schedule.name]
    schedule.delete()
    assert sdk.PipelineJobSchedule.list() == []
