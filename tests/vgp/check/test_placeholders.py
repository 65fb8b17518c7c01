"""What is left to be filled in is a note in every kind of document and field, and a misspelled name stays an error."""

import json

import pytest
import yaml

from tests.vgp.check.test_check_jobs import job, judged, pool, snake
from vgp.base.documents.node import placeholder
from vgp.check.checker import check
from vgp.check.document_kinds import parse
from vgp.machines.catalog import catalog, tpu_machines
from vgp.machines.placement import job_fields, provisioning

PLACEHOLDERS = [
    "{{ machine_type }}", "{{x}}", "${IMAGE_URI}", "${var.region}", "$(GPU)", "$REGION", "YOUR-REGION", "your-region",
    "YOUR_MACHINE_TYPE", "MY_REGION", "<your-project>", "<machine-type>", "<GPU_TYPE>", "[PROJECT_ID]", "[your region]",
    "REPLACE_ME", "CHANGEME", "TODO", "TBD", "...", "???", "MACHINE_TYPE", "ACCELERATOR_COUNT", "REGION", "%REGION%",
    "@REGION@", "__REGION__", "%(region)s", "{region}", "<% region %>", "<insert region here>",
]  # fmt: skip
FIELDS = {
    "machineType": lambda text: {"jobSpec": job(pool(text))},
    "acceleratorType": lambda text: {"jobSpec": job(pool(accelerator=text))},
    "acceleratorCount": lambda text: {"jobSpec": job(pool(count=text))},
    "replicaCount": lambda text: {"jobSpec": job(pool(replicas=text))},
    "bootDiskType": lambda text: {"jobSpec": job(pool(diskSpec={"bootDiskType": text}))},
    "bootDiskSizeGb": lambda text: {"jobSpec": job(pool(diskSpec={"bootDiskSizeGb": text}))},
    "imageUri": lambda text: {"jobSpec": job(pool(containerSpec={"imageUri": text}))},
    "containerSpec": lambda text: {"jobSpec": job(pool(containerSpec=text))},
    "workerPoolSpecs": lambda text: {"jobSpec": {"workerPoolSpecs": text}},
    "location": lambda text: {"location": text, "jobSpec": job(pool())},
    "strategy": lambda text: {"jobSpec": job(pool(), strategy=text)},
    "timeout": lambda text: {"jobSpec": job(pool(), timeout=text)},
    "parallelTrialCount": lambda text: {"parallelTrialCount": text, "maxTrialCount": 4, "trialJobSpec": job(pool())},
    "dedicatedResources": lambda text: {"dedicatedResources": text},
    "minReplicaCount": lambda text: {
        "deployedModel": {
            "dedicatedResources": {"machineSpec": {"machineType": "n1-standard-4"}, "minReplicaCount": text}
        }
    },
    "resourcePools": lambda text: {"resourcePools": text},
}


def notes(report):
    return [each.message for each in report.of_severity("note") if each.rule == "GPU024"]


@pytest.mark.parametrize("field", FIELDS)
def test_a_placeholder_is_a_note_in_every_field(field):
    for text in PLACEHOLDERS:
        for data in (FIELDS[field](text), snake(FIELDS[field](text))):
            report = judged(data)
            assert not report.of_severity("error"), (text, report.findings)
            assert f"{field} is not checkable: {text} is a placeholder that you must fill in." in notes(report), (
                text,
                report.findings,
            )


@pytest.mark.parametrize("text", PLACEHOLDERS)
def test_a_placeholder_is_a_note_in_every_kind_of_document(text):
    legacy = {"trainingInput": {"scaleTier": "CUSTOM", "masterType": text, "masterConfig": {"imageUri": "a.b/c:1"}}}
    container = {"image": "a.b/c:1", "resources": {"accelerator": {"resourceType": text, "resourceCount": "1"}}}
    pipeline = {
        "root": {"dag": {"tasks": {"step": {"componentRef": {"name": "a"}}}}},
        "components": {"a": {"executorLabel": "a"}}, "deploymentSpec": {"executors": {"a": {"container": container}}},
    }  # fmt: skip
    program = f"spec = {{'worker_pool_specs': [{{'machine_spec': {{'machine_type': {text!r}}}, "
    program += "'replica_count': 1, 'container_spec': {'image_uri': 'a.b/c:1'}}]}"
    terraform = (
        'resource "google_vertex_ai_deployment_resource_pool" "p" {\n  dedicated_resources {\n    machine_spec {\n'
    )
    terraform += f"      machine_type = {json.dumps(text)}\n    }}\n  }}\n}}\n"
    for name, content in {
        "legacy.yaml": yaml.safe_dump(legacy), "pipeline.json": json.dumps(pipeline), "job.py": program,
        "main.tf": terraform if not text.startswith(("${", "%{")) else "",
    }.items():  # fmt: skip
        report = check(parse(name, content))
        assert not report.of_severity("error") and not report.unreadable, (name, report.findings)
        assert notes(report) or not content, (name, report.findings)


def test_templates_without_quotes_are_read_as_with_them():
    text = yaml.safe_dump(job(pool("MACHINE", count="COUNT"))).replace("MACHINE", "{{ machine }}")
    text = text.replace("COUNT", "{{ count }}").replace("NVIDIA_TESLA_T4", "NVIDIA_T4  # wrong")
    report = check(parse("job.yaml", text))
    (finding,) = report.of_severity("error")
    assert finding.rule == "GPU002" and "NVIDIA_T4" in text.split("\n")[finding.line - 1] and len(notes(report)) == 2
    assert check(parse("job.json", json.dumps(job(pool(count="N"))).replace('"N"', "{{ n }}"))).exit_code == 0
    assert check(parse("job.yaml", text + "x: {{ a }} b: [\n")).exit_code == 2


def test_a_list_that_yaml_makes_of_brackets_is_a_placeholder():
    text = yaml.safe_dump(job(pool("MACHINE"))).replace("machineType: MACHINE", "machineType: [MACHINE_TYPE]")
    assert not check(parse("job.yaml", text)).of_severity("error")
    assert check(parse("job.yaml", text.replace("MACHINE_TYPE", "n1-standard-8"))).of_severity("error")


def test_no_name_of_the_catalog_is_a_placeholder():
    names = [
        *catalog.machines(), *catalog.accelerators(), *catalog.regions(), *tpu_machines.machines(),
        *provisioning.STRATEGIES, *job_fields.AFFINITIES, *job_fields.DISK_TYPES, "ACCELERATOR_TYPE_UNSPECIFIED",
        "STRATEGY_UNSPECIFIED", job_fields.RESERVATION_KEY, *catalog.document("legacy.json")["scale_tiers"],
        *catalog.document("legacy.json")["machine_types"], "CUSTOM", "3600s", "2x2x1",
    ]  # fmt: skip
    assert not [name for name in names if placeholder(name)]


@pytest.mark.parametrize(
    ("spec", "rule"),
    [
        (pool("n1-standrad-8"), "GPU001"), (pool("<n1-standard-8>"), "GPU001"), (pool("N1-STANDARD-8-TYP"), "GPU001"),
        (pool(accelerator="NVIDIA_T4"), "GPU002"), (pool(accelerator="GPU"), "GPU002"), (pool(count="four"), "GPU025"),
        (pool(accelerator="{{$.inputs.parameters['gpu']}}"), "GPU015"), (pool("my-machine"), "GPU001"),
        (pool(accelerator="{{channel:task=;name=gpu;type=String;}}"), "GPU015"),
    ],
)  # fmt: skip
def test_a_wrong_value_is_an_error_as_before(spec, rule):
    assert [each.rule for each in judged(job(spec)).of_severity("error")] == [rule]


def test_the_rest_of_an_image_is_judged_beside_a_placeholder():
    for image, rule in (("gcr.io/YOUR_PROJECT/train:1", "GPU019"), ("gcr.io/[PROJECT]/tensorflow-cpu:1", "GPU016")):
        assert rule in {each.rule for each in judged(job(pool(containerSpec={"imageUri": image}))).findings}


def test_the_region_of_a_parent_counts_also_beside_a_placeholder():
    request = {"parent": "projects/YOUR_PROJECT/locations/us-west9", "customJob": {"jobSpec": job(pool())}}
    assert [each.rule for each in judged(request).of_severity("error")] == ["GPU030"]


def test_flags_of_gcloud_may_be_placeholders():
    for count in ("ACCELERATOR_COUNT", "{{count}}", "YOUR_COUNT"):
        line = (
            "gcloud ai custom-jobs create --region=REGION --display-name=JOB_NAME --worker-pool-spec=machine-type="
            f"MACHINE_TYPE,replica-count=REPLICA_COUNT,accelerator-type=NVIDIA_TESLA_T4,accelerator-count={count},"
            "container-image-uri=IMAGE_URI\n"
        )
        report = check(parse("run.sh", line))
        assert report.exit_code == 0 and len(report.steps) == 1 and len(notes(report)) == 5, report.findings
    assert check(parse("run.sh", line.replace("YOUR_COUNT", "four"))).exit_code == 2
