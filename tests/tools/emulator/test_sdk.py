"""Google's own SDK, which this project did not write, at work on the loopback cloud."""

import json

import pytest

from tests.tools.emulator.conftest import PARENT


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


def test_versions_of_a_model_are_uploaded_aliased_changed_and_deleted(cloud, sdk):
    image = "us-central1-docker.pkg.dev/test-project/images/training@sha256:" + "0" * 64
    given = {
        "display_name": "flights",
        "artifact_uri": "gs://test-bucket/models/1",
        "serving_container_image_uri": image,
    }
    first = sdk.Model.upload(model_id="flights", labels={"number": "1"}, **given)
    second = sdk.Model.upload(parent_model="flights", is_default_version=False, version_aliases=["canary"], **given)
    assert (first.version_id, second.version_id, list(second.version_aliases)) == ("1", "2", ["canary"])
    assert sdk.Model("flights").version_id == "1" and sdk.Model("flights@canary").version_id == "2"

    models = sdk.models.ModelRegistry("flights")
    models.add_version_aliases(["default", "champion"], "2")
    models.update_version("2", version_description="better", labels={"number": "2"})
    known = {each.version_id: set(each.version_aliases) for each in models.list_versions()}
    assert known == {"1": set(), "2": {"canary", "champion", "default"}}
    assert [each.version_id for each in models.list_versions("labels.number=2")] == ["2"]
    models.remove_version_aliases(["canary"], "2")
    models.delete_version("1")
    assert [each.version_description for each in models.list_versions()] == ["better"]
    first.delete()
    assert sdk.Model.list() == []


def test_what_vertex_ai_refuses_of_models_is_refused(cloud, sdk):
    from google.api_core.exceptions import BadRequest, Conflict, NotFound

    image = "us-central1-docker.pkg.dev/test-project/images/training@sha256:" + "0" * 64
    given = {"display_name": "x", "serving_container_image_uri": image}
    for alias in ("1", "Big", "a"):
        with pytest.raises(BadRequest, match="Invalid version alias"):
            sdk.Model.upload(version_aliases=[alias], **given)
    with pytest.raises(NotFound):
        sdk.Model.upload(parent_model="absent", **given)
    sdk.Model.upload(model_id="late", **given)
    with pytest.raises(Conflict):
        sdk.Model.upload(model_id="late", **given)
    models = sdk.models.ModelRegistry("late")
    with pytest.raises(BadRequest, match="default alias cannot be removed"):
        models.remove_version_aliases(["default"], "1")
    with pytest.raises(BadRequest, match="only version"):
        models.delete_version("1")
    sdk.Model.upload(parent_model="late", is_default_version=True, **given)
    with pytest.raises(BadRequest, match="default version"):
        models.delete_version("2")
    cloud.models.deployed.add("late@1")
    with pytest.raises(BadRequest, match="is deployed"):
        models.delete_version("1")
