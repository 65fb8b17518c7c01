"""The training pipeline: resolve -> prepare -> train -> evaluate -> decide -> register.

1. resolve   pins what moves: the data's objects, the windows' dates, the champion
2. prepare   validates the pinned data, splits it, writes Parquet shards
3. train     fits the task's model, one process per GPU
4. evaluate  scores model, champion and baseline on the same test rows
5. decide    promotes on a paired statistical test, and writes the report
6. register  copies a better model into the registry, checks the copy, and makes it the champion
7. notify    tells, however the others ended, what ran, what it cost and what was decided

Steps 2 to 5 are functions of their pinned inputs: a night on which nothing is new takes their earlier results.
"""

import importlib.util
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any

from kfp import dsl

from components.collect import collect
from components.decide import decide
from components.evaluate import evaluate
from components.notify import notify
from components.prepare import prepare
from components.register import register
from components.resolve import resolve
from components.train import train
from vgp.workflow.compiling.compile_target import Target


def build(target: Target) -> Any:
    """The pipeline with every step placed on its machine for `target`."""
    resolve_step = target.step(resolve, bigquery_of="prepare")
    prepare_step, train_step = target.step(prepare, pinned=True), target.job(train, pinned=True, collect=collect)
    evaluate_step, decide_step = target.step(evaluate, pinned=True), target.step(decide, pinned=True, tracked=True)
    register_step, notify_step = target.step(register), target.step(notify)

    @dsl.pipeline(
        name="training",
        display_name="Train and promote",
        description="Prepares the data, trains on every GPU, evaluates against the champion, decides, and registers.",
    )
    def training(
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
        """
        with dsl.ExitHandler(notify_step(prices=target.prices(), webhook=target.webhook, experiment=target.experiment)):
            resolved = resolve_step(
                pipeline="training", run=dsl.PIPELINE_JOB_NAME_PLACEHOLDER, scheduled=target.scheduled,
                data=data, task=task, task_options=task_options, as_of=as_of, pins=pins,
                champion=champion, registry=registry, model_name=model_name, approve=approve,
                margin=margin, confidence=confidence, nights=nights,
                epochs=epochs, global_batch_size=global_batch_size, learning_rate=learning_rate,
                weight_decay=weight_decay, warmup_fraction=warmup_fraction, clip_norm=clip_norm,
                precision=precision, seed=seed, training_options=training_options,
            )  # fmt: skip
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
                pipeline="training", run=dsl.PIPELINE_JOB_NAME_PLACEHOLDER,
                dataset=prepared.outputs["dataset"], model=trained.outputs["model"], task=task,
                evaluation=evaluated.outputs["evaluation"], decision=decided.outputs["decision"],
                report=decided.outputs["report"], registry=resolved.outputs["registry"],
                model_name=resolved.outputs["model_name"], champion=resolved.outputs["champion"],
                pins=resolved.outputs["uri"], approve=approve, job=target.run, terms=target.models,
            )  # fmt: skip

    return training


def check(
    parameters: dict[str, Any],
    *,
    remote: bool = False,
    commands: Collection[str] = (),
    bigquery: Collection[str] = (),
    worlds: Mapping[str, Collection[int]] = {},
) -> None:
    """What can be known to be wrong before anything starts; raises ValueError.

    `commands` run in place of these steps; `bigquery`: the steps whose settings say what they may use of it; `worlds`:
    the GPUs of the machines of each training step, on every rung that the run may take.

    Compiling and submitting need no training packages: without them all is checked but the task's own options.
    """
    from vgp.steps.run_request import check_request

    if remote:
        refuse_local_paths(parameters)
        if "prepare" not in bigquery:
            refuse_bigquery(parameters["data"])
    with_task = not remote or importlib.util.find_spec("torch") is not None
    check_request(
        **parameters, with_task=with_task, with_training="train" not in commands, world_sizes=worlds.get("train", ())
    )


def expanded(parameters: dict[str, Any], folder: Path) -> dict[str, Any]:
    """The parameters with the text of a task.toml in place of its name: no path of this machine goes on.

    A declaration that the options hold already, such as that of a run that is run again, gives way.

    Raises:
        ValueError: there is no such file in `folder`, or it says what cannot be.
    """
    from vgp.base.exits import UserError
    from vgp.data.tasks import task_file

    if not task_file.is_file(parameters.get("task", "")):
        return parameters
    given = {name: value for name, value in parameters.get("task_options", {}).items() if name != "declaration"}
    try:
        return {**parameters, "task": "table", "task_options": task_file.options(parameters["task"], given, folder)}
    except UserError as error:
        raise ValueError(str(error)) from None


def look(parameters: dict[str, Any]) -> None:
    """What only a look at the bucket can tell, before a run is sent. Raises ValueError for data that is not there."""
    from vgp.base.exits import UserError
    from vgp.base.storage import storage

    for part in storage.parts(parameters["data"]):
        if storage.is_remote(part):
            try:
                storage.find(part)
            except UserError as error:
                raise ValueError(f"data = {part}: {error} (--no-preflight does not look.)") from None
    _look_for_version(parameters)


def _look_for_version(parameters: dict[str, Any]) -> None:
    """Raises ValueError for a champion, or a model to predict with, that the registry in the bucket does not have."""
    from vgp.base.exits import UserError
    from vgp.base.storage import storage
    from vgp.registry import model_name, reigning

    name = "champion" if "champion" in parameters else "model"
    given, root = parameters.get(name, ""), parameters.get("registry", "")
    if not given or given in (reigning.AUTO, "champion") or reigning.is_folder(given) or not storage.is_remote(root):
        return
    chosen = model_name.chosen(parameters.get("model_name", ""), parameters["task"], parameters.get("task_options"))
    try:
        reigning.version(reigning.opened(root, chosen).read(), given)
    except UserError as error:
        raise ValueError(f"{error} (--no-preflight does not look.)") from None


def members() -> dict[str, Collection[str]]:
    """The names that JSON parameters take, for who gives one of them as a parameter."""
    from vgp.train.config import TrainConfig

    return {"training_options": TrainConfig.model_fields.keys() - {"task", "options"}}


def refuse_bigquery(data: str) -> None:
    """Raises ValueError for BigQuery as data where the settings do not say how much it may read."""
    from vgp.base.storage.bigquery import names

    for part in filter(names.is_bigquery, map(str.strip, data.split(","))):
        raise ValueError(
            f"data = {part}: BigQuery bills what queries read. Write into pipelines.toml how much that may be, in GiB: "
            "[steps.prepare.bigquery] with max_gb = 100. A template has to be uploaded again then."
        )


#: What such settings say besides paths.
_WORDS = {"training_options.resume": ("auto", "never"), "training_options.warm_start": ("champion",)}


def refuse_local_paths(parameters: dict[str, Any]) -> None:
    """Raises ValueError for data, champion and pins that a step on Vertex AI cannot read."""
    from vgp.base.exits import UserError
    from vgp.base.storage import foreign
    from vgp.base.storage.bigquery import names

    options = parameters.get("training_options", {})  # templates that are older than it do not have it
    given = {name: parameters.get(name, "") for name in ("data", "champion", "registry", "pins")}
    given |= {f"training_options.{name}": str(options.get(name, "")) for name in ("warm_start", "resume")}
    for name, text in given.items():
        for path in filter(None, map(str.strip, text.split(","))):
            try:
                foreign.refuse(path)
                table = names.parse(path) if name == "data" and names.is_table(path) else None
            except UserError as error:
                raise ValueError(f"{name} = {error}") from None
            known = path in _WORDS.get(name, ()) or (name == "champion" and "/" not in path)
            if not (table or path.startswith("gs://") or known):
                raise ValueError(
                    f"{name} = {path}: a step on Vertex AI cannot read this machine's files. "
                    "Copy it to a bucket and give its gs:// URI: gcloud storage cp -r PATH gs://BUCKET/FOLDER."
                )
