"""What a compiled pipeline means on this machine, where every step is a Python process in this environment."""

from pathlib import Path

from vgp.compiling.entrypoint import EXECUTOR
from vgp.errors import RequestError
from vgp.inside.image import IMAGE
from vgp.spec import placeholders
from vgp.spec.pipeline_spec import PipelineSpec


def refuse(spec: PipelineSpec, folder: Path) -> None:
    """Raises RequestError: a step is a container without Python, or the run's folder cannot be given to a step."""
    if placeholders.within(str(folder)):
        raise RequestError(f"the folder {folder} {placeholders.RULE}")
    for step, container in spec.containers.items():
        command = container.get("command", [])
        if command[:1] != ["sh"] or not any(EXECUTOR in word for word in command):
            raise RequestError(
                f"{step} is a container, {container['image']}; on this machine only Python steps run. "
                "Start the pipeline on Vertex AI: pipelines submit."
            )


def notes(spec: PipelineSpec) -> list[str]:
    """A line for each step that has another image on Vertex AI than the other steps."""
    return [
        f"note: {step} runs in this environment, not in its own image {container['image']}."
        for step, container in spec.containers.items()
        if container["image"] != IMAGE
    ]
