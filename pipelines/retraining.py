"""The retraining pipeline, which a schedule runs: resolve -> prepare -> train -> evaluate -> decide -> register.

1. resolve   pins what moves, looks at what is new, and decides whether to train at all
2. prepare   and all that follow: as of the pipeline training, where resolve says train
3. notify    tells, also of a run that did not train, why

Not training is a success with a reason. What follows resolve is a function of its pins.
"""

from collections.abc import Collection, Mapping
from typing import Any

from kfp import dsl

from components.collect import collect
from components.decide import decide
from components.evaluate import evaluate
from components.notify import notify
from components.prepare import prepare
from components.register import register
from components.resolve_retraining import resolve
from components.train import train
from pipelines import training as workflow
from pipelines.training import expanded, look, members
from vgp.workflow.compiling.compile_target import Target

__all__ = ["build", "check", "expanded", "look", "members"]


def build(target: Target) -> Any:
    """The pipeline with every step placed on its machine for `target`."""
    resolve_step = target.step(resolve, bigquery_of="prepare")
    prepare_step, train_step = target.step(prepare, pinned=True), target.job(train, pinned=True, collect=collect)
    evaluate_step, decide_step = target.step(evaluate, pinned=True), target.step(decide, pinned=True, tracked=True)
    register_step, notify_step = target.step(register), target.step(notify)

    @dsl.pipeline(
        name="retraining",
        display_name="Retrain where there is a reason",
        description="Looks at what is new, and trains, evaluates, decides and registers where there is a reason to.",
    )
    def retraining(
        data: str = "",
        task: str = "flights",
        task_options: dict = {},
        champion: str = "auto",
        registry: str = "",
        model_name: str = "",
        approve: str = "auto",
        epochs: float = 3.0,
        global_batch_size: int = 1024,
        learning_rate: float = 1e-3,
        weight_decay: float = 1e-2,
        warmup_fraction: float = 0.05,
        clip_norm: float = 1.0,
        precision: str = "auto",
        seed: int = 0,
        training_options: dict = {},
        margin: float = 0.0,
        confidence: float = 0.95,
        nights: int = 365,
        as_of: str = "",
        pins: str = "",
        when: str = "drift",
        retrain_every: str = "30 days",
        wait: str = "7 days",
        force: bool = False,
        look_days: int = 28,
        drift_threshold: float = 0.25,
        loss_rise: float = 0.1,
        look_confidence: float = 0.99,
    ) -> None:
        """Looks at what is new, and trains, evaluates, decides and registers where there is a reason to.

        Args:
            data: Raw input, several parts separated by commas: file, folder or glob, here or gs:// (CSV, Parquet, JSON
                lines; also text, images), a table bq://PROJECT.DATASET.TABLE, or a .sql file with a query of BigQuery.
                Empty: the task's own data (336,776 flights of 2013 for the task flights).
            task: A shipped task (flights, language_model) or your own as module:Class. Commands also take FILE.toml,
                which declares a table: its text goes on, as task = table and the option declaration.
            task_options: Options of the task, as a JSON object: how its rows are split, such as {"train": "1-6",
                "test": "2 weeks"}, layer sizes and so on. Empty: the task's own (flights: train 1-6, test 7).
            champion: auto: the registry's champion, and as long as it has none a logistic regression stands in. Or the
                number of a version, an alias of one, a model directory, local or gs:// (with a /); empty: none.
            registry: Root of the registry of models, a folder or gs://. Empty: registry/ beside the folder of the runs.
            model_name: Name of the model in the registry. Empty: the task's, such as flights.
            approve: auto: a better model is the champion at once; it waits as a candidate where gradient boosting or
                the linear baseline is better still. manual: it waits, and a person decides with vgp models
                promote. despite_rivals: it is the champion whatever simple models do.
            epochs: Passes over the training rows; fractions are allowed.
            global_batch_size: Rows per optimizer step, over all GPUs.
            learning_rate: Peak learning rate.
            weight_decay: AdamW's decay of the weight matrices.
            warmup_fraction: Part of the steps in which the learning rate rises to its peak.
            clip_norm: Largest norm of the gradient; 0 does not clip.
            precision: auto (bf16 where the GPU has it, fp16 on V100 and T4), fp32, bf16 or fp16.
            seed: Same seed and same data: same model, bit for bit.
            training_options: Any other setting of the training, as a JSON object, such as {"strategy": "fsdp",
                "compile": true}: docs/training-settings.md lists them.
            margin: Promote only if the lower confidence bound of the gain in the decision's loss exceeds this.
            confidence: That no model is promoted by luck, over all decisions of a year together; in (0.5, 1).
            nights: Decisions planned for a year, which share what confidence leaves: of a schedule once a week 52. A
                first model, which replaces none, shares it with none.
            as_of: The day or time as of which the run sees its data, such as 2026-11-20. Empty: the time of the
                schedule, else now.
            pins: URI of an earlier run's pins, to read what that run read. Empty: pin what is there now.
            when: What is a reason to train. drift: columns that moved away from the champion's training data, a
                champion that does worse on new rows, or its age (retrain_every). new data: any. always: every run.
                never: the run looks and tells, and trains only where force is set.
            retrain_every: Longest time between two trainings where data is new, such as 30 days. Empty: none.
            wait: Shortest time between two trainings, whatever became of the first, such as 7 days. Empty: none.
            force: Whether this run trains, whatever there is.
            look_days: Days, the newest after the champion's training data, whose rows are held against it.
            drift_threshold: Population stability index from which on a column has drifted, if chance does not explain
                it: 0.1 is a moderate shift, 0.25 a large one.
            loss_rise: Part by which the champion's mean loss on new labelled rows must have risen, likewise: 0.1 is a
                tenth.
            look_confidence: Probability that no column and no loss is said to have changed where none has.
        """
        with dsl.ExitHandler(notify_step(prices=target.prices(), webhook=target.webhook, experiment=target.experiment)):
            resolved = resolve_step(
                pipeline="retraining", run=dsl.PIPELINE_JOB_NAME_PLACEHOLDER, scheduled=target.scheduled,
                data=data, task=task, task_options=task_options, as_of=as_of, pins=pins,
                when=when, retrain_every=retrain_every, wait=wait, force=force, look_days=look_days,
                drift_threshold=drift_threshold, loss_rise=loss_rise, look_confidence=look_confidence,
                champion=champion, registry=registry, model_name=model_name, approve=approve,
                margin=margin, confidence=confidence, nights=nights,
                epochs=epochs, global_batch_size=global_batch_size, learning_rate=learning_rate,
                weight_decay=weight_decay, warmup_fraction=warmup_fraction, clip_norm=clip_norm,
                precision=precision, seed=seed, training_options=training_options,
            )  # fmt: skip
            with dsl.If(resolved.outputs["Output"] == "train", name="train"):
                prepared = prepare_step(pins=resolved.outputs["data"], task=task)
                trained = train_step(
                    dataset=prepared.outputs["dataset"], pins=resolved.outputs["data"], task=task,
                    epochs=epochs, global_batch_size=global_batch_size, learning_rate=learning_rate,
                    weight_decay=weight_decay, warmup_fraction=warmup_fraction, clip_norm=clip_norm,
                    precision=precision, seed=seed, training_options=training_options,
                )  # fmt: skip
                evaluated = evaluate_step(
                    dataset=prepared.outputs["dataset"], model=trained.outputs["model"], task=task,
                    champion=resolved.outputs["champion"],
                )  # fmt: skip
                decided = decide_step(
                    dataset=prepared.outputs["dataset"], model=trained.outputs["model"],
                    evaluation=evaluated.outputs["evaluation"], champion=resolved.outputs["champion"],
                    margin=margin, confidence=confidence, nights=nights, approve=approve,
                )  # fmt: skip
                register_step(
                    pipeline="retraining", run=dsl.PIPELINE_JOB_NAME_PLACEHOLDER,
                    dataset=prepared.outputs["dataset"], model=trained.outputs["model"], task=task,
                    evaluation=evaluated.outputs["evaluation"], decision=decided.outputs["decision"],
                    report=decided.outputs["report"], registry=resolved.outputs["registry"],
                    model_name=resolved.outputs["model_name"], champion=resolved.outputs["champion"],
                    pins=resolved.outputs["uri"], approve=approve, job=target.run, terms=target.models,
                )  # fmt: skip

    return retraining


def check(
    parameters: dict[str, Any],
    *,
    remote: bool = False,
    commands: Collection[str] = (),
    bigquery: Collection[str] = (),
    worlds: Mapping[str, Collection[int]] = {},
) -> None:
    """As of the workflow training, and that the reasons to train can be; raises ValueError."""
    from vgp.steps.retraining import RULES, check_rules

    check_rules({name: parameters[name] for name in RULES})
    rest = {name: value for name, value in parameters.items() if name not in RULES}
    workflow.check(rest, remote=remote, commands=commands, bigquery=bigquery, worlds=worlds)
