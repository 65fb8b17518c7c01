"""A trained model as a folder: `model.safetensors` and `model.json`, with equal bits for equal inputs.

Times, speeds, paths and machine names are in `training.json` beside the checkpoints, not here.
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
    #: Mean over the steps since the previous point.
    loss: float
    #: Mean over a fixed sample of the validation split; None without a validation after this step.
    validation_loss: float | None = None
    #: The metrics of `Task.validation`, by name.
    metrics: dict[str, float] = {}
    learning_rate: float


class Shipped(Frozen):
    """The training step whose weights a model has, and how training ended."""

    #: The step of these weights, and the last step of training.
    step: int
    steps: int
    #: The planned steps; more than `steps` if training stopped early.
    planned: int
    #: The metric that chose the best validation; "" = none.
    metric: str = ""
    #: The best validation: its step, and the metric then and after the last step; None = not a number.
    best_step: int = 0
    best: float | None = None
    last: float | None = None
    #: Decay of the moving average of the weights that was validated and shipped; 0 = no average.
    ema_decay: float = 0.0

    def __str__(self) -> str:
        """Describes an early stop and the choice of an earlier step; "" if training went as planned."""
        best = f"{self.metric} {_format_number(self.best)}"
        sentences = []
        if self.steps < self.planned:
            reason = f"no better since step {self.best_step} ({best})" if self.best_step else f"{self.metric} was NaN"
            sentences.append(f"stopped at step {self.steps} of {self.planned}: {reason}")
        if self.step < self.steps:
            sentences.append(
                f"the model has the weights of step {self.step} ({best}), the best; after step {self.steps} the metric "
                f"was {_format_number(self.last)}"
            )
        return "; ".join(sentences)


def _format_number(value: float | None) -> str:
    return "NaN" if value is None else f"{value:.6g}"


class ModelCard(Frozen):
    """The card of a model: its task, columns, training settings and learning curve."""

    format: Literal[1] = 1
    #: `module:Class` and its options.
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
    #: The return value of `Task.sample` for the finished model.
    sample: str = ""

    @model_validator(mode="before")
    @classmethod
    def _drop_old_fields(cls, fields: object) -> object:
        """Drops the months of training from cards of older versions, which champions may still have."""
        if isinstance(fields, dict):
            return {name: value for name, value in fields.items() if name not in ("train_months", "test_month")}
        return fields

    def manifest(self) -> Manifest:
        """Returns the manifest of the training data, without its files."""
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
    """Writes the weights, then the card; a folder without a card is unfinished. `save_weights` describes `pieces`."""
    save_weights(directory, module, pieces)
    save_card(directory, card)


def save_weights(
    directory: str | Path, module: "nn.Module", pieces: "Callable[[Tensor], Iterable[Tensor]] | None" = None,
    *, leads: bool = True,
) -> None:  # fmt: skip
    """Writes the weights tensor by tensor, and removes an existing card first.

    Args:
        pieces: Returns the values of a tensor as consecutive CPU tensors, for a sharded model that no process holds
            whole.
        leads: Whether this process writes; the other processes only take part in `pieces`.
    """
    from vgp.data import tensor_file

    tensors, aliases = _deduplicate(module)
    with ExitStack() as stack:
        file = stack.enter_context(_open_weights(Path(directory))) if leads else None
        if file:
            file.write(tensor_file.head(tensors, aliases))
        for tensor in tensors.values():
            for values in pieces(tensor) if pieces else [tensor.detach().cpu()]:
                if file:
                    file.write(tensor_file.as_bytes(values).data)


@contextmanager
def _open_weights(directory: Path) -> Iterator[BufferedWriter]:
    directory.mkdir(parents=True, exist_ok=True)
    (directory / CARD).unlink(missing_ok=True)
    with files.replacing(directory / WEIGHTS) as scratch, open(scratch, "wb") as file:
        yield file


def _deduplicate(module: "nn.Module") -> "tuple[dict[str, Tensor], dict[str, str]]":
    """Returns the distinct tensors in file order, and the saved name of each tensor that has several names.

    safetensors compares the memory of tensors. Shards of a sharded tensor may have none, so a stand-in replaces them.
    """
    import torch
    from safetensors.torch import _remove_duplicate_names
    from torch.distributed.tensor import DTensor

    from vgp.data import tensor_file

    state = module.state_dict(keep_vars=True)
    stand_ins = {id(tensor): torch.empty(1) for tensor in state.values() if isinstance(tensor, DTensor)}
    removed = _remove_duplicate_names({name: stand_ins.get(id(t), t.detach()) for name, t in state.items()})
    aliases = {alias: name for name, names in removed.items() for alias in names}
    return tensor_file.sort_tensors({name: t.detach() for name, t in state.items() if name not in aliases}), aliases


def save_card(directory: str | Path, card: ModelCard) -> None:
    """Writes the card and replaces an existing one."""
    files.write(Path(directory) / CARD, json.dumps(card.model_dump(), indent=1, sort_keys=True) + "\n")


def file_of(directory: str | Path, name: str) -> str:
    """Returns the path of a model's file, with its generation if `directory` is the URI of a pinned champion.

    Raises:
        UserError: The file is a symbolic link, which could lead out of the folder, or it has changed after the pin.
    """
    if pinned.read_digest(str(directory)):
        return _find_pinned_file(str(directory), name)
    path = f"{str(directory).rstrip('/')}/{name}"
    if Path(path).is_symlink():
        raise UserError(f"{path} is a symbolic link. A model's folder must hold the file itself: copy it there.")
    return path


def _find_pinned_file(uri: str, name: str) -> str:
    document = store.load(uri, ChampionPins)
    for model_object in document.objects:
        if model_object.title == name:
            return f"{model_object.name}#{model_object.generation}"
    for file in document.files:
        if file.title == name:
            return pinned.require_unchanged(file).path
    raise UserError(f"{uri} pins no {name}.")


def load_card(directory: str | Path) -> ModelCard:
    """Reads the card without importing torch.

    Args:
        directory: A folder, gs://bucket/folder, or the URI of a champion's pins.

    Raises:
        UserError: The folder holds no finished model.
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
    """Loads a model from a folder, gs://bucket/folder, or the URI of a champion's pins.

    Returns:
        The task, its trained model in evaluation mode on the CPU, and the card.

    Raises:
        UserError: The folder holds no finished model; its task is not part of the library, the project or an imported
            module; or its weights are damaged or do not fit the model that the task builds.
    """
    card = load_card(directory)
    name = task_names.require_trusted(card.task, storage.plain(file_of(directory, CARD)))
    task = tasks.load(name, card.options)
    module = _build(task, card, directory)
    load_weights(directory, module)
    return task, module.eval(), card


def _build(task: "Task", card: ModelCard, directory: str | Path) -> "nn.Module":
    """Builds a new model from the card. Raises UserError for any failure, because the card may be wrong in any way."""
    try:
        return task.model(card.manifest())
    except Exception as error:
        reason = " ".join(str(error).split())[:200]
        raise UserError(
            f"{card.task} cannot build the model that {directory}/{CARD} describes ({type(error).__name__}: {reason})."
        ) from None


def load_weights(directory: str | Path, module: "nn.Module") -> None:
    """Loads the saved weights into `module`, which must not be sharded.

    Raises:
        UserError: The weights cannot be read, or do not fit the module.
    """
    from safetensors import SafetensorError
    from safetensors.torch import load_model

    path = file_of(directory, WEIGHTS)
    try:
        with download.local_copy(path) as here:
            files.open_file(here).close()  # refuses a pipe, which would block load_model
            load_model(module, here)
    except (OSError, SafetensorError) as error:
        raise UserError(f"{storage.plain(path)} cannot be read as weights: {error}") from None
    except RuntimeError as error:
        raise UserError(f"{storage.plain(path)} does not fit the model that the task builds: {error}") from None
