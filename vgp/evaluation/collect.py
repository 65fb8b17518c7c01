"""The folder that a script left -> what later steps take from it: the model's files, the figures, and the predictions.

python -m vgp.steps collect MODEL --data DATA

Nothing in the folder is run. `metrics.json` holds the script's own figures, and `script.json` what ran, as the
launching text wrote it, for people only.
"""

import json
import math
import sys
from collections.abc import Sequence
from pathlib import Path

from vgp.base.documents import json_text
from vgp.base.documents.json_text import JsonObject
from vgp.base.exits import UserError
from vgp.base.storage import storage
from vgp.base.storage.storage import File
from vgp.base.text.printable import join_names, quote
from vgp.data.task import Task
from vgp.evaluation import collected, test_rows
from vgp.evaluation import script_predictions as predictions
from vgp.evaluation.collected import PREDICTIONS, Collected, Launched
from vgp.evaluation.script_predictions import Predictions
from vgp.protocol import file_names, manifest
from vgp.protocol.manifest import Manifest

METRICS_FILE = file_names.METRICS
#: Most metrics of a script; curves belong in TensorBoard logs.
MOST_METRICS = 200
MOST_LETTERS = 100
#: Most bytes of metrics.json and of script.json.
MOST_BYTES = 1 << 20
LAUNCHED_FILE_NAME = file_names.SCRIPT
#: Files that are not part of the model.
BESIDES = (METRICS_FILE, PREDICTIONS, collected.FILE_NAME)
MOST_SHOWN_METRICS = 8


def collect(folder: str, checkpoints: str, data: str | Path, task: Task) -> Collected:
    """Checks a script's output folder and writes `collected.json` into it.

    Args:
        folder: The script's AIP_MODEL_DIR, gs:// or local.
        checkpoints: The folder with `script.json`; "" = none.
        data: The prepared dataset.
        task: Task of the dataset.

    Raises:
        UserError: the script wrote no model, or its metrics or predictions are invalid; nothing is written.
    """
    dataset, folder = manifest.load(data), storage.uri(folder)
    left = storage.below(folder)
    model = [file for file in left if _name(folder, file) not in BESIDES]
    _require_model(folder, left, model)
    _require_one_file(folder, left)
    taken = Collected(
        task=dataset.task,
        rows=test_rows.checksum(dataset),
        launched=read_launched(checkpoints) if checkpoints else Launched(),
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
    """Returns the predictions in a script's folder or its pins, in the form of the task; None if there are none.

    Raises:
        UserError: they cannot be read, or hold an invalid value.
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
    what = f"only {join_names(names)}" if names else "no file"
    empty = ", empty" if model else ""
    raise UserError(
        f"the script wrote no model: its AIP_MODEL_DIR, {folder}, holds {what}{empty}. Save the model there; "
        "links are not followed."
    )


def _require_one_file(folder: str, left: Sequence[File]) -> None:
    if parts := [file for file in left if _name(folder, file).startswith(f"{PREDICTIONS}/")]:
        raise UserError(
            f"{folder}/{PREDICTIONS} is a folder of {len(parts):,} files, as Spark and Dask write it. Write one file, "
            "for example with toPandas().to_parquet."
        )


def _metrics(folder: str) -> dict[str, float]:
    path = collected.file(folder, METRICS_FILE)
    return read_metrics(path) if path else {}


def _predictions(folder: str, data: str | Path, dataset: Manifest, task: Task) -> int:
    """Returns the number of predicted rows after checking them."""
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
        words.append(f"{METRICS_FILE}: {', '.join(shown)}{more}")
    else:
        words.append(f"no {METRICS_FILE}{_similar(METRICS_FILE, names)}: no figures of the script's own")
    if taken.predictions:
        of = "its own labels" if not taken.rows else "every row of the test split, each once"
        words.append(f"{PREDICTIONS}: {taken.predictions:,} rows, {of}")
    else:
        words.append(f"no {PREDICTIONS}{_similar(PREDICTIONS, names)}: nothing can be evaluated or decided")
    return words


def _similar(name: str, names: Sequence[str]) -> str:
    """Returns a hint at a similar file name, such as ` (there is predictions-0.parquet; the name is exact)`."""
    by_last = {other.rpartition("/")[2]: other for other in names if other != name}
    stem, _, ending = name.partition(".")
    near = [other for last, other in by_last.items() if last.startswith(stem[:6]) and ending in other]
    return f" (there is {join_names(near[:1])}: only this name, in the folder itself, is taken up)" if near else ""


# ---- the script's `metrics.json`: a flat object of names and numbers


def read_metrics(path: str) -> dict[str, float]:
    """Returns the metrics of the file by name.

    Raises:
        UserError: it is too large, not JSON, or holds values other than finite numbers.
    """
    text = storage.read(path, most=MOST_BYTES, links=False)
    try:
        told = json.loads(text, object_pairs_hook=_members, parse_constant=_no_constant, parse_int=_number)
    except RecursionError:
        raise _refused(path, "it is nested too deeply") from None
    except ValueError as error:
        raise _refused(path, str(error) or "it is no JSON") from None
    if not isinstance(told, dict):
        raise _refused(path, f"it holds {_kind(told)}, not an object of names and numbers")
    if len(told) > MOST_METRICS:
        raise _refused(path, f"it holds {len(told):,} metrics, and may hold {MOST_METRICS}")
    return {_metric_name(path, name): _figure(path, name, value) for name, value in told.items()}


def _figure(path: str, name: str, value: object) -> float:
    if isinstance(value, dict | list):
        raise _refused(path, f"{quote(name)} holds {_kind(value)}, and nothing may be nested: val_loss in place of "
                             "val: {loss}")  # fmt: skip
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise _refused(path, f"{quote(name)} is {_kind(value)}, not a number")
    if not math.isfinite(value):
        raise _refused(path, f"{quote(name)} is larger than a number can be")
    return value


def _metric_name(path: str, name: str) -> str:
    if not name.strip() or not name.isprintable() or len(name) > MOST_LETTERS:
        rule = f"a name is printable text of at most {MOST_LETTERS} letters"
        raise _refused(path, f"{quote(name)} names a metric, and {rule}")
    return name


def _members(pairs: list[tuple[str, object]]) -> dict[str, object]:
    members: dict[str, object] = {}
    for name, value in pairs:
        if name in members:
            raise ValueError(f"{quote(name)} is given twice")
        members[name] = value
    return members


def _no_constant(name: str) -> None:
    raise ValueError(f"it holds {name}, which is not JSON and no figure: leave the metric out, or mend the training")


def _number(digits: str) -> float:
    """Converts a JSON number; a whole number must fit a double exactly."""
    if len(digits) > 300:
        return math.inf
    return int(digits)


def _kind(value: object) -> str:
    kinds = {dict: "an object", list: "a list", str: "text", bool: "true or false", type(None): "null"}
    return kinds.get(type(value), "a number")


def _refused(path: str, what: str) -> UserError:
    return UserError(f'{storage.plain(path)}: {what}. It holds numbers by name: {{"loss": 0.31, "accuracy": 0.9}}.')


# ---- `script.json`: how the script ran, written by the launching text; shown to people only


def read_launched(folder: str) -> Launched:
    """Reads `script.json`; missing values, and a missing file, give empty fields."""
    try:
        told = json_text.parse_json(
            storage.read(f"{storage.uri(folder)}/{LAUNCHED_FILE_NAME}", most=MOST_BYTES, links=False)
        )
    except (UserError, ValueError):
        return Launched()
    return _launched(told) if isinstance(told, dict) else Launched()


def _launched(told: JsonObject) -> Launched:
    command = told.get("command")
    seconds = told.get("seconds")
    return Launched(
        command=tuple(map(str, command)) if isinstance(command, list) else (),
        launch=_text(told.get("launch")),
        nodes=_count(told.get("nodes")),
        processes=_count(told.get("processes")),
        seconds=float(seconds) if isinstance(seconds, int | float) and 0 <= seconds < 1e9 else None,
        checkpoints=_text(told.get("checkpoint_folder")),
        warnings=tuple(map(str, warnings)) if isinstance(warnings := told.get("warnings"), list) else (),
    )


def _text(value: object) -> str:
    return value if isinstance(value, str) else ""


def _count(value: object) -> int:
    return value if isinstance(value, int) and 0 <= value < 1_000_000 else 0
