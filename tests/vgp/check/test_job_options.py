"""The findings on the options of a job, in files of any author."""

import json

import pytest

from vgp.check.checker import check
from vgp.check.document_kinds import parse

BOARD = "projects/my-project/locations/us-central1/tensorboards/123"
POOL = {
    "machineSpec": {"machineType": "e2-standard-4"},
    "replicaCount": 1,
    "containerSpec": {"imageUri": "us-docker.pkg.dev/p/i/t:1.4"},
}


def found(fields, regions=("us-central1",), **scheduling):
    job = {"workerPoolSpecs": [POOL], "scheduling": {"timeout": "3600s", **scheduling}, **fields}
    document = parse("job.json", json.dumps({"displayName": "job", "jobSpec": job}))
    report = check(document, regions=list(regions))
    return [(one.rule, one.severity, one.message) for one in report.findings]


def test_options_that_can_be_are_no_finding():
    fields = {"enableWebAccess": True, "tensorboard": BOARD, "serviceAccount": "a@b", "persistentResourceId": "mine"}
    assert found({**fields, "baseOutputDirectory": {"outputUriPrefix": "gs://b/o"}}, disableRetries=True) == []


@pytest.mark.parametrize(
    ("fields", "rule", "severity", "words"),
    [
        ({"enableWebAccess": "yes"}, "GPU025", "error", "enableWebAccess must be true or false; it is 'yes'"),
        ({"enableWebAcess": True}, "GPU025", "error", "enableWebAcess"),
        ({"tensorboard": BOARD, "baseOutputDirectory": {"outputUriPrefix": "gs://b"}}, "GPU035", "warning", "needs s"),
        ({"tensorboard": BOARD, "serviceAccount": "a"}, "GPU035", "warning", "below baseOutputDirectory"),
        ({"persistentResourceId": "Mine!"}, "GPU035", "warning", "not an id of a pers"),
        ({"pscInterfaceConfig": {"networkAttachement": "x"}}, "GPU025", "error", "networkAttachement"),
        (
            {"pscInterfaceConfig": {"networkAttachment": "x"}, "network": "projects/1/global/networks/n"},
            "GPU035", "warning", "network and pscInterfaceConfig exclude each other",
        ),
        ({"pscInterfaceConfig": {"dnsPeeringConfigs": [{"domain": "corp"}]}}, "GPU035", "error", "end with a dot"),
        ({"pscInterfaceConfig": {"dnsPeeringConfigs": [{"domian": "corp."}]}}, "GPU025", "error", "domian"),
    ],
)  # fmt: skip
def test_an_option_that_cannot_be_is_a_finding(fields, rule, severity, words):
    findings = found(fields)
    assert [(one[0], one[1]) for one in findings] == [(rule, severity)] and words in findings[0][2]


def in_a_pipeline(fields, **inputs):
    """The report of a pipeline whose step starts a job with these fields, by a launcher of Google's components."""
    payload = json.dumps({"display_name": "j", "job_spec": {
        "worker_pool_specs": [POOL], "scheduling": {"timeout": "3600s"}, **fields,
    }})  # fmt: skip
    task = {"componentRef": {"name": "comp-j"}, "taskInfo": {"name": "j"}, "inputs": {"parameters": inputs}}
    launcher = {"image": "gcr.io/ml-pipeline/google-cloud-pipeline-components:1.0.0",
                "args": ["--type", "CustomJob", "--payload", payload]}  # fmt: skip
    spec = {
        "schemaVersion": "2.0.0", "pipelineInfo": {"name": "p"},
        "deploymentSpec": {"executors": {"exec-j": {"container": launcher}}},
        "components": {"comp-j": {"executorLabel": "exec-j",
                                  "inputDefinitions": {"parameters": {name: {"type": "STRING"} for name in inputs}}}},
        "root": {"dag": {"tasks": {"before": {}, "j": task}}},
    }  # fmt: skip
    return check(parse("p.json", json.dumps(spec)), regions=["us-central1"])


WEB = "{{$.inputs.parameters['web']}}"
OF_THE_RUN = {"taskOutputParameter": {"producerTask": "before", "outputParameterKey": "web"}}


@pytest.mark.parametrize(("text", "wrong"), [("false", False), ("True", False), ("yes", True)])
def test_a_switch_that_a_pipeline_fills_in_is_a_text(text, wrong):
    """As the components of Google Cloud Pipeline Components before 2.0 wrote it."""
    given = {"runtimeValue": {"constantValue": {"stringValue": text}}}
    report = in_a_pipeline({"enable_web_access": WEB}, web=given)
    findings = [one for one in report.of_severity("error") if one.step == "j"]
    assert report.steps and [one.rule for one in findings] == ["GPU025"] * wrong
    assert [one[0] for one in found({"enableWebAccess": text})] == ["GPU025"], "in a file it is none"


@pytest.mark.parametrize("name", ["enable_web_access", "persistent_resource_id", "tensorboard"])
def test_an_option_that_only_the_run_knows_is_unknown_and_no_error(name):
    fields = {name: WEB, "service_account": "a@b", "base_output_directory": {"output_uri_prefix": "gs://b"}}
    report = in_a_pipeline({**fields, "scheduling": {"timeout": "3600s", "strategy": "SPOT"}}, web=OF_THE_RUN)
    findings = [one for one in report.findings if one.step == "j"]
    assert not [one for one in findings if one.rule in ("GPU025", "GPU035")], findings


def test_a_jobs_own_fields_may_stand_beside_those_of_its_spec_and_within_it_they_are_unknown():
    job = {"workerPoolSpecs": [POOL], "scheduling": {"timeout": "3600s"}}
    for file in ({"customJob": {"displayName": "job", "labels": {"a": "b"}, **job}}, {"displayName": "job", **job}):
        report = check(parse("job.json", json.dumps(file)), regions=["us-central1"])
        assert report.steps and not report.findings
    [within] = found({"labels": {"a": "b"}})
    assert within[0] == "GPU025" and "labels" in within[2]


def test_a_switch_that_a_script_computes_is_not_judged():
    config = json.dumps({"workerPoolSpecs": [POOL], "scheduling": {"timeout": "3600s"}, "enableWebAccess": "$WEB"})
    script = f"cat > c.json << EOF\n{config}\nEOF\ngcloud ai custom-jobs create --region=us-central1 --config=c.json\n"
    report = check(parse("job.sh", script))
    assert report.steps and not report.findings


def test_a_spec_that_is_no_object_is_a_finding_and_no_fault():
    for spec in (["x"], "x", 3):
        report = check(parse("job.json", json.dumps({"displayName": "job", "jobSpec": spec})))
        assert [one.rule for one in report.findings] == ["GPU025"]


def test_a_malformed_object_has_one_finding():
    for fields in ({"pscInterfaceConfig": {"networkAttachment": "x", "dnsPeeringConfigs": ["corp"]}},
                   {"workerPoolSpecs": [{**POOL, "nfsMounts": ["nfs"]}]}):  # fmt: skip
        assert [one[0] for one in found(fields)] == ["GPU025"]
    mount = {"server": "10.0.0.2", "path": "a", "mountPoint": "b"}
    assert found({"workerPoolSpecs": [{**POOL, "nfsMounts": [mount]}]}) == []
    [wrong] = found({"workerPoolSpecs": [{**POOL, "nfsMounts": [{**mount, "mountpoint": "c"}]}]})
    assert wrong[0] == "GPU025" and "mountpoint" in wrong[2]


def test_only_what_is_known_of_a_tensorboard_a_network_and_a_persistent_resource_is_judged():
    assert not found({"network": "projects/1/global/networks/n", "pscInterfaceConfig": {}})
    away = {"tensorboard": BOARD, "serviceAccount": "a", "baseOutputDirectory": {"outputUriPrefix": "gs://b"}}
    assert not found(away, regions=())
    spot = found({"persistentResourceId": "mine"}, strategy="SPOT")
    assert [one[:2] for one in spot] == [("GPU035", "warning")] and "SPOT has no effect" in spot[0][2]
    assert not [one for one in found({"persistentResourceId": "mine"}) if one[0] == "GPU035"]
    assert not [one for one in found({}, restartJobOnWorkerRestart=True) if one[0] == "GPU035"]


def test_a_tensorboard_of_another_region_and_two_words_on_retries_are_findings():
    fields = {"tensorboard": BOARD, "serviceAccount": "a", "baseOutputDirectory": {"outputUriPrefix": "gs://b"}}
    assert [one[:2] for one in found(fields, regions=("europe-west4",))] == [("GPU035", "warning")]
    restarts = found({}, restartJobOnWorkerRestart=True, disableRetries=True)
    assert [one[:2] for one in restarts] == [("GPU035", "warning")] and "overrides" in restarts[0][2]


UNKNOWN = "{{$.inputs.parameters['folder']}}"


@pytest.mark.parametrize(
    ("directory", "is_missing"),
    [
        ({"outputUriPrefix": UNKNOWN}, False),
        (UNKNOWN, False),
        ({"outputUriPrefix": ""}, True),
        ({}, True),
        (None, True),
    ],
)
def test_the_folder_of_a_tensorboard_is_missed_where_it_is_known_to_be_none(directory, is_missing):
    findings = found({"tensorboard": BOARD, "serviceAccount": "a@b", "baseOutputDirectory": directory})
    assert any("below baseOutputDirectory" in text for _, _, text in findings) is is_missing


@pytest.mark.parametrize(("account", "is_missing"), [(UNKNOWN, False), ("", True), (None, True), ("a@b", False)])
def test_the_account_of_a_tensorboard_is_missed_where_it_is_known_to_be_none(account, is_missing):
    fields = {"tensorboard": BOARD, "serviceAccount": account, "baseOutputDirectory": {"outputUriPrefix": "gs://b"}}
    assert any("needs serviceAccount" in text for _, _, text in found(fields)) is is_missing
