"""Pipeline jobs as Google's generated client sees them."""

import json
import re
from datetime import timedelta

import pytest
from google.api_core import exceptions

from tests.tools.emulator.conftest import PARENT


def states(pipelines, name):
    return {each.task_name: each.state.name for each in pipelines.get_pipeline_job(name=name).job_detail.task_details}


def test_a_job_progresses_on_the_clock(cloud, pipelines, job):
    created = pipelines.create_pipeline_job(parent=PARENT, pipeline_job=job, pipeline_job_id="hello-1")
    assert created.name == "projects/123456789012/locations/us-central1/pipelineJobs/hello-1"
    assert created.state.name == "PIPELINE_STATE_PENDING" and not created.job_detail.task_details
    cloud.clock.advance(40)
    assert states(pipelines, created.name) == {
        "prepare": "RUNNING", "look": "RUNNING", "train": "PENDING", "evaluate": "PENDING",
    }  # fmt: skip
    cloud.clock.advance(200)
    ended = pipelines.get_pipeline_job(name=created.name)
    assert ended.state.name == "PIPELINE_STATE_SUCCEEDED"
    assert ended.end_time - ended.start_time == timedelta(seconds=180)
    by_name = {each.task_name: each for each in ended.job_detail.task_details}
    assert by_name["train"].start_time == by_name["prepare"].end_time


def test_time_may_pass_by_itself(cloud, pipelines, job):
    created = pipelines.create_pipeline_job(parent=PARENT, pipeline_job=job)
    cloud.clock.run(1e6)
    while not pipelines.get_pipeline_job(name=created.name).end_time:
        pass
    cloud.clock.run(0)
    assert cloud.clock.now() == cloud.clock.now()


def test_the_metrics_and_inputs_of_a_task_are_shown(cloud, pipelines, job):
    cloud.script("train", metrics={"auc": 0.75})
    job["runtime_config"]["parameter_values"] = {"epochs": 3}
    created = pipelines.create_pipeline_job(parent=PARENT, pipeline_job=job)
    cloud.clock.advance(300)
    details = pipelines.get_pipeline_job(name=created.name).job_detail.task_details
    [train] = [each for each in details if each.task_name == "train"]
    [metrics] = train.outputs["metrics"].artifacts
    assert (metrics.schema_title, dict(metrics.metadata)) == ("system.Metrics", {"auc": 0.75})
    assert re.fullmatch(rf"gs://test-bucket/r/123456789012/.*/train_{train.task_id}/metrics", metrics.uri)
    assert dict(train.execution.metadata) == {"input:epochs": 3}
    assert train.executor_detail.container_detail.main_job.startswith(created.name.split("/pipelineJobs")[0])


@pytest.mark.parametrize(("policy", "look"), [("SLOW", "SUCCEEDED"), ("FAST", "NOT_TRIGGERED")])
def test_what_comes_after_a_failed_task_is_not_triggered(cloud, pipelines, job, spec, policy, look):
    cloud.script("prepare", seconds=5, fail="CUDA out of memory")
    spec["root"]["dag"]["tasks"]["look"]["dependentTasks"] = ["first"]
    spec["root"]["dag"]["tasks"]["first"] = {"componentRef": {"name": "comp-look"}}
    job["runtime_config"]["failure_policy"] = f"PIPELINE_FAILURE_POLICY_FAIL_{policy}"
    created = pipelines.create_pipeline_job(parent=PARENT, pipeline_job=job)
    cloud.clock.advance(300)
    ended = pipelines.get_pipeline_job(name=created.name)
    assert ended.state.name == "PIPELINE_STATE_FAILED"
    assert (ended.error.code, "The failed tasks are: [prepare]" in ended.error.message) == (9, True)
    assert states(pipelines, created.name) == {
        "prepare": "FAILED", "train": "NOT_TRIGGERED", "evaluate": "NOT_TRIGGERED", "first": "SUCCEEDED", "look": look,
    }  # fmt: skip
    [failed] = [each for each in ended.job_detail.task_details if each.task_name == "prepare"]
    assert failed.error.message == "CUDA out of memory"


def test_a_task_that_succeeded_before_is_taken_from_the_cache(cloud, pipelines, job):
    cloud.script("evaluate", fail="no")
    first = pipelines.create_pipeline_job(parent=PARENT, pipeline_job=job)
    cloud.clock.advance(300)
    cloud.script("evaluate")
    again = pipelines.create_pipeline_job(parent=PARENT, pipeline_job=job)
    cloud.clock.advance(300)
    assert states(pipelines, again.name) == {
        "prepare": "SKIPPED", "train": "SKIPPED", "evaluate": "SUCCEEDED", "look": "SUCCEEDED",
    }  # fmt: skip
    uris = [
        [task.outputs["metrics"].artifacts[0].uri for task in run.job_detail.task_details if task.task_name == "train"]
        for run in (pipelines.get_pipeline_job(name=name) for name in (first.name, again.name))
    ]
    assert uris[0] == uris[1]
    job["runtime_config"]["parameter_values"] = {"epochs": 9}
    other = pipelines.create_pipeline_job(parent=PARENT, pipeline_job=job)
    cloud.clock.advance(300)
    assert states(pipelines, other.name)["train"] == "SUCCEEDED"


def test_a_cancelled_job_stops_and_reports_it(cloud, pipelines, job):
    created = pipelines.create_pipeline_job(parent=PARENT, pipeline_job=job)
    cloud.clock.advance(80)
    pipelines.cancel_pipeline_job(name=created.name)
    assert pipelines.get_pipeline_job(name=created.name).state.name == "PIPELINE_STATE_CANCELLING"
    cloud.clock.advance(10)
    ended = pipelines.get_pipeline_job(name=created.name)
    assert (ended.state.name, ended.error.code) == ("PIPELINE_STATE_CANCELLED", 1)
    assert states(pipelines, created.name) == {
        "prepare": "SUCCEEDED", "look": "SUCCEEDED", "train": "CANCELLED", "evaluate": "NOT_TRIGGERED",
    }  # fmt: skip
    with pytest.raises(exceptions.BadRequest, match="has ended"):
        pipelines.cancel_pipeline_job(name=created.name)


def test_many_jobs_are_cancelled_at_once(cloud, pipelines, job):
    names = [pipelines.create_pipeline_job(parent=PARENT, pipeline_job=job, pipeline_job_id=i).name for i in "abc"]
    answer = pipelines.batch_cancel_pipeline_jobs(parent=PARENT, names=names[:2]).result(timeout=120)
    assert [each.name for each in answer.pipeline_jobs] == names[:2]
    cloud.clock.advance(10)
    states = [pipelines.get_pipeline_job(name=name).state.name for name in names]
    assert states == ["PIPELINE_STATE_CANCELLED"] * 2 + ["PIPELINE_STATE_RUNNING"]


def test_only_a_job_that_ended_can_be_deleted(cloud, pipelines, job):
    created = pipelines.create_pipeline_job(parent=PARENT, pipeline_job=job)
    with pytest.raises(exceptions.BadRequest, match="has not ended"):
        pipelines.delete_pipeline_job(name=created.name)
    cloud.clock.advance(300)
    pipelines.delete_pipeline_job(name=created.name).result()
    with pytest.raises(exceptions.NotFound):
        pipelines.get_pipeline_job(name=created.name)


def test_an_id_is_used_once_and_follows_the_rules(pipelines, job):
    pipelines.create_pipeline_job(parent=PARENT, pipeline_job=job, pipeline_job_id="a")
    with pytest.raises(exceptions.Conflict, match="already exists"):
        pipelines.create_pipeline_job(parent=PARENT, pipeline_job=job, pipeline_job_id="a")
    for wrong in ("A", "1a", "a_b", "a" * 129):
        with pytest.raises(exceptions.BadRequest, match="pipeline_job_id"):
            pipelines.create_pipeline_job(parent=PARENT, pipeline_job=job, pipeline_job_id=wrong)


@pytest.mark.parametrize(
    ("config", "message"),
    [
        ({}, r"runtime_config\.gcs_output_directory; Message: Required field is not set"),
        ({"gcs_output_directory": "/tmp/x"}, "must be a Cloud Storage path"),
        ({"gcs_output_directory": "gs://b", "parameter_values": {"epoch": 1}}, "epoch is not found"),
        ({"gcs_output_directory": "gs://b", "parameter_values": {"epochs": "many"}}, "must be NUMBER_INTEGER"),
    ],
)
def test_what_vertex_would_not_run_is_refused(cloud, pipelines, job, config, message):
    job["runtime_config"] = config
    with pytest.raises(exceptions.BadRequest, match=message):
        pipelines.create_pipeline_job(parent=PARENT, pipeline_job=job)
    assert not cloud.jobs


def test_a_parameter_without_a_default_is_required(pipelines, job, spec):
    del spec["root"]["inputDefinitions"]["parameters"]["epochs"]["defaultValue"]
    with pytest.raises(exceptions.BadRequest, match="epochs is required"):
        pipelines.create_pipeline_job(parent=PARENT, pipeline_job=job)


def test_another_project_is_forbidden(pipelines, job):
    with pytest.raises(exceptions.Forbidden, match=r"aiplatform\.pipelineJobs\.create.*or it may not exist"):
        pipelines.create_pipeline_job(parent="projects/other/locations/us-central1", pipeline_job=job)


def test_a_list_is_filtered_ordered_and_read_in_pages(cloud, pipelines, job):
    for number in range(5):
        labels = {"team": "a" if number % 2 else "b"}
        pipelines.create_pipeline_job(
            parent=PARENT, pipeline_job={**job, "labels": labels, "display_name": f"run {number}"},
            pipeline_job_id=f"r{number}",
        )  # fmt: skip
        cloud.clock.advance(100)

    def listed(**request):
        found = pipelines.list_pipeline_jobs(request={"parent": PARENT, **request})
        return "".join(each.name[-1] for each in found)

    before = len(cloud.requests)
    assert listed(page_size=2) == "43210"
    assert len(cloud.requests) - before == 3
    assert listed(filter='labels.team = "a"') == "31"
    assert listed(filter='state="PIPELINE_STATE_SUCCEEDED" AND NOT display_name="run 0"') == "4321"
    assert listed(filter='display_name:"*2" OR display_name="run 4"', order_by="create_time") == "24"
    moment = cloud.jobs[f"{PARENT.replace('test-project', cloud.project_number)}/pipelineJobs/r2"].create_time
    assert listed(filter=f'create_time>="{moment.ToJsonString()}"', order_by="create_time asc") == "234"
    assert not any(each.job_detail.task_details for each in pipelines.list_pipeline_jobs(parent=PARENT))
    for wrong in ({"filter": 'colour="red"'}, {"filter": "state<3"}, {"filter": '(state="x"'}, {"order_by": "name"}):
        with pytest.raises(exceptions.BadRequest, match=r"Invalid (filter|order_by)"):
            listed(**wrong)
    with pytest.raises(exceptions.BadRequest, match="page token"):
        pipelines.list_pipeline_jobs(request={"parent": PARENT, "page_token": "x"})


@pytest.mark.parametrize(
    ("body", "query", "message"),
    [
        ({"displayNames": "x"}, {}, 'Unknown name "displayNames" at \'pipeline_job\': Cannot find field.'),
        ({"runtimeConfig": {"x": 1}}, {}, "Unknown name \"x\" at 'pipeline_job.runtime_config'"),
        ({"runtimeConfig": {"failurePolicy": "X"}}, {}, "Invalid value at 'pipeline_job.runtime_config.failure_policy"),
        ({"labels": ["x"]}, {}, "Invalid value at 'pipeline_job.labels'"),
        ({"labels": {"a": 1}}, {}, "Invalid value at 'pipeline_job.labels['a']'"),
        ({}, {"pipeline_job_name": "x"}, 'Unknown name "pipeline_job_name": Cannot bind query parameter'),
    ],
)  # fmt: skip
def test_what_the_discovery_document_does_not_have_is_refused(post, body, query, message):
    answer = post("aiplatform", f"v1/{PARENT}/pipelineJobs", json=body, params=query)
    error = answer.json()["error"]
    assert (answer.status_code, error["code"], error["status"]) == (400, 400, "INVALID_ARGUMENT")
    assert message in error["message"]
    assert error["details"][0]["@type"] == "type.googleapis.com/google.rpc.BadRequest"


def test_bodies_may_be_compressed_or_in_chunks(cloud, post, job):
    import gzip

    from google.cloud.aiplatform_v1 import PipelineJob

    body = PipelineJob.to_json(PipelineJob(job)).encode()
    packed = {"Content-Encoding": "gzip", "Content-Type": "application/json"}
    assert post("aiplatform", f"v1/{PARENT}/pipelineJobs", data=gzip.compress(body), headers=packed).ok
    assert post("aiplatform", f"v1/{PARENT}/pipelineJobs", data=iter([body[:100], body[100:]])).ok
    assert len(cloud.jobs) == 2


def test_enums_are_names_unless_numbers_are_asked_for(post, job):
    from google.cloud.aiplatform_v1 import PipelineJob

    body = json.loads(PipelineJob.to_json(PipelineJob(job)))
    path = f"v1/{PARENT}/pipelineJobs"
    assert post("aiplatform", path, json=body).json()["state"] == "PIPELINE_STATE_PENDING"
    assert post("aiplatform", path, json=body, params={"$alt": "json;enum-encoding=int"}).json()["state"] == 2


def test_unknown_paths_are_not_found(post):
    assert post("aiplatform", "v1/pipelines").status_code == 404
    assert post("aiplatform", f"v1/{PARENT}/pipelineJobs", method="PUT").status_code == 404
    assert post("aiplatform", f"v1/{PARENT}/models:upload", json={}).status_code in (400, 501)
