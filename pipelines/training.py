"""The training pipeline: resolve -> prepare -> train -> evaluate -> decide -> register.

1. resolve   checks the parameters, pins data, windows and champion, and decides whether to train
2. prepare   validates the pinned data, splits it, writes Parquet shards
3. train     fits the task's model, one process per GPU
4. evaluate  scores model, champion and baseline on the same test rows
5. decide    compares both models with a paired test, and writes the report
6. register  copies a better model into the registry, checks the copy, and makes it the champion
7. notify    reports steps, cost and decision, also after a failure

A run that you start trains (when = "always"). A scheduled run trains only for a reason (when = "drift") and otherwise
succeeds without training. Steps 2 to 5 depend on their pinned inputs only, so without new data they are cache hits.
"""

from kfp import dsl

from components.decide import decide
from components.evaluate import evaluate
from components.notify import notify
from components.prepare import prepare
from components.register import register
from components.resolve import resolve
from components.train import collect, train
from vgp.steps.form import check, expanded, look, members
from vgp.workflow import job, placed, step, target

__all__ = ["check", "expanded", "look", "members", "training"]

resolve_step = step(resolve, bigquery_of="prepare")
prepare_step, train_step = step(prepare, pinned=True), job(train, pinned=True, collect=collect, form=resolve)
evaluate_step, decide_step = step(evaluate, pinned=True), step(decide, pinned=True, tracked=True)
register_step, notify_step = step(register), step(notify)


@placed
@dsl.pipeline(
    name="training",
    display_name="Train and promote",
    description="Prepares the data, trains on every GPU, evaluates against the champion, decides, and registers.",
)
def training(
    data: str = "",
    task: str = "flights",
    task_options: dict = {},
    epochs: float = 3.0,
    global_batch_size: int = 1024,
    learning_rate: float = 1e-3,
    weight_decay: float = 1e-2,
    warmup_fraction: float = 0.05,
    clip_norm: float = 1.0,
    precision: str = "auto",
    seed: int = 0,
    training_options: dict = {},
    champion: str = "auto",
    registry: str = "",
    model_name: str = "",
    approve: str = "auto",
    margin: float = 0.0,
    confidence: float = 0.95,
    nights: int = 365,
    worst_day: float = 0.0,
    when: str = "always",
    retrain_every: str = "30 days",
    wait: str = "7 days",
    force: bool = False,
    look_days: int = 28,
    drift_threshold: float = 0.25,
    loss_rise: float = 0.1,
    look_confidence: float = 0.99,
    as_of: str = "",
    pins: str = "",
) -> None:
    """Prepares the data, trains on every GPU, evaluates against the champion, decides, and registers.

    Args:
        data: Input files, folders or globs, local or gs:// (CSV, Parquet, JSON lines, text, images), a table
            bq://PROJECT.DATASET.TABLE, or a .sql file with a BigQuery query; separate several with commas. Empty: the
            task's own data (for the task flights, 336,776 flights of 2013).
        task: A built-in task (flights, language_model) or your own as module:Class. The command line also accepts
            FILE.toml, which declares a table, and sends its text as task = table with the option declaration.
        task_options: Options of the task, as a JSON object, for example {"train": "1-6", "test": "2 weeks"}. Empty:
            the task's defaults (flights: train 1-6, test 7).
        epochs: Passes over the training rows; may be a fraction.
        global_batch_size: Rows per optimizer step, over all GPUs.
        learning_rate: Peak learning rate.
        weight_decay: Weight decay of AdamW, applied to weight matrices.
        warmup_fraction: Fraction of the steps in which the learning rate rises to its peak.
        clip_norm: Largest gradient norm; 0 disables clipping.
        precision: auto (bf16 if the GPU supports it, fp16 on V100 and T4), fp32, bf16 or fp16.
        seed: Random seed; equal seeds and data give equal models, bit for bit.
        training_options: Additional training settings, as a JSON object, for example {"strategy": "fsdp",
            "compile": true}; see docs/reference/training-settings.md.
        champion: The model to compare with. auto: the registry's champion, or a logistic regression if there is none.
            Also a version number, an alias, or a model folder, local or gs:// (with a /). Empty: none.
        registry: Root of the model registry, a folder or gs://. Empty: registry/ beside the folder of the runs.
        model_name: Name of the model in the registry. Empty: the task's name, such as flights.
        approve: auto: a better model becomes the champion, unless gradient boosting or the linear baseline is better
            than it. manual: it waits as a candidate for vgp models promote. despite_rivals: it becomes the champion
            even if a simple model is better.
        margin: Promote only if the lower confidence bound of the gain in the decision's loss exceeds this value.
        confidence: Probability that no decision of a year promotes a model by luck, in (0.5, 1).
        nights: Decisions planned for a year, which share the error 1 - confidence; 52 for a weekly schedule. The first
            model, which replaces none, uses the whole error.
        worst_day: What one day may cost at worst: the increase of the loss, on average over the rows of that day. With
            it only the evidence of all nights promotes, and rare bad days promote no worse model. 0: not stated.
        when: Reason to train. always: every run trains. drift: columns drifted from the champion's training data, the
            champion is worse on new rows, or it is older than retrain_every. new data: any new data. never: the run
            reports drift and trains only with force.
        retrain_every: Longest time between two trainings if data is new, such as 30 days. Empty: no limit.
        wait: Shortest time between two trainings, such as 7 days. Empty: no limit.
        force: Whether to train in any case.
        look_days: Number of newest days that are compared with the champion's training data.
        drift_threshold: Population stability index at which a column counts as drifted, if it is significant: 0.1 is
            a moderate shift, 0.25 a large one.
        loss_rise: Relative rise of the champion's mean loss on new labelled rows that counts as worse, if it is
            significant: 0.1 is ten percent.
        look_confidence: Probability of no false alarm over all columns and the loss, when nothing has changed.
        as_of: Day or time as of which the run reads its data, such as 2026-11-20. Empty: the schedule's time, or now.
        pins: URI of an earlier run's pins, to read the same inputs again. Empty: pin the present inputs.
    """
    form = dict(locals())
    with dsl.ExitHandler(
        notify_step(prices=target().prices(), webhook=target().webhook, experiment=target().experiment)
    ):
        resolved = resolve_step(
            pipeline="training", run=dsl.PIPELINE_JOB_NAME_PLACEHOLDER, scheduled=target().scheduled, **form
        )  # fmt: skip
        with dsl.If(resolved.outputs["Output"] == "train", name="train"):
            prepared = prepare_step(pins=resolved.outputs["data"], task=task)
            trained = train_step(
                dataset=prepared.outputs["dataset"], pins=resolved.outputs["data"], task=task,
                config=resolved.outputs["config"],
            )  # fmt: skip
            evaluated = evaluate_step(
                dataset=prepared.outputs["dataset"], model=trained.outputs["model"], task=task,
                champion=resolved.outputs["champion"],
            )  # fmt: skip
            decided = decide_step(
                dataset=prepared.outputs["dataset"], model=trained.outputs["model"],
                evaluation=evaluated.outputs["evaluation"], champion=resolved.outputs["champion"],
                terms=resolved.outputs["terms"],
            )  # fmt: skip
            register_step(
                pipeline="training", run=dsl.PIPELINE_JOB_NAME_PLACEHOLDER,
                dataset=prepared.outputs["dataset"], model=trained.outputs["model"], task=task,
                evaluation=evaluated.outputs["evaluation"], decision=decided.outputs["decision"],
                report=decided.outputs["report"], registry=resolved.outputs["registry"],
                model_name=resolved.outputs["model_name"], champion=resolved.outputs["champion"],
                pins=resolved.outputs["uri"], terms=resolved.outputs["terms"], job=target().run,
                models=target().models,
            )  # fmt: skip
