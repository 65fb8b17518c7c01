"""What a workflow says of its form to the commands that start a run: checks, files in place of names, members.

A command calls these functions of a workflow by name: `check`, `expanded`, `look` and `members`. Compiling a workflow
needs no package of the training, so nothing heavy is imported.
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
from vgp.train.config import TrainConfig

#: What such settings say besides paths.
_WORDS = {"training_options.resume": ("auto", "never"), "training_options.warm_start": ("champion",)}


def check(
    parameters: JsonObject,
    *,
    remote: bool = False,
    commands: Collection[str] = (),
    bigquery: Collection[str] = (),
    worlds: Mapping[str, Collection[int]] = {},
) -> None:
    """Checks what is known to be wrong about a run of the workflow training before anything starts.

    Compiling and submitting need no training packages: without them all is checked but the task's own options.

    Args:
        parameters: The form.
        remote: Whether the run is one on Vertex AI.
        commands: Steps in place of which a command of the user's runs.
        bigquery: The steps whose settings say what they may use of BigQuery.
        worlds: The GPUs of the machines of each training step, on every rung that the run may take.

    Raises:
        ValueError: says what was given, the rule, and the choices.
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
    """Checks what is known to be wrong about a run of the workflow batch_prediction before anything starts.

    Args:
        parameters: Its form; the others are those of `check`.
    """
    from vgp.steps import prediction  # it needs the packages of the training

    if remote:
        refuse_local_paths({name: parameters[name] for name in ("data", "registry", "pins")})
        _refuse_local_outputs(parameters)
        if not {"prepare", "predict"} & set(bigquery):
            refuse_bigquery(parameters["data"])
    prediction.check_request(**parameters, with_task=not remote or importlib.util.find_spec("torch") is not None)


def expanded(parameters: JsonObject, folder: Path) -> JsonObject:
    """Returns the parameters with the text of a task.toml in place of its name: no path of this machine goes on.

    A declaration that the options hold already, such as that of a run that is run again, gives way.

    Raises:
        ValueError: there is no such file in `folder`, or it says what cannot be.
    """
    if not is_file(parameters.get("task", "")):
        return parameters
    given = {name: value for name, value in parameters.get("task_options", {}).items() if name != "declaration"}
    try:
        return {**parameters, "task": "table", "task_options": file_options(parameters["task"], given, folder)}
    except UserError as error:
        raise ValueError(str(error)) from None


def look(parameters: JsonObject) -> None:
    """Looks at the bucket before a run is sent.

    Raises:
        ValueError: data is not there, or the registry lacks the champion, or the model to predict with.
    """
    for part in filter(storage.is_remote, storage.parts(parameters["data"])):
        try:
            storage.find(part)
        except UserError as error:
            raise ValueError(f"data = {part}: {error} (--no-preflight does not look.)") from None
    _look_for_version(parameters)


def _look_for_version(parameters: JsonObject) -> None:

    name = "champion" if "champion" in parameters else "model"
    given, root = parameters.get(name, ""), parameters.get("registry", "")
    if not given or given in (reigning.AUTO, "champion") or reigning.is_folder(given) or not storage.is_remote(root):
        return
    chosen = documents.chosen(parameters.get("model_name", ""), parameters["task"], parameters.get("task_options"))
    try:
        reigning.version(reigning.opened(root, chosen).read(), given)
    except UserError as error:
        raise ValueError(f"{error} (--no-preflight does not look.)") from None


def members() -> dict[str, Collection[str]]:
    """Returns the names that JSON parameters take, for who gives one of them as a parameter."""
    return {"training_options": TrainConfig.model_fields.keys() - {"task", "options"}}


def refuse_bigquery(data: str) -> None:
    """Raises ValueError for BigQuery as data where the settings do not say how much it may read."""
    for part in filter(names.is_bigquery, map(str.strip, data.split(","))):
        raise ValueError(
            f"data = {part}: BigQuery bills what queries read. Write into pipelines.toml how much that may be, in GiB: "
            "[steps.prepare.bigquery] with max_gb = 100. A template has to be uploaded again then."
        )


def refuse_local_paths(parameters: JsonObject) -> None:
    """Raises ValueError for data, champion and pins that a step on Vertex AI cannot read."""
    options = parameters.get("training_options", {})  # templates that are older than it do not have it
    given = {name: parameters.get(name, "") for name in ("data", "champion", "registry", "pins")}
    given |= {f"training_options.{name}": str(options.get(name, "")) for name in ("warm_start", "resume")}
    for name, text in given.items():
        for path in filter(None, map(str.strip, text.split(","))):
            try:
                finding.refuse(path)
                table = names.parse(path) if name == "data" and names.is_table(path) else None
            except UserError as error:
                raise ValueError(f"{name} = {error}") from None
            known = path in _WORDS.get(name, ()) or (name == "champion" and "/" not in path)
            if not (table or path.startswith("gs://") or known):
                raise ValueError(
                    f"{name} = {path}: a step on Vertex AI cannot read this machine's files. "
                    "Copy it to a bucket and give its gs:// URI: gcloud storage cp -r PATH gs://BUCKET/FOLDER."
                )


def _refuse_local_outputs(parameters: JsonObject) -> None:
    """Raises ValueError for a model that a step on Vertex AI cannot read, or a place that it cannot write to."""
    for name in ("model", "destination", "staging"):
        path = parameters[name].strip()
        local = "/" in path if name == "model" else bool(path)
        if local and not path.startswith(("gs://", "bq://")):
            raise ValueError(
                f"{name} = {path}: a step on Vertex AI has no files of this machine. Give gs://BUCKET/FOLDER."
            )
