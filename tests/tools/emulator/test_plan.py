"""Conditions, loops and exit handlers, as kfp's own compiler writes them."""

import json
import warnings
from pathlib import Path

import pytest

from tests.tools.emulator.conftest import PARENT


@pytest.fixture(scope="module")
def branching(tmp_path_factory):
    from kfp import dsl
    from kfp.compiler import Compiler

    step = dsl.component(base_image="python", install_kfp_package=False)

    @step
    def flip(side: str = "heads") -> str:
        return side

    @step
    def say(text: str):
        print(text)

    @dsl.pipeline(name="branching")
    def branching(side: str = "heads", times: int = 1):
        bye = say(text="bye")
        with dsl.ExitHandler(bye):
            flipped = flip(side=side)
            with dsl.If(flipped.output == "heads"):
                say(text="heads")
            with dsl.Elif(times > 5):
                say(text="often")
            with dsl.Else():
                say(text="tails")
        with dsl.ParallelFor([1, 2, 3]) as item:
            flip(side=f"{item}")

    path = tmp_path_factory.mktemp("spec") / "pipeline.json"
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        Compiler().compile(branching, str(path))
    return json.loads(path.read_text())


def ended(cloud, pipelines, spec, **parameters):
    config = {"gcs_output_directory": "gs://test-bucket", "parameter_values": parameters}
    job = pipelines.create_pipeline_job(parent=PARENT, pipeline_job={"pipeline_spec": spec, "runtime_config": config})
    cloud.clock.advance(3600)
    return pipelines.get_pipeline_job(name=job.name)


def by_name(job):
    return {each.task_name: each.state.name for each in job.job_detail.task_details}


@pytest.mark.parametrize(
    ("output", "times", "taken"), [("heads", 1, "condition-3"), ("x", 6, "condition-4"), ("x", 5, "condition-5")]
)
def test_a_condition_is_decided_by_what_its_task_returned(cloud, pipelines, branching, output, times, taken):
    cloud.script("flip", outputs={"Output": output})
    found = by_name(ended(cloud, pipelines, branching, times=times))
    branches = {name: state for name, state in found.items() if name in ("condition-3", "condition-4", "condition-5")}
    assert {name for name, state in branches.items() if state == "SUCCEEDED"} == {taken}
    assert set(branches.values()) == {"SUCCEEDED", "NOT_TRIGGERED"}


def test_a_loop_runs_each_of_its_iterations_in_a_task_of_its_own(cloud, pipelines, branching):
    job = ended(cloud, pipelines, branching)
    [loop] = [each for each in job.job_detail.task_details if each.task_name.startswith("for-loop")]
    inside = [each for each in job.job_detail.task_details if each.parent_task_id == loop.task_id]
    assert [each.task_name for each in inside] == ["flip-2"] * 3
    assert len({each.task_id for each in inside}) == 3
    assert sorted(each.execution.metadata["input:side"] for each in inside) == ["1", "2", "3"]


def test_an_exit_task_runs_after_a_failure_too(cloud, pipelines, branching):
    cloud.script("flip", fail="the coin is lost")
    job = ended(cloud, pipelines, branching)
    assert job.state.name == "PIPELINE_STATE_FAILED"
    found = by_name(job)
    assert (found["flip"], found["exit-handler-1"], found["say"]) == ("FAILED", "FAILED", "SUCCEEDED")


@pytest.fixture
def reading(spec):
    """copy makes an artifact for count, import brings one of elsewhere for look."""
    made = {"artifacts": {"rows": {"artifactType": {"schemaTitle": "system.Dataset"}}}}
    taken = {"artifacts": {"rows": made["artifacts"]["rows"]}}
    for name, more in {
        "copy": {"outputDefinitions": made}, "import": {"outputDefinitions": made},
        "count": {"inputDefinitions": taken}, "look": {"inputDefinitions": taken},
    }.items():  # fmt: skip
        spec["components"][f"comp-{name}"] = {"executorLabel": f"exec-{name}", **more}
    executors = {name: {"container": {"image": name}} for name in ("exec-copy", "exec-count", "exec-look")}
    source = {"artifactUri": {"constant": "gs://elsewhere/table"}, "typeSchema": {"schemaTitle": "system.Dataset"}}
    spec["deploymentSpec"]["executors"] = {**executors, "exec-import": {"importer": source}}
    links = {"copy": None, "import": None, "count": "copy", "look": "import"}
    spec["root"]["dag"]["tasks"] = {name: link(name, producer) for name, producer in links.items()}
    return spec


def link(name, producer):
    cached = {"componentRef": {"name": f"comp-{name}"}, "cachingOptions": {"enableCache": True}}
    if producer is None:
        return cached
    rows = {"taskOutputArtifact": {"producerTask": producer, "outputArtifactKey": "rows"}}
    return {**cached, "dependentTasks": [producer], "inputs": {"artifacts": {"rows": rows}}}


def test_equal_bytes_from_a_step_that_ran_again_are_another_input(cloud, pipelines, reading):
    """Vertex AI's key has the ids of input artifacts; an imported URI is the same artifact every time."""
    ended(cloud, pipelines, reading)
    assert set(by_name(ended(cloud, pipelines, reading)).values()) == {"SKIPPED"}
    tasks = reading["root"]["dag"]["tasks"]
    tasks["copy"]["cachingOptions"] = tasks["import"]["cachingOptions"] = {}
    again = {"copy": "SUCCEEDED", "count": "SUCCEEDED", "import": "SUCCEEDED", "look": "SKIPPED"}
    assert by_name(ended(cloud, pipelines, reading)) == again
    reading["deploymentSpec"]["executors"]["exec-import"]["importer"]["reimport"] = True
    assert by_name(ended(cloud, pipelines, reading))["look"] == "SUCCEEDED"


def test_pipelines_of_other_names_share_no_results(cloud, pipelines, reading):
    ended(cloud, pipelines, reading)
    reading["pipelineInfo"]["name"] = "other"
    assert set(by_name(ended(cloud, pipelines, reading)).values()) == {"SUCCEEDED"}


def test_our_own_pipeline_runs(cloud, pipelines):
    spec = json.loads((Path(__file__).parents[2] / "golden" / "training.json").read_text())
    job = ended(cloud, pipelines, spec)
    assert job.state.name == "PIPELINE_STATE_SUCCEEDED"
    assert {"prepare", "evaluate", "decide"} <= set(by_name(job))
