"""A preparation on Google's Dataflow, as one job that a retry of the step finds by its name.

The job's name is a function of the run and of the dataset, so the retry of a killed step follows the existing job.
Workers write shards into the dataset's folder; the manifest, which makes them a dataset, comes last.
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
from vgp.data import dataset_checks
from vgp.data.beam.dataflow_job import cancelling_on_signals, find_running_job, follow, submit
from vgp.data.beam.local_runner import require_beam
from vgp.data.beam.worker_functions import NOTES_FILE, Work
from vgp.data.task import Shard, Task
from vgp.protocol import environment as variables
from vgp.protocol import run_folder
from vgp.protocol.manifest import FILE_NAME, Manifest

#: Environment variables with the image of the step, and the region of its job on Vertex AI.
IMAGE_VARIABLE, REGION_VARIABLE = variables.IMAGE, "CLOUD_ML_REGION"
#: Whether each shard has a process of its own, whose death its worker explains.
SEPARATE_PROCESSES = True
#: The file with the folders of a job.
PLACE_FILE = "place.json"
#: States of a job whose shards will not be used.
LOST = {"FAILED", "CANCELLING", "CANCELLED"}


def prepare_on_dataflow(name: str, task: Task, data: str, destination: str | Path, settings: Settings) -> Manifest:
    """Prepares the dataset of the task called `name` in a folder of a bucket, with a job of Dataflow.

    Raises:
        UserError: The input, the destination, a setting or a permission is wrong; the input or the destination is on
            this machine; or quota or capacity is lacking.
        ProcessFailed: The job failed, or Google could not be reached.
        Preempted: SIGTERM came, and the job was cancelled.
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
    runner = Dataflow(settings, target, [storage.with_version(file) for file in inputs])
    task.elsewhere = True
    return runner.make(name, task, task.shards(data), target)


@dataclass(frozen=True)
class Place:
    """The folders of a job: its working folder, and the folder of its shards."""

    folder: str
    output: str


class Dataflow:
    """The runner of `shards.py` on Dataflow."""

    def __init__(
        self, settings: Settings, target: "Dataset", inputs: Sequence[File], environment: Mapping[str, str] = os.environ
    ):
        """Raises UserError if the region or the image is neither set nor in the environment."""
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
                    f"Dataflow needs {name}: set {name} in pipelines.toml for a pipeline, or by hand "
                    f'{VARIABLE}=\'{{"dataflow": {{"{name}": ...}}}}\'.'
                )
        self.inputs = inputs
        self.jobs = Jobs(self.settings.project, self.settings.region)

    def make(self, name: str, task: Task, shards: Sequence[Shard], target: "Dataset") -> Manifest:
        """Prepares the dataset in a bucket, like `shards.Runner.make`. Raises the errors of `prepare_on_dataflow`."""
        if not shards:
            raise UserError("the task's `shards` returned no shards, so there is nothing to prepare: check its input.")
        title = job_name(name, task, self.inputs, target.path, self.settings.image)
        with cancelling_on_signals() as stop:
            if (finished := self._find_finished(title)) is None:
                job, place = self._find_running(title, stop) or self._submit(title, name, task, shards, target, stop)
                self._follow(job, place, len(shards), stop)
                finished = _read_manifest(place), place
        dataset, place = finished
        dataset_checks.print_notes(json.loads(objects.read(f"{place.folder}/{NOTES_FILE}")))
        target.commit(dataset, place.output)
        _clear(place)
        return dataset

    def _find_finished(self, title: str) -> tuple[Manifest, Place] | None:
        """Returns the manifest and folders of the newest job of that name, if it is done and its shards still exist,
        because an earlier try of the step was killed before the commit."""
        newest = next(iter(self.jobs.list_by_name(title)), None)
        if newest is None or newest.state != "DONE":
            return None
        place = _read_place(self._folder(title, newest))
        if place is None or not objects.Folder(place.folder).holds(FILE_NAME):
            return None
        dataset = _read_manifest(place)
        if not Dataset(place.output).holds(dataset):
            return None
        _log(f"Dataflow job {title} is already done: using its shards")
        return dataset, place

    def _find_running(self, title: str, stop: threading.Event) -> tuple[Job, Place] | None:
        job = find_running_job(self.jobs, title, stop)
        if job is None:
            return None
        place = _read_place(self._folder(title, job))
        if place is None:
            raise UserError(
                f"a Dataflow job called {title} runs, but does not belong to this run: cancel it "
                f"({self.jobs.link(job)})."
            )
        _log(f"Dataflow job {title} is already running: {self.jobs.link(job)}")
        return job, place

    def _follow(self, job: Job, place: Place, shards: int, stop: threading.Event) -> None:
        """Calls `follow`, and removes the rows of a job that has failed or is cancelled."""
        try:
            follow(self.jobs, job, place.folder, shards, self.settings.max_hours, stop)
        except (Preempted, ProcessFailed, UserError):
            with suppress(ProcessFailed, UserError):
                if self.jobs.get(job.id).state in LOST:
                    _clear(place)
            raise

    def _submit(
        self, title: str, name: str, task: Task, shards: Sequence[Shard], target: "Dataset", stop: threading.Event
    ) -> tuple[Job, Place]:
        attempt = len(self.jobs.list_by_name(title))
        folder = self._folder_of(title, attempt)
        place = Place(folder, f"{folder}/dataset" if target.is_complete() else target.path)
        if not objects.Folder(folder).create(PLACE_FILE, [memoryview(json.dumps(asdict(place)).encode())]):
            place = _read_place(folder) or place  # of a killed step whose job never began, or of a concurrent step
        work = Work(name, task, len(shards), place.folder, place.output, SEPARATE_PROCESSES)
        marks = {**labels(target.path), "attempt": str(attempt)}
        job = submit(work, shards, title, marks, self.settings, self.jobs, stop)
        _log(f"Dataflow job {title} was started: {self.jobs.link(job)}")
        return job, place

    def _folder(self, title: str, job: Job) -> str:
        return self._folder_of(title, int(job.labels.get("attempt", "0")))

    def _folder_of(self, title: str, attempt: int) -> str:
        return f"{self.settings.temp}/{title}/{attempt}"


def _clear(place: Place) -> None:
    """Removes scratch rows; keeps the manifest, in case this step is killed now, and the folder of failures."""
    results = {FILE_NAME, NOTES_FILE, PLACE_FILE}
    with suppress(OSError), ThreadPoolExecutor(THREADS) as pool:
        folders = {place.folder, *([place.output] if place.output.startswith(f"{place.folder}/") else [])}
        for folder in map(objects.Folder, folders):
            list(pool.map(folder.delete, (name for name in folder.names() if name not in results)))


def _read_place(folder: str) -> Place | None:
    """Reads the folders of the job that works in `folder`; returns None if there is no such job."""
    try:
        return Place(**json.loads(objects.read(f"{folder}/{PLACE_FILE}")))
    except FileNotFoundError:
        return None


def _read_manifest(place: Place) -> Manifest:
    """Reads the manifest of a finished job."""
    path = f"{place.folder}/{FILE_NAME}"
    try:
        return json_text.parse_model(Manifest, objects.read(path))
    except FileNotFoundError:
        raise ProcessFailed(f"the Dataflow job has ended without writing {path}: start the step again.") from None
    except ValueError as error:
        raise UserError(f"{path} cannot be read as a dataset manifest: {error}") from None


def _log(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


# ---- names and labels of Dataflow jobs, from the run and the dataset


#: The most letters of run and step in a job's name, which is shown in lists; Dataflow allows 1,024 in all.
MOST_NAME_LETTERS = 50


def job_name(name: str, task: Task, inputs: Sequence[File], destination: str, image: str) -> str:
    """Returns the name of the job that prepares this dataset for this run, equal in every try of the step.

    Args:
        name: The name of the task, whose shards are already cut.
        inputs: The current input files; other files give another name.
    """
    files = [[file.path, file.generation, file.bytes] for file in inputs]
    package = task.package() if not inputs else None
    run = run_folder.parse(destination)
    owner = [run.run, run.step] if run else ["prepare", destination]
    parts = [*owner, dataset_checks.fingerprint(name, task, task.sources, {}), files, package, image]
    digest = hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()[:12]
    prefix = re.sub(r"[^a-z0-9]+", "-", "-".join(owner if run else owner[:1]).lower()).strip("-")
    return (prefix if prefix[:1].isalpha() else f"run-{prefix}")[:MOST_NAME_LETTERS].rstrip("-") + f"-{digest}"


def labels(destination: str) -> dict[str, str]:
    """Returns the labels of run and step, for lists and bills."""
    run = run_folder.parse(destination)
    return {"run": _label(run.run), "step": _label(run.step)} if run else {}


def _label(text: str) -> str:
    return re.sub(r"[^a-z0-9_-]", "-", text.lower())[:63]


# ---- a dataset in a bucket: first the shards, then the manifest


#: Objects to copy or delete at once.
THREADS = 16


@dataclass(frozen=True)
class Dataset:
    """A dataset in a folder of a bucket."""

    #: gs://bucket/folder
    path: str

    @classmethod
    def checked(cls, path: str | Path) -> "Dataset":
        """Returns the dataset. Raises UserError if the path is not in a bucket, not writable, or holds other files."""
        dataset = cls(storage.uri(path))
        if not storage.is_remote(dataset.path):
            raise UserError(
                f"the output {path} is on this machine, where Dataflow's workers cannot write: give a folder of a "
                "bucket, gs://BUCKET/NAME or /gcs/BUCKET/NAME."
            )
        dataset._folder.require_writable()
        others = [name for name in dataset._folder.names() if not _is_ours(name)]
        if others and FILE_NAME not in others:
            raise UserError(
                f"the output {path} holds other files ({', '.join(others[:3])}): choose an empty or new folder."
            )
        return dataset

    def is_complete(self) -> bool:
        """Returns whether the folder holds a finished dataset, which must stay intact until it is replaced."""
        return self._folder.holds(FILE_NAME)

    def holds(self, dataset: Manifest) -> bool:
        """Returns whether all shards of the manifest exist with their sizes."""
        sizes = {file.path.rpartition("/")[2]: file.bytes for file in storage.below(self.path)}
        return all(sizes.get(file.path) == file.bytes for files in dataset.splits.values() for file in files)

    def commit(self, dataset: Manifest, source: str) -> None:
        """Copies the shards from the folder `source`, removes old ones, and writes the manifest last."""
        if source != self.path and self._folder.holds(FILE_NAME):
            self._folder.delete(FILE_NAME)  # before its shards are overwritten
        names = [file.path for files in dataset.splits.values() for file in files]
        strays = [name for name in self._folder.names() if _is_ours(name) and name not in set(names)]
        with ThreadPoolExecutor(THREADS) as pool:
            if source != self.path:
                list(pool.map(lambda name: objects.Folder(source).copy(name, self._folder), names))
            list(pool.map(self._folder.delete, strays))
        text = json.dumps(dataset.model_dump(), indent=1, sort_keys=True) + "\n"
        self._folder.replace(FILE_NAME, text.encode())

    @property
    def _folder(self) -> objects.Folder:
        return objects.Folder(self.path)


def _is_ours(name: str) -> bool:
    """Returns whether the object is a shard, or the probe of a killed step for write access."""
    if name.startswith(objects.PROBE):
        return True
    stem, dot, suffix = name.rpartition(".")
    return bool(dot) and suffix == "parquet" and stem.rpartition("-")[2].isdigit()
