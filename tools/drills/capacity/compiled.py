"""The step `train` as `vgp compile` writes it and Vertex AI starts it, with a ladder or without."""

import json
import warnings
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from kfp import compiler, dsl

from components import step
from components.train import train
from vgp.machines.placement.step_request import Request
from vgp.settings import Settings
from vgp.workflow.compiling.vertex import Vertex

#: The values of Vertex AI's placeholders in a run without an account, network or key.
PLACEHOLDERS = {
    "{{$.pipeline_google_cloud_project_id}}": "test-project", "{{$.pipeline_service_account}}": "",
    "{{$.pipeline_network}}": "", "{{$.pipeline_encryption_key_name}}": "",
}  # fmt: skip
IMAGE = "us-docker.pkg.dev/p/r/training:1"
#: One process or two, on one machine or two, which give equal bits in exact mode.
ONE, TWO = {"machine": "g2-standard-12"}, {"machine": "g2-standard-24"}
RUNGS = [
    {**ONE, "strategy": "spot", "nodes": 2},
    {**ONE, "strategy": "spot", "regions": ["europe-west4"]},
    {**TWO, "strategy": "flex_start", "max_wait": "30m"},
    {**TWO, "strategy": "standard", "regions": ["us-east4"]},
]


def container(folder: Path) -> dict[str, list[str]]:
    """Returns command and arguments of the step's container, with `{{$}}` in them."""
    found = spec(folder, {**ONE, "capacity": RUNGS, "timeout": "2h"}, {})
    words = found["deploymentSpec"]["executors"]["exec-train"]["container"]
    return {key: [fill_placeholders(word) for word in words[key]] for key in ("command", "args")}


@step
def lay(folder: str, dataset: dsl.Output[dsl.Dataset]):
    import shutil

    shutil.copytree(folder, dataset.path)


def spec(folder: Path, asked: Mapping[str, Any], values: Mapping[str, Any]) -> dict[str, Any]:
    """Returns a pipeline of `lay` and the step `train` with the machines `asked` and the parameters `values`."""
    asked_for = {"train": Request.model_validate(asked), "lay": Request()}
    target = Vertex(Settings(image=IMAGE, steps=asked_for))
    before, ready = target.step(lay), target.job(train, pinned=True)
    given = {"pins": "", "task": "flights", "config": {"epochs": 1.0, "global_batch_size": 8}, **values}

    @dsl.pipeline(name="drill")
    def drill(folder: str = ""):  # type: ignore[no-untyped-def]
        ready(dataset=before(folder=folder).outputs["dataset"], **given)

    path = folder / "drill.json"
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        compiler.Compiler().compile(drill, str(path))
    whole: dict[str, Any] = json.loads(path.read_text())
    return whole


def fill_placeholders(word: str) -> str:
    for placeholder, value in PLACEHOLDERS.items():
        word = word.replace(placeholder, value)
    return word
