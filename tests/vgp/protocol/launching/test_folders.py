"""Folders and words of the command, here and on Vertex AI."""

import json
from pathlib import Path

from vgp.protocol.launching.folders import Folders
from vgp.protocol.launching.request import parse

from .conftest import Launcher, script


def test_folders_and_words_are_those_of_this_machine(launcher: Launcher) -> None:
    text = "import os, json, sys; print(json.dumps(dict(os.environ, ARGV=sys.argv[1:])))"
    words = [
        "{data}",
        "{model}/x",
        "{nodes}{node}{processes}",
        "{other} {}",
        "{checkpoints}",
        "{logs}",
        "{epochs}{who}",
    ]
    options = ["--number", "epochs=3.0", "--text", "who={nodes}=a b"]
    code, out, err = launcher.run(script(text, *words), options=options, TRAINING_CHECKPOINTS=launcher.folder / "kept")
    values, folder = json.loads(out), str(launcher.folder)
    kept = values["AIP_CHECKPOINT_DIR"].rstrip("/")
    assert (code, err) == (0, "")
    assert values["AIP_MODEL_DIR"] == f"{folder}/model/" and values["TRAINING_DATA"] == f"{folder}/data"
    assert Path(kept).parent == launcher.folder / "kept" and Path(kept).name.startswith("train-")
    expected = [f"{folder}/data", f"{folder}/model/x", "101", "{other} {}", kept, f"{kept}-logs", "3{nodes}=a b"]
    assert values["ARGV"] == expected
    assert all(Path(place).is_dir() for place in (values["AIP_MODEL_DIR"], kept, f"{kept}-logs"))
    assert launcher.left()["command"][-7:] == [*words[:-1], "3{nodes}=a b"]  # folders are other ones elsewhere
    assert launcher.left() | {"seconds": 0, "command": []} == {
        "command": [], "launch": "plain", "nodes": 1, "processes": 1, "checkpoint_folder": kept, "seconds": 0,
        "exit_code": 0,
    }  # fmt: skip


def folders(run: str, key: str = "k", pins: str = "p", task: str = "-45678901234") -> Folders:
    output = f"gs://bucket/root/123456789/{run}/train_{task}/checkpoints"
    words = ["--data", "gs://b/data", "--model", "/gcs/b/model/", "--checkpoints", output, "--key", key, "--pins", pins]
    return Folders(parse([*words, "--", "x"])[0], {"CLUSTER_SPEC": "{}"})


def test_on_vertex_folders_are_gs_and_every_attempt_finds_the_same_checkpoints() -> None:
    first = folders("training-f00")
    kept = first.variables["AIP_CHECKPOINT_DIR"]
    assert kept.startswith("gs://bucket/root/checkpoints/train-") and kept.endswith("/")
    assert first.variables["AIP_MODEL_DIR"] == "gs://b/model/" and first.paths["model"] == "/gcs/b/model"
    assert first.variables["AIP_TENSORBOARD_LOG_DIR"] == f"{kept.rstrip('/')}-logs/"
    assert first.output == "/gcs/bucket/root/123456789/training-f00/train_-45678901234/checkpoints"
    same = folders("training-f00-a3", task="99999999").variables["AIP_CHECKPOINT_DIR"]
    assert same == kept
    others = [folders("training-f01"), folders("training-f00", key="other"), folders("training-f00", pins="q")]
    assert len({other.variables["AIP_CHECKPOINT_DIR"] for other in others} | {kept}) == 4
