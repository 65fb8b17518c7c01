"""The training pipeline: resolve -> prepare -> train -> evaluate -> decide -> register.

1. resolve   checks the form, pins what moves (objects, dates of windows, the champion), and decides whether to train
2. prepare   validates the pinned data, splits it, writes Parquet shards
3. train     fits the task's model, one process per GPU
4. evaluate  scores model, champion and baseline on the same test rows
5. decide    promotes on a paired statistical test, and writes the report
6. register  copies a better model into the registry, checks the copy, and makes it the champion
7. notify    tells, however the others ended, what ran, what it cost and what was decided

A person's run trains (when = "always"). A schedule's run looks for a reason first (when = "drift"); not training is a
success with a reason. Steps 2 to 5 are functions of their pinned inputs: a night on which nothing is new takes their
earlier results.
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
        data: Raw input, several parts separated by commas: file, folder or glob, here or gs:// (CSV, Parquet, JSON
            lines; also text, images), a table bq://PROJECT.DATASET.TABLE, or a .sql file with a query of BigQuery.
            Empty: the task's own data (336,776 flights of 2013 for the task flights).
        task: A shipped task (flights, language_model) or your own as module:Class. Commands also take FILE.toml,
            which declares a table: its text goes on, as task = table and the option declaration.
        task_options: Options of the task, as a JSON object: how its rows are split, such as {"train": "1-6",
            "test": "2 weeks"}, layer sizes and so on. Empty: the task's own (flights: train 1-6, test 7).
        epochs: Passes over the training rows; fractions are allowed.
        global_batch_size: Rows per optimizer step, over all GPUs.
        learning_rate: Peak learning rate.
        weight_decay: AdamW's decay of the weight matrices.
        warmup_fraction: Part of the steps in which the learning rate rises to its peak.
        clip_norm: Largest norm of the gradient; 0 does not clip.
        precision: auto (bf16 where the GPU has it, fp16 on V100 and T4), fp32, bf16 or fp16.
        seed: Same seed and same data: same model, bit for bit.
        training_options: Any other setting of the training, as a JSON object, such as {"strategy": "fsdp",
            "compile": true}: docs/reference/training-settings.md lists them.
        champion: auto: the registry's champion, and as long as it has none a logistic regression stands in. Or the
            number of a version, an alias of one, a model directory, local or gs:// (with a /); empty: none.
        registry: Root of the registry of models, a folder or gs://. Empty: registry/ beside the folder of the runs.
        model_name: Name of the model in the registry. Empty: the task's, such as flights.
        approve: auto: a better model is the champion at once; it waits as a candidate where gradient boosting or
            the linear baseline is better still. manual: it waits, and a person decides with vgp models
            promote. despite_rivals: it is the champion whatever simple models do.
        margin: Promote only if the lower confidence bound of the gain in the decision's loss exceeds this.
        confidence: That no model is promoted by luck, over all decisions of a year together; in (0.5, 1).
        nights: Decisions planned for a year, which share what confidence leaves: of a schedule once a week 52. A
            first model, which replaces none, shares it with none.
        when: What is a reason to train. always: every run trains, and nothing is looked at. drift: columns that moved
            away from the champion's training data, a champion that does worse on new rows, or its age (retrain_every).
            new data: any. never: the run looks and tells, and trains only where force is set.
        retrain_every: Longest time between two trainings where data is new, such as 30 days. Empty: none.
        wait: Shortest time between two trainings, whatever became of the first, such as 7 days. Empty: none.
        force: Whether this run trains, whatever there is.
        look_days: Days, the newest after the champion's training data, whose rows are held against it.
        drift_threshold: Population stability index from which on a column has drifted, if chance does not explain
            it: 0.1 is a moderate shift, 0.25 a large one.
        loss_rise: Part by which the champion's mean loss on new labelled rows must have risen, likewise: 0.1 is a
            tenth.
        look_confidence: Probability that no column and no loss is said to have changed where none has.
        as_of: The day or time as of which the run sees its data, such as 2026-11-20. Empty: the time of the
            schedule, else now.
        pins: URI of an earlier run's pins, to read what that run read. Empty: pin what is there now.
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
