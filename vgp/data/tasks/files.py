"""Any files, handed on as they are: for a script of the user's that reads raw data, or brings its own.

    [steps.train]
    command = ["python", "train.py", "--data", "{data}"]

    vgp run training --set task=files --set data=gs://bucket/images

Nothing is split or encoded: `prepare` copies the pinned files, in their folders, to where the script finds them. The
manifest of such a dataset is hidden (`manifest.HIDDEN_NAME`), so that a script that takes every file that it sees takes
the user's alone.
"""

import hashlib
import json
import os
import re
import shutil
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar, NoReturn

from vgp.base.exits import UserError
from vgp.base.storage import download, files, finding, pinned, storage
from vgp.base.storage.storage import File
from vgp.base.text.printable import quoted
from vgp.data import task_names
from vgp.data.destination import UNFINISHED, Destination
from vgp.data.task import Options, Task
from vgp.data.tasks import NO_ROWS
from vgp.protocol import manifest
from vgp.protocol.manifest import Manifest, SourceFile

if TYPE_CHECKING:
    from vgp.protocol.manifest import Manifest


class Files(Task):
    """Files as they are. Its options: none."""

    as_they_are = True
    classes = ()
    settings: ClassVar[Options] = {}

    def files(self, data: str) -> Sequence[File]:
        """Every file, with its path below what was given as its title; none for `data` = ""."""
        return [replace(file, title=name) for name, file in find_files(data).items()]

    def _refused(self, *_: object, **__: object) -> NoReturn:
        raise UserError(NO_ROWS)

    shards = rows = model = loss = predict = _refused


# ---- the files in the folder of a dataset: exactly the versions that were pinned, under their own names


#: Files copied at a time; a remote one holds `download.CHUNK_BYTES` of memory.
THREADS = 8
#: Bytes of a file's name on common file systems.
MOST_NAME_BYTES = 255
RESERVED = (manifest.HIDDEN_NAME, UNFINISHED)


def find_files(data: str) -> dict[str, File]:
    """The files that `data` stands for, by their paths below what was given, sorted.

    Args:
        data: files, folders (with all below them) and globs, local or gs://, separated by commas; a document of
            pins. "" = none.

    Raises:
        UserError: a part matches nothing, two files have one name, or a name leads out of a folder.
    """
    matches = {file.path: (name, file) for part in storage.parts(data) for name, file in _below(part)}
    names: dict[str, File] = {}
    for path, (name, file) in sorted(matches.items()):
        _require_safe(name, path)
        if (other := names.setdefault(name, file)) is not file:
            raise UserError(f"{other.path} and {path} are both called {quoted(name)}: give the folder above them.")
    _require_no_file_in_place_of_a_folder(names)
    return dict(sorted(names.items()))


def copy_files(name: str, task: Task, data: str, target: Destination) -> Manifest:
    """Copies what `data` stands for into the folder and returns its manifest.

    Args:
        name: Of the task.
        data: As `find_files` takes it.

    Raises:
        UserError: as `find_files`, or a file is not as it was pinned. Nothing is left behind.
    """
    chosen = find_files(data)
    with target.writing(tuple(chosen)) as folder, ThreadPoolExecutor(THREADS) as pool:
        try:
            sources = tuple(pool.map(lambda item: _copied(item[1], folder, item[0]), chosen.items()))
        except BaseException:
            pool.shutdown(cancel_futures=True)
            raise
        made = Manifest(
            task=task_names.spec(name), options=task.options, columns=(), splits={}, sources=sources,
            fingerprint=_fingerprint(name, sources),
        )  # fmt: skip
        manifest.save(made, folder, manifest.HIDDEN_NAME)
    return made


def _below(part: str) -> Iterable[tuple[str, File]]:
    """What one file, folder or glob stands for. Its root is the folder, or what comes before the first wildcard."""
    if pinned.digest(part):
        return [(file.title or os.path.basename(storage.plain(file.path)), file) for file in storage.find(part)]
    part = os.path.expanduser(part)
    if storage.WILDCARDS & set(part) and not os.path.exists(part):
        root = re.split(r"[*?\[]", part, maxsplit=1)[0].rpartition("/")[0]
        return _named(root, storage.find(part))
    if below := storage.below(part, links=True):
        return _named(storage.uri(part), below)
    plain = storage.plain(part)
    return [(os.path.basename(plain), file) for file in storage.find(part)]


def _named(root: str, matches: Sequence[File]) -> list[tuple[str, File]]:
    prefix = "" if not root else root if root.endswith("/") else f"{root}/"
    return [(file.path.removeprefix(prefix), file) for file in matches]


def _require_safe(name: str, path: str) -> None:
    parts = name.split("/")
    if any(part in ("", ".", "..") or "\0" in part for part in parts):
        raise UserError(f"{path} would be {quoted(name)} in the data's folder, which leads out of it: rename it.")
    if any(len(os.fsencode(part)) > MOST_NAME_BYTES for part in parts):
        raise UserError(f"{path} has a name of more than {MOST_NAME_BYTES} bytes, which no file can have: rename it.")
    if parts[0] in RESERVED:
        raise UserError(f"{path} would be {name} in the data's folder, where we write one ourselves: rename it.")


def _require_no_file_in_place_of_a_folder(names: Mapping[str, File]) -> None:
    for name in names:
        for parent in Path(name).parents:
            if (other := names.get(parent.as_posix())) is not None:
                raise UserError(
                    f"{other.path} is a file, and {names[name].path} lies in a folder of that name: on a file system "
                    "only one of them can be. Rename one."
                )


def _copied(file: File, folder: Path, name: str) -> SourceFile:
    target = folder / name
    target.parent.mkdir(parents=True, exist_ok=True)
    if storage.is_remote(file.path):
        download.copy(file.path, target)
    else:
        known = file.version or finding.described(file.path).version
        assert known
        with files.open_unchanged(file.path, known, file.path) as source, open(target, "wb") as copied:
            shutil.copyfileobj(source, copied, download.CHUNK_BYTES)
    with open(target, "rb") as copied:
        checksum = hashlib.file_digest(copied, "sha256").hexdigest()
    return SourceFile(path=name, bytes=target.stat().st_size, sha256=checksum)


def _fingerprint(name: str, sources: Sequence[SourceFile]) -> str:
    parts = [task_names.spec(name), [[source.path, source.sha256] for source in sources]]
    return hashlib.sha256(json.dumps(parts).encode()).hexdigest()
