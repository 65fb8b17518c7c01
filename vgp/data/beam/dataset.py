"""A dataset in a bucket: shards under their names, and the manifest that makes them one, last."""

import json
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from vgp.base.exits import UserError
from vgp.base.storage import objects, storage
from vgp.protocol.manifest import FILE_NAME, Manifest

#: Objects that are copied or deleted at a time.
THREADS = 16


@dataclass(frozen=True)
class Dataset:
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
