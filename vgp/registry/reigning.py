"""Finds the version that the parameter `champion` names, and pins its files.

champion = auto          the version with the alias champion, if there is one
champion = 7             version 7
champion = NAME          the version with this alias, such as candidate
champion = FOLDER        the model in a folder; the path has a /, or begins with . or ~
champion =               no champion: challengers are compared with the baseline
"""

import hashlib
import os
from pathlib import Path

from vgp.base.exits import UserError
from vgp.base.storage import files, finding, storage
from vgp.base.storage.pinned import PinnedFile, PinnedObject
from vgp.base.text.printable import quote
from vgp.data.bundle import CARD, WEIGHTS
from vgp.evaluation import collected
from vgp.evaluation.collected import PREDICTIONS
from vgp.protocol import run_folder
from vgp.protocol.pins import ChampionPins, Earlier
from vgp.registry import registry as registries
from vgp.registry.changes import ALIAS, find_usable
from vgp.registry.documents import Record, Version
from vgp.registry.registry import Registry

AUTO = "auto"
#: Label of a version with its project number.
PROJECT = "project"
#: Maximum number of versions in a champion's pins, for the history in a report.
MOST_HISTORY = 1_000


def is_folder(champion: str) -> bool:
    """Whether the champion is a path, not a version of the registry."""
    return "/" in champion or champion.startswith((".", "~"))


def is_valid(champion: str) -> bool:
    """Whether the text can name a model: a path, a number or an alias."""
    return is_folder(champion) or champion.isdecimal() or bool(ALIAS.fullmatch(champion))


def check(champion: str) -> None:
    """Raises UserError if the text names neither a path nor a version."""
    if champion and champion != AUTO and not is_valid(champion):
        raise UserError(
            f"champion = {quote(champion)} is unknown. Give auto (the registry's champion), a version number, an "
            "alias, a folder (with a /, such as ./model or gs://BUCKET/model), or nothing for none."
        )


def open_registry(registry: str, model: str, output: str | Path = "") -> Registry:
    """Returns the registry at a folder, else at the root of an output. Raises UserError if the folder is invalid.

    Args:
        registry: The folder; empty for the root of `output`.
        output: A path of the run's outputs.
    """
    root = run_folder.registry_at(registry) if registry else run_folder.registry(output)
    return registries.open(root, model)


def read(registry: Registry, task: str, project: str) -> Record:
    """Reads the record and checks that its versions have this task and, if known, this project.

    Raises:
        UserError: it is unreadable, damaged, or of another task or project.
    """
    record = registry.read()
    last = record.versions[-1] if record.versions else None
    owner = last.labels.get(PROJECT, "") if last else ""
    if last and owner and project and owner != project:
        raise UserError(
            f"{registry.folder} belongs to the project {owner}, and this run to {project}. Use another registry: "
            "registry = gs://BUCKET/FOLDER, or leave it empty."
        )
    if last and last.task and last.task != task:
        raise UserError(
            f"{registry.folder} is the registry of another task: its version {last.number} has the task {last.task}, "
            f"and this run {task}. Use another name: model_name = NAME."
        )
    return record


def find_version(record: Record, champion: str) -> Version | None:
    """Returns the version that `champion` names; None for auto without a champion.

    Raises:
        UserError: the version or alias does not exist, or was deleted or rejected.
    """
    if champion == AUTO:
        return record.champion()
    number = int(champion) if champion.isdecimal() else record.aliases.get(champion)
    if number is None:
        aliases = ", ".join(sorted(record.aliases)) or "none"
        raise UserError(
            f"champion = {champion}: {record.model} has no alias of that name. It has {aliases}. A folder is written "
            f"with a /, such as ./{champion}."
        )
    return find_usable(record, number)


def pin(registry: Registry, record: Record, champion: Version, epoch: int) -> ChampionPins:
    """Returns the pins of a version, with its present folder.

    If its files are missing, the pins have the problem, and challengers are compared with the baseline.

    Raises:
        UserError: its files differ from the registered ones.
    """
    name, folder = f"version {champion.number} of {record.model}", registry.version_folder(champion.key)
    try:
        pins = pin_folder(folder, epoch, name=name)
    except UserError as error:
        pins = ChampionPins(folder=folder, problem=str(error), epoch=epoch)
    for title, size, path in [(o.title, o.bytes, "") for o in pins.objects] + [
        (f.title, f.bytes, f.path) for f in pins.files
    ]:
        registered = champion.files.get(title)
        if registered and (size != registered.bytes or (path and _hash_file(path) != registered.sha256)):
            raise UserError(
                f"{name}: {pins.folder}/{title} differs from the registered file. {_advise_restore(record)}"
            )
    return pins.model_copy(
        update={
            "number": champion.number,
            "key": champion.key,
            "report": registry.with_present_folder(champion).report,
            "history": _list_history(record, champion),
        }
    )


def _list_history(record: Record, champion: Version) -> tuple[Earlier, ...]:
    return tuple(
        Earlier(number=v.number, created=v.created, champion=v.champion, metrics=v.metrics, data=v.data)
        for v in record.versions[max(0, champion.number - MOST_HISTORY) : champion.number]
    )


def _advise_restore(record: Record) -> str:
    return (
        f"Restore its files, choose another champion (vgp models rollback --model {record.model}, or promote), "
        "or run once with --set champion=."
    )


def _hash_file(path: str) -> str:
    with files.open_file(path) as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


# ---- pins of a champion given as a folder


def pin_folder(folder: str, epoch: int, *, name: str = "champion") -> ChampionPins:
    """Returns the pins of the model in a local or gs:// folder; for a script's folder, those of its predictions.

    Args:
        name: The option with the folder, for messages.

    Raises:
        UserError: the folder holds neither a finished model nor a script's predictions.
    """
    folder = storage.uri(folder)
    names = _names(folder)
    if storage.is_remote(folder):
        return ChampionPins(
            folder=folder, objects=tuple(_pin_object(name, folder, file) for file in names), epoch=epoch
        )
    folder = os.path.abspath(os.path.expanduser(folder))
    return ChampionPins(folder=folder, files=tuple(_pin_file(name, folder, file) for file in names), epoch=epoch)


def _names(folder: str) -> tuple[str, ...]:
    """Returns the files that evaluation reads."""
    folder = folder if storage.is_remote(folder) else os.path.expanduser(folder)
    if not collected.is_script(folder):
        return CARD, WEIGHTS
    return (PREDICTIONS, collected.FILE_NAME) if collected.file(folder, collected.FILE_NAME) else (PREDICTIONS,)


def check_folder(folder: str) -> None:
    """Raises UserError if a local folder holds no finished model."""
    if folder and not storage.is_remote(storage.uri(folder)):
        pin_folder(folder, 0)


def _pin_object(option: str, folder: str, name: str) -> PinnedObject:
    blob = storage.get_blob(f"{folder}/{name}")
    if blob is None:
        raise _no_model_error(option, folder, name)
    return PinnedObject(name=f"{folder}/{name}", generation=blob.generation, bytes=blob.size, title=name)


def _pin_file(option: str, folder: str, name: str) -> PinnedFile:
    path = Path(folder) / name
    if not path.is_file():
        raise _no_model_error(option, folder, name)
    file = finding.stat_file(str(path))
    assert file.version
    return PinnedFile(path=file.path, bytes=file.bytes, modified_ns=file.version.modified_ns, title=name)


def _no_model_error(option: str, folder: str, name: str) -> UserError:
    if name == PREDICTIONS:
        return UserError(f"{option} = {folder}: this script's folder has no {name}, so its model cannot be scored.")
    return UserError(f"{option} = {folder}: the folder has no {name}, so it holds no model.")
