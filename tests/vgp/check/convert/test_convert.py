"""Legacy jobs and gcloud lines as Vertex AI jobs; judged by the API's own messages and by gcloud's own client."""

import http.server
import json
import os
import shlex
import shutil
import subprocess
import threading

import pytest
import yaml
from google.protobuf import json_format

from tests.vgp.check.convert.verb import DAY, convert
from vgp.__main__ import main
from vgp.base.documents.document import parse
from vgp.base.errors import RequestError
from vgp.check.convert import any_request as conversions
from vgp.check.convert import conversion, step_job
from vgp.check.convert.conversion import as_yaml
from vgp.check.sources import gcloud_line
from vgp.machines.placement.placing import place
from vgp.machines.placement.step_request import Request

# The two examples of Google's legacy page on GPUs.
FIRST = {
    "trainingInput": {
        "scaleTier": "CUSTOM",
        "masterType": "n1-highcpu-16",
        "masterConfig": {"acceleratorConfig": {"count": 4, "type": "NVIDIA_TESLA_T4"}},
        "workerType": "n1-highcpu-16",
        "workerCount": 9,
        "workerConfig": {"acceleratorConfig": {"count": 4, "type": "NVIDIA_TESLA_T4"}},
        "parameterServerType": "large_model",
        "parameterServerCount": 3,
    }
}
SECOND = {
    "trainingInput": {
        "scaleTier": "CUSTOM",
        "masterType": "complex_model_m_gpu",
        "workerType": "complex_model_m_gpu",
        "workerCount": 9,
        "parameterServerType": "large_model",
        "parameterServerCount": 3,
    }
}


def converted(data):
    return conversions.convert_document(parse("job.yaml", yaml.safe_dump(data))[0], as_of=DAY)


def machines(config):
    pools = config["workerPoolSpecs"]
    return [(pool["machineSpec"], pool["replicaCount"]) if pool else None for pool in pools]


def test_the_first_example_of_the_legacy_page_converts():
    result = converted(FIRST)
    t4 = {"machineType": "n1-highcpu-16", "acceleratorType": "NVIDIA_TESLA_T4", "acceleratorCount": 4}
    assert machines(result.config) == [(t4, 1), (t4, 9), ({"machineType": "n1-highmem-8"}, 3)]
    assert conversions.check_conversion(result, as_of=DAY).errors == 0


def test_the_second_example_is_refused_with_the_nearest_living_gpu(tmp_path, capsys):
    path = tmp_path / "job.yaml"
    path.write_text(yaml.safe_dump(SECOND))
    assert convert(str(path)) == 1
    printed = capsys.readouterr()
    assert printed.out == ""
    assert "NVIDIA_TESLA_K80 is retired" in printed.err
    assert "4 x NVIDIA_TESLA_T4 on n1-standard-16" in printed.err


@pytest.mark.parametrize(
    ("tier", "pools"),
    [
        ("BASIC", [("n1-standard-4", 1)]),
        ("STANDARD_1", [("n1-highcpu-16", 1), ("n1-highcpu-16", 4), ("n1-highcpu-16", 3)]),
        ("PREMIUM_1", [("n1-highcpu-16", 1), ("n1-highcpu-16", 19), ("n1-highcpu-16", 11)]),
    ],
)
def test_scale_tiers_are_spelled_out(tier, pools):
    result = converted({"trainingInput": {"scaleTier": tier}})
    assert [(spec["machineType"], count) for spec, count in machines(result.config)] == pools


def test_every_field_is_accounted_for():
    inputs = FIRST["trainingInput"] | {
        "region": "us-central1", "runtimeVersion": "2.11", "pythonVersion": "3.7", "packageUris": ["gs://b/t.tar.gz"],
        "pythonModule": "trainer.task", "jobDir": "gs://b/job", "args": ["--epochs", "3"], "serviceAccount": "s@p",
        "network": "n", "useChiefInTfConfig": True, "encryptionConfig": {"kmsKeyName": "k"}, "someday": 1,
        "scheduling": {"maxRunningTime": "7200s", "maxWaitTime": "60s", "priority": 3},
    }  # fmt: skip
    result = converted({"jobId": "my_job", "trainingInput": inputs})
    noted = {note.field.split(".")[0] for note in result.notes}
    assert {name for name in inputs if not name.endswith("Count")} - noted <= {"parameterServerConfig"}
    dropped = {note.field for note in result.notes if note.dropped}
    assert dropped == {"scheduling.maxWaitTime", "scheduling.priority", "useChiefInTfConfig", "someday"}
    assert result.config["scheduling"] == {"timeout": "7200s"}
    assert result.config["baseOutputDirectory"] == {"outputUriPrefix": "gs://b/job"}
    package = result.config["workerPoolSpecs"][0]["pythonPackageSpec"]
    assert package["args"] == ["--epochs", "3", "--job-dir=gs://b/job"]
    assert "tf-gpu.2-11" in package["executorImageUri"]
    assert result.command() == (
        "gcloud ai custom-jobs create --region=us-central1 --display-name=my_job --config=config.yaml --kms-key=k"
    )


def test_hyperparameters_make_it_a_tuning_job():
    inputs = FIRST["trainingInput"] | {
        "hyperparameters": {
            "goal": "MINIMIZE", "hyperparameterMetricTag": "loss", "maxTrials": 8, "maxParallelTrials": 2,
            "params": [
                {"parameterName": "lr", "type": "DOUBLE", "minValue": 1e-4, "maxValue": 0.1,
                 "scaleType": "UNIT_LOG_SCALE"},
                {"parameterName": "layers", "type": "INTEGER", "minValue": 1, "maxValue": 4},
                {"parameterName": "act", "type": "CATEGORICAL", "categoricalValues": ["relu", "gelu"]},
                {"parameterName": "batch", "type": "DISCRETE", "discreteValues": [32, 64]},
            ],
        }
    }  # fmt: skip
    result = converted({"trainingInput": inputs})
    from google.cloud.aiplatform_v1 import HyperparameterTuningJob

    body = {**result.config, "displayName": "x"}
    parsed = HyperparameterTuningJob.from_json(json.dumps(body))
    assert (parsed.max_trial_count, parsed.parallel_trial_count) == (8, 2)
    assert [each.parameter_id for each in parsed.study_spec.parameters] == ["lr", "layers", "act", "batch"]
    assert parsed.trial_job_spec.worker_pool_specs[1].replica_count == 9


def tuned(*params):
    hyperparameters = {
        "goal": "MAXIMIZE",
        "maxTrials": 2,
        "params": [{"parameterName": "p", **each} for each in params],
    }
    return converted({"trainingInput": {"scaleTier": "BASIC", "hyperparameters": hyperparameters}})


def test_values_of_parameters_are_lists_of_numbers_or_texts_as_the_api_has_them():
    from google.cloud.aiplatform_v1 import HyperparameterTuningJob

    result = tuned(
        {"type": "DISCRETE", "discreteValues": 512}, {"type": "DISCRETE", "discreteValues": ["1", 2.5]},
        {"type": "CATEGORICAL", "categoricalValues": "relu"}, {"type": "CATEGORICAL", "categoricalValues": [1, True]},
        {"type": "INTEGER", "minValue": "1", "maxValue": 3.0}, {"type": "DOUBLE", "minValue": "0.1", "maxValue": 1},
    )  # fmt: skip
    specs = [{**each} for each in result.config["studySpec"]["parameters"]]
    assert [each.get("discreteValueSpec") for each in specs[:2]] == [{"values": [512]}, {"values": [1, 2.5]}]
    assert [each.get("categoricalValueSpec") for each in specs[2:4]] == [
        {"values": ["relu"]},
        {"values": ["1", "true"]},
    ]
    assert specs[4]["integerValueSpec"] == {"minValue": "1", "maxValue": "3"}
    assert specs[5]["doubleValueSpec"] == {"minValue": 0.1, "maxValue": 1}
    assert HyperparameterTuningJob.from_json(json.dumps({**result.config, "displayName": "x"}))
    assert any(each.field == "discreteValues" and "list of one" in each.became for each in result.notes)


@pytest.mark.parametrize(
    "wrong",
    [{"type": "DISCRETE", "discreteValues": "1,2"}, {"type": "DISCRETE", "discreteValues": []},
     {"type": "DISCRETE", "discreteValues": {"values": [1]}}, {"type": "CATEGORICAL", "categoricalValues": [["a"]]},
     {"type": "INTEGER", "minValue": "x", "maxValue": 2}, {"type": "INTEGER", "minValue": 0.5, "maxValue": 2},
     {"type": "DOUBLE", "minValue": [1], "maxValue": 2}, {"type": "DOUBLE", "minValue": "nan", "maxValue": 2}],
)  # fmt: skip
def test_values_that_the_api_does_not_take_are_refused(wrong):
    assert [each.rule for each in tuned(wrong).findings if each.severity == "error"] == ["GPU025"]
    assert conversions.result(tuned(wrong), as_of=DAY).has_failed


def test_the_only_value_of_a_list_stands_in_a_list():
    study = {"parameters": [{"parameterId": "p", "discreteValueSpec": {"values": 512}}]}
    pool = {
        "machine_spec": {"machine_type": "n1-standard-4"},
        "python_package_spec": {"package_uris": "gs://b/p.tar.gz"},
    }
    result = converted({"studySpec": study, "trialJobSpec": {"worker_pool_specs": [pool]}})
    assert result.config["studySpec"]["parameters"][0]["discreteValueSpec"] == {"values": [512]}
    assert result.job["workerPoolSpecs"][0]["pythonPackageSpec"]["packageUris"] == ["gs://b/p.tar.gz"]
    assert len([each for each in result.notes if "list of one" in each.became]) == 2


def test_placeholders_stay_in_the_conversion_and_are_noted():
    inputs = {
        "scaleTier": "CUSTOM", "region": "YOUR-REGION", "masterType": "{{ machine }}", "jobDir": "gs://YOUR_BUCKET/x",
        "masterConfig": {"imageUri": "<image>", "acceleratorConfig": {"type": "YOUR_GPU", "count": 1}},
    }  # fmt: skip
    found = conversions.result(converted({"trainingInput": inputs}), as_of=DAY)
    (pool,) = found.conversion.config["workerPoolSpecs"]
    assert pool["machineSpec"] == {"machineType": "{{ machine }}", "acceleratorType": "YOUR_GPU", "acceleratorCount": 1}
    assert pool["containerSpec"]["imageUri"] == "<image>" and "--region=YOUR-REGION" in found.conversion.command()
    assert found.conversion.config["baseOutputDirectory"] == {"outputUriPrefix": "gs://YOUR_BUCKET/x"}
    assert not found.has_failed and len(found.report.of_severity("note")) == 3
    assert conversions.result(converted({"trainingInput": {**inputs, "workerCount": "$N"}}), as_of=DAY).has_failed


def strictly_parsed(config):
    from google.cloud.aiplatform_v1 import CustomJobSpec

    return json_format.ParseDict(config, CustomJobSpec.pb(CustomJobSpec()))


@pytest.mark.parametrize(
    "line",
    [
        """gcloud ai-platform jobs submit training my_job --region us-central1 --scale-tier custom \\
          --master-machine-type n1-standard-16 --master-accelerator count=2,type=nvidia-tesla-t4 \\
          --master-image-uri us-docker.pkg.dev/p/r/i:1 --worker-count 2 --worker-machine-type=n1-standard-16 \\
          --worker-accelerator=type=nvidia-tesla-t4,count=2 -- --lr 3""",
        (
            "gcloud ai custom-jobs create --region=us-central1 --display-name=x --args=--lr,3 "
            "--worker-pool-spec=machine-type=n1-standard-16,replica-count=1,accelerator-type=NVIDIA_TESLA_T4,"
            "accelerator-count=2,container-image-uri=us-docker.pkg.dev/p/r/i:1 "
            "--worker-pool-spec=machine-type=n1-standard-16,replica-count=2,accelerator-type=NVIDIA_TESLA_T4,"
            "accelerator-count=2,container-image-uri=us-docker.pkg.dev/p/r/i:1"
        ),
    ],
)
def test_a_gcloud_line_becomes_a_config_that_the_api_knows(line, capsys):
    assert convert(line) == 0
    spec = strictly_parsed(yaml.safe_load(capsys.readouterr().out))
    assert [pool.replica_count for pool in spec.worker_pool_specs] == [1, 2]
    assert [pool.machine_spec.accelerator_count for pool in spec.worker_pool_specs] == [2, 2]
    assert list(spec.worker_pool_specs[0].container_spec.args) == ["--lr", "3"]


@pytest.mark.parametrize(
    "source",
    ["gcloud compute instances list", "gcloud ai custom-jobs create --wrong=1", "gcloud 'ai", "nowhere.yaml",
     "gcloud ai custom-jobs create --worker-pool-spec=machine=x"],
)  # fmt: skip
def test_what_cannot_be_converted_is_refused(source):
    assert convert(source) == 2


@pytest.mark.parametrize("before", ["", "$ ", "!", "! ", "%", "sudo ", "  $ sudo "])
def test_what_stands_before_a_command_in_a_page_or_a_notebook_is_passed_over(before, capsys):
    image = "us-docker.pkg.dev/p/i/t:1"
    pool = f"machine-type=n1-standard-4,container-image-uri={image}"
    line = f"gcloud ai custom-jobs create --region=us-central1 --display-name=j --worker-pool-spec={pool}"
    assert convert(before + line) == 0
    [made] = yaml.safe_load(capsys.readouterr().out)["workerPoolSpecs"]
    assert made["containerSpec"] == {"imageUri": image}


def test_a_variable_of_the_command_alone_is_noted_as_lost(capsys):
    line = "CLOUDSDK_CORE_PROJECT=p A=b=c gcloud ai custom-jobs create --region=us-central1 --display-name=j"
    assert convert(f"{line} --worker-pool-spec=machine-type=n1-standard-4,container-image-uri=eu.gcr.io/p/t:1") == 0
    err = capsys.readouterr().err
    assert "CLOUDSDK_CORE_PROJECT: lost" in err and "\nA: lost" in err and "\nb: " not in err


def test_json_has_config_pools_notes_and_findings(tmp_path, capsys):
    path = tmp_path / "job.json"
    path.write_text(json.dumps(FIRST))
    assert convert(str(path), "--json") == 0
    result = json.loads(capsys.readouterr().out)
    assert result["worker_pool_specs"][1]["machine_spec"]["accelerator_type"] == "NVIDIA_TESLA_T4"
    assert result["errors"] == 0 and result["notes"][0] == {
        "field": "scaleTier", "became": "CUSTOM: the machines of the worker pools", "dropped": False,
    }  # fmt: skip


def placement(**asked):
    return place(Request(**asked), as_of=DAY)


@pytest.mark.parametrize("to", ["config", "vm"])
def test_retries_of_a_step_are_noted_as_lost(to, tmp_path, capsys):
    settings = tmp_path / "pipelines.toml"
    settings.write_text('image = "r/i:1"\n[steps.train]\nmachine = "g2-standard-24"\nretries = 2\n')
    with pytest.raises(SystemExit):
        main(["convert", "--step", "train", "--to", to, "--settings", str(settings)])
    assert "retries: lost: only tasks of a pipeline are retried" in capsys.readouterr().err


def test_a_step_of_ours_is_a_config_that_the_api_knows():
    config = step_job.job_config(
        placement(
            machine="a3-megagpu-8g", nodes=4, env={"A": "b"}, timeout="2h",
            reservation="projects/p/zones/us-central1-a/reservations/r",
        ),
        "r/i:1", ["python"], ["-m", "x"],
    )  # fmt: skip
    spec = strictly_parsed(config)
    assert [pool.replica_count for pool in spec.worker_pool_specs] == [1, 3]
    assert spec.worker_pool_specs[1].machine_spec.reservation_affinity.values == [
        "projects/p/zones/us-central1-a/reservations/r"
    ]
    assert spec.scheduling.timeout.seconds == 7200


@pytest.mark.parametrize(
    ("asked", "flags"),
    [
        (
            {"accelerator": "T4", "count": 2},
            ["--accelerator=type=nvidia-tesla-t4,count=2", "--maintenance-policy=TERMINATE"],
        ),
        (
            {"machine": "g2-standard-24", "strategy": "spot"},
            ["--machine-type=g2-standard-24", "--provisioning-model=SPOT"],
        ),
        (
            {"machine": "a3-highgpu-8g", "strategy": "flex_start", "max_wait": "1h"},
            ["--provisioning-model=FLEX_START", "--request-valid-for-duration=3600s"],
        ),
        (
            {"machine": "e2-standard-4", "timeout": "1h"},
            ["--max-run-duration=3600s", "--instance-termination-action=DELETE"],
        ),
        (
            {"machine": "a4-highgpu-8g", "reservation": "any"},
            ["--boot-disk-type=hyperdisk-balanced", "--reservation-affinity=any"],
        ),
    ],
)
def test_a_step_of_ours_is_a_compute_engine_command(asked, flags):
    text = step_job.vm_line(placement(**asked, env={"A": "b c"}), "train", "r/i:1", ["python", "-m", "x"])
    assert "#" not in text.split("--metadata")[0]
    words = shlex.split(text)
    assert words[:5] == ["gcloud", "compute", "instances", "create", "train"]
    assert set(flags) <= set(words)
    assert ("--accelerator" in text) == ("T4" in str(asked))
    script = next(word for word in words if word.startswith("--metadata")).split("\n")[1]
    assert shlex.split(script)[-4:] == ["r/i:1", "python", "-m", "x"] and "A=b c" in shlex.split(script)


@pytest.fixture
def vertex():
    """Answers gcloud as Vertex AI would, and keeps what it was sent."""
    bodies = []

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_POST(self):
            bodies.append(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))
            answer = json.dumps({"name": "projects/1/locations/us-central1/customJobs/1", **bodies[-1]}).encode()
            self.send_response(200)
            self.send_header("Content-Type", "application/json")
            self.end_headers()
            self.wfile.write(answer)

        def log_message(self, *_):
            pass

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, args=(0.02,))
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}/", bodies
    server.shutdown()
    thread.join()
    server.server_close()


@pytest.mark.skipif(shutil.which("gcloud") is None, reason="gcloud is not installed")
@pytest.mark.parametrize("source", ["legacy", "step"])
def test_gcloud_sends_our_config_as_we_wrote_it(vertex, tmp_path, source):
    url, bodies = vertex
    config = converted(FIRST).config if source == "legacy" else step_job.job_config(
        placement(machine="g2-standard-24", nodes=2, strategy="spot", env={"A": "1"}), "r/i:1", ["x"]
    )  # fmt: skip
    path = tmp_path / "config.yaml"
    path.write_text(as_yaml(config))
    command = ["gcloud", "ai", "custom-jobs", "create", "--region=us-central1", "--display-name=j", f"--config={path}"]
    gcloud(command, url, tmp_path)
    sent = strictly_parsed(bodies[0]["jobSpec"])
    assert sent == strictly_parsed(config)


def gcloud(command, url, tmp_path):
    environment = os.environ | {
        "CLOUDSDK_AUTH_DISABLE_CREDENTIALS": "true", "CLOUDSDK_CORE_DISABLE_PROMPTS": "1", "CLOUDSDK_CORE_PROJECT": "p",
        "CLOUDSDK_API_ENDPOINT_OVERRIDES_AIPLATFORM": url, "CLOUDSDK_CONFIG": str(tmp_path / "gcloud"),
    }  # fmt: skip
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr


@pytest.mark.skipif(shutil.which("gcloud") is None, reason="gcloud is not installed")
def test_a_line_means_the_same_as_for_gcloud(vertex, tmp_path):
    from google.cloud.aiplatform_v1 import CustomJob

    url, bodies = vertex
    (tmp_path / "c.yaml").write_text(
        "workerPoolSpecs: {machineSpec: {machineType: n1-standard-4}}\nserviceAccount: a@b\nnetwork: net\n"
        "scheduling: {timeout: 60s, strategy: SPOT}\nbaseOutputDirectory: {outputUriPrefix: 'gs://bucket/x'}\n"
    )
    line = (
        f"gcloud ai custom-jobs create --region=us-central1 --display-name='a b' --config={tmp_path}/c.yaml "
        "--worker-pool-spec=machine-type=n1-standard-8,accelerator-type=NVIDIA_TESLA_T4,executor-image-uri=e,"
        "python-module=m --worker-pool-spec=machine-type=n1-standard-4,replica-count=3,container-image-uri=c "
        "'--args=^;^a,b;c' --args=d --command=x,y --python-package-uris=gs://p/1,gs://p/2 --labels=k=v,l=w "
        "--kms-key=k --kms-keyring=r --kms-location=l --kms-project=q --enable-web-access --network=m --quiet "
        "--service-account=s@x.iam.gserviceaccount.com --persistent-resource-id=pr --enable-dashboard-access"
    )
    gcloud(shlex.split(line), url, tmp_path)
    data, lost = gcloud_line.data(line)
    assert {note.field for note in lost} == {"--quiet"}
    ours = conversion.conversion(data).body()
    pb = CustomJob.pb()
    assert json_format.ParseDict(ours, pb()) == json_format.ParseDict(bodies[0], pb())


def test_a_step_with_a_command_of_its_own_is_not_converted_and_one_with_an_image_has_it(tmp_path):
    file = tmp_path / "pipelines.toml"
    file.write_text('[steps.train]\ncommand = ["python", "train.py"]\n[steps.prepare]\nimage = "r/own:1"\n')
    with pytest.raises(RequestError, match="its own command"):
        step_job.job(file, "train")
    pools = step_job.job(file, "prepare").config["workerPoolSpecs"]
    assert pools[0]["containerSpec"]["imageUri"] == "r/own:1"


def test_variables_of_the_shell_stay_in_the_job_and_are_named_and_a_container_may_have_its_own(capsys):
    pool = "--worker-pool-spec=machine-type=e2-standard-4,replica-count=${N},container-image-uri=r/i:1"
    line = f"gcloud ai custom-jobs create --region=$REGION --display-name=j {pool} --args='echo $HOME'"
    assert convert(line) == 0
    out, err = capsys.readouterr()
    assert "replicaCount: ${N}" in out and "echo $HOME" in out and "--region=REGION" in err
    assert "replicaCount: ${N}: known only at run time" in err and "location: lost: known only at run time" in err


def test_a_command_without_a_machine_is_refused_with_the_reason(capsys):
    assert convert("gcloud ai custom-jobs create --region=us-central1 --display-name=a_$(date -u +%s)") == 2
    printed = capsys.readouterr()
    assert "Add --worker-pool-spec, or --config" in printed.err and not printed.out


@pytest.mark.parametrize(
    ("arguments", "words"),
    [(["gcloud ai custom-jobs create --worker-pool-specs=machine-type=a"], "Did you mean --worker-pool-spec?"),
     ([""], "convert needs either a file or gcloud line"), (["."], "a folder: give a file"),
     (["--step", "train"], "--settings FILE")],
)  # fmt: skip
def test_what_is_no_source_is_refused_with_what_to_give(capsys, tmp_path, monkeypatch, arguments, words):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(SystemExit) as stop:
        main(["convert", *arguments])
    output = capsys.readouterr()
    assert stop.value.code == 2 and not output.out and words in output.err


def test_a_step_without_a_gpu_is_converted_with_the_light_image(tmp_path):
    light = f"r.pkg.dev/p/r/training@sha256:{'1' * 64}"
    (tmp_path / "pipelines").mkdir()
    (tmp_path / "pipelines.toml").write_text(
        f'image = "r.pkg.dev/p/r/training:1"\nlight_image = "{light}"\n[steps.a]\nmachine = "e2-standard-4"\n'
        '[steps.b]\nmachine = "g2-standard-12"\n'
    )
    on_cpu, on_gpu = (step_job.vm(tmp_path / "pipelines.toml", step)[0] for step in ("a", "b"))
    assert light in on_cpu and light not in on_gpu and "r.pkg.dev/p/r/training:1" in on_gpu
