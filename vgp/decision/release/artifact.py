"""The process that checks a copied model: predicts test rows with it and compares them with the evaluation.

python -m vgp.decision.release.artifact VERSION_FOLDER DATA EVALUATION TASK     # -> {"rows": ..., "difference": ...}
"""

import json
import sys
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from vgp.base.exits import ProcessFailed, exits
from vgp.data import task_names, tasks
from vgp.data.rows import Shards
from vgp.evaluation import collected, predictions, score, script_model
from vgp.evaluation.predictions import Header
from vgp.evaluation.predictions_writer import Scorer
from vgp.protocol import manifest

#: About this many test rows are predicted, in evenly spaced batches: enough to see a wrong file, cheap on a CPU.
MOST_ROWS = 1 << 16

#: Allowed difference of a prediction (absolute for probabilities, relative for numbers): the evaluation may have run on
#: a GPU, which adds in another order. On one kind of machine predictions are equal bit for bit.
TOLERANCE = 1e-3


@exits
def artifact(folder: str, data: str, evaluation: str, task: str) -> dict[str, float]:
    """Predicts test rows with the model in `folder` and compares them with the saved predictions.

    Raises:
        UserError: the folder has no model, or the model does not accept the data.
        ProcessFailed: the predictions differ.
    """
    dataset = manifest.load(data)
    work = tasks.load(task_names.require_trusted(dataset.task, data, task), dataset.options)
    if not (Path(evaluation) / predictions.FILE_NAME).exists():  # a script's model: a person decides
        return _build_check_fields(0, 0, 0, 0.0)
    header = predictions.read(evaluation).header
    saved = pq.read_table(Path(evaluation) / predictions.FILE_NAME, columns=["challenger"]).column(0)
    if work.as_they_are:
        return _build_check_fields(0, 0, 0, 0.0)
    scorer: Scorer
    if collected.is_script(folder):
        scorer, _ = script_model.load(folder, work).scorer(data, dataset, work, header.split)
    else:
        scorer = score.load(folder, dataset)
        work = scorer.task
    every = max(1, -(-len(saved) // MOST_ROWS))
    rows, equal, difference, start = 0, 0, 0.0, 0
    for number, batch in enumerate(Shards(Path(data), dataset, header.split).batches(work.batch_rows)):
        count = len(batch["row_id"])
        if number % every == 0:
            ours, theirs = _as_saved(scorer(batch), header), _read_numbers(saved.slice(start, count), header)
            apart = np.abs(ours - theirs) / np.maximum(1.0, np.abs(theirs))
            rows, equal = rows + count, equal + int((ours == theirs).all(axis=1).sum())
            difference = max(difference, float(apart.max()))
        start += count
    if start != len(saved) or not difference <= TOLERANCE:
        raise ProcessFailed(
            f"the copied model's predictions differ from the evaluated ones by up to {difference:.3g} in {rows:,} "
            f"rows; {TOLERANCE:g} is allowed."
        )
    return _build_check_fields(rows, start, equal, difference)


def _build_check_fields(rows: int, of: int, equal: int, difference: float) -> dict[str, float]:
    """Returns the fields of `release.Checked`."""
    return {"rows": rows, "of": of, "equal": equal, "difference": difference}


def _as_saved(table: np.ndarray, header: Header) -> np.ndarray:
    """Converts a model's output for B rows to the precision and columns of the saved file, float64 (B, columns)."""
    if header.classes:
        table = (table[:, 1:] if len(header.classes) == 2 else table).astype(np.float32)
    return np.asarray(table, np.float64).reshape(len(table), -1)


def _read_numbers(column: pa.ChunkedArray, header: Header) -> np.ndarray:
    part = column.combine_chunks()
    values = part.flatten() if pa.types.is_fixed_size_list(part.type) else part
    return np.asarray(values.to_numpy(zero_copy_only=False), np.float64).reshape(len(column), -1)


if __name__ == "__main__":
    print(json.dumps(artifact(*sys.argv[1:])))
