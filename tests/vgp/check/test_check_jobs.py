"""Custom jobs as people write them: for gcloud, for the SDK, for the REST API; and what is no spec at all."""

import ast
import json
from datetime import date

import pytest
import yaml

from vgp.base.documents.document import parse
from vgp.check.checker import check

DAY = date(2026, 11, 20)
IMAGE = {"imageUri": "us-docker.pkg.dev/p/r/i:1"}
SOUND = {"timeout": "3600s"}


def pool(machine="n1-standard-8", accelerator="NVIDIA_TESLA_T4", count=1, replicas=1, **more):
    spec = {"machineType": machine, "acceleratorType": accelerator, "acceleratorCount": count}
    spec = {key: value for key, value in spec.items() if value is not None}
    return {"machineSpec": spec, "replicaCount": replicas, "containerSpec": IMAGE, **more}


def job(*pools, **scheduling):
    return {"workerPoolSpecs": list(pools), "scheduling": {**SOUND, **scheduling}}


def judged(data, **options):
    return check(parse("job.yaml", yaml.safe_dump(data)), as_of=DAY, **options)


def errors(data, **options):
    return sorted({finding.rule for finding in judged(data, **options).findings if finding.severity == "error"})


def snake(value):
    names = {
        "machineSpec": "machine_spec", "machineType": "machine_type", "acceleratorType": "accelerator_type",
        "acceleratorCount": "accelerator_count", "replicaCount": "replica_count", "containerSpec": "container_spec",
        "imageUri": "image_uri", "workerPoolSpecs": "worker_pool_specs",
    }  # fmt: skip
    if isinstance(value, list):
        return [snake(item) for item in value]
    return {names.get(key, key): snake(item) for key, item in value.items()} if isinstance(value, dict) else value


SHAPES = {
    "gcloud config": lambda p: {"workerPoolSpecs": [p]},
    "snake case": lambda p: snake({"workerPoolSpecs": [p]}),
    "gcloud mapping": lambda p: {"workerPoolSpecs": p},
    "REST body": lambda p: {"displayName": "j", "jobSpec": {"workerPoolSpecs": [p]}},
    "SDK pools": lambda p: snake([p]),
    "one pool": lambda p: snake(p),
    "tuning job": lambda p: {"studySpec": {}, "parallelTrialCount": 3, "trialJobSpec": {"workerPoolSpecs": [p]}},
    "training pipeline": lambda p: {"trainingTaskInputs": {"workerPoolSpecs": [p]}},
    "list of jobs": lambda p: [{"jobSpec": {"workerPoolSpecs": [p]}}],
}


@pytest.mark.parametrize("shape", SHAPES)
def test_every_shape_is_recognised_by_content(shape):
    right, wrong = judged(SHAPES[shape](pool())), judged(SHAPES[shape](pool(count=3)))
    assert right.exit_code == 0 and wrong.exit_code == 1
    assert [finding.rule for finding in wrong.findings if finding.severity == "error"] == ["GPU003"]
    row = right.steps[0]
    assert (row.machine_type, row.accelerator_type, row.accelerator_count) == ("n1-standard-8", "NVIDIA_TESLA_T4", 1)
    assert row.replicas == (3 if shape == "tuning job" else 1)


def test_several_documents_are_judged_each():
    text = "---\n".join(yaml.safe_dump(job(pool(count=count))) for count in (1, 3, 8))
    report = check(parse("many.yaml", text), as_of=DAY)
    assert [finding.step for finding in report.findings if finding.severity == "error"] == ["job[1]", "job[2]"]


@pytest.mark.parametrize(
    ("spec", "found"),
    [
        (job(pool(replicas=2)), ["GPU007"]),
        (job(pool(replicas=0)), ["GPU007"]),
        (job({}), ["GPU007"]),
        (job(pool(), pool(replicas=0)), ["GPU007"]),
        (job(pool(), {}, pool("n1-highcpu-16", None, None, replicas=4)), []),
        (job(*[pool()] * 5), ["GPU007"]),
        (job(pool(pythonPackageSpec={"pythonModule": "x"})), ["GPU007"]),
        (job(), ["GPU025"]),
        (job(3), ["GPU025"]),
        ({"workerPoolSpecs": "x"}, ["GPU025"]),
        (job(pool(None, None, None)), ["GPU025"]),
        (job(pool(count="four")), ["GPU025"]),
        (job(pool(count=-1)), ["GPU025"]),
        (job(pool(replicas="one")), ["GPU025"]),
        (job(pool(), timeout="1h"), ["GPU025"]),
        (job(pool(), timeout="0s"), ["GPU028"]),
        (job(pool(), strategy="SPOTT"), ["GPU009"]),
        (job(pool(), strategy="FLEX_START"), ["GPU009"]),
        (job(pool("a3-highgpu-1g", "NVIDIA_H100_80GB", 1)), ["GPU009"]),
        (job(pool("a3-highgpu-1g", "NVIDIA_H100_80GB", 1), strategy="SPOT"), []),
        (job(pool("a3-highgpu-1g", "NVIDIA_H100_80GB", 1), strategy=4), []),
        (job(pool("a4x-highgpu-4g", "NVIDIA_GB200", 4), strategy="SPOT"), ["GPU009"]),
        (job(pool("g2-standard-8", "NVIDIA_L4", 1), strategy="FLEX_START", timeout="700000s"), ["GPU028"]),
        (job(pool(diskSpec={"bootDiskType": "pd-balanced"})), ["GPU012"]),
        (job(pool(diskSpec={"bootDiskType": "pd-ssd", "bootDiskSizeGb": 50})), ["GPU012"]),
        (job(pool(diskSpec={"bootDiskType": "hyperdisk-balanced"})), ["GPU012"]),
        (job(pool("e2-standard-8", None, None, diskSpec={"bootDiskType": "hyperdisk-balanced"})), ["GPU012"]),
        (job(pool("n4-standard-8", None, None, diskSpec={"bootDiskType": "pd-ssd"})), ["GPU012"]),
        (job(pool("n4-standard-8", None, None, diskSpec={"bootDiskType": "hyperdisk-balanced"})), []),
        (job(pool("g2-standard-8", "NVIDIA_L4", diskSpec={"bootDiskType": "hyperdisk-balanced"})), []),
        (job(pool("${MACHINE}", None, None)), []),
        (job(pool(accelerator="{{$.inputs.parameters['gpu']}}")), ["GPU015"]),
        (job(pool("n1-standard-16", "NVIDIA_TESLA_K80", 4)), ["GPU011"]),
        (job(pool("n1-standard-16", 5, 4)), []),
        (job(pool("cloud-tpu", "TPU_V3", 8)), []),
    ],
)
def test_findings_of_a_job(spec, found):
    assert errors(spec) == found


@pytest.mark.parametrize(
    ("affinity", "found"),
    [
        ({"reservationAffinityType": "ANY_RESERVATION"}, []),
        ({"reservationAffinityType": "ANY_RESERVATION", "key": "x"}, ["GPU013"]),
        ({"reservationAffinityType": "SPECIFIC_RESERVATION"}, ["GPU013"]),
        ({"reservationAffinityType": "SOME"}, ["GPU013"]),
        (
            {"reservationAffinityType": 3, "key": "compute.googleapis.com/reservation-name", "values": ["a", "b"]},
            ["GPU013"],
        ),
        (
            {
                "reservationAffinityType": "SPECIFIC_RESERVATION",
                "key": "compute.googleapis.com/reservation-name",
                "values": ["projects/p/zones/us-east4-a/reservations/r"],
            },
            ["GPU013"],
        ),
    ],
)
def test_a_reservation_must_be_one_that_the_job_can_use(affinity, found):
    request = pool("a3-megagpu-8g", "NVIDIA_H100_MEGA_80GB", 8)
    request["machineSpec"]["reservationAffinity"] = affinity
    assert errors(job(request), regions=["us-central1"]) == found


def test_a_reservation_takes_the_place_of_on_demand():
    request = pool("a4-highgpu-8g", "NVIDIA_B200", 8)
    assert errors(job(request)) == ["GPU009"]
    request["machineSpec"]["reservationAffinity"] = {"reservationAffinityType": "ANY_RESERVATION"}
    assert errors(job(request)) == []


def test_the_strategy_of_the_command_line_is_for_jobs_that_name_none():
    silent, spoken = job(pool("a3-highgpu-2g", "NVIDIA_H100_80GB", 2)), job(pool(), strategy="STANDARD")
    assert errors(silent) == ["GPU009"]
    assert errors(silent, strategy="spot") == []
    assert judged(spoken, strategy="spot").steps[0].strategy == "STANDARD"


@pytest.mark.parametrize(
    ("regions", "severity"),
    [([], None), (["us-central1"], None), (["europe-west2"], "warning"), (["europe-west1"], "error"),
     (["us-central1", "europe-west1"], "error")],
)  # fmt: skip
def test_a_region_is_judged_by_two_pages(regions, severity):
    found = [
        each
        for each in judged(job(pool("g2-standard-8", "NVIDIA_L4", 1)), regions=regions).findings
        if each.rule == "GPU010"
    ]
    assert [each.severity for each in found] == ([severity] if severity else [])


def test_the_jobs_own_region_comes_first():
    spec = {"location": "europe-west1", "jobSpec": job(pool("g2-standard-8", "NVIDIA_L4", 1))}
    assert errors(spec, regions=["us-central1"]) == ["GPU010"]


def test_quota_counts_all_pools_and_names_the_metric():
    spec = job(pool(count=4), pool(count=4, replicas=9))
    warning = next(each for each in judged(spec, regions=["us-central1"]).findings if each.rule == "GPU017")
    assert "is 12; the job needs 40" in warning.message
    assert "custom_model_training_nvidia_t4_gpus" in warning.suggestion


@pytest.mark.parametrize(("replicas", "warned"), [(2, False), (3, True)])
def test_a_quota_that_just_suffices_is_no_warning(replicas, warned):
    spec = job(pool(count=4), pool(count=4, replicas=replicas))  # us-central1 has 12 T4 by default
    assert ("GPU017" in {each.rule for each in judged(spec, regions=["us-central1"]).findings}) == warned


@pytest.mark.parametrize(
    ("machine", "gpu", "command", "is_reported"),
    [
        ("a4-highgpu-8g", "NVIDIA_B200", "torchrun train.py", True),
        ("a4-highgpu-8g", "NVIDIA_B200", ". /usr/local/gib/scripts/set_nccl_env.sh; torchrun train.py", False),
        ("a3-megagpu-8g", "NVIDIA_H100_MEGA_80GB", "torchrun train.py", False),
    ],
)
def test_several_machines_with_rdma_are_told_the_script_that_configures_nccl(machine, gpu, command, is_reported):
    body = {"containerSpec": {**IMAGE, "command": ["bash", "-c", command]}}
    spec = job(pool(machine, gpu, 8, **body), pool(machine, gpu, 8, replicas=2, **body), strategy="SPOT")
    notes = [each for each in judged(spec).findings if each.rule == "GPU022" and "set_nccl_env.sh" in each.suggestion]
    assert bool(notes) == is_reported
    alone = judged(job(pool(machine, gpu, 8, **body), strategy="SPOT")).findings
    assert not any("set_nccl_env.sh" in (each.suggestion or "") for each in alone)


def test_rules_can_be_left_out_by_id_and_name():
    spec = job(pool(count=3, replicas=2))
    assert errors(spec, ignore=["gpu003"]) == ["GPU007"]
    assert errors(spec, ignore=["count-not-allowed", "GPU007"]) == []
    with pytest.raises(ValueError, match="GPU999"):
        judged(spec, ignore=["GPU999"])


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("", "empty"), ("foo", "not a known request"), ("a: 1", "its keys are a"), ("[1, 2]", "not a known"),
        ("{", "YAML"), ("a: [", "YAML"), ("!!python/object/apply:os.system [echo]", "YAML"),
        ("apiVersion: argoproj.io/v1alpha1\nkind: Workflow", "Argo"), ("a: 2026-99-99", "its keys are a"),
        ("\x00", "YAML"),
    ],
)  # fmt: skip
def test_a_malformed_spec_is_unreadable_at_a_named_place(tmp_path, text, reason):
    path = tmp_path / "spec.yaml"
    path.write_text(text)
    report = check([path])
    assert report.exit_code == 2
    assert str(path) in report.unreadable[0] and reason in report.unreadable[0]


@pytest.mark.parametrize(
    ("text", "reason", "line"),
    [
        ("deploymentSpec: {}\nroot: {dag: {tasks: 3}}", "must be an object", 2),
        ("pipelineSpec: {deploymentSpec: {}, root: {}}", "no tasks", 1),
        ("root: {dag: {tasks: {a: {componentRef: 3}}}}\ncomponents: []\ndeploymentSpec: {}", "must be an object", 2),
        ("jobSpec:\n  workerPoolSpecs: [\n", "invalid YAML", 3),
    ],
)  # fmt: skip
def test_a_request_that_cannot_be_judged_is_a_finding(tmp_path, text, reason, line):
    path = tmp_path / "spec.yaml"
    path.write_text(text)
    for report in (check([path]), check([path], skip_others=True), check([tmp_path])):
        assert report.exit_code == 2 and not report.unreadable
        assert [(each.rule, each.line) for each in report.findings] == [("GPU031", line)]
        assert reason in report.findings[0].message


def test_missing_and_binary_files_are_unreadable(tmp_path):
    (tmp_path / "b.json").write_bytes(b"\xff\xfe\x00")
    report = check([tmp_path / "b.json", tmp_path / "none.json"])
    assert len(report.unreadable) == 2 and report.exit_code == 2


def test_a_folder_is_searched_and_other_yaml_in_it_is_left_alone(tmp_path):
    (tmp_path / "sub").mkdir()
    (tmp_path / "sub" / "job.json").write_text(json.dumps(job(pool(count=3))))
    (tmp_path / "compose.yaml").write_text("services: {}")
    for name, text in {"chart.yaml": "{{ .Values }}: a: b", "tsconfig.json": "{// no\n}", "old.py": "print 1"}.items():
        (tmp_path / name).write_text(text)
    report = check([tmp_path])
    assert report.exit_code == 1 and len(report.steps) == 1
    (tmp_path / "chart.yaml").write_text("workerPoolSpecs: {{ .Values }}: a")
    assert check([tmp_path]).exit_code == 2


def test_a_program_of_a_folder_without_a_word_of_a_request_is_not_parsed(tmp_path, monkeypatch):
    (tmp_path / "large.py").write_text("x = [1]\n" * 1000)
    (tmp_path / "asks.py").write_text('model.deploy(machine_type="n1-standard-4")\n')
    parsed = []
    whole = ast.parse
    monkeypatch.setattr(ast, "parse", lambda text: parsed.append(text) or whole(text))
    assert len(check([tmp_path]).steps) == 1
    assert parsed == [(tmp_path / "asks.py").read_text()]


def test_an_alias_that_contains_itself_is_judged_like_any_other():
    assert check(parse("a.yaml", "workerPoolSpecs: &a [*a]\n"), as_of=DAY).errors


@pytest.mark.parametrize(
    "name", ["RTX 4090", "NVIDIA_RTX_4090", "GeForce RTX 3060 Ti", "A10G", "RTX A6000", "L40S", "MI300X"]
)
def test_a_gpu_that_vertex_ai_lacks_is_reported_with_the_nearest(name):
    [finding] = [each for each in judged(job(pool(accelerator=name))).findings if each.rule == "GPU002"]
    assert "Vertex AI does not offer" in finding.message and "The nearest: NVIDIA_" in finding.suggestion


@pytest.mark.parametrize("name", ["A100", "L4", "H100", "T4", "V100", "P100", "A100-80GB", "L 4"])
def test_a_short_name_of_a_gpu_that_there_is_is_no_card_of_others(name):
    [finding] = [each for each in judged(job(pool(accelerator=name))).findings if each.rule == "GPU002"]
    assert finding.suggestion.startswith("Did you mean NVIDIA_")


def test_a_replica_count_of_0_and_a_missing_one_have_different_findings():
    missing = pool()
    del missing["replicaCount"]
    of = {"none": missing, "zero": pool(replicas=0), "three": pool(replicas=3)}
    said = {
        name: [each.suggestion for each in judged(job(it)).findings if each.rule == "GPU007"] for name, it in of.items()
    }
    assert said == {"none": ["Set replicaCount to 1."], "zero": ["Set replicaCount to 1."],
                    "three": ["Move the other 2 to pool 1."]}  # fmt: skip
    assert not errors(job(missing)) and errors(job(pool(replicas=0))) == ["GPU007"]


def test_a_pool_with_nothing_to_run_is_an_error():
    empty = pool()
    del empty["containerSpec"]
    assert errors(job(empty)) == ["GPU007"]


@pytest.mark.parametrize(
    ("name", "value", "is_reported"),
    [
        ("HF_TOKEN", "hf_abcdefghijklmnopqrstuvwx", True),
        ("ANY", "AKIAABCDEFGHIJKLMNOP", True),
        ("DB_PASSWORD", "correct horse", True),
        ("DB_PASSWORD", "projects/p/secrets/db", False),
        ("KEY_FILE", "/secrets/key.json", False),
        ("TOKENIZERS_PARALLELISM", "false-and-long", False),
        ("API_KEY", "$API_KEY_OF_THE_SHELL", False),
    ],
)
def test_a_variable_that_looks_like_a_credential_is_told_without_its_value(name, value, is_reported):
    container = {**IMAGE, "env": [{"name": name, "value": value}]}
    found = [each for each in judged(job(pool(containerSpec=container))).findings if each.rule == "GPU033"]
    assert bool(found) == is_reported and not any(value in each.message for each in found)


def test_several_kinds_of_gpu_must_be_in_one_zone():
    mixed = job(pool(), pool(accelerator="NVIDIA_TESLA_V100"), pool(accelerator="NVIDIA_TESLA_P4"))

    def find_mixed_gpus(data, region):
        found = [each for each in judged(data, regions=[region]).findings if "The job mixes" in each.message]
        return [(each.rule, each.severity, each.message) for each in found]

    assert not find_mixed_gpus(mixed, "us-central1")  # zones a and c have all three
    assert not find_mixed_gpus(job(pool(), pool(accelerator="NVIDIA_TESLA_V100")), "asia-east1")  # zone c has both
    l4 = pool("g2-standard-8", "NVIDIA_L4")
    h200 = pool("a3-ultragpu-8g", "NVIDIA_H200_141GB", 8)
    ((rule, level, text),) = find_mixed_gpus(job(l4, h200, strategy="SPOT"), "us-east4")
    assert (rule, level) == ("GPU010", "error")
    assert "NVIDIA_L4 is in us-east4-a, us-east4-c; NVIDIA_H200_141GB is in us-east4-b" in text
    b200 = pool("a4-highgpu-8g", "NVIDIA_B200", 8)
    ((rule, level, text),) = find_mixed_gpus(job(l4, b200, strategy="SPOT"), "us-central1")
    assert (rule, level) == ("GPU010", "warning") and "not checkable" in text
    assert not find_mixed_gpus(job(pool(), pool(count=2)), "us-central1")
    persistent = {**job(l4, h200), "persistentResourceId": "mine"}
    assert not find_mixed_gpus(persistent, "us-east4")


PREBUILT = {"imageUri": "us-docker.pkg.dev/vertex-ai/training/pytorch-gpu.2-4.py310:latest"}
SERVERS = pool("n1-highcpu-16", None, None, replicas=4) | {
    "containerSpec": {"imageUri": "europe-docker.pkg.dev/vertex-ai-restricted/training/reductionserver:latest"}
}


@pytest.mark.parametrize(
    ("workers", "words"),
    [
        ([pool(), pool(replicas=3)], "us-docker.pkg.dev/p/r/i:1 has google-reduction-server"),
        ([pool(containerSpec=PREBUILT), pool()], "us-docker.pkg.dev/p/r/i:1 has google-reduction-server"),
        ([pool(containerSpec=PREBUILT), pool(replicas=3, containerSpec=PREBUILT)], None),
        ([pool(containerSpec=PREBUILT), {}], "fewer than two"),
        ([pool("n1-standard-8", None, None), pool("n1-standard-8", None, None)], "fewer than two"),
        ([pool("${MACHINE}", None, None, containerSpec=PREBUILT), {}], None),
    ],
)
def test_unused_reduction_servers_are_reported(workers, words):
    found = [each for each in judged(job(*workers, SERVERS)).findings if each.rule == "GPU036"]
    assert [each.severity for each in found] == (["warning"] if words else [])
    assert not words or words in found[0].message
    assert not [each for each in judged(job(*workers)).findings if each.rule == "GPU036"]


def test_of_a_job_of_thousands_of_pools_the_first_are_judged():
    findings = judged(job(*[pool()] * 99, *[pool("n1-standrd-4")] * 3_000)).findings
    assert [each.path[1] for each in findings if each.rule == "GPU001"] == [99]
    assert any("this one has 3,099. The first 100 are judged." in each.message for each in findings)


def test_horovodrun_gets_a_note_with_its_replacement_for_the_chief_only():
    def notes(program):
        body = {**IMAGE, "command": [program, "-np", "8", "python", "train.py"]}
        report = judged(job(*[pool(containerSpec=body)] * 2))
        return [(each.rule, each.severity) for each in report.findings if "SSH" in each.message]

    assert notes("horovodrun") == [("GPU022", "note")] and not notes("torchrun")
