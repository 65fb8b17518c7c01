"""Whatever is given to convert is in what it prints, or is named as lost: for every form of input and output."""

import contextlib
import io
import json
import os
import random
import re
import shlex

import pytest
import yaml

from tests.vgp.check.convert.verb import convert
from vgp.base.documents.bounded_text import format_path
from vgp.base.errors import RequestError
from vgp.check.convert.any_request import convert_document, source_document
from vgp.check.convert.conversion import as_yaml, leaves

#: The short run is the same every time; a long one:
#: FUZZ_EXAMPLES=2000 pytest tests/vgp/check/convert/test_convert_account.py
ROUNDS = int(os.environ.get("FUZZ_EXAMPLES", 16))
# The suite draws the same jobs every time; a drill draws others.
SEED = None if "FUZZ_EXAMPLES" in os.environ else 7

#: What becomes something else by a rule of its own: the machines and the image of another age.
RENAMED = (
    "scaleTier", "runtimeVersion", "pythonVersion", "goal", "hyperparameterMetricTag", "algorithm", "scaleType",
    "parent",
)  # fmt: skip


POOL = {
    "machineSpec": {"machineType": "n1-standard-8", "acceleratorType": "NVIDIA_TESLA_T4", "acceleratorCount": 2},
    "replicaCount": 1,
    "diskSpec": {"bootDiskType": "pd-ssd", "bootDiskSizeGb": 137},
    "containerSpec": {"imageUri": "r/i:1", "command": ["c1"], "args": ["a1", 17.5, True],
                      "env": [{"name": "N1", "value": "v1"}, {"name": "N2", "value": 3}]},
}  # fmt: skip
PACKAGE = {
    "machineSpec": {"machineType": "n1-standard-8"}, "replicaCount": "3",
    "pythonPackageSpec": {"executorImageUri": "r/e:1", "packageUris": ["gs://u"], "pythonModule": "m1", "args": ["b"]},
    "nfsMounts": [{"server": "s1", "path": "/p1", "mountPoint": "q1"}],
}  # fmt: skip
SPEC = {
    "workerPoolSpecs": [POOL, PACKAGE], "serviceAccount": "sa@p", "network": "projects/1/global/networks/n",
    "scheduling": {"timeout": "3601s", "strategy": "SPOT", "restartJobOnWorkerRestart": True, "disableRetries": False,
                   "maxWaitDuration": "0s"},
    "baseOutputDirectory": {"outputUriPrefix": "gs://b/o"}, "enableWebAccess": True, "tensorboard": "t1",
    "persistentResourceId": "pr1", "reservedIpRanges": ["ip1"], "enableDashboardAccess": True,
    "experiment": "e1", "experimentRun": "er1", "models": ["m5"], "protectedArtifactLocationId": "pa1",
    "pscInterfaceConfig": {"networkAttachment": "na1"},
}  # fmt: skip
JOB = {
    "displayName": "d1", "jobSpec": SPEC, "labels": {"l_1": "lv1"}, "encryptionSpec": {"kmsKeyName": "kms1"},
    "name": "projects/p9/locations/us-central1/customJobs/5", "state": "JOB_STATE_RUNNING", "createTime": "2026-01-01",
}  # fmt: skip
TUNING = {
    "displayName": "h1", "maxTrialCount": 7, "parallelTrialCount": 2, "maxFailedTrialCount": 5,
    "studySpec": {"metrics": [{"metricId": "mi1", "goal": "MAXIMIZE"}], "algorithm": "RANDOM_SEARCH",
                  "parameters": [{"parameterId": "pi1", "doubleValueSpec": {"minValue": 0.25, "maxValue": 4.5}}]},
    "trialJobSpec": SPEC, "labels": {"l2": "lv2"},
}  # fmt: skip
ROLE = {
    "acceleratorConfig": {"type": "NVIDIA_TESLA_T4", "count": "2"}, "imageUri": "r/i:1", "tpuTfVersion": "2.1",
    "diskConfig": {"bootDiskType": "pd-ssd", "bootDiskSizeGb": 141}, "containerCommand": ["cc"],
    "containerArgs": ["ca"],
}  # fmt: skip
LEGACY = {
    "jobId": "j1", "labels": {"l3": "lv3"}, "etag": "et", "state": "SUCCEEDED", "createTime": "2020",
    "trainingOutput": {"trials": [{"trialId": "1"}]},
    "trainingInput": {
        "scaleTier": "CUSTOM", "masterType": "n1-standard-8", "masterConfig": ROLE, "workerType": "n1-standard-8",
        "workerCount": "4", "workerConfig": ROLE, "parameterServerType": "n1-standard-4", "parameterServerCount": 2,
        "parameterServerConfig": ROLE, "evaluatorType": "n1-standard-8", "evaluatorCount": 3, "evaluatorConfig": ROLE,
        "packageUris": ["gs://b/p"], "pythonModule": "t.task", "args": ["--x", 3], "region": "us-central1",
        "runtimeVersion": "2.11", "pythonVersion": "3.7", "jobDir": "gs://b/jd", "serviceAccount": "sa@q",
        "network": "nw", "enableWebAccess": True, "useChiefInTfConfig": True, "encryptionConfig": {"kmsKeyName": "km"},
        "scheduling": {"maxRunningTime": "7201s", "maxWaitTime": "61s", "priority": 3},
        "hyperparameters": {
            "goal": "MINIMIZE", "hyperparameterMetricTag": "hm", "maxTrials": 9, "maxParallelTrials": 3,
            "maxFailedTrials": 5, "algorithm": "GRID_SEARCH", "resumePreviousJobId": "rp",
            "enableTrialEarlyStopping": True, "params": [
                {"parameterName": "lr", "type": "DOUBLE", "minValue": 0.25, "maxValue": 0.75, "scaleType": "NONE"},
                {"parameterName": "ly", "type": "INTEGER", "minValue": 3, "maxValue": 6, "discreteValues": [11]},
                {"parameterName": "ac", "type": "CATEGORICAL", "categoricalValues": ["relu"]},
            ],
        },
    },
}  # fmt: skip
TIERS = ("BASIC", "STANDARD_1", "CUSTOM")


def snake(value):
    if isinstance(value, list):
        return [snake(item) for item in value]
    if not isinstance(value, dict):
        return value
    return {re.sub(r"(?<=.)([A-Z])", r"_\1", key).lower(): inner if key == "labels" else snake(inner)
            for key, inner in value.items()}  # fmt: skip


def some_of(value, chance):
    """Part of a document, with unknown keys in it."""
    if isinstance(value, list):
        return [some_of(item, chance) for item in value]
    if not isinstance(value, dict):
        return value
    kept = {key: some_of(item, chance) for key, item in value.items() if key in NEEDED or chance.random() < 0.9}
    if chance.random() < 0.12:
        name, inner = (f"x{chance.getrandbits(40):x}" for _ in range(2))
        kept[name] = chance.choice([inner, {inner: inner}, [{inner: 1}], 4242])
    return kept


NEEDED = {"machineType", "trialJobSpec", "jobSpec", "trainingInput", "workerPoolSpecs", "masterType", "imageUri",
          "type", "count", "minValue", "maxValue", "parameterName", "acceleratorType", "acceleratorCount"}  # fmt: skip


def text_of(value):
    """As it stands in what is printed."""
    if isinstance(value, bool):
        return str(value).lower()
    # The SDK takes seconds as a number.
    return re.sub(r"^(\d+)s$", r"\1", value) if isinstance(value, str) else f"{value:g}"


def missing(data, printed, lost, notes=()):
    """Where something is given that is neither printed nor lost."""
    names = [plain(name) for name in (*lost, *(note for note in notes if note.split(".")[-1] in RENAMED))]
    for path in leaves(data):
        field, value = format_path(path), data
        for part in path:
            value = value[part]
        field = plain(field.removeprefix("trainingInput."))
        if any(field == name or field.startswith((f"{name}.", f"{name}[")) for name in names):
            continue
        for item in value if isinstance(value, list) else [value]:
            # The name of a thing may be all that remains of a switch.
            if text_of(item).lower() not in printed.lower() and path[-1] != "type":
                yield field, item


def outcome(source, form):
    """(exit code, what is printed with the command around it, what is lost, what became something else)."""
    out = io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(io.StringIO()):
        code = convert(source, "--to", form, "--json")
    answer = json.loads(out.getvalue())
    if code:
        return code, "", {}, []
    config = as_yaml(answer["config"]) + "\n" + " ".join(shlex.split(answer["command"]))
    lost = {note["field"] for note in answer["notes"] if note["dropped"]}
    assert lost == answer["lost"].keys()
    return code, answer["sdk"] if form == "sdk" else config, lost, [note["field"] for note in answer["notes"]]


def accounted(tmp_path, data, form):
    path = tmp_path / "input.yaml"
    path.write_text(yaml.safe_dump(data))
    code, printed, lost, notes = outcome(str(path), form)
    if not code:
        assert list(missing(data, printed, lost, notes)) == []
    return code


@pytest.mark.parametrize("form", ["config", "sdk"])
@pytest.mark.parametrize("spelled", [lambda document: document, snake])
def test_every_field_of_a_job_is_printed_or_lost(tmp_path, form, spelled):
    chance = random.Random(SEED)
    codes = [
        accounted(tmp_path, spelled(some_of(chance.choice([JOB, TUNING, SPEC]), chance)), form) for _ in range(ROUNDS)
    ]
    assert codes.count(0) > ROUNDS / 4


@pytest.mark.parametrize("document", [JOB, TUNING, SPEC, [POOL, PACKAGE], {"parent": "projects/p/locations/us-east1",
                                                                           "customJob": JOB, "why": "x"}])  # fmt: skip
@pytest.mark.parametrize("form", ["config", "sdk"])
def test_a_whole_job_is_converted_and_accounted_for(tmp_path, document, form):
    assert accounted(tmp_path, document, form) == 0


@pytest.mark.parametrize("form", ["config", "sdk"])
def test_every_field_of_a_legacy_job_is_printed_or_lost(tmp_path, form):
    chance = random.Random(SEED)
    codes = []
    for _ in range(ROUNDS):
        document = some_of(LEGACY, chance)
        document["trainingInput"]["scaleTier"] = chance.choice(TIERS)
        if chance.random() < 0.5:
            for role in ("master", "worker"):
                document["trainingInput"].get(f"{role}Config", {}).pop("imageUri", None)
        codes.append(accounted(tmp_path, document, form))
    assert codes.count(0) > ROUNDS / 4


def test_a_whole_legacy_job_is_converted(tmp_path):
    assert accounted(tmp_path, LEGACY, "config") == accounted(tmp_path, LEGACY, "sdk") == 0


@pytest.mark.parametrize(
    ("name", "value"),
    [("workerType", "n1-standard-8"), ("workerCount", 0), ("evaluatorConfig", {"imageUri": "x"}), ("unheardOf", [1])],
)
def test_half_a_role_is_lost_by_name(tmp_path, name, value):
    data = {"trainingInput": {"masterType": "n1-standard-8", "masterConfig": {"imageUri": "r/i:1"}, name: value}}
    path = tmp_path / "half.yaml"
    path.write_text(yaml.safe_dump(data))
    code, _, lost, _ = outcome(str(path), "config")
    assert code == 0 and any(field.startswith(name) for field in lost)


FLAGS = {
    "display-name": "dn", "project": "pj", "network": "nw", "service-account": "sa@x", "persistent-resource-id": "pr",
    "args": "a1,a2", "command": "c1,c2", "python-package-uris": "gs://u1,gs://u2", "labels": "k1=v1,k2=v2",
    "kms-key": "projects/p/locations/l/keyRings/r/cryptoKeys/k", "env-vars": "E1=w1", "account": "ac@x",
    "format": "fm", "verbosity": "vb", "staging-bucket": "gs://sb",
}  # fmt: skip
SWITCHES = ("enable-web-access", "enable-dashboard-access", "async", "quiet", "stream-logs")
POOL_KEYS = {
    "accelerator-type": "NVIDIA_TESLA_T4", "accelerator-count": "2", "boot-disk-type": "pd-ssd",
    "boot-disk-size": "137", "local-package-path": "lp", "script": "sc.py", "requirements": "rq", "extra-dirs": "ed",
}  # fmt: skip
BODIES = ({"container-image-uri": "r/i:1"}, {"executor-image-uri": "r/e:1", "python-module": "pm"})


def some(chance, names):
    return [name for name in names if chance.random() < 0.4]


@pytest.mark.parametrize("form", ["config", "sdk"])
def test_every_flag_of_a_line_is_printed_or_lost(form):
    chance = random.Random(SEED)
    codes = []
    for _ in range(ROUNDS):
        flags, switches = some(chance, FLAGS), some(chance, SWITCHES)
        given = [(f"--{name}", FLAGS[name]) for name in flags]
        words = [f"{name}={value}" for name, value in given] + [f"--{name}" for name in switches]
        for _ in range(chance.choice([1, 2])):
            keys = {"machine-type": "n1-standard-8", **chance.choice(BODIES)}
            keys |= {name: POOL_KEYS[name] for name in some(chance, POOL_KEYS)}
            words.append("--worker-pool-spec=" + ",".join(f"{key}={value}" for key, value in keys.items()))
            given += [(f"--worker-pool-spec {key}", value) for key, value in keys.items()]
        line = shlex.join(["gcloud", "ai", "custom-jobs", "create", "--region=us-central1", *words])
        code, printed, lost, _ = outcome(line, form)
        codes.append(code)
        gone = [
            part for flag, value in given for part in re.split("[,=]", value) if not (part in printed or flag in lost)
        ]
        gone += [name for name in switches if name.replace("-", "") not in plain(printed) and f"--{name}" not in lost]
        assert code or gone == [], line
    assert codes.count(0) > ROUNDS / 4


def plain(text):
    return text.lower().replace("_", "").replace("-", "")


def test_flags_lie_over_the_file_of_config_as_in_gcloud(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "c.yaml").write_text(
        yaml.safe_dump(
            {"workerPoolSpecs": [POOL], "serviceAccount": "a@b", "scheduling": {"timeout": "61s", "strategy": "SPOT"}}
        )
    )
    line = "gcloud ai custom-jobs create --region=us-central1 --display-name=j --config=c.yaml --args=q,^ --args=r"
    spec = convert_document(source_document(line)[0]).config
    assert spec["scheduling"] == {"timeout": "61s", "strategy": "SPOT"} and spec["serviceAccount"] == "a@b"
    assert spec["workerPoolSpecs"][0]["containerSpec"]["args"] == ["q", "^", "r"]
    line += " --service-account=c@d --worker-pool-spec=machine-type=n1-standard-4,container-image-uri=x:1"
    spec = convert_document(source_document(line)[0]).config
    assert spec["serviceAccount"] == "c@d" and [pool["replicaCount"] for pool in spec["workerPoolSpecs"]] == [1]
    assert spec["workerPoolSpecs"][0]["machineSpec"] == {"machineType": "n1-standard-4"}


def test_a_legacy_line_takes_its_file_too_and_names_what_it_cannot(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "c.yaml").write_text(yaml.safe_dump({"trainingInput": {"scaleTier": "CUSTOM", "masterType": "standard",
                                                                       "region": "us-east1"}}))  # fmt: skip
    line = (
        "gcloud ai-platform jobs submit training j1 --config c.yaml --package-path ./trainer --module-name t.task "
        "--packages gs://b/a.tar.gz --staging-bucket gs://b --stream-logs --labels k1=v1 --region us-central1 "
        "--worker-machine-type n1-standard-4 -- --lr 3"
    )
    code, printed, lost, _ = outcome(line, "config")
    assert code == 0 and "workerType" in lost
    assert {"--package-path", "--staging-bucket", "--stream-logs"} <= lost
    for text in ("t.task", "gs://b/a.tar.gz", "--labels=k1=v1", "--region=us-central1", "--lr", "n1-standard-4"):
        assert text in printed


def test_other_documents_and_repeated_keys_are_named(tmp_path):
    path = tmp_path / "two.yaml"
    path.write_text(f"{json.dumps({'serviceAccount': 'a@b', 'workerPoolSpecs': [POOL]})}\nserviceAccount: x\n"[:-20])
    text = yaml.safe_dump({"workerPoolSpecs": [POOL]})
    path.write_text(f"network: n1\n{text}network: n2\n---\n{text}---\n{text}")
    code, printed, lost, _ = outcome(str(path), "config")
    assert code == 0 and "n2" in printed and lost == {"network", "documents"}


@pytest.mark.parametrize(
    ("line", "why"),
    [
        ("gcloud ai custom-jobs create --worker-pool-spec={", "write key=value"),
        ("gcloud ai custom-jobs create --worker-pool-spec=machine-type=a,machine-type=b", "given twice"),
        ("gcloud ai custom-jobs create --worker-pool-spec=machine-type=a,replica-count=many", "not a whole number"),
        ("gcloud ai custom-jobs create j --worker-pool-spec=machine-type=a", "'j' belongs to no flag"),
        ("gcloud ai custom-jobs create --worker-pool-spec=machine-type=a | tee -a x", "remove '| tee -a x'"),
        ("gcloud ai custom-jobs create --worker-pool-spec=machine-type=a 2>&1", "remove '2>&1'"),
        ("gcloud ai custom-jobs create --region=r && gcloud ai custom-jobs list", "remove '&& gcloud"),
        ("gcloud ai custom-jobs create --config=nowhere.yaml", "nowhere.yaml"),
        ("gcloud ai custom-jobs create --worker-pool-spec=machine-type=a -- --lr 3", "--args"),
        ("gcloud ai custom-jobs list", "cannot be converted"), ("gcloud version", "cannot be converted"),
    ],
)  # fmt: skip
def test_a_malformed_line_is_refused_in_a_sentence(line, why):
    with pytest.raises(RequestError, match=re.escape(why)):
        source_document(line)
