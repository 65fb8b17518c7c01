"""The task `files`, which copies files unchanged for a script that reads raw data:

    [steps.train]
    command = ["python", "train.py", "--data", "{data}"]

    vgp run training --set task=files --set data=gs://bucket/images

`prepare` copies the pinned files with their folders and neither splits nor encodes them. The manifest of the dataset is
a hidden file (`manifest.HIDDEN_NAME`), so that a script that reads all visible files reads only the user's.
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
from vgp.base.text.printable import quote
from vgp.data import task_names
from vgp.data.destination import UNFINISHED, Destination
from vgp.data.task import Options, Task
from vgp.data.tasks import NO_ROWS
from vgp.protocol import manifest
from vgp.protocol.manifest import Manifest, SourceFile

if TYPE_CHECKING:
    from vgp.protocol.manifest import Manifest


class Files(Task):
    """The task `files`, without options."""

    as_they_are = True
    classes = ()
    settings: ClassVar[Options] = {}

    def files(self, data: str) -> Sequence[File]:
        """Returns all files of `data`, each with its relative path as its title; none for `data` = ""."""
        return [replace(file, title=name) for name, file in find_files(data).items()]

    def _refuse(self, *_: object, **__: object) -> NoReturn:
        raise UserError(NO_ROWS)

    shards = rows = model = loss = predict = _refuse


# ---- copies of the pinned versions, under their own names


#: Files copied at a time; a remote one takes `download.CHUNK_BYTES` of memory.
THREADS = 8
#: The longest file name of common file systems, in bytes.
MOST_NAME_BYTES = 255
RESERVED = (manifest.HIDDEN_NAME, UNFINISHED)


def find_files(data: str) -> dict[str, File]:
    """Returns the files of `data` by their relative paths, sorted.

    Args:
        data: Files, folders (recursively) and globs, local or gs://, separated by commas; or a document of pins.
            "" = none.

    Raises:
        UserError: a part matches nothing, two files have one relative path, or a path leads out of the folder.
    """
    matches = {file.path: (name, file) for part in storage.parts(data) for name, file in _list_below(part)}
    names: dict[str, File] = {}
    for path, (name, file) in sorted(matches.items()):
        _require_safe(name, path)
        if (other := names.setdefault(name, file)) is not file:
            raise UserError(
                f"{other.path} and {path} have one relative path, {quote(name)}. Give the folder above them."
            )
    _require_no_file_in_place_of_a_folder(names)
    return dict(sorted(names.items()))


def copy_files(name: str, task: Task, data: str, target: Destination) -> Manifest:
    """Copies the files of `data` to `target` and returns the manifest.

    Args:
        name: The name of the task.
        data: See `find_files`.

    Raises:
        UserError: as `find_files`, or a file differs from its pin. The target is then left empty.
    """
    chosen = find_files(data)
    with target.writing(tuple(chosen)) as folder, ThreadPoolExecutor(THREADS) as pool:
        try:
            sources = tuple(pool.map(lambda item: _copy(item[1], folder, item[0]), chosen.items()))
        except BaseException:
            pool.shutdown(cancel_futures=True)
            raise
        dataset = Manifest(
            task=task_names.spec(name), options=task.options, columns=(), splits={}, sources=sources,
            fingerprint=_fingerprint(name, sources),
        )  # fmt: skip
        manifest.save(dataset, folder, manifest.HIDDEN_NAME)
    return dataset


def _list_below(part: str) -> Iterable[tuple[str, File]]:
    """Returns the files of one part of `data`, with paths relative to the folder or to what precedes the wildcards."""
    if pinned.read_digest(part):
        return [(file.title or os.path.basename(storage.plain(file.path)), file) for file in storage.find(part)]
    part = os.path.expanduser(part)
    if storage.WILDCARDS & set(part) and not os.path.exists(part):
        root = re.split(r"[*?\[]", part, maxsplit=1)[0].rpartition("/")[0]
        return _relative_to(root, storage.find(part))
    if below := storage.below(part, links=True):
        return _relative_to(storage.uri(part), below)
    plain = storage.plain(part)
    return [(os.path.basename(plain), file) for file in storage.find(part)]


def _relative_to(root: str, matches: Sequence[File]) -> list[tuple[str, File]]:
    prefix = "" if not root else root if root.endswith("/") else f"{root}/"
    return [(file.path.removeprefix(prefix), file) for file in matches]


def _require_safe(name: str, path: str) -> None:
    parts = name.split("/")
    if any(part in ("", ".", "..") or "\0" in part for part in parts):
        raise UserError(f"{path} would be copied to {quote(name)}, which is outside of the data's folder. Rename it.")
    if any(len(os.fsencode(part)) > MOST_NAME_BYTES for part in parts):
        raise UserError(f"{path}: a file name may have at most {MOST_NAME_BYTES} bytes. Rename it.")
    if parts[0] in RESERVED:
        raise UserError(f"{path}: the name {name} is reserved in the data's folder. Rename the file.")


def _require_no_file_in_place_of_a_folder(names: Mapping[str, File]) -> None:
    for name in names:
        for parent in Path(name).parents:
            if (other := names.get(parent.as_posix())) is not None:
                raise UserError(
                    f"{other.path} is a file, and {names[name].path} is in a folder of that name; a file system allows "
                    "only one of them. Rename one."
                )


def _copy(file: File, folder: Path, name: str) -> SourceFile:
    target = folder / name
    target.parent.mkdir(parents=True, exist_ok=True)
    if storage.is_remote(file.path):
        download.copy(file.path, target)
    else:
        version = file.version or finding.stat_file(file.path).version
        assert version
        with files.open_unchanged(file.path, version, file.path) as source, open(target, "wb") as copied:
            shutil.copyfileobj(source, copied, download.CHUNK_BYTES)
    with open(target, "rb") as copied:
        checksum = hashlib.file_digest(copied, "sha256").hexdigest()
    return SourceFile(path=name, bytes=target.stat().st_size, sha256=checksum)


def _fingerprint(name: str, sources: Sequence[SourceFile]) -> str:
    parts = [task_names.spec(name), [[source.path, source.sha256] for source in sources]]
    return hashlib.sha256(json.dumps(parts).encode()).hexdigest()
