"""A preparation on Beam's local runner, for tests of a task before it runs on Dataflow."""

import errno
import importlib.util
import json
import logging
import re
import shutil
from collections.abc import Sequence
from pathlib import Path

from vgp.base.exits import ProcessFailed, UserError
from vgp.data import dataset_checks
from vgp.data import destination as scratch
from vgp.data.beam.worker_functions import NOTES_FILE, Work, failures
from vgp.data.destination import Destination
from vgp.data.shards import Processes
from vgp.data.task import Shard, Task
from vgp.protocol import manifest
from vgp.protocol.manifest import Manifest

MISSING = (
    "preparing on Apache Beam needs the package apache-beam: pip install '.[beam]' (in the image: "
    "docs/how-to/dataflow.md)."
)
#: The error of a full disk in the text of a worker's error.
FULL = re.compile(rf"OSError: \[Errno ({errno.ENOSPC}|{errno.EDQUOT})\]")


class Local:
    """The runner on Beam's local runner; workers = 1 means this process, in one thread."""

    def __init__(self, workers: int = 1):
        self.workers = workers

    def make(self, name: str, task: Task, shards: Sequence[Shard], target: Destination) -> Manifest:
        if not shards:
            return Processes(1).make(name, task, shards, target)  # raises the error about missing rows
        folder = task.scratch / "beam"
        output = folder / "dataset"
        output.mkdir(parents=True)
        work = Work(name, task, len(shards), str(folder), str(output))
        with scratch.disk_errors_named():
            self._run(work, shards)
            return self._commit(work, target)

    def _commit(self, work: Work, target: Destination) -> Manifest:
        folder, output = Path(work.folder), Path(work.output)
        dataset = manifest.load(folder)
        dataset_checks.print_notes(json.loads((folder / NOTES_FILE).read_bytes()))
        with target.writing() as destination:
            for files in dataset.splits.values():
                for file in files:
                    shutil.move(output / file.path, destination / file.path)
            manifest.save(dataset, destination)
        return dataset

    def _run(self, work: Work, shards: Sequence[Shard]) -> None:
        require_beam()
        import apache_beam as beam
        from apache_beam.options.pipeline_options import PipelineOptions
        from apache_beam.runners.portability.fn_api_runner import FnApiRunner

        from vgp.data.beam.beam_pipeline import build

        mode = "multi_processing" if self.workers > 1 else "in_memory"
        options = PipelineOptions(
            [],  # instead of this program's arguments
            direct_running_mode=mode,
            direct_num_workers=self.workers,
            pickle_library="cloudpickle",
            save_main_session=False,
        )
        try:
            pipeline = beam.Pipeline(runner=FnApiRunner(), options=options)
            # The scratch folder, which the next preparation removes after a kill.
            pipeline.local_tempdir = shutil.move(pipeline.local_tempdir, work.folder)
            with pipeline:
                build(pipeline, work, shards)
        except Exception as error:
            known = failures(work.folder)
            if full := FULL.search(known[0].words if known else str(error)):
                raise OSError(int(full[1]), "") from None
            if not known:
                raise
            raise (UserError if known[0].final else ProcessFailed)(known[0].words) from error


def require_beam() -> None:
    """Imports Beam. Raises UserError with the fix if the extra `beam` is not installed."""
    if importlib.util.find_spec("apache_beam") is None:
        raise UserError(MISSING)
    logging.disable(logging.WARNING)  # Beam warns of missing Google clients, which are not needed
    try:
        importlib.import_module("apache_beam")
    finally:
        logging.disable(logging.NOTSET)
