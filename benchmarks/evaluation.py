"""How long, and with how much memory, are saved predictions evaluated, with intervals, slices and the decision?

    python -m benchmarks.evaluation --rows 1_000_000 10_000_000 --classes 2 5
    python -m benchmarks.evaluation --rows 10_000_000 --classes 0     # a regression, with three quantiles

The predictions are synthetic: three models, 31 days as groups, five slice columns with 3 to 50 values, written as
`evaluate` writes them. Each contender is a process of its own. scikit-learn computes the figures of all rows and the
ROC curve of each model, but no slices and no intervals.
"""

import argparse
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console
from rich.table import Table

from benchmarks import machine
from vgp.evaluation import predictions, predictions_writer
from vgp.evaluation.predictions import Header, Names

BATCH_ROWS = 1 << 16
MODELS = ("challenger", "champion", "baseline")
QUANTILES, DEVIATIONS = (0.1, 0.5, 0.9), np.array([0, -1.2816, 0, 1.2816])
DAYS = 31
SLICES = {"origin": 3, "part_of_day": 4, "weekday": 7, "carrier": 16, "airport": 50}
OURS = ("measure", "decide")
CONTENDERS = (*OURS, "scikit-learn")


def write(folder: Path, rows: int, classes: int) -> None:
    header = Header(
        task="made:Up",
        split="test",
        classes=tuple(f"class {code}" for code in range(classes)),
        quantiles=() if classes else QUANTILES,
        target="label",
        models=MODELS,
        group="day",
        slices=tuple(SLICES),
    )
    predictions_writer.write(folder, header, batches(rows, classes))


def batches(rows: int, classes: int) -> Iterator[dict[str, Any]]:
    """Yields rows whose classes follow from a score, which the three models see with increasing noise."""
    random = np.random.default_rng(0)
    for start in range(0, rows, BATCH_ROWS):
        count = min(BATCH_ROWS, rows - start)
        logits = random.normal(size=(count, classes or 1)) * 1.5
        label = (logits + random.gumbel(size=logits.shape)).argmax(axis=1)
        noises = (0.1, 0.15, 0.6)
        if not classes:
            label = logits[:, 0] + random.normal(size=count)
        columns: dict[str, Any] = {"row_id": random.integers(0, 1 << 63, count), "label": label}
        for model, noise in zip(MODELS, noises, strict=True):
            scores = logits + noise * random.normal(size=logits.shape)
            columns[model] = softmax(scores) if classes else scores + DEVIATIONS
        columns["group"] = draw_names(random, count, DAYS)
        yield columns | {name: draw_names(random, count, values) for name, values in SLICES.items()}


def softmax(logits: np.ndarray) -> np.ndarray:
    odds = np.exp(logits - logits.max(axis=1, keepdims=True))
    return np.asarray(odds / odds.sum(axis=1, keepdims=True), np.float32)


def draw_names(random: np.random.Generator, count: int, values: int) -> Names:
    return Names(random.integers(0, values, count), tuple(f"{code:02}" for code in range(values)))


def evaluate_with_scikit_learn(folder: str) -> None:
    """Evaluates with scikit-learn, and reads only the columns that it needs."""
    import pyarrow.parquet as pq
    from sklearn.metrics import accuracy_score, brier_score_loss, confusion_matrix, log_loss, roc_auc_score, roc_curve

    path = Path(folder) / predictions.FILE_NAME
    label = pq.read_table(path, columns=["label"])["label"].to_numpy()
    for model in MODELS:
        column = pq.read_table(path, columns=[model])[model].combine_chunks()
        if label.dtype == np.float64:
            evaluate_numbers(label, column.flatten().to_numpy().reshape(len(label), -1))
            continue
        if column.type == "float":
            table = column.to_numpy()
            predicted = table > 0.5
            roc_auc_score(label, table)
            roc_curve(label, table)
        else:
            table = column.flatten().to_numpy().astype(np.float64).reshape(len(label), -1)
            table /= table.sum(axis=1, keepdims=True)
            predicted = table.argmax(axis=1)
            roc_auc_score(label, table, multi_class="ovr")
            for code in range(table.shape[1]):
                roc_curve(label == code, table[:, code])
        log_loss(label, table)
        brier_score_loss(label, table)
        accuracy_score(label, predicted)
        confusion_matrix(label, predicted)


def evaluate_numbers(label: np.ndarray, predicted: np.ndarray) -> None:
    from sklearn.metrics import (
        mean_absolute_error,
        mean_pinball_loss,
        mean_squared_error,
        median_absolute_error,
        r2_score,
    )

    mean_squared_error(label, predicted[:, 0])
    r2_score(label, predicted[:, 0])
    mean_absolute_error(label, predicted[:, 2])
    median_absolute_error(label, predicted[:, 2])
    for place, quantile in enumerate(QUANTILES, 1):
        mean_pinball_loss(label, predicted[:, place], alpha=quantile)


def run(contender: str, folder: str) -> tuple[float, float, float]:
    """Returns wall and CPU seconds and the peak memory in GB of a contender's process."""
    if contender in OURS:
        command = [sys.executable, "-m", f"vgp.evaluation.{contender}", folder]
    else:
        command = [
            sys.executable,
            "-c",
            f"from benchmarks import evaluation; evaluation.evaluate_with_scikit_learn({folder!r})",
        ]
    start = time.perf_counter()
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL)
    _, status, used = _wait(process)
    if status:
        raise SystemExit(f"{contender} failed")
    return time.perf_counter() - start, used.ru_utime + used.ru_stime, used.ru_maxrss / 1e6


def _wait(process: subprocess.Popen[bytes]) -> tuple[int, int, resource.struct_rusage]:
    import os

    pid, status, used = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    return pid, status, used


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, nargs="+", default=[1_000_000])
    parser.add_argument("--classes", type=int, nargs="+", default=[2])
    parser.add_argument("--contenders", nargs="+", choices=CONTENDERS, default=CONTENDERS)
    options = parser.parse_args()
    drawn = Table("rows", "classes", "of", "seconds", "CPU s", "peak GB", title=machine.describe())
    for rows in options.rows:
        for classes in options.classes:
            with tempfile.TemporaryDirectory() as folder:
                write(Path(folder), rows, classes)
                for contender in options.contenders:
                    wall, cpu, peak = run(contender, folder)
                    drawn.add_row(f"{rows:,}", str(classes), contender, f"{wall:.1f}", f"{cpu:.1f}", f"{peak:.2f}")
    Console().print(drawn)


if __name__ == "__main__":
    main()
