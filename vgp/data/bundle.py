"""A trained model as a folder: `model.safetensors` and `model.json`, the same bits for the same inputs.

No times, speeds, paths or machine names go in; those are in `training.json` beside the checkpoints.
"""

import json
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, contextmanager
from io import BufferedWriter
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from pydantic import BaseModel, ConfigDict, model_validator

from vgp.base.documents import json_text
from vgp.base.documents.json_text import JsonObject
from vgp.base.exits import UserError
from vgp.base.storage import download, files, pinned, storage
from vgp.data import task_names, tasks
from vgp.protocol import file_names
from vgp.protocol import pins as store
from vgp.protocol.manifest import Column, Manifest
from vgp.protocol.pins import ChampionPins

if TYPE_CHECKING:
    from torch import Tensor, nn

    from vgp.data.task import Task

WEIGHTS = file_names.WEIGHTS
CARD = file_names.CARD


class Frozen(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class Point(Frozen):
    """One point of the learning curve."""

    step: int
    epoch: float
    #: Mean over the steps since the point before.
    loss: float
    #: Mean over a fixed sample of the validation split, where it was validated after this step.
    validation_loss: float | None = None
    #: What the task measured there besides, by name (`Task.validation`).
    metrics: dict[str, float] = {}
    learning_rate: float


class Shipped(Frozen):
    """Which weights a model has, of those that there were while it was trained."""

    #: The steps that they had been trained for, and that training took.
    step: int
    steps: int
    #: The steps that were planned; more than `steps` if training stopped early.
    planned: int
    #: The metric that chose the best validation; "" = there was none.
    metric: str = ""
    #: The best validation: its step, and the metric then and after the last step; None = it was no number.
    best_step: int = 0
    best: float | None = None
    last: float | None = None
    #: Decay of the moving average of the weights that was validated and shipped; 0 = the weights themselves.
    ema_decay: float = 0.0

    def __str__(self) -> str:
        """How training ended, and which weights these are: nothing where all of it went as planned."""
        shown = f"{self.metric} {_number(self.best)}"
        words = []
        if self.steps < self.planned:
            why = (
                f"no better since step {self.best_step} ({shown})" if self.best_step else f"{self.metric} was no number"
            )
            words.append(f"stopped at step {self.steps} of {self.planned}: {why}")
        if self.step < self.steps:
            words.append(
                f"the model is that of step {self.step} ({shown}), the best; after step {self.steps} it was "
                f"{_number(self.last)}"
            )
        return "; ".join(words)


def _number(value: float | None) -> str:
    return "no number" if value is None else f"{value:.6g}"


class ModelCard(Frozen):
    """What a model is, what it learned from, and how."""

    format: Literal[1] = 1
    #: `module:Class` and what it was told.
    task: str
    options: JsonObject = {}
    columns: tuple[Column, ...]
    statistics: JsonObject = {}
    #: Fingerprint of the prepared data (`Manifest.fingerprint`).
    data: str = ""
    #: The fields of `TrainConfig` that decide the numbers.
    config: JsonObject
    steps: int
    #: Rows of the training split.
    samples: int = 0
    parameters: int
    history: tuple[Point, ...] = ()
    #: None for a model of an older version: its last weights.
    shipped: Shipped | None = None
    #: What `Task.sample` made with the finished model.
    sample: str = ""

    @model_validator(mode="before")
    @classmethod
    def _of_older_versions(cls, fields: object) -> object:
        """Older cards name the months that they were trained on; champions may be that old."""
        if isinstance(fields, dict):
            return {name: value for name, value in fields.items() if name not in ("train_months", "test_month")}
        return fields

    def manifest(self) -> Manifest:
        """The dataset as the task saw it, without its files."""
        return Manifest(
            task=self.task, options=self.options, columns=self.columns, splits={}, statistics=self.statistics,
            fingerprint=self.data,
        )  # fmt: skip


def save(
    directory: str | Path,
    module: "nn.Module",
    card: ModelCard,
    pieces: "Callable[[Tensor], Iterable[Tensor]] | None" = None,
) -> None:
    """Writes the weights, then the card; a folder without a card is unfinished. `pieces` as `save_weights`."""
    save_weights(directory, module, pieces)
    save_card(directory, card)


def save_weights(
    directory: str | Path, module: "nn.Module", pieces: "Callable[[Tensor], Iterable[Tensor]] | None" = None,
    *, leads: bool = True,
) -> None:  # fmt: skip
    """Writes the weights tensor by tensor; what was there is an unfinished model from now on.

    Args:
        pieces: The values of a tensor in CPU tensors one after the other, for those of a model that is nowhere whole.
        leads: Whether this process writes; the others only take part in `pieces`.
    """
    from vgp.data import tensor_file as part

    kept, aliases = _named_once(module)
    with ExitStack() as stack:
        file = stack.enter_context(_weights_file(Path(directory))) if leads else None
        if file:
            file.write(part.head(kept, aliases))
        for tensor in kept.values():
            for values in pieces(tensor) if pieces else [tensor.detach().cpu()]:
                if file:
                    file.write(part.as_bytes(values).data)


@contextmanager
def _weights_file(directory: Path) -> Iterator[BufferedWriter]:
    directory.mkdir(parents=True, exist_ok=True)
    (directory / CARD).unlink(missing_ok=True)
    with files.replacing(directory / WEIGHTS) as scratch, open(scratch, "wb") as file:
        yield file


def _named_once(module: "nn.Module") -> "tuple[dict[str, Tensor], dict[str, str]]":
    """The tensors to save in the order of the file, and the names of those that are there under another one.

    The library decides which they are by memory. Shares of a sharded model may have none, so there it is told by
    stand-ins.
    """
    import torch
    from safetensors.torch import _remove_duplicate_names
    from torch.distributed.tensor import DTensor

    from vgp.data import tensor_file as part

    state = module.state_dict(keep_vars=True)
    stand_ins = {id(tensor): torch.empty(1) for tensor in state.values() if isinstance(tensor, DTensor)}
    removed = _remove_duplicate_names({name: stand_ins.get(id(t), t.detach()) for name, t in state.items()})
    aliases = {name: kept for kept, names in removed.items() for name in names}
    return part.ordered({name: t.detach() for name, t in state.items() if name not in aliases}), aliases


def save_card(directory: str | Path, card: ModelCard) -> None:
    """Writes the card alone, in place of one that is there."""
    files.write(Path(directory) / CARD, json.dumps(card.model_dump(), indent=1, sort_keys=True) + "\n")


def file_of(directory: str | Path, name: str) -> str:
    """The path of a model's file; of a pinned champion's with its generation.

    Raises:
        UserError: the name is a symbolic link, which could lead out of the folder, or is not as it was pinned.
    """
    if pinned.digest(str(directory)):
        return _pinned_file(str(directory), name)
    path = f"{str(directory).rstrip('/')}/{name}"
    if Path(path).is_symlink():
        raise UserError(f"{path} is a symbolic link; a model's files are its own.")
    return path


def _pinned_file(uri: str, name: str) -> str:
    document = store.load(uri, ChampionPins)
    for model_object in document.objects:
        if model_object.title == name:
            return f"{model_object.name}#{model_object.generation}"
    for file in document.files:
        if file.title == name:
            return pinned.unchanged_file(file).path
    raise UserError(f"{uri} pins no {name}.")


def load_card(directory: str | Path) -> ModelCard:
    """The card alone, without torch. The folder may be gs://bucket/folder or the URI of pins, here and below.

    Raises:
        UserError: the folder holds no finished model.
    """
    path = file_of(directory, CARD)
    try:
        with download.local_copy(path, most=files.MOST_JSON_BYTES) as here:
            return json_text.parse_model(ModelCard, files.read(here, links=False))
    except FileNotFoundError:
        raise UserError(f"{directory} holds no {CARD}: it is not a finished model.") from None
    except ValueError as error:
        raise UserError(f"{storage.plain(path)} cannot be read as a model card: {error}") from None


def load(directory: str | Path) -> "tuple[Task, nn.Module, ModelCard]":
    """The task, its trained model in evaluation mode on the CPU, and the card.

    Raises:
        UserError: no finished model, its task neither ships nor is imported, or its weights are damaged or do not fit
            what the task builds.
    """
    card = load_card(directory)
    name = task_names.trusted(card.task, storage.plain(file_of(directory, CARD)))
    work = tasks.load(name, card.options)
    module = _built(work, card, directory)
    load_weights(directory, module)
    return work, module.eval(), card


def _built(task: "Task", card: ModelCard, directory: str | Path) -> "nn.Module":
    """A new model as the card describes it; what it says may be wrong in any way."""
    try:
        return task.model(card.manifest())
    except Exception as error:
        what = " ".join(str(error).split())[:200]
        raise UserError(
            f"{directory}/{CARD} describes no model that {card.task} can build ({type(error).__name__}: {what})."
        ) from None


def load_weights(directory: str | Path, module: "nn.Module") -> None:
    """Puts the saved weights into `module`, which this process holds whole.

    Raises:
        UserError: they cannot be read or do not fit.
    """
    from safetensors import SafetensorError
    from safetensors.torch import load_model

    path = file_of(directory, WEIGHTS)
    try:
        with download.local_copy(path) as here:
            files.open_file(here).close()  # a pipe would be waited for
            load_model(module, here)
    except (OSError, SafetensorError) as error:
        raise UserError(f"{storage.plain(path)} cannot be read as weights: {error}") from None
    except RuntimeError as error:
        raise UserError(f"{storage.plain(path)} does not fit the model that the task builds: {error}") from None
