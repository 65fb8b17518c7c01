"""The program that `convert --to sdk` prints starts the job that was described: run with Google's SDK and compared."""

import contextlib
import io
import json
import shlex
from functools import partial

import pytest
import yaml
from google.protobuf import json_format

from tests.vgp.check.convert.verb import DAY, convert
from vgp.__main__ import main
from vgp.base.documents.document import parse
from vgp.check.convert.any_request import convert_document
from vgp.check.convert.conversion import SPEC, Conversion
from vgp.check.convert.sdk_program import V1, program

POOL = {
    "machineSpec": {"machineType": "g2-standard-24", "acceleratorType": "NVIDIA_L4", "acceleratorCount": 2},
    "replicaCount": 1,
    "containerSpec": {
        "imageUri": "r/i:1", "command": ["python", "-c", "print('a\"b\\n')"], "args": ["--lr", "3"],
        "env": [{"name": "A_b", "value": "x y"}],
    },
    "diskSpec": {"bootDiskType": "pd-ssd", "bootDiskSizeGb": 137},
}  # fmt: skip
PLACE = {"project": "test-project", "location": "us-central1"}
SPOT = {"strategy": "SPOT", "timeout": "3600s"}


def job(spec=None, **more):
    return {"displayName": "my 'job'", **PLACE, **more, "jobSpec": {"workerPoolSpecs": [POOL], **(spec or {})}}


JOBS = {
    "Spot and a timeout": job({"scheduling": SPOT}),
    "nothing but a pool": job(),
    "Flex-start": job({"scheduling": {"strategy": "FLEX_START", "timeout": "7200s", "maxWaitDuration": "0s"}}),
    "everything of CustomJob": job(
        {
            "workerPoolSpecs": [
                {**POOL, "machineSpec": {**POOL["machineSpec"], "reservationAffinity": {
                    "reservationAffinityType": "SPECIFIC_RESERVATION", "key": "compute.googleapis.com/reservation-name",
                    "values": ["projects/p/zones/us-central1-a/reservations/r"],
                }}},
                {**POOL, "replicaCount": 3, "nfsMounts": [{"server": "s", "path": "/p", "mountPoint": "m"}]},
            ],
            "scheduling": {"strategy": "STANDARD", "timeout": "3600s", "restartJobOnWorkerRestart": True,
                           "disableRetries": True, "maxWaitDuration": "86400s"},
            "serviceAccount": "sa@p.iam.gserviceaccount.com", "network": "projects/1/global/networks/n",
            "baseOutputDirectory": {"outputUriPrefix": "gs://test-bucket/out"}, "enableWebAccess": True,
            "tensorboard": "projects/1/locations/us-central1/tensorboards/2", "persistentResourceId": "pr",
            "pscInterfaceConfig": {"networkAttachment": "a"},
        },
        labels={"team_a": "b"}, encryptionSpec={"kmsKeyName": "projects/p/locations/l/keyRings/r/cryptoKeys/k"},
    ),
    "what only the API's client takes": job(
        {"scheduling": {"strategy": "SPOT", "timeout": "90.5s"}, "reservedIpRanges": ["a"],
         "enableDashboardAccess": True, "experiment": "projects/1/locations/l/metadataStores/default/contexts/e"},
        labels={"team_a": "b"},
    ),
}  # fmt: skip


@pytest.fixture
def sdk(cloud, monkeypatch):
    from google.cloud import aiplatform, aiplatform_v1, resourcemanager
    from google.cloud.aiplatform import initializer

    rest = partial(resourcemanager.ProjectsClient, transport="rest")
    monkeypatch.setattr(resourcemanager, "ProjectsClient", rest)
    client = aiplatform_v1.JobServiceClient

    def here(client_options):
        assert client_options == {"api_endpoint": "us-central1-aiplatform.googleapis.com"}
        options = {"api_endpoint": cloud.endpoint("aiplatform")}
        return client(client_options=options, transport="rest")

    monkeypatch.setattr(aiplatform_v1, "JobServiceClient", here)
    before = dict(vars(initializer.global_config))
    aiplatform.init(api_endpoint=cloud.endpoint("aiplatform"), api_transport="rest")
    yield aiplatform
    vars(initializer.global_config).update(before)


def written(data):
    """The program for a document, and what is lost with it."""
    result = convert_document(parse("job.yaml", yaml.safe_dump(data))[0], as_of=DAY)
    text, notes = program(result)
    return result, text, [note for note in [*result.notes, *notes] if note.dropped]


def strictly(body):
    from google.cloud.aiplatform_v1 import CustomJob

    return json_format.ParseDict(body, CustomJob.pb(CustomJob()))


def started(cloud, text):
    """Runs the program, and returns the custom job that arrived."""
    before = set(cloud.custom_jobs.jobs)
    with contextlib.redirect_stdout(io.StringIO()):
        exec(compile(text, "job.py", "exec"), {})
    (name,) = set(cloud.custom_jobs.jobs) - before
    message = type(cloud.custom_jobs.jobs[name].message)()
    message.CopyFrom(cloud.custom_jobs.jobs[name].message)
    message.ClearField("name")
    return message


@pytest.mark.parametrize("name", JOBS)
def test_the_program_starts_the_job_that_was_described(cloud, sdk, name):
    described = JOBS[name]
    _, text, lost = written(described)
    assert lost == []
    arrived = started(cloud, text)
    expected = strictly({key: value for key, value in described.items() if key not in PLACE})
    if not expected.job_spec.base_output_directory.output_uri_prefix and "CustomJob(\n" in text:
        # The SDK always sets one; the notes mention it.
        assert arrived.job_spec.base_output_directory.output_uri_prefix.startswith("gs://BUCKET/aiplatform-custom-job")
        arrived.job_spec.ClearField("base_output_directory")
    assert json_format.MessageToDict(arrived) == json_format.MessageToDict(expected)


def test_a_gcloud_line_and_a_step_of_ours_start_what_they_describe(cloud, sdk, tmp_path, monkeypatch, capsys):
    line = (
        "gcloud ai custom-jobs create --project=test-project --region=us-central1 --display-name=j --args=a,b "
        "--python-package-uris=gs://b/p.tar.gz --worker-pool-spec=machine-type=n1-standard-8,accelerator-type="
        "NVIDIA_TESLA_T4,executor-image-uri=r/e:1,python-module=m"
    )
    assert convert(line, "--to", "sdk") == 0
    (pool,) = started(cloud, capsys.readouterr().out).job_spec.worker_pool_specs
    assert (list(pool.python_package_spec.package_uris), pool.machine_spec.accelerator_count) == (
        ["gs://b/p.tar.gz"],
        1,
    )
    (tmp_path / "pipelines.toml").write_text(
        'image = "r/i:1"\nproject = "test-project"\nservice_account = "s@test-project.iam.gserviceaccount.com"\n'
        '[steps.train]\naccelerator = "L4"\nnodes = 2\nstrategy = "spot"\ntimeout = "2h"\nenv = {A = "b"}\n'
    )
    monkeypatch.chdir(tmp_path)
    with pytest.raises(SystemExit, match="0"):
        main(["convert", "--step", "train", "--to", "sdk"])
    spec = started(cloud, capsys.readouterr().out).job_spec
    assert (spec.scheduling.strategy, spec.scheduling.timeout.seconds) == (4, 7200)
    assert [pool.replica_count for pool in spec.worker_pool_specs] == [1, 1]
    assert spec.service_account == "s@test-project.iam.gserviceaccount.com"
    variables = {each.name: each.value for each in spec.worker_pool_specs[1].container_spec.env}
    assert variables == {"A": "b", "TRAINING_PREEMPTIONS_PER_HOUR": "0.6"}


def test_a_tuning_job_is_started_with_its_study(monkeypatch):
    from google.cloud import aiplatform_v1

    data = {
        "jobId": "tune",
        "trainingInput": {
            "region": "us-central1", "masterType": "n1-standard-8", "scheduling": {"maxRunningTime": "60s"},
            "masterConfig": {"imageUri": "r/i:1"},
            "hyperparameters": {"maxTrials": 8, "maxParallelTrials": 2, "goal": "MINIMIZE", "params": [
                {"parameterName": "lr", "type": "DOUBLE", "minValue": 0.1, "maxValue": 1},
            ]},
        },
    }  # fmt: skip
    result, text, lost = written(data)
    assert not lost
    sent = {}

    class Client:
        def __init__(self, client_options):
            pass

        def create_hyperparameter_tuning_job(self, **request):
            sent.update(request)
            return request["hyperparameter_tuning_job"]

    monkeypatch.setattr(aiplatform_v1, "JobServiceClient", Client)
    exec(compile(text, "job.py", "exec"), {})
    expected = aiplatform_v1.HyperparameterTuningJob.from_json(json.dumps(result.body()))
    assert sent["hyperparameter_tuning_job"] == expected and sent["parent"] == "projects/PROJECT/locations/us-central1"
    assert expected.trial_job_spec.scheduling.timeout.seconds == 60 and expected.max_trial_count == 8


def test_what_the_sdk_does_not_know_is_named_and_left_out():
    spec = {"scheduling": {**SPOT, "patience": 1}, "workerPoolSpecs": [
        {**POOL, "machineSpec": {**POOL["machineSpec"], "minGpuDriverVersion": "1"}},
    ]}  # fmt: skip
    _, text, lost = written(job(spec))
    assert {note.field for note in lost} == {
        "jobSpec.workerPoolSpecs[0].machineSpec.minGpuDriverVersion", "jobSpec.scheduling.patience",
    }  # fmt: skip
    assert "patience" not in text and "minGpuDriverVersion" not in text


def test_the_fields_are_those_of_the_api():
    from google.cloud.aiplatform_v1 import types

    messages = {
        "jobSpec": "CustomJobSpec", "trialJobSpec": "CustomJobSpec", "workerPoolSpecs": "WorkerPoolSpec",
        "containerSpec": "ContainerSpec", "pythonPackageSpec": "PythonPackageSpec", "env": "EnvVar",
        "machineSpec": "MachineSpec", "reservationAffinity": "ReservationAffinity", "diskSpec": "DiskSpec",
        "nfsMounts": "NfsMount", "scheduling": "Scheduling", "baseOutputDirectory": "GcsDestination",
    }  # fmt: skip
    assert V1.keys() == messages.keys() and V1["jobSpec"] is SPEC
    for name, fields in V1.items():
        pb = getattr(types, messages[name]).pb()
        assert set(fields) == {field.json_name for field in pb.DESCRIPTOR.fields}


@pytest.mark.parametrize("text", ["a'b\"c", "x\ny", "\\", "é\u202e\ud800", "\x7f\x1b", '"; import os; "', "{x}", "%s"])
def test_a_text_is_never_code(text):
    config = {"workerPoolSpecs": [{"containerSpec": {"imageUri": text, "args": [text]}}], "experiment": text}
    for spec in (config, {"workerPoolSpecs": config["workerPoolSpecs"]}):
        result = Conversion(dict(spec), display_name=text, region=text, project=text, labels={"a": text})
        found, _ = program(result)
        assert found.isascii() and all(line.isprintable() for line in found.split("\n"))
        compile(found, "job.py", "exec")
        assert found.count("import") <= 2 + found.count("import os; ") and "\nimport os" not in found


def test_the_command_keeps_what_stands_around_the_config():
    result = Conversion(
        {"workerPoolSpecs": []}, region="us-east1", display_name="a b; c", kms_key="k", project="p", labels={"x": "y"}
    )
    assert shlex.split(result.command()) == [
        "gcloud", "ai", "custom-jobs", "create", "--region=us-east1", "--project=p", "--display-name=a b; c",
        "--config=config.yaml", "--kms-key=k", "--labels=x=y",
    ]  # fmt: skip
