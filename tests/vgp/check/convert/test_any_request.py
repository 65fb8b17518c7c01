"""`convert --nearest`: machines that are gone become those that come near; and tuning jobs from gcloud lines."""

import json

import pytest
import yaml

from tests.vgp.check.convert.verb import DAY, convert
from vgp.base.documents.document import parse
from vgp.check.checker import check

IMAGE = "us-docker.pkg.dev/p/r/i:1"
STUDY = {
    "studySpec": {"metrics": [{"metricId": "loss", "goal": "MINIMIZE"}], "parameters": []},
    "trialJobSpec": {
        "workerPoolSpecs": [
            {"machineSpec": {"machineType": "n1-standard-8"}, "replicaCount": 1, "containerSpec": {"imageUri": IMAGE}}
        ]
    },
}


def legacy(**inputs):
    return {"trainingInput": {"masterConfig": {"imageUri": IMAGE}, **inputs}}


@pytest.mark.parametrize(
    ("inputs", "machine"),
    [
        ({"scaleTier": "BASIC_GPU"}, ["n1-standard-8", "NVIDIA_TESLA_T4", 1]),
        ({"scaleTier": "CUSTOM", "masterType": "complex_model_m_p100"}, ["n1-standard-16", "NVIDIA_TESLA_T4", 4]),
        ({"scaleTier": "CUSTOM", "masterType": "complex_model_l_gpu"}, None),
        ({"scaleTier": "CUSTOM", "masterType": "n1-standrd-8"}, ["n1-standard-8"]),
    ],
)
def test_a_machine_without_a_successor_becomes_the_nearest_and_is_named(tmp_path, capsys, inputs, machine):
    path = tmp_path / "legacy.json"
    path.write_text(json.dumps(legacy(**inputs)))
    assert convert(str(path)) == 1
    out, err = capsys.readouterr()
    assert not out and "the nearest machines that work with --nearest" in err
    assert convert(str(path), "--nearest") == 0
    out, err = capsys.readouterr()
    assert not check(parse("config.yaml", out), as_of=DAY).errors and "which is not available" in err
    if machine is not None:
        assert list(yaml.safe_load(out)["workerPoolSpecs"][0]["machineSpec"].values()) == machine


def test_what_nothing_comes_near_to_is_refused_all_the_same(tmp_path, capsys):
    path = tmp_path / "legacy.json"
    path.write_text(json.dumps(legacy(scaleTier="GIGANTIC_1")))
    assert convert(str(path), "--nearest") == 1
    out, err = capsys.readouterr()
    assert not out and "No scale tier" in err and "--nearest" not in err


def test_what_can_be_had_stays_as_it_is(tmp_path, capsys):
    path = tmp_path / "legacy.json"
    path.write_text(json.dumps(legacy(scaleTier="BASIC")))
    assert convert(str(path)) == 0
    plain = capsys.readouterr()
    assert convert(str(path), "--nearest") == 0 and capsys.readouterr() == plain


def test_a_line_that_creates_a_tuning_job_is_converted_with_all_of_its_flags(tmp_path, capsys):
    path = tmp_path / "study.yaml"
    path.write_text(yaml.safe_dump(STUDY))
    line = f"gcloud ai hp-tuning-jobs create --region=us-central1 --display-name=t --config={path}"
    line += " --max-trial-count=6 --parallel-trial-count=2 --algorithm=random-search --labels=a=b"
    assert convert(line) == 0
    out, err = capsys.readouterr()
    config = yaml.safe_load(out)
    assert config["studySpec"] == {**STUDY["studySpec"], "algorithm": "RANDOM_SEARCH"}
    assert (config["maxTrialCount"], config["parallelTrialCount"]) == (6, 2)
    assert config["trialJobSpec"] == STUDY["trialJobSpec"] and "hp-tuning-jobs create" in err and "a=b" in err
    spec = json.dumps(STUDY).replace("n1-standard-8", "a2-highgpu-1g")
    path.write_text(spec)
    assert convert(line) == 1 and capsys.readouterr().out == ""
    assert convert(line, "--nearest", "--to", "sdk") == 0 and "NVIDIA_TESLA_A100" in capsys.readouterr().out


def test_an_old_tpu_is_converted_as_it_was(tmp_path, capsys):
    path = tmp_path / "legacy.json"
    path.write_text(json.dumps(legacy(scaleTier="BASIC_TPU")))
    assert convert(str(path)) == 0
    machine = yaml.safe_load(capsys.readouterr().out)["workerPoolSpecs"][0]["machineSpec"]
    assert list(machine.values()) == ["cloud-tpu", "TPU_V2", 8]
