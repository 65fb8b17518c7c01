"""Checks of a workflow's parameters, for the commands that start a run.

Commands call `check`, `expanded`, `look` and `members` of a workflow by name. Compiling needs no training packages, so
heavy imports are deferred.
"""

import importlib.util
from collections.abc import Collection, Mapping
from pathlib import Path

from vgp.base.documents.json_text import JsonObject
from vgp.base.exits import UserError
from vgp.base.storage import finding, storage
from vgp.base.storage.bigquery import names
from vgp.data.tasks import file_options, is_file
from vgp.registry import documents, reigning
from vgp.steps.run_request import check_request
from vgp.train.train_config import TrainConfig

#: Values of path parameters that are not paths.
_WORDS = {"training_options.resume": ("auto", "never"), "training_options.warm_start": ("champion",)}


def check(
    parameters: JsonObject,
    *,
    remote: bool = False,
    commands: Collection[str] = (),
    bigquery: Collection[str] = (),
    worlds: Mapping[str, Collection[int]] = {},
) -> None:
    """Checks the parameters of a training run before it starts.

    Without the training packages, the task's own options are not checked.

    Args:
        parameters: Parameters of the workflow.
        remote: Whether the run is on Vertex AI.
        commands: Steps that run your own command.
        bigquery: Steps with BigQuery limits in the settings.
        worlds: GPUs of each training step's machines, for each rung of its ladder.

    Raises:
        ValueError: a parameter is invalid; the message has its value, the rule and the choices.
    """
    if remote:
        refuse_local_paths(parameters)
        if "prepare" not in bigquery:
            refuse_bigquery(parameters["data"])
    with_task = not remote or importlib.util.find_spec("torch") is not None
    check_request(
        **parameters, with_task=with_task, with_training="train" not in commands, world_sizes=worlds.get("train", ())
    )


def check_prediction(
    parameters: JsonObject, *, remote: bool = False, commands: Collection[str] = (), bigquery: Collection[str] = ()
) -> None:
    """Checks the parameters of a batch prediction before it starts.

    Args:
        parameters: Parameters of the workflow; other arguments as for `check`.
    """
    from vgp.steps import prediction  # needs the training packages

    if remote:
        refuse_local_paths({name: parameters[name] for name in ("data", "registry", "pins")})
        _refuse_local_outputs(parameters)
        if not {"prepare", "predict"} & set(bigquery):
            refuse_bigquery(parameters["data"])
    prediction.check_request(**parameters, with_task=not remote or importlib.util.find_spec("torch") is not None)


def expanded(parameters: JsonObject, folder: Path) -> JsonObject:
    """Returns the parameters with the text of a task.toml instead of its local path.

    A declaration in the options, such as that of a repeated run, is replaced.

    Raises:
        ValueError: the file is missing in `folder` or invalid.
    """
    if not is_file(parameters.get("task", "")):
        return parameters
    options = {name: value for name, value in parameters.get("task_options", {}).items() if name != "declaration"}
    try:
        return {**parameters, "task": "table", "task_options": file_options(parameters["task"], options, folder)}
    except UserError as error:
        raise ValueError(str(error)) from None


def look(parameters: JsonObject) -> None:
    """Checks data and registry in the bucket before a run is submitted.

    Raises:
        ValueError: the data does not exist, or the registry lacks the champion or model.
    """
    for part in filter(storage.is_remote, storage.parts(parameters["data"])):
        try:
            storage.find(part)
        except UserError as error:
            raise ValueError(f"data = {part}: {error} (--no-preflight skips this check.)") from None
    _look_for_version(parameters)


def _look_for_version(parameters: JsonObject) -> None:
    name = "champion" if "champion" in parameters else "model"
    model, root = parameters.get(name, ""), parameters.get("registry", "")
    if not model or model in (reigning.AUTO, "champion") or reigning.is_folder(model) or not storage.is_remote(root):
        return
    model_name = documents.choose_model_name(
        parameters.get("model_name", ""), parameters["task"], parameters.get("task_options")
    )
    try:
        reigning.find_version(reigning.open_registry(root, model_name).read(), model)
    except UserError as error:
        raise ValueError(f"{error} (--no-preflight skips this check.)") from None


def members() -> dict[str, Collection[str]]:
    """Returns the member names of JSON parameters, for hints."""
    return {"training_options": TrainConfig.model_fields.keys() - {"task", "options"}}


def refuse_bigquery(data: str) -> None:
    """Raises ValueError for BigQuery data without a limit in the settings."""
    for part in filter(names.is_bigquery, map(str.strip, data.split(","))):
        raise ValueError(
            f"data = {part}: BigQuery bills the bytes that queries read. Set a limit in GiB in pipelines.toml: "
            "[steps.prepare.bigquery] max_gb = 100. Then upload the template again."
        )


def refuse_local_paths(parameters: JsonObject) -> None:
    """Raises ValueError for data, champion and pins that a step on Vertex AI cannot read."""
    options = parameters.get("training_options", {})  # older templates lack the parameter
    inputs = {name: parameters.get(name, "") for name in ("data", "champion", "registry", "pins")}
    inputs |= {f"training_options.{name}": str(options.get(name, "")) for name in ("warm_start", "resume")}
    for name, text in inputs.items():
        for path in filter(None, map(str.strip, text.split(","))):
            try:
                finding.refuse_scheme(path)
                table = names.parse(path) if name == "data" and names.is_table(path) else None
            except UserError as error:
                raise ValueError(f"{name} = {error}") from None
            is_word = path in _WORDS.get(name, ()) or (name == "champion" and "/" not in path)
            if not (table or path.startswith("gs://") or is_word):
                raise ValueError(
                    f"{name} = {path}: a step on Vertex AI cannot read files of this machine. "
                    "Copy it to a bucket (gcloud storage cp -r PATH gs://BUCKET/FOLDER) and use the gs:// URI."
                )


def _refuse_local_outputs(parameters: JsonObject) -> None:
    """Raises ValueError for a model that a step on Vertex AI cannot read, or a destination that it cannot write."""
    for name in ("model", "destination", "staging"):
        path = parameters[name].strip()
        local = "/" in path if name == "model" else bool(path)
        if local and not path.startswith(("gs://", "bq://")):
            raise ValueError(
                f"{name} = {path}: a step on Vertex AI cannot write to this machine. Give gs://BUCKET/FOLDER."
            )
