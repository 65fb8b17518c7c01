import pytest
from google.api_core import exceptions
from google.api_core.client_options import ClientOptions

SPEC = {
    "pipelineInfo": {"name": "hello"},
    "root": {
        "dag": {
            "tasks": {
                "prepare": {"componentRef": {"name": "comp-prepare"}, "taskInfo": {"name": "prepare"}},
                "train": {
                    "componentRef": {"name": "comp-prepare"},
                    "dependentTasks": ["prepare"],
                    "taskInfo": {"name": "train"},
                },
            }
        },
        "inputDefinitions": {"parameters": {"epochs": {"parameterType": "NUMBER_INTEGER", "defaultValue": 1}}},
    },
    "components": {"comp-prepare": {"executorLabel": "exec"}},
    "deploymentSpec": {"executors": {"exec": {"container": {"image": "python"}}}},
    "schemaVersion": "2.1.0",
    "sdkVersion": "kfp-2.17.0",
}


@pytest.fixture
def client(cloud):
    from google.cloud import aiplatform_v1

    return aiplatform_v1.PipelineServiceClient(
        transport="rest", client_options=ClientOptions(api_endpoint=cloud.endpoint("aiplatform"))
    )


def test_a_job_progresses_on_the_clock(cloud, client):
    parent = "projects/test-project/locations/us-central1"
    job = {"pipeline_spec": SPEC, "runtime_config": {"gcs_output_directory": "gs://test-bucket/runs"}}
    created = client.create_pipeline_job(parent=parent, pipeline_job=job, pipeline_job_id="hello-1")
    assert created.name == "projects/123456789012/locations/us-central1/pipelineJobs/hello-1"
    states = []
    for _ in range(4):
        states.append(client.get_pipeline_job(name=created.name).state.name)
        cloud.clock.advance(60)
    assert states[0] == "PIPELINE_STATE_PENDING" and states[-1] == "PIPELINE_STATE_SUCCEEDED"
    with pytest.raises(exceptions.Conflict):
        client.create_pipeline_job(parent=parent, pipeline_job=job, pipeline_job_id="hello-1")
    with pytest.raises(exceptions.BadRequest, match="gcs_output_directory"):
        client.create_pipeline_job(parent=parent, pipeline_job={"pipeline_spec": SPEC, "runtime_config": {}})
