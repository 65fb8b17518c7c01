"""A preparation on Google's Dataflow: one job, found again by its name, followed to its end.

The job's name follows from the run and from what is prepared, so a step that was killed finds its job where it starts
again. Workers write shards into the dataset's folder; they count once the manifest lies beside them, which is last.
"""

import hashlib
import json
import os
import re
import sys
import threading
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path

from vgp.base.documents import json_text
from vgp.base.engine_settings import VARIABLE
from vgp.base.engine_settings import Dataflow as Settings
from vgp.base.exits import Preempted, ProcessFailed, UserError
from vgp.base.storage import objects, storage
from vgp.base.storage.dataflow import Job, Jobs, project
from vgp.base.storage.storage import File
from vgp.data import finish
from vgp.data.beam.dataflow_job import cancelling_on_signals, follow, submit, uncancelled
from vgp.data.beam.local import require_beam
from vgp.data.beam.work import NOTES_FILE, Work
from vgp.data.task import Shard, Task
from vgp.protocol import environment as variables
from vgp.protocol import run_folder
from vgp.protocol.manifest import FILE_NAME, Manifest

#: The image that the step runs in, and the region of a job of Vertex AI, as its environment tells them.
IMAGE_VARIABLE, REGION_VARIABLE = variables.IMAGE, "CLOUD_ML_REGION"
#: Whether each shard is worked on in a process of its own, whose death its worker explains.
APART = True
#: The file in which a job says where its shards go.
PLACE_FILE = "place.json"
#: States of a job whose shards nobody takes.
LOST = {"FAILED", "CANCELLING", "CANCELLED"}


def prepare_on_dataflow(name: str, task: Task, data: str, destination: str | Path, settings: Settings) -> Manifest:
    """Prepares the dataset of the task called `name` in a folder of a bucket, by a job of Dataflow.

    Raises:
        UserError: the input is wrong or on this machine, or so is the destination, a setting or a permission; or there
            is no room for the job.
        ProcessFailed: the job failed, or Google could not be reached.
        Preempted: SIGTERM came; the job is cancelled.
    """
    require_beam()
    target = Dataset.checked(destination)
    inputs = task.files(data) if data and task.finds_files else []
    for file in inputs:
        if not storage.is_remote(file.path):
            raise UserError(
                f"{file.path} is on this machine, where Dataflow's workers cannot read it: copy it to a bucket "
                "(gcloud storage cp), or leave [steps.prepare.dataflow] out to prepare it here."
            )
    runner = Dataflow(settings, target, [storage.versioned(file) for file in inputs])
    task.elsewhere = True
    return runner.make(name, task, task.shards(data), target)


@dataclass(frozen=True)
class Place:
    """Where a job keeps what it works with, and where its shards go."""

    folder: str
    output: str


class Dataflow:
    """The runner of `shards.py` on Dataflow."""

    def __init__(
        self, settings: Settings, target: "Dataset", inputs: Sequence[File], environment: Mapping[str, str] = os.environ
    ):
        """Raises UserError if something is missing that no default tells."""
        run = run_folder.parse(target.path)
        temp = f"{run.root if run else target.path.rpartition('/')[0]}/dataflow"
        self.settings = settings.model_copy(
            update={
                "project": settings.project or project(),
                "region": settings.region or environment.get(REGION_VARIABLE, ""),
                "image": settings.image or environment.get(IMAGE_VARIABLE, ""),
                "temp": settings.temp or temp,
            }
        )
        for name, value in (("region", self.settings.region), ("image", self.settings.image)):
            if not value:
                raise UserError(
                    f"Dataflow needs {name}: a pipeline has it from {name} in pipelines.toml; by hand it is "
                    f'{VARIABLE}=\'{{"dataflow": {{"{name}": ...}}}}\'.'
                )
        self.inputs = inputs
        self.jobs = Jobs(self.settings.project, self.settings.region)

    def make(self, name: str, task: Task, shards: Sequence[Shard], target: "Dataset") -> Manifest:
        """As `shards.Runner.make`, into a bucket. Raises as `prepare_on_dataflow`."""
        if not shards:
            raise UserError("the task has cut its input into no shards: there is nothing to prepare.")
        title = job_name(name, task, self.inputs, target.path, self.settings.image)
        with cancelling_on_signals() as stop:
            if (ended := self._finished(title)) is None:
                job, place = self._running(title, stop) or self._submitted(title, name, task, shards, target, stop)
                self._follow(job, place, len(shards), stop)
                ended = _made(place), place
        made, place = ended
        finish.say(json.loads(objects.read(f"{place.folder}/{NOTES_FILE}")))
        target.commit(made, place.output)
        _clear(place)
        return made

    def _finished(self, title: str) -> tuple[Manifest, Place] | None:
        """What the newest job of the name has made, if that is there still: a step was killed before it ended."""
        newest = next(iter(self.jobs.named(title)), None)
        if newest is None or newest.state != "DONE":
            return None
        place = _place(self._folder(title, newest))
        if place is None or not objects.Folder(place.folder).holds(FILE_NAME):
            return None
        made = _made(place)
        if not Dataset(place.output).holds(made):
            return None
        _say(f"Dataflow job {title} has ended before: its shards are taken")
        return made, place

    def _running(self, title: str, stop: threading.Event) -> tuple[Job, Place] | None:
        job = uncancelled(self.jobs, title, stop)
        if job is None:
            return None
        place = _place(self._folder(title, job))
        if place is None:
            raise UserError(
                f"a Dataflow job called {title} runs, and is none of this run: cancel it ({self.jobs.link(job)})."
            )
        _say(f"Dataflow job {title} runs already: {self.jobs.link(job)}")
        return job, place

    def _follow(self, job: Job, place: Place, shards: int, stop: threading.Event) -> None:
        """As `follow`; nobody takes the rows of a job that has failed or is cancelled, so they are removed."""
        try:
            follow(self.jobs, job, place.folder, shards, self.settings.max_hours, stop)
        except (Preempted, ProcessFailed, UserError):
            with suppress(ProcessFailed, UserError):
                if self.jobs.get(job.id).state in LOST:
                    _clear(place)
            raise

    def _submitted(
        self, title: str, name: str, task: Task, shards: Sequence[Shard], target: "Dataset", stop: threading.Event
    ) -> tuple[Job, Place]:
        attempt = len(self.jobs.named(title))
        folder = self._folder_of(title, attempt)
        place = Place(folder, f"{folder}/dataset" if target.is_complete() else target.path)
        if not objects.Folder(folder).create(PLACE_FILE, [memoryview(json.dumps(asdict(place)).encode())]):
            place = _place(folder) or place  # of a step that was killed before its job began, or another's just now
        work = Work(name, task, len(shards), place.folder, place.output, APART)
        marks = {**labels(target.path), "attempt": str(attempt)}
        job = submit(work, shards, title, marks, self.settings, self.jobs, stop)
        _say(f"Dataflow job {title} was started: {self.jobs.link(job)}")
        return job, place

    def _folder(self, title: str, job: Job) -> str:
        return self._folder_of(title, int(job.labels.get("attempt", "0")))

    def _folder_of(self, title: str, attempt: int) -> str:
        return f"{self.settings.temp}/{title}/{attempt}"


def _clear(place: Place) -> None:
    """Removes the rows that waited to be written; the manifest stays, for a step that is killed now.

    What workers left of failures lies in a folder below, and stays.
    """
    kept = {FILE_NAME, NOTES_FILE, PLACE_FILE}
    with suppress(OSError), ThreadPoolExecutor(THREADS) as pool:
        folders = {place.folder, *([place.output] if place.output.startswith(f"{place.folder}/") else [])}
        for folder in map(objects.Folder, folders):
            list(pool.map(folder.delete, (name for name in folder.names() if name not in kept)))


def _place(folder: str) -> Place | None:
    """What the job that works in the folder says; None if there is none."""
    try:
        return Place(**json.loads(objects.read(f"{folder}/{PLACE_FILE}")))
    except FileNotFoundError:
        return None


def _made(place: Place) -> Manifest:
    """What the job has made."""
    path = f"{place.folder}/{FILE_NAME}"
    try:
        return json_text.parse_model(Manifest, objects.read(path))
    except FileNotFoundError:
        raise ProcessFailed(f"the Dataflow job has ended, and left no {path}: start it again.") from None
    except ValueError as error:
        raise UserError(f"{path} cannot be read as a dataset manifest: {error}") from None


def _say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


# ---- names and labels of Dataflow jobs: they follow from the run and from what is prepared


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


# ---- a dataset in a bucket: shards under their names, and the manifest that makes them one, last


#: Objects that are copied or deleted at a time.
THREADS = 16


@dataclass(frozen=True)
class Dataset:
    """A dataset in a folder of a bucket."""

    #: gs://bucket/folder
    path: str

    @classmethod
    def checked(cls, path: str | Path) -> "Dataset":
        """Raises UserError before any work if it is not in a bucket, cannot be written, or holds something else."""
        dataset = cls(storage.uri(path))
        if not storage.is_remote(dataset.path):
            raise UserError(
                f"the output {path} is on this machine, where Dataflow's workers cannot write: give a folder of a "
                "bucket, gs://BUCKET/NAME or /gcs/BUCKET/NAME."
            )
        dataset._folder.require_writable()
        held = [name for name in dataset._folder.names() if not _is_ours(name)]
        if held and FILE_NAME not in held:
            raise UserError(
                f"the output {path} holds other files ({', '.join(held[:3])}): choose an empty or new folder."
            )
        return dataset

    def is_complete(self) -> bool:
        """Whether it is a dataset, which must stay one until another takes its place."""
        return self._folder.holds(FILE_NAME)

    def holds(self, made: Manifest) -> bool:
        """Whether all shards of the manifest are there, by their sizes."""
        there = {file.path.rpartition("/")[2]: file.bytes for file in storage.below(self.path)}
        return all(there.get(file.path) == file.bytes for files in made.splits.values() for file in files)

    def commit(self, made: Manifest, source: str) -> None:
        """Makes the shards that lie in the folder `source` the dataset; the manifest comes last."""
        if source != self.path and self._folder.holds(FILE_NAME):
            self._folder.delete(FILE_NAME)  # what follows overwrites its shards
        names = [file.path for files in made.splits.values() for file in files]
        strays = [name for name in self._folder.names() if _is_ours(name) and name not in set(names)]
        with ThreadPoolExecutor(THREADS) as pool:
            if source != self.path:
                list(pool.map(lambda name: objects.Folder(source).copy(name, self._folder), names))
            list(pool.map(self._folder.delete, strays))
        text = json.dumps(made.model_dump(), indent=1, sort_keys=True) + "\n"
        self._folder.replace(FILE_NAME, text.encode())

    @property
    def _folder(self) -> objects.Folder:
        return objects.Folder(self.path)


def _is_ours(name: str) -> bool:
    """Whether it is a shard, or what a step that was killed left of finding out whether it can write."""
    if name.startswith(objects.PROBE):
        return True
    stem, dot, suffix = name.rpartition(".")
    return bool(dot) and suffix == "parquet" and stem.rpartition("-")[2].isdigit()
