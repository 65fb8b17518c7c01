"""The batch prediction pipeline: resolve -> predict.

1. resolve  pins what moves: the new data's objects, and a version of the model
2. predict  checks the data, holds it against the training data, and scores it shard by shard with all GPUs or cores
3. notify   tells, however the others ended, what ran and what it cost

The model's version stands in every row. A run that was killed goes on with the shards that are not there yet.
"""

from kfp import dsl

from components.notify import notify
from components.predict import predict, resolve
from vgp.steps.form import check_prediction as check
from vgp.steps.form import expanded, look
from vgp.workflow import placed, step, target

__all__ = ["batch_prediction", "check", "expanded", "look"]

resolve_step, predict_step = step(resolve, bigquery_of="prepare"), step(predict, bigquery_of="prepare")
notify_step = step(notify)


@placed
@dsl.pipeline(
    name="batch-prediction",
    display_name="Predict new data",
    description="Scores new data with the champion, or any version of a model, and writes Parquet or a table.",
)
def batch_prediction(
    data: str = "",
    task: str = "flights",
    task_options: dict = {},
    model: str = "champion",
    registry: str = "",
    model_name: str = "",
    destination: str = "",
    staging: str = "",
    window: str = "",
    shard_rows: int = 0,
    stop_on_drift: bool = False,
    as_of: str = "",
    pins: str = "",
) -> None:
    """Scores new data with the champion, or any version of a model, and writes Parquet or a table.

    Args:
        data: New rows, several parts separated by commas: file, folder or glob, here or gs:// (CSV, Parquet, JSON
            lines; also text, images), a table bq://PROJECT.DATASET.TABLE, or a .sql file with a query of BigQuery.
            The label may be missing. Empty: the task's own data.
        task: The task of the model: a shipped one (flights, language_model) or your own as module:Class. Commands
            also take FILE.toml, which declares a table.
        task_options: Options of the task, as a JSON object: a declaration tells the model's name. All else that the
            model was trained with, its card has.
        model: champion: the registry's. Or the number of a version, an alias of one, a model directory, local or
            gs:// (with a /).
        registry: Root of the registry of models, a folder or gs://. Empty: registry/ beside the folder of the runs.
        model_name: Name of the model in the registry. Empty: the task's, such as flights.
        destination: Where the rows go: a folder, gs://, or bq://PROJECT.DATASET.TABLE, which is replaced. {date},
            {run} and {version} are put in. Empty: a folder of the run's own.
        staging: Of a table: the folder gs:// that its rows are loaded from. Empty: a folder of the run's own.
        window: Days that are predicted, such as 2013-08 or 1 day, the last one; they look back on the rows before.
            Empty: all rows.
        shard_rows: Rows of a shard, which is what a kill may lose. 0: as many as take about 8 MiB.
        stop_on_drift: Whether columns that have shifted much since training end the run before anything is scored.
        as_of: The day or time as of which the run sees its data, such as 2026-11-20. Empty: the time of the
            schedule, else now.
        pins: URI of an earlier run's pins, to read what that run read. Empty: pin what is there now.
    """
    form = dict(locals())
    del form["staging"]  # a matter of predict alone
    with dsl.ExitHandler(
        notify_step(prices=target().prices(), webhook=target().webhook, experiment=target().experiment)
    ):
        resolved = resolve_step(
            pipeline="batch-prediction", run=dsl.PIPELINE_JOB_NAME_PLACEHOLDER, scheduled=target().scheduled, **form
        )  # fmt: skip
        predict_step(
            data=resolved.outputs["data"], model=resolved.outputs["model"], task=task,
            model_name=resolved.outputs["model_name"], destination=resolved.outputs["destination"],
            run=dsl.PIPELINE_JOB_NAME_PLACEHOLDER, staging=staging, window=window, shard_rows=shard_rows,
            stop_on_drift=stop_on_drift,
        )  # fmt: skip
