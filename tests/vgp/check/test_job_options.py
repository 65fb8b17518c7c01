"""What the checker says of a job's options, in files of any author."""

import json

import pytest

from vgp.check.check import check
from vgp.sources.reading import parse

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
        ({"tensorboard": BOARD, "baseOutputDirectory": {"outputUriPrefix": "gs://b"}}, "GPU035", "error", "needs serv"),
        ({"tensorboard": BOARD, "serviceAccount": "a"}, "GPU035", "warning", "below baseOutputDirectory"),
        ({"persistentResourceId": "Mine!"}, "GPU035", "error", "no id of a persistent resource"),
        ({"pscInterfaceConfig": {"networkAttachement": "x"}}, "GPU025", "error", "networkAttachement"),
        (
            {"pscInterfaceConfig": {"networkAttachment": "x"}, "network": "projects/1/global/networks/n"},
            "GPU035", "error", "network and pscInterfaceConfig exclude each other",
        ),
        ({"pscInterfaceConfig": {"dnsPeeringConfigs": [{"domain": "corp"}]}}, "GPU035", "error", "end with a dot"),
    ],
)  # fmt: skip
def test_an_option_that_cannot_be_is_a_finding(fields, rule, severity, words):
    findings = found(fields)
    assert [(one[0], one[1]) for one in findings] == [(rule, severity)] and words in findings[0][2]


def test_a_tensorboard_of_another_region_and_two_words_on_retries_are_findings():
    fields = {"tensorboard": BOARD, "serviceAccount": "a", "baseOutputDirectory": {"outputUriPrefix": "gs://b"}}
    assert [one[:2] for one in found(fields, regions=("europe-west4",))] == [("GPU035", "error")]
    restarts = found({}, restartJobOnWorkerRestart=True, disableRetries=True)
    assert [one[:2] for one in restarts] == [("GPU035", "warning")] and "overrides" in restarts[0][2]
