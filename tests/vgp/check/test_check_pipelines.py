"""Compiled pipelines: every kind of task, values by default, by constant, and known only to the run."""

import json
from datetime import date
from importlib.resources import files

import pytest

from vgp.base.documents.document import Document
from vgp.check.checker import check

DAY = date(2026, 11, 20)


@pytest.fixture(scope="module")
def report(every_kind):
    return check([every_kind[0]], as_of=DAY)


def of(report, step):
    return {(finding.rule, finding.severity) for finding in report.findings if finding.step == step}


def rows(report, step):
    return [
        (row.machine_type, row.accelerator_type, row.accelerator_count, row.replicas, row.strategy)
        for row in report.steps
        if row.step == step
    ]


def test_plain_resources_are_read(report):
    assert rows(report, "plain") == [("n1-standard-4", "NVIDIA_TESLA_T4", 1, 1, "STANDARD")]
    assert of(report, "plain") == set()


def test_a_wrong_count_of_a_plain_step_is_an_error(report):
    assert ("GPU003", "error") in of(report, "plain-2")


def test_a_default_of_a_pipeline_parameter_is_judged(report):
    assert rows(report, "plain-3") == [("g2-standard-24", "NVIDIA_L4", 2, 1, "STANDARD")]
    quota = next(finding for finding in report.findings if finding.step == "plain-3")
    assert "default of the pipeline parameter 'gpu'" in quota.message
    assert quota.field == "root.inputDefinitions.parameters.gpu.defaultValue"


def test_a_parameter_without_default_is_not_checkable(report):
    assert of(report, "plain-4") == {("GPU024", "note")}


def test_a_wrapped_component_has_its_pools_in_the_default_of_an_input(report):
    assert rows(report, "train") == [("g2-standard-24", "NVIDIA_L4", 2, 3, "SPOT")]


def test_environment_on_the_wrapped_task_is_found_lost(report):
    lost = next(finding for finding in report.findings if finding.rule == "GPU029")
    assert lost.step == "train" and "LOST" in lost.message


def test_literal_pools_are_read_with_their_placeholders(report):
    assert rows(report, "custom-training-job") == [("g2-standard-8", "NVIDIA_L4", 1, 1, "STANDARD")]
    assert ("GPU003", "error") in of(report, "custom-training-job-2")
    assert rows(report, "custom-training-job-3") == [("n1-standard-4", None, 0, 1, "STANDARD")]


def test_tuning_counts_the_trials_that_run_at_a_time(report):
    assert rows(report, "hyperparameter-tuning-job") == [("n1-standard-4", "NVIDIA_TESLA_T4", 1, 2, "STANDARD")]


def test_predictions_and_deployments_are_judged(report):
    assert ("GPU003", "error") in of(report, "model-batch-predict")
    assert rows(report, "model-deploy") == [("g2-standard-12", "NVIDIA_L4", 1, 1, "STANDARD")]


def test_a_loop_item_is_not_checkable(report):
    assert ("GPU024", "note") in of(report, "plain-5")
    assert not any(severity == "error" for _, severity in of(report, "plain-5"))


def test_yaml_gives_the_same_findings_as_json(every_kind, report):
    other = check([every_kind[1]], as_of=DAY)
    key = lambda finding: (finding.rule, finding.step, finding.field)  # noqa: E731
    assert sorted(map(key, other.findings)) == sorted(map(key, report.findings))


def test_json_and_yaml_lines_point_at_the_key(every_kind):
    for path in every_kind:
        lines = path.read_text().splitlines()
        for finding in check([path], as_of=DAY).findings:
            last = finding.path[-1] if isinstance(finding.path[-1], str) else ""
            if last in ("accelerator_count", "defaultValue", "resourceCount"):
                assert last in lines[finding.line - 1]


def test_values_of_the_run_take_the_place_of_defaults(every_kind):
    spec = json.loads(every_kind[0].read_text())
    job = {"pipelineSpec": spec, "runtimeConfig": {"parameterValues": {"gpu": "NVIDIA_L5", "count": 1}}}
    report = check([Document("job.json", job, json.dumps(job))], as_of=DAY)
    assert ("GPU002", "error") in of(report, "plain-4")
    wrong = next(finding for finding in report.findings if finding.step == "plain-4")
    assert wrong.field == "runtimeConfig.parameterValues.gpu"


def test_an_empty_default_is_for_the_run_to_fill_in(every_kind):
    spec = json.loads(every_kind[0].read_text())
    spec["root"]["inputDefinitions"]["parameters"]["machine"]["defaultValue"] = ""
    report = check([Document("p.json", spec, json.dumps(spec))], as_of=DAY)
    assert ("GPU024", "note") in of(report, "custom-training-job")
    assert not any(severity == "error" for _, severity in of(report, "custom-training-job"))


def test_the_form_of_kfp_1_8_is_read():
    payload = (
        '{"display_name": "{{$.inputs.parameters[\'display_name\']}}", "job_spec": {"worker_pool_specs": '
        "{{$.inputs.parameters['worker_pool_specs']}}}}"
    )
    pools = [
        {"machineSpec": {"machineType": "n1-standard-4", "acceleratorType": "NVIDIA_TESLA_T4", "acceleratorCount": 8},
         "replicaCount": 1, "containerSpec": {"imageUri": "us-docker.pkg.dev/p/r/i:1"}}
    ]  # fmt: skip
    task = {
        "componentRef": {"name": "comp-job"},
        "inputs": {
            "parameters": {
                "worker_pool_specs": {"runtimeValue": {"constantValue": {"stringValue": json.dumps(pools)}}},
                "display_name": {"runtimeValue": {"constantValue": {"stringValue": "x"}}},
            }
        },
    }
    inputs = {name: {"type": "STRING"} for name in ("worker_pool_specs", "display_name")}
    spec = {
        "pipelineSpec": {
            "root": {"dag": {"tasks": {"job": task}}},
            "components": {"comp-job": {"executorLabel": "e", "inputDefinitions": {"parameters": inputs}}},
            "deploymentSpec": {"executors": {"e": {"container": {"image": "x:1", "args": ["--payload", payload]}}}},
        }
    }
    report = check([Document("old.json", spec, json.dumps(spec))], as_of=DAY)
    assert [finding.rule for finding in report.findings if finding.severity == "error"] == ["GPU003"]


@pytest.mark.parametrize(
    ("kind", "method", "accelerator", "count", "errors"),
    [
        ("CustomContainerTrainingJob", "run", "NVIDIA_TESLA_T4", "1", []),
        ("CustomPythonPackageTrainingJob", "run", "NVIDIA_TESLA_T4", "3", ["GPU003"]),
        ("CustomContainerTrainingJob", "run", "NVIDIA_TESLA_K80", "1", ["GPU011"]),
        ("Model", "batch_predict", "NVIDIA_TESLA_T4", "8", ["GPU003"]),
        ("Model", "deploy", "NVIDIA_L4", "1", ["GPU004"]),
        ("TabularDataset", "create", "NVIDIA_TESLA_T4", "3", []),
    ],
)
def test_steps_that_call_the_sdk_by_name_are_read(kind, method, accelerator, count, errors):
    args = ["--cls_name", kind, "--method_name", method, "--init.container_uri", "r/i:1"]
    args += ["--method.machine_type", "n1-standard-4", "--method.accelerator_type", accelerator]
    args += ["--method.accelerator_count", "{{$.inputs.parameters['accelerator_count']}}"]
    command = ["python3", "-m", "google_cloud_pipeline_components.container.aiplatform.remote_runner"]
    constant = {"runtimeValue": {"constantValue": {"intValue": count}}}
    task = {"componentRef": {"name": "c"}, "inputs": {"parameters": {"accelerator_count": constant}}}
    inputs = {"parameters": {"accelerator_count": {"type": "INT"}}}
    spec = {
        "root": {"dag": {"tasks": {"train": task}}},
        "components": {"c": {"executorLabel": "e", "inputDefinitions": inputs}},
        "deploymentSpec": {"executors": {"e": {"container": {"image": "x:1", "command": command, "args": args}}}},
    }
    report = check([Document("old.json", spec, json.dumps(spec))], as_of=DAY)
    assert [finding.rule for finding in report.findings if finding.severity == "error"] == errors


def google_pipelines():
    root = files("google_cloud_pipeline_components")
    return sorted(str(path) for path in root.rglob("*pipeline*.yaml")) + sorted(map(str, root.rglob("*pipeline.json")))


@pytest.mark.parametrize("path", google_pipelines(), ids=lambda path: path.rsplit("/", 1)[-1])
def test_googles_own_pipelines_have_no_error(path):
    report = check([path], as_of=DAY)
    assert report.steps and not report.unreadable
    assert [finding for finding in report.findings if finding.severity == "error"] == []


def test_a_large_spec_is_read(tmp_path):
    spec = json.loads(
        (files("google_cloud_pipeline_components") / "v1/automl/tabular/deprecated/default_pipeline.json").read_text()
    )
    spec["padding"] = ["x" * 100] * 100_000
    path = tmp_path / "large.json"
    path.write_text(json.dumps(spec))
    assert path.stat().st_size > 10_000_000
    assert check([path], as_of=DAY).exit_code == 0


def step(spec, component="work", container=None, **task):
    """A spec of one step, or of one step in a loop, with more fields of its task and its container."""
    spec = {
        "components": {
            "work": {"executorLabel": "e", "inputDefinitions": {"parameters": {"gpu": {"isOptional": True}}}},
            "loop": {
                "dag": {"tasks": {"work": {"componentRef": {"name": "work"}, **spec}}},
                "inputDefinitions": {"parameters": {"items": {}}},
            },
        },
        "deploymentSpec": {"executors": {"e": {"container": {"image": "r/i:1", **(container or {})}}}},
        "root": {
            "dag": {"tasks": {"task": {"componentRef": {"name": component}, **task}}},
            "inputDefinitions": {"parameters": {"sizes": {"defaultValue": [1, 2, 3]}, "later": {}}},
        },
    }
    return check([Document("p.json", spec, json.dumps(spec))], as_of=DAY, regions=["us-central1"]).steps


def given(name):
    return {"inputs": {"parameters": {"items": {"componentInputParameter": name}}}}


ITEMS = {"itemInput": "item", "items": {"inputParameter": "items"}}


@pytest.mark.parametrize(
    ("arguments", "turns", "tries"),
    [
        (({}, "work"), 1, 1), (({"retryPolicy": {"maxRetryCount": 2}}, "loop"), 1, 3),
        (({}, "work", {"retryPolicy": {"maxRetryCount": -3}}), 1, 1),
        (({"retryPolicy": {"maxRetryCount": "2"}}, "loop", {"retryPolicy": {"maxRetryCount": 1}}), 1, 6),
        (({}, "loop", {"parameterIterator": {"items": {"raw": "[1, 2]"}}}), 2, 1),
        (({}, "loop", {"parameterIterator": ITEMS, **given("sizes")}), 3, 1),
        (({"parameterIterator": {"items": {"raw": "[1, 2]"}}}, "loop",
          {"parameterIterator": ITEMS, **given("sizes")}), 6, 1),
        (({}, "loop", {"parameterIterator": ITEMS, **given("later")}), None, 1),
        (({}, "loop", {"artifactIterator": {"itemInput": "x"}}), None, 1),
    ],
)  # fmt: skip
def test_loops_and_retries_count_in_what_a_step_can_cost(arguments, turns, tries):
    task = arguments[2] if len(arguments) > 2 else {}
    (once,) = step({}, "work")
    (row,) = step(*arguments[:2], **task)
    assert (row.turns, row.tries) == (turns, tries)
    assert row.max_usd == (None if turns is None else pytest.approx(once.max_usd * turns * tries))


@pytest.mark.parametrize(
    ("command", "value", "seconds"),
    [
        ('timeout "$STEP_TIMEOUT_S" "$0" "$@"', "3600", 3600), ('timeout "$STEP_TIMEOUT_S" "$0"', "900000", 604_800),
        ("exec serve", "3600", 604_800), ('timeout "$STEP_TIMEOUT_S" "$0"', "0", 604_800),
        ('timeout "$STEP_TIMEOUT_S" "$0"', "4h", 604_800),
        ('timeout "$STEP_TIMEOUT_S" "$0"', "{{$.inputs.parameters['gpu']}}", 604_800),
    ],
)  # fmt: skip
def test_the_limit_of_a_plain_step_counts_only_where_its_command_keeps_it(command, value, seconds):
    env = [{"name": "OTHER", "value": "1"}, {"name": "STEP_TIMEOUT_S", "value": value}]
    (row,) = step({}, container={"command": ["sh", "-c", command, "python"], "env": env})
    assert row.timeout_s == seconds
    (without,) = step({}, container={"command": ["sh", "-c", command, "python"]})
    assert without.timeout_s == 604_800


@pytest.mark.parametrize(
    ("max_hours", "said"),
    [
        ({"max_hours": 6}, "6h 00m"),
        ({"max_hours": 4}, "4h 00m"), ({}, "1d 00h"), ({"max_hours": 3.9}, ""),
    ],
)  # fmt: skip
@pytest.mark.parametrize("is_job", [False, True])
def test_a_step_that_ends_before_its_dataflow_job_may_is_a_warning(max_hours, said, is_job):
    engines = json.dumps({"dataflow": {"region": "us-central1", "max_workers": 3, **max_hours}})
    env = [{"name": "STEP_TIMEOUT_S", "value": "14400"}, {"name": "PREPARE_ENGINES", "value": engines}]
    pool = {"machineSpec": {"machineType": "n2-standard-4"}, "containerSpec": {"imageUri": "a/b/c:1", "env": env}}
    job = {"workerPoolSpecs": [{**pool, "replicaCount": 1}], "scheduling": {"timeout": "14400s"}}
    plain = {"image": "a/b/c:1", "command": ["sh", "-c", 'timeout "$STEP_TIMEOUT_S" "$0"', "python"], "env": env}
    executor = {"customJob": {"customJob": {"jobSpec": job}}} if is_job else {"container": plain}
    found = [finding for finding in checked(executor).findings if finding.rule == "GPU028"]
    assert bool(found) == bool(said)
    for finding in found:
        assert finding.severity == "warning" and said in finding.message
        assert "Dataflow" in finding.message and "max_hours" in finding.suggestion


def checked(executor):
    spec = {
        "components": {"work": {"executorLabel": "e"}},
        "deploymentSpec": {"executors": {"e": executor}},
        "root": {"dag": {"tasks": {"work": {"componentRef": {"name": "work"}}}}},
    }
    return check([Document("p.json", spec, "")], as_of=DAY)


def test_the_trials_of_a_tuning_job_run_in_rounds(report):
    (row,) = [row for row in report.steps if row.step == "hyperparameter-tuning-job"]
    assert (row.replicas, row.tries) == (2, 2)


def test_a_job_whose_pools_only_the_run_knows_is_a_step_without_a_machine():
    spec = {
        "components": {"work": {"executorLabel": "e", "inputDefinitions": {"parameters": {"pools": {}}}}},
        "deploymentSpec": {"executors": {"e": {"container": {
            "image": "gcr.io/ml-pipeline/google-cloud-pipeline-components:2.22.0",
            "args": ["--payload", '{"job_spec": {"worker_pool_specs": {{$.inputs.parameters[\'pools\']}}}}'],
        }}}},
        "root": {
            "dag": {"tasks": {"work": {
                "componentRef": {"name": "work"},
                "inputs": {"parameters": {"pools": {"componentInputParameter": "pools"}}},
            }}},
            "inputDefinitions": {"parameters": {"pools": {}}},
        },
    }  # fmt: skip
    (row,) = check([Document("p.json", spec, json.dumps(spec))], as_of=DAY, regions=["us-central1"]).steps
    assert (row.step, row.machine_type, row.max_usd) == ("work", None, None)
    assert row.unknown_reason == "its machine is not known"


@pytest.mark.parametrize(("timeout", "is_reported"), [("604800s", False), ("604801s", True), ("1209600s", True)])
def test_a_job_cannot_run_for_longer_than_the_task_that_waits_for_it(timeout, is_reported):
    pool = {"machineSpec": {"machineType": "n1-standard-4"}, "replicaCount": 1,
            "containerSpec": {"imageUri": "us-docker.pkg.dev/p/r/i:1"}}  # fmt: skip
    payload = json.dumps({"jobSpec": {"workerPoolSpecs": [pool], "scheduling": {"timeout": timeout}}})
    launcher = {"image": "gcr.io/ml-pipeline/google-cloud-pipeline-components:2.20.1",
                "args": ["--type", "CustomJob", "--payload", payload]}  # fmt: skip
    spec = {
        "root": {"dag": {"tasks": {"job": {"componentRef": {"name": "comp-job"}}}}},
        "components": {"comp-job": {"executorLabel": "e"}},
        "deploymentSpec": {"executors": {"e": {"container": launcher}}},
    }
    report = check([Document("long.json", spec, json.dumps(spec))], as_of=DAY)
    found = [finding.message for finding in report.findings if finding.severity == "error"]
    assert [("GPU028" in {each.rule for each in report.findings}), bool(found)] == [is_reported, is_reported]


@pytest.mark.parametrize(
    ("kind", "count", "severity"),
    [("NVIDIA_H100_80GB", 8, "warning"), ("NVIDIA_B200", 8, "warning"), ("NVIDIA_H100_80GB", 3, "error"),
     ("NVIDIA_L4", 4, "")],
)  # fmt: skip
def test_newer_gpus_on_a_plain_step_are_a_warning_since_the_pages_contradict_each_other(kind, count, severity):
    spec = {
        "root": {"dag": {"tasks": {"t": {"componentRef": {"name": "c"}}}}},
        "components": {"c": {"executorLabel": "e"}},
        "deploymentSpec": {"executors": {"e": {"container": {
            "image": "us-docker.pkg.dev/p/r/i:1", "resources": {"accelerator": {"type": kind, "count": str(count)}},
        }}}},
    }  # fmt: skip
    found = check([Document("p.json", spec, json.dumps(spec))], as_of=DAY).findings
    about = [each.severity for each in found if each.rule in ("GPU014", "GPU003")]
    assert about == ([severity] if severity else [])


@pytest.mark.parametrize(
    ("default", "said"),
    [("", {("GPU024", "note")}), ("n1-standrad-8", {("GPU001", "error")}), ("g2-standard-8", set())],
)
def test_the_machine_of_a_prediction_that_only_the_run_names_is_unknown(every_kind, default, said):
    spec = json.loads(every_kind[0].read_text())
    spec["root"]["inputDefinitions"]["parameters"]["machine"]["defaultValue"] = default
    given = spec["root"]["dag"]["tasks"]["model-batch-predict"]["inputs"]["parameters"]
    given["machine_type"] = {"componentInputParameter": "machine"}
    for name in ("accelerator_type", "accelerator_count"):
        given.pop(name, None)
    found = of(check([Document("p.json", spec, json.dumps(spec))], as_of=DAY), "model-batch-predict")
    assert {each for each in found if each[0] in ("GPU001", "GPU024")} == said


@pytest.mark.parametrize(
    ("command", "args", "seconds"),
    [
        (["timeout", "-k", "60", "4h", "serve"], [], 14_460),
        (["/usr/bin/timeout", "--kill-after=1m", "90", "serve"], ["x"], 150),
        (["timeout"], ["--foreground", "-k", "10", "1.5m", "serve"], 100),
        (["timeout", "4h", "serve"], [], 604_800),  # SIGTERM alone, which a program may ignore
        (["timeout", "-k", "60", "0", "serve"], [], 604_800),  # 0: never
        (["serve", "timeout", "-k", "60", "4h", "x"], [], 604_800),
        (["timeout", "-k", "60", "30d", "serve"], [], 604_800),
    ],
)
def test_a_container_that_coreutils_ends_counts_for_so_long(command, args, seconds):
    (row,) = step({}, container={"command": command, "args": args})
    assert (row.timeout_s, row.is_endless) == (seconds, seconds == 604_800 and "30d" not in command)
