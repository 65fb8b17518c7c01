"""Collects the output folder of a user's script for later steps: model files, metrics, and predictions.

python -m vgp.steps collect MODEL --data DATA

No code in the folder is run. `metrics.json` has the script's own metrics; `script.json`, written by the launching
program, has the command and its outcome, for people only.
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
#: Maximum number of metrics; curves belong in TensorBoard logs.
MOST_METRICS = 200
MOST_LETTERS = 100
#: Maximum bytes of metrics.json and of script.json.
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
    written = storage.below(folder)
    model = [file for file in written if _name(folder, file) not in BESIDES]
    _require_model(folder, written, model)
    _require_one_file(folder, written)
    output = Collected(
        task=dataset.task,
        rows=test_rows.checksum(dataset),
        launched=read_launched(checkpoints) if checkpoints else Launched(),
        files=len(model),
        bytes=sum(file.bytes for file in model),
        metrics=_read_metrics(folder),
        predictions=_predictions(folder, data, dataset, task),
    )
    collected.save(folder, output)
    for sentence in _describe(folder, output, written):
        print(sentence, file=sys.stderr, flush=True)
    return output


def read_predictions(folder: str, task: Task) -> Predictions | None:
    """Returns the predictions in a script's folder or its pins, in the form of the task; None if there are none.

    Raises:
        UserError: they cannot be read, or have an invalid value.
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


def _require_model(folder: str, written: Sequence[File], model: Sequence[File]) -> None:
    if any(file.bytes for file in model):
        return
    names = [_name(folder, file) for file in written]
    content = f"only {join_names(names)}" if names else "no file"
    empty = ", empty" if model else ""
    raise UserError(
        f"the script wrote no model: its AIP_MODEL_DIR, {folder}, has {content}{empty}. Save the model there; "
        "links are not followed."
    )


def _require_one_file(folder: str, written: Sequence[File]) -> None:
    if parts := [file for file in written if _name(folder, file).startswith(f"{PREDICTIONS}/")]:
        raise UserError(
            f"{folder}/{PREDICTIONS} is a folder of {len(parts):,} files, as Spark and Dask write. Write one file, for "
            "example with toPandas().to_parquet."
        )


def _read_metrics(folder: str) -> dict[str, float]:
    path = collected.file(folder, METRICS_FILE)
    return read_metrics(path) if path else {}


def _predictions(folder: str, data: str | Path, dataset: Manifest, task: Task) -> int:
    """Checks the predictions; returns the number of predicted rows."""
    rows = read_predictions(folder, task)
    if rows is None:
        return 0
    if not task.as_they_are:
        test_rows.align(rows, *test_rows.read_prepared_rows(data, dataset, task))
    return len(rows)


def _describe(folder: str, output: Collected, written: Sequence[File]) -> list[str]:
    names = [_name(folder, file) for file in written]
    lines = [
        *output.launched.warnings,
        f"model: {output.files:,} file{'s' * (output.files != 1)}, {output.bytes:,} bytes, in {folder}",
    ]
    if output.metrics:
        metrics = [f"{name} {value:.6g}" for name, value in list(output.metrics.items())[:MOST_SHOWN_METRICS]]
        others = len(output.metrics) - MOST_SHOWN_METRICS
        lines.append(f"{METRICS_FILE}: {', '.join(metrics)}{f' and {others} more' if others > 0 else ''}")
    else:
        lines.append(f"no {METRICS_FILE}{_similar(METRICS_FILE, names)}: the script reports no metrics")
    if output.predictions:
        rows = "every row of the test split" if output.rows else "its own labels"
        lines.append(f"{PREDICTIONS}: {output.predictions:,} rows, {rows}")
    else:
        lines.append(f"no {PREDICTIONS}{_similar(PREDICTIONS, names)}: the model is neither evaluated nor promoted")
    return lines


def _similar(name: str, names: Sequence[str]) -> str:
    """Returns a hint at a file with a similar name, or ""."""
    by_last = {other.rpartition("/")[2]: other for other in names if other != name}
    stem, _, ending = name.partition(".")
    near = [other for last, other in by_last.items() if last.startswith(stem[:6]) and ending in other]
    return f" (found {join_names(near[:1])}; rename it to {name} in the folder itself)" if near else ""


# ---- the script's `metrics.json`: a flat object of names and numbers


def read_metrics(path: str) -> dict[str, float]:
    """Returns the metrics of the file by name.

    Raises:
        UserError: it is too large, not JSON, or has values other than finite numbers.
    """
    text = storage.read(path, most=MOST_BYTES, links=False)
    try:
        values = json.loads(text, object_pairs_hook=_check_members, parse_constant=_refuse_constant, parse_int=_number)
    except RecursionError:
        raise _invalid_file_error(path, "it is nested too deeply") from None
    except ValueError as error:
        raise _invalid_file_error(path, str(error) or "it is not JSON") from None
    if not isinstance(values, dict):
        raise _invalid_file_error(path, f"it has {_describe_kind(values)}, not an object of names and numbers")
    if len(values) > MOST_METRICS:
        raise _invalid_file_error(path, f"it has {len(values):,} metrics, and the limit is {MOST_METRICS}")
    return {_check_name(path, name): _check_value(path, name, value) for name, value in values.items()}


def _check_value(path: str, name: str, value: object) -> float:
    if isinstance(value, dict | list):
        problem = (
            f"{quote(name)} is {_describe_kind(value)}, and metrics cannot be nested: write val_loss instead of val: "
        )
        raise _invalid_file_error(path, problem + "{loss}")
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise _invalid_file_error(path, f"{quote(name)} is {_describe_kind(value)}, not a number")
    if not math.isfinite(value):
        raise _invalid_file_error(path, f"{quote(name)} exceeds the range of a double")
    return value


def _check_name(path: str, name: str) -> str:
    if not name.strip() or not name.isprintable() or len(name) > MOST_LETTERS:
        rule = f"printable text of at most {MOST_LETTERS} characters"
        raise _invalid_file_error(path, f"{quote(name)} is not a valid name of a metric: use {rule}")
    return name


def _check_members(pairs: list[tuple[str, object]]) -> dict[str, object]:
    members: dict[str, object] = {}
    for name, value in pairs:
        if name in members:
            raise ValueError(f"{quote(name)} is given twice")
        members[name] = value
    return members


def _refuse_constant(name: str) -> None:
    raise ValueError(f"it has {name}, which is not a JSON number: leave the metric out, or correct the training")


def _number(digits: str) -> float:
    """Converts a JSON number; a whole number must fit a double exactly."""
    if len(digits) > 300:
        return math.inf
    return int(digits)


def _describe_kind(value: object) -> str:
    kinds = {dict: "an object", list: "a list", str: "text", bool: "true or false", type(None): "null"}
    return kinds.get(type(value), "a number")


def _invalid_file_error(path: str, problem: str) -> UserError:
    return UserError(f'{storage.plain(path)}: {problem}. Write numbers by name: {{"loss": 0.31, "accuracy": 0.9}}.')


# ---- `script.json`: how the script ran, written by the launching program, for people only


def read_launched(folder: str) -> Launched:
    """Reads `script.json`; missing values, and a missing file, give empty fields."""
    try:
        text = storage.read(f"{storage.uri(folder)}/{LAUNCHED_FILE_NAME}", most=MOST_BYTES, links=False)
        values = json_text.parse_json(text)
    except (UserError, ValueError):
        return Launched()
    return _parse_launched(values) if isinstance(values, dict) else Launched()


def _parse_launched(values: JsonObject) -> Launched:
    command = values.get("command")
    seconds = values.get("seconds")
    return Launched(
        command=tuple(map(str, command)) if isinstance(command, list) else (),
        launch=_format_value(values.get("launch")),
        nodes=_count(values.get("nodes")),
        processes=_count(values.get("processes")),
        seconds=float(seconds) if isinstance(seconds, int | float) and 0 <= seconds < 1e9 else None,
        checkpoints=_format_value(values.get("checkpoint_folder")),
        warnings=tuple(map(str, warnings)) if isinstance(warnings := values.get("warnings"), list) else (),
    )


def _format_value(value: object) -> str:
    return value if isinstance(value, str) else ""


def _count(value: object) -> int:
    return value if isinstance(value, int) and 0 <= value < 1_000_000 else 0
