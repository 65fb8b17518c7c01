"""The batch prediction pipeline: resolve -> predict.

1. resolve  pins the new data and a version of the model
2. predict  checks the data, compares it with the training data, and scores it shard by shard on all GPUs or cores
3. notify   reports steps and cost, also after a failure

Every row holds the model's version. A killed run resumes with the missing shards.
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
        data: New rows: files, folders or globs, local or gs:// (CSV, Parquet, JSON lines, text, images), a table
            bq://PROJECT.DATASET.TABLE, or a .sql file with a BigQuery query; separate several with commas. Labels may
            be missing. Empty: the task's own data.
        task: The model's task: a built-in one (flights, language_model) or your own as module:Class. The command line
            also accepts FILE.toml, which declares a table.
        task_options: Options of the task, as a JSON object. Only a table's declaration is needed, for the model's
            name; all other options come from the model card.
        model: champion, a version number, an alias, or a model folder, local or gs:// (with a /).
        registry: Root of the model registry, a folder or gs://. Empty: registry/ beside the folder of the runs.
        model_name: Name of the model in the registry. Empty: the task's name, such as flights.
        destination: Folder, gs:// folder, or bq://PROJECT.DATASET.TABLE, which is replaced. May contain {date}, {run}
            and {version}. Empty: a folder of the run.
        staging: For a table, the gs:// folder of its temporary files. Empty: a folder of the run.
        window: Days to predict, such as 2013-08, or 1 day for the last one; features may use earlier rows. Empty: all
            rows.
        shard_rows: Rows of a shard, the most work that a kill can lose. 0: about 8 MiB.
        stop_on_drift: Whether large drift since training stops the run before scoring.
        as_of: Day or time as of which the run reads its data, such as 2026-11-20. Empty: the schedule's time, or now.
        pins: URI of an earlier run's pins, to read the same inputs again. Empty: pin the present inputs.
    """
    form = dict(locals())
    del form["staging"]  # only predict uses it
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
