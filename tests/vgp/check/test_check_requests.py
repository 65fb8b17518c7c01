"""Requests as they go to the API: envelopes, endpoints with their models, persistent resources and jobs on them."""

import pytest

from tests.vgp.check.test_check_jobs import errors, job, judged, pool, snake
from vgp.__main__ import main
from vgp.base.documents.document import Document
from vgp.base.documents.node import Computed
from vgp.check.checker import check
from vgp.check.document_kinds import parse

PARENT = "projects/p/locations/us-central1"
ENVELOPES = {
    "customJob": lambda spec: {"displayName": "j", "jobSpec": spec},
    "custom_job": lambda spec: {"display_name": "j", "job_spec": spec},
    "hyperparameterTuningJob": lambda spec: {"maxTrialCount": 4, "parallelTrialCount": 2, "trialJobSpec": spec},
    "trainingPipeline": lambda spec: {"displayName": "j", "trainingTaskInputs": spec},
    "training_pipeline": lambda spec: {"display_name": "j", "training_task_inputs": spec},
}


def machine(name="g2-standard-12", accelerator="NVIDIA_L4", count=1):
    return {"machineType": name, "acceleratorType": accelerator, "acceleratorCount": count}


def rules(data, **options):
    return {finding.rule for finding in judged(data, **options).findings}


@pytest.mark.parametrize("name", ENVELOPES)
def test_the_job_of_a_request_is_judged_in_the_region_of_its_parent(name):
    request = {"parent": PARENT, name: ENVELOPES[name](job(pool()))}
    report = judged(request)
    assert report.exit_code == 0 and [row.region for row in report.steps] == ["us-central1"]
    assert errors({**request, name: ENVELOPES[name](job(pool(count=3)))}) == ["GPU003"]
    assert errors({**request, "parent": "projects/p/locations/us-centrall1"}) == ["GPU030"]


@pytest.mark.parametrize("around", [lambda job: {"parent": PARENT, "customJob": job}, lambda job: job])
def test_that_the_api_takes_no_mapping_of_pools_is_not_known(around):
    data = around({"jobSpec": {"workerPoolSpecs": pool()}})
    assert not errors(data) and "GPU026" in rules(data)


@pytest.mark.parametrize("data", [{"customJob": {}}, {"endpoint": "projects/p/x"}, {"trainingPipeline": {"a": 1}}])
def test_an_envelope_around_nothing_of_ours_is_no_request(data):
    assert judged(data).exit_code == 2


def test_machines_of_automl_are_its_own_business():
    definition = "gs://google-cloud-aiplatform/schema/trainingjob/definition/automl_tables_1.0.0.yaml"
    body = {"trainingTaskDefinition": definition, "trainingTaskInputs": {"targetColumn": "y"}}
    report = judged({"parent": PARENT, "trainingPipeline": body})
    assert not report.findings and not report.steps
    custom = {**body, "trainingTaskDefinition": definition.replace("automl_tables", "custom_task")}
    assert errors({"trainingPipeline": custom}) == ["GPU025"]


def test_every_model_of_an_endpoint_is_judged_under_its_own_name():
    models = [
        {"displayName": "a", "dedicatedResources": {"machineSpec": machine(), "maxReplicaCount": 3}},
        {"displayName": "b", "dedicatedResources": {"machineSpec": machine(count=8)}},
        {"automaticResources": {"minReplicaCount": 1}},
    ]
    endpoint = {"displayName": "e", "deployedModels": models, "trafficSplit": {"1": 100}}
    for body in (endpoint, {"parent": PARENT, "endpoint": endpoint}, {"deployed_models": models}):
        report = judged(body)
        assert [(finding.rule, finding.step[-2:]) for finding in report.findings] == [("GPU003", "/b")]
        assert [(row.step[-2:], row.replicas) for row in report.steps] == [("/a", 3), ("/b", 1)]
    assert errors({"deployedModels": {"displayName": "a"}}) == ["GPU025"]
    assert errors({"deployedModels": [3]}) == ["GPU025"]


def resource(**changes):
    whole = {"machineSpec": machine(), "replicaCount": 2, "diskSpec": {"bootDiskType": "pd-ssd"}}
    return {"displayName": "r", "resourcePools": [{**whole, **changes}]}


@pytest.mark.parametrize(
    ("changes", "found"),
    [
        ({}, []),
        ({"machineSpec": machine(count=3)}, ["GPU003"]),
        ({"machineSpec": machine("g2-standard-13")}, ["GPU001"]),
        ({"machineSpec": None}, ["GPU025"]),
        ({"diskSpec": {"bootDiskType": "pd-ssd", "bootDiskSizeGb": 20}}, ["GPU012"]),
        ({"replicaCount": 0}, ["GPU007"]),
        ({"replicaCount": "two"}, ["GPU025"]),
        ({"autoscalingSpec": {"minReplicaCount": 1, "maxReplicaCount": 4}}, []),
        ({"autoscalingSpec": {"minReplicaCount": 0, "maxReplicaCount": 4}}, ["GPU007"]),
        ({"autoscalingSpec": {"minReplicaCount": 4, "maxReplicaCount": 4}}, ["GPU007"]),
        ({"replicaCount": 5, "autoscalingSpec": {"minReplicaCount": 1, "maxReplicaCount": 4}}, ["GPU007"]),
        ({"machineSpec": {**machine(), "reservationAffinity": {"reservationAffinityType": "SOME"}}}, ["GPU013"]),
        ({"replicaCont": 1}, ["GPU025"]),
        ({"somethingNew": 1}, []),
    ],
)
def test_the_pools_of_a_persistent_resource_are_judged(changes, found):
    for body in (resource(**changes), {"parent": PARENT, "persistentResource": resource(**changes)}):
        assert errors(body) == found and judged(body).exit_code == bool(found)


def test_a_persistent_resource_has_a_place_and_a_price_but_no_quota_and_no_end():
    scaled = resource(autoscalingSpec={"minReplicaCount": 1, "maxReplicaCount": 40})
    report = judged(scaled, regions=["us-central1"])
    assert not report.findings
    [row] = report.steps
    assert row.replicas == 40 and row.usd_per_hour and row.max_usd is None
    assert errors(scaled, regions=["europe-west1"]) == ["GPU010"]
    assert [row.replicas for row in judged(snake(resource())).steps] == [2]
    assert errors({"resourcePools": []}) == ["GPU025"]


def test_a_ray_cluster_may_go_down_to_no_machine():
    spec = resource(autoscalingSpec={"minReplicaCount": 0, "maxReplicaCount": 4})
    assert errors({**spec, "resourceRuntimeSpec": {"raySpec": {"imageUri": "x"}}}) == []


def test_a_job_on_a_persistent_resource_asks_for_no_machine():
    """Region, quota and provisioning are those of the resource; the names must still be right."""
    far = pool("a3-highgpu-1g", "NVIDIA_H100_80GB", 1)
    asked, there = job(far, strategy="STANDARD"), {**job(far, strategy="STANDARD"), "persistentResourceId": "r"}
    assert {"GPU009", "GPU010"} <= rules(asked, regions=["europe-west1"])
    assert not rules(there, regions=["europe-west1"]) & {"GPU008", "GPU009", "GPU010", "GPU017"}
    many = job(pool(count=4), pool(count=4, replicas=9))
    assert "GPU017" in rules(many, regions=["us-central1"])
    assert "GPU017" not in rules({**many, "persistent_resource_id": "r"}, regions=["us-central1"])
    assert errors({**job(pool(count=3)), "persistentResourceId": "r"}) == ["GPU003"]
    assert errors({**job(pool()), "persistentResourceId": "r"}, regions=["us-centrall1"]) == ["GPU030"]
    assert "GPU017" in rules({**many, "persistentResourceId": ""}, regions=["us-central1"])


@pytest.mark.parametrize(
    ("resources", "message", "strategy"),
    [
        ({}, "not offered on demand", "STANDARD"),
        ({"spot": True}, None, "SPOT"),
        ({"spot": False}, "not offered on demand", "STANDARD"),
        ({"flexStart": {"maxRuntimeDuration": "3600s"}}, None, "FLEX_START"),
        ({"spot": "yes"}, None, "STANDARD"),
    ],
)
def test_predictions_on_spot_machines_are_judged_and_priced_as_such(resources, message, strategy):
    h100 = {"machineType": "a3-highgpu-1g", "acceleratorType": "NVIDIA_H100_80GB", "acceleratorCount": 1}
    body = {"deployedModel": {"dedicatedResources": {"machineSpec": h100, "minReplicaCount": 1, **resources}}}
    report = judged(body)
    found = [each.message for each in report.findings if each.rule == "GPU009"]
    assert [message in each for each in found] == ([True] if message else [])
    assert [row.strategy for row in report.steps] == [strategy]
    if strategy == "SPOT":
        assert report.steps[0].usd_per_hour < 10
    assert ("GPU025" in {each.rule for each in report.findings}) == (resources.get("spot") == "yes")


def test_predictions_by_a_reservation_are_not_on_demand():
    h200 = {
        "machineType": "a3-ultragpu-8g", "acceleratorType": "NVIDIA_H200_141GB", "acceleratorCount": 8,
        "reservationAffinity": {"reservationAffinityType": "ANY_RESERVATION"},
    }  # fmt: skip
    body = {"deployedModel": {"dedicatedResources": {"machineSpec": h200, "minReplicaCount": 1}}}
    assert "GPU009" not in {each.rule for each in judged(body).findings}


def test_an_old_tpu_without_a_configuration_is_eight_cores_of_v2():
    for old in ({"scaleTier": "BASIC_TPU"}, {"scaleTier": "CUSTOM", "masterType": "cloud_tpu"}):
        report = judged({"trainingInput": old})
        assert not report.errors
        assert [(row.machine_type, row.accelerator_type, row.accelerator_count) for row in report.steps] == [
            ("cloud-tpu", "TPU_V2", 8)
        ]
    other = {
        "scaleTier": "CUSTOM",
        "masterType": "cloud_tpu",
        "masterConfig": {"acceleratorConfig": {"count": 8, "type": "TPU_V3"}},
    }
    assert judged({"trainingInput": other}).steps[0].accelerator_type == "TPU_V3"


def test_machines_that_a_file_leaves_to_its_command_are_a_warning_and_an_error_of_the_command():
    assert not errors({"trainingInput": {"scaleTier": "CUSTOM", "hyperparameters": {"maxTrials": 3}}})
    assert "GPU025" in rules({"trainingInput": {"scaleTier": "CUSTOM", "workerType": "standard"}})
    line = "gcloud ai-platform jobs submit training j --scale-tier=CUSTOM --master-image-uri=a.b/c:1"
    assert [each.rule for each in check(parse("run.sh", line)).of_severity("error")] == ["GPU025"]
    whole = check(parse("run.sh", f"{line} --master-machine-type=n1-standard-8"))
    assert not whole.errors and whole.steps[0].machine_type == "n1-standard-8"


def test_predictions_may_ask_for_fewer_gpus_than_a_machine_has_and_training_may_not():
    def served(count):
        return {"dedicatedResources": {"machineSpec": machine("a3-highgpu-8g", "NVIDIA_H100_80GB", count)}}

    assert not errors(served(1)) and "GPU003" in rules(served(1)) and "GPU003" not in rules(served(8))
    assert "GPU003" in errors(served(9)) and "GPU003" in errors(job(pool("a3-highgpu-8g", "NVIDIA_H100_80GB", 1)))


def test_a_scale_tier_that_is_none_is_named():
    wrong = check(parse("job.yaml", "trainingInput: {scaleTier: PREMIUM_2, region: us-central1}")).of_severity("error")
    assert [(each.rule, each.message) for each in wrong] == [("GPU025", "No scale tier is called 'PREMIUM_2'.")]


def test_the_name_of_a_pipeline_is_refused_with_what_checks_it_and_a_slash_means_the_folder(
    tmp_path, monkeypatch, capsys
):
    """A folder of the same name asks for nothing: with exit code 0 the pipeline would be taken for checked."""
    (tmp_path / "pipelines.toml").write_text('project = "p"\n')
    (tmp_path / "pipelines").mkdir()
    (tmp_path / "training").mkdir()
    for name in ("training", "nightly"):
        (tmp_path / "pipelines" / f"{name}.py").write_text("def build(target):\n    pass\n")
    monkeypatch.chdir(tmp_path)

    def run_check(name):
        with pytest.raises(SystemExit) as stop:
            main(["check", name])
        return stop.value.code, capsys.readouterr().err

    code, words = run_check("training")
    assert code == 2 and "vgp compile training" in words and "training/" in words
    code, words = run_check("nightly")
    assert code == 2 and "vgp compile nightly" in words and "folder" not in words
    assert run_check("training/")[0] == 0
    code, words = run_check("weekly")
    assert code == 2 and "No such file" in words
    (tmp_path / "nightly").write_text('{"displayName": "j"}')
    assert "is a pipeline" not in run_check("nightly")[1], "a file of that name is read"


@pytest.mark.parametrize("trials", [2, None])
def test_an_unknown_number_of_trials_is_no_number_of_machines_and_has_no_bound(trials):
    count = trials or Computed("the program computes it")
    spec = {**job(pool()), "scheduling": {"timeout": "3600s"}}
    body = {"displayName": "t", "maxTrialCount": 4, "parallelTrialCount": count, "trialJobSpec": spec}
    report = check([Document("tune.py", body, "")])
    assert [each.replicas for each in report.steps] == [trials]
    assert [each.unknown_reason for each in report.steps] == ["" if trials else "its number of machines is not known"]


@pytest.mark.parametrize(
    ("name", "kind", "found"),
    [("n1-standard-2", None, ["GPU024"]), ("c3-highcpu-22", None, ["GPU024"]), ("q9-standard-2", None, ["GPU001"]),
     ("n1-standard-2", "NVIDIA_L5", ["GPU002", "GPU024"]), ("q9-standard-2", "NVIDIA_L5", ["GPU001", "GPU002"])],
)  # fmt: skip
def test_machines_of_predictions_that_training_lacks_are_a_note_and_names_like_none_an_error(name, kind, found):
    spec = {"machineType": name, **({"acceleratorType": kind, "acceleratorCount": 1} if kind else {})}
    report = judged({"deployedModel": {"dedicatedResources": {"machineSpec": spec, "minReplicaCount": 1}}})
    assert sorted(each.rule for each in report.findings) == found


@pytest.mark.parametrize(
    ("spec", "found"),
    [({"machineType": "q9-standard-2", "acceleratorType": Computed("x")}, ["GPU001"]),
     ({"machineType": "n1-standard-8", "acceleratorType": "NVIDIA_L5", "acceleratorCount": Computed("x")}, ["GPU002"]),
     ({"machineType": "g2-standard-8", "acceleratorType": "NVIDIA_L5", "acceleratorCount": Computed("x")}, ["GPU002"]),
     ({"machineType": Computed("x"), "acceleratorType": "NVIDIA_TESLA_K80", "acceleratorCount": 1}, ["GPU011"]),
     ({"machineType": "ct5lp-hightpu-4t", "acceleratorType": Computed("x"), "tpuTopology": "2x2"}, []),
     ({"machineType": "ct5lp-hightpu-4t", "acceleratorType": "TPU_V5_LITEPOD", "acceleratorCount": Computed("x")}, []),
     ({"machineType": "ct5lp-hightpu-4t", "acceleratorType": "NVIDIA_L5", "acceleratorCount": 1}, ["GPU002"]),
     ({"machineType": "n1-standard-8", "acceleratorType": "ACCELERATOR_TYPE_UNSPECIFIED", "acceleratorCount": 0}, [])],
)  # fmt: skip
def test_what_is_known_of_half_a_request_is_judged(spec, found):
    pool = {"machineSpec": spec, "replicaCount": 1, "containerSpec": {"imageUri": "a.b/c:1"}}
    report = check([Document("job.py", {"workerPoolSpecs": [pool]}, "")])
    assert sorted({each.rule for each in report.of_severity("error")}) == found
    assert report.steps[0].accelerator_type != "ACCELERATOR_TYPE_UNSPECIFIED"


@pytest.mark.parametrize(
    ("scaling", "found"),
    [({"maxReplicaCount": 4}, ["maxReplicaCount is 4, below the replicaCount of 5."]), ({"maxReplicaCount": 5}, []),
     ({"minReplicaCount": 2}, []), ({"minReplicaCount": 4, "maxReplicaCount": 4},
      ["maxReplicaCount is 4; it must be above minReplicaCount, which is 4."])],
)  # fmt: skip
def test_a_growing_pool_with_too_low_a_maximum_is_reported_once(scaling, found):
    report = judged(resource(replicaCount=5, autoscalingSpec=scaling))
    assert [each.message for each in report.findings] == found
    assert [row.replicas for row in report.steps] == [scaling.get("maxReplicaCount")]


def test_a_pool_without_a_number_is_one_machine_and_an_unknown_number_is_not_known():
    body = resource()
    del body["resourcePools"][0]["replicaCount"]
    assert [row.replicas for row in judged(body).steps] == [1]
    unknown = check([Document("r.py", resource(replicaCount=Computed("the program computes it")), "")])
    assert [row.replicas for row in unknown.steps] == [None]


def deployed(spec=None, **resources):
    return {"deployedModel": {"dedicatedResources": {"machineSpec": spec or machine(), **resources}}}


@pytest.mark.parametrize(
    ("body", "found"),
    [
        (deployed(acceleratorType="NVIDIA_L4"), [("GPU025", "warning")]),
        (deployed(minReplicas=1), [("GPU025", "error")]),
        (deployed(minReplicaCount=1, initialReplicaCount=1, flexStart={}, scaleToZeroSpec={}), []),
        (deployed({**machine(), "reservationAffinity": {"reservationAffinityType": "SOME"}}), [("GPU013", "error")]),
        (deployed({**machine(), "reservationAffinity": {"reservationAffinityType": "SPECIFIC_RESERVATION"}}),
         [("GPU013", "error")]),
        (deployed({**machine(), "reservationAffinity": {"reservationAffinityType": "ANY_RESERVATION"}}), []),
    ],
)  # fmt: skip
def test_fields_and_reservations_of_predictions_are_judged_like_those_of_jobs(body, found):
    assert [(each.rule, each.severity) for each in judged(body).findings] == found


@pytest.mark.parametrize("name", ["maxTrialCount", "parallelTrialCount"])
def test_a_tuning_job_of_no_trial_is_refused_and_one_that_leaves_the_number_to_gcloud_is_not(name):
    body = {"maxTrialCount": 4, "parallelTrialCount": 2, "trialJobSpec": job(pool())}
    assert errors({**body, name: 0}) == errors({**body, name: "0"}) == ["GPU025"]
    del body[name]
    assert errors(body) == []


def test_the_pools_of_a_persistent_resource_are_judged_where_it_is():
    body = {"parent": "projects/p/locations/europe-north1", "persistentResource": resource()}
    report = judged(body, regions=["us-central1"])
    assert [(each.rule, each.path) for each in report.findings] == [("GPU010", ("parent",))]
    assert [row.region for row in report.steps] == ["europe-north1"]
    for wrong in (resource(machineSpec={**machine(), "gpus": 1}), resource(autoscalingSpec={"gpus": 1})):
        assert rules(wrong) == {"GPU025"}
