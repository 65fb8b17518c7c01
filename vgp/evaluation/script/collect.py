"""What a script left -> what was taken up of it: the model's files, the numbers, and predictions of the test rows.

python -m vgp.steps collect MODEL --data DATA
"""

import sys
from collections.abc import Sequence
from pathlib import Path

from vgp.base.exits import UserError
from vgp.base.storage import storage
from vgp.base.storage.storage import File
from vgp.base.text.printable import listed
from vgp.data.task import Task
from vgp.evaluation.script import collected, test_rows
from vgp.evaluation.script import script_metrics as metrics
from vgp.evaluation.script import script_predictions as predictions
from vgp.evaluation.script.collected import PREDICTIONS, Collected, Launched
from vgp.evaluation.script.script_predictions import Predictions
from vgp.protocol import manifest
from vgp.protocol.manifest import Manifest

#: What is no part of the model.
BESIDES = (metrics.FILE_NAME, PREDICTIONS, collected.FILE_NAME)
MOST_SHOWN_METRICS = 8


def collect(folder: str, checkpoints: str, data: str | Path, task: Task) -> Collected:
    """Reads and judges a script's folder, and writes `collected.json` into it.

    Args:
        folder: What the script knew as AIP_MODEL_DIR, gs:// or on this machine.
        checkpoints: The folder with `script.json`; "" = none.
        data: The prepared dataset.
        task: Of the dataset.

    Raises:
        UserError: the script left no model, or its figures or predictions cannot be right. Nothing is written then.
    """
    dataset, folder = manifest.load(data), storage.uri(folder)
    left = storage.below(folder)
    model = [file for file in left if _name(folder, file) not in BESIDES]
    _require_model(folder, left, model)
    _require_one_file(folder, left)
    taken = Collected(
        task=dataset.task,
        rows=test_rows.checksum(dataset),
        launched=metrics.read_launched(checkpoints) if checkpoints else Launched(),
        files=len(model),
        bytes=sum(file.bytes for file in model),
        metrics=_metrics(folder),
        predictions=_predictions(folder, data, dataset, task),
    )
    collected.save(folder, taken)
    for sentence in _words(folder, taken, left):
        print(sentence, file=sys.stderr, flush=True)
    return taken


def left_predictions(folder: str, task: Task) -> Predictions | None:
    """The predictions in a script's folder, or in the pins of one, as its task expects them; None if there are none.

    Raises:
        UserError: they cannot be read, or a value cannot be.
    """
    path = collected.file(folder, PREDICTIONS)
    if not path:
        return None
    classes = None if task.as_they_are else tuple(task.classes)
    return predictions.read(
        path, classes, likelihood=task.likelihood, labelled=task.as_they_are, quantiles=tuple(task.quantiles)
    )


def _name(folder: str, file: File) -> str:
    return file.path.removeprefix(f"{folder}/")


def _require_model(folder: str, left: Sequence[File], model: Sequence[File]) -> None:
    if any(file.bytes for file in model):
        return
    names = [_name(folder, file) for file in left]
    what = f"only {listed(names)}" if names else "no file"
    empty = ", empty" if model else ""
    raise UserError(
        f"the script left no model: {folder}, which it knew as AIP_MODEL_DIR, holds {what}{empty}. Let it save there; "
        "links are not followed."
    )


def _require_one_file(folder: str, left: Sequence[File]) -> None:
    if parts := [file for file in left if _name(folder, file).startswith(f"{PREDICTIONS}/")]:
        raise UserError(
            f"{folder}/{PREDICTIONS} is a folder of {len(parts):,} files, as Spark and Dask write it: one file is "
            "taken up. Write the rows into one, such as by toPandas().to_parquet."
        )


def _metrics(folder: str) -> dict[str, float]:
    path = collected.file(folder, metrics.FILE_NAME)
    return metrics.read(path) if path else {}


def _predictions(folder: str, data: str | Path, dataset: Manifest, task: Task) -> int:
    """How many rows were predicted, once they are known to be right."""
    left = left_predictions(folder, task)
    if left is None:
        return 0
    if not task.as_they_are:
        test_rows.align(left, *test_rows.prepared(data, dataset, task))
    return len(left)


def _words(folder: str, taken: Collected, left: Sequence[File]) -> list[str]:
    names = [_name(folder, file) for file in left]
    words = [
        *taken.launched.warnings,
        f"model: {taken.files:,} file{'s' * (taken.files != 1)}, {taken.bytes:,} bytes, in {folder}",
    ]
    if taken.metrics:
        shown = [f"{name} {value:.6g}" for name, value in list(taken.metrics.items())[:MOST_SHOWN_METRICS]]
        more = f" and {len(taken.metrics) - MOST_SHOWN_METRICS} more" if len(taken.metrics) > MOST_SHOWN_METRICS else ""
        words.append(f"{metrics.FILE_NAME}: {', '.join(shown)}{more}")
    else:
        words.append(f"no {metrics.FILE_NAME}{_similar(metrics.FILE_NAME, names)}: no figures of the script's own")
    if taken.predictions:
        of = "its own labels" if not taken.rows else "every row of the test split, each once"
        words.append(f"{PREDICTIONS}: {taken.predictions:,} rows, {of}")
    else:
        words.append(f"no {PREDICTIONS}{_similar(PREDICTIONS, names)}: nothing can be evaluated or decided")
    return words


def _similar(name: str, names: Sequence[str]) -> str:
    """A file that may have been meant, as ` (there is predictions-0.parquet; the name is exact)`."""
    by_last = {other.rpartition("/")[2]: other for other in names if other != name}
    stem, _, ending = name.partition(".")
    near = [other for last, other in by_last.items() if last.startswith(stem[:6]) and ending in other]
    return f" (there is {listed(near[:1])}: only this name, in the folder itself, is taken up)" if near else ""
