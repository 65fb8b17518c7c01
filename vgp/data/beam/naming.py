"""Names and labels of Dataflow jobs: they follow from the run and from what is prepared."""

import hashlib
import json
import re
from collections.abc import Sequence

from vgp.base.storage.storage import File
from vgp.data import finish
from vgp.data.task import Task
from vgp.protocol import run_folder

#: Letters of a job's name that tell the run and the step; it may have 1,024 in all, and shows in lists.
TOLD_LETTERS = 50


def job_name(name: str, task: Task, inputs: Sequence[File], destination: str, image: str) -> str:
    """The name of the job that prepares this dataset for this run, the same in every attempt at the step.

    Args:
        name: Of the task, whose shards are cut.
        inputs: The files as they are now: others make another job.
    """
    files = [[file.path, file.generation, file.bytes] for file in inputs]
    package = task.package() if not inputs else None
    run = run_folder.parse(destination)
    who = [run.run, run.step] if run else ["prepare", destination]
    decisive = [*who, finish.fingerprint(name, task, task.sources, {}), files, package, image]
    digest = hashlib.sha256(json.dumps(decisive, sort_keys=True).encode()).hexdigest()[:12]
    told = re.sub(r"[^a-z0-9]+", "-", "-".join(who if run else who[:1]).lower()).strip("-")
    return f"{told if told[:1].isalpha() else f'run-{told}'}"[:TOLD_LETTERS].rstrip("-") + f"-{digest}"


def labels(destination: str) -> dict[str, str]:
    """Of the run and the step, for lists and bills."""
    run = run_folder.parse(destination)
    return {"run": _label(run.run), "step": _label(run.step)} if run else {}


def _label(text: str) -> str:
    return re.sub(r"[^a-z0-9_-]", "-", text.lower())[:63]
