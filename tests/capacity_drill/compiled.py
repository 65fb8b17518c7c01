"""The step `train` with a ladder, as `pipelines compile` writes it and as Vertex AI then starts it."""

import json
import warnings
from pathlib import Path

#: What Vertex AI puts in place of the placeholders of a run that has no account, network or key of its own.
PLACEHOLDERS = {
    "{{$.pipeline_google_cloud_project_id}}": "test-project", "{{$.pipeline_service_account}}": "",
    "{{$.pipeline_network}}": "", "{{$.pipeline_encryption_key_name}}": "",
}  # fmt: skip
IMAGE = "us-docker.pkg.dev/p/r/training:1"
#: One process or two, on one machine or two: what exact mode makes the same bits of.
ONE, TWO = {"machine": "g2-standard-12"}, {"machine": "g2-standard-24"}
RUNGS = [
    {**ONE, "strategy": "spot", "nodes": 2},
    {**ONE, "strategy": "spot", "regions": ["europe-west4"]},
    {**TWO, "strategy": "flex_start", "max_wait": "30m"},
    {**TWO, "strategy": "standard", "regions": ["us-east4"]},
]


def container(folder: Path) -> dict[str, list[str]]:
    """The command and the arguments of the step's container; `{{$}}` is left in them."""
    from kfp import compiler, dsl

    from components.train import train
    from vgp.compiling.vertex import Vertex
    from vgp.placement.request import Request
    from vgp.settings import Settings

    asked = Request.model_validate({**ONE, "capacity": RUNGS, "timeout": "2h"})
    ready = Vertex(Settings(image=IMAGE, steps={"train": asked})).job(train, pinned=True)

    @dsl.pipeline(name="drill")
    def drill(epochs: float = 1.0):  # type: ignore[no-untyped-def]
        dataset = dsl.importer(artifact_uri="gs://b/d", artifact_class=dsl.Dataset)
        ready(
            dataset=dataset.output, pins="", task="flights", epochs=epochs, global_batch_size=8, learning_rate=1.0,
            weight_decay=0.0, warmup_fraction=0.0, clip_norm=1.0, precision="auto", seed=0,
        )  # fmt: skip

    path = folder / "drill.json"
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        compiler.Compiler().compile(drill, str(path))
    found = json.loads(path.read_text())["deploymentSpec"]["executors"]["exec-train"]["container"]
    return {key: [filled(word) for word in found[key]] for key in ("command", "args")}


def filled(word: str) -> str:
    for placeholder, value in PLACEHOLDERS.items():
        word = word.replace(placeholder, value)
    return word
