"""Runs each step from a shell.

python -m vgp.steps resolve --data 'gs://bucket/raw/*.csv' --to gs://bucket/runs/pins
python -m vgp.steps prepare runs/data --set train=1-6 --set test=7
python -m vgp.steps train runs/data --model runs/model --checkpoints runs/checkpoints --nproc 2 --set epochs=3
python -m vgp.steps collect runs/data --model runs/model
python -m vgp.steps evaluate runs/data --model runs/model runs/evaluation
python -m vgp.steps decide runs/data --model runs/model runs/evaluation --report runs/report.html
python -m vgp.steps predict 'new/*.csv' --model champion --out predictions
python -m vgp.steps table titanic.csv --target survived --out titanic.toml
python -m vgp.steps models list --registry runs/registry
python -m vgp.steps serve runs/model --port 8080
python -m vgp.steps settings
"""

import argparse
import json
import os
import tempfile
from pathlib import Path
from typing import Any

from vgp.base.documents.json_text import JsonObject
from vgp.base.exits import UserError, exits
from vgp.data.tasks import file_options, is_file
from vgp.protocol import file_names
from vgp.protocol.run_folder import REGISTRY_VARIABLE
from vgp.registry import command
from vgp.serve.endpoint import server as serving
from vgp.steps import calls
from vgp.train import settings_table

TASK = "a shipped task, module:Class, or a file FILE.toml that declares a table"
DATA = "files, folders, globs, gs:// URIs, bq:// tables, .sql files, separated by commas; default: the task's own"
TRUSTED_TASK = "task of the data; required if the dataset names a module:Class, which is imported only on request"
#: Default registry of `vgp run`.
LOCAL_REGISTRY = "runs/registry"


def parser() -> argparse.ArgumentParser:
    top = argparse.ArgumentParser(
        prog="python -m vgp.steps", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    verbs = top.add_subparsers(dest="verb", required=True)

    resolve = verbs.add_parser("resolve", help="data, windows and champion -> pins")
    resolve.add_argument("--data", default="", help=DATA)
    resolve.add_argument("--task", default="flights", help=TASK)
    resolve.add_argument("--options", type=as_json, default={}, metavar="JSON", help="the task's options")
    resolve.add_argument("--champion", default="", help="auto, a version's number, an alias, or a folder to beat")
    resolve.add_argument("--registry", default="", help="root of the registry; default: TRAINING_REGISTRY, or by --to")
    resolve.add_argument("--model-name", default="", help="the model's name in the registry; default: by the task")
    resolve.add_argument("--set", dest="settings", action="append", default=[], type=setting, metavar="NAME=VALUE",
                         help="any parameter of the workflow training, such as epochs=3; repeatable")  # fmt: skip
    resolve.add_argument("--as-of", default="", help="a day or a time; later data is left out")
    resolve.add_argument("--scheduled", default="", help="the scheduled time of the run; ignored with --as-of")
    resolve.add_argument("--pins", default="", help="URI of the pins of an earlier run, to use again")
    resolve.add_argument("--pipeline", default="training", help="the name of the pipeline")
    resolve.add_argument("--run", default="", help="the name of the run")
    resolve.add_argument("--project-number", dest="project", default="", help="the project of the pins; default: none")
    resolve.add_argument("--to", default="", help="the folder of the pins; default: TRAINING_PINS, or ./pins")
    resolve.add_argument("--dry-run", action="store_true", help="write nothing")
    resolve.add_argument(
        "--json", action="store_true", help="print {digest, uri, data, champion, config, terms, words}"
    )

    prepare = verbs.add_parser("prepare", help="raw data -> Parquet shards and manifest")
    prepare.add_argument("destination", help="folder of the prepared dataset")
    prepare.add_argument("--data", default="", help=DATA)
    prepare.add_argument("--pins", default="", help="URI of the data's pins, instead of --data and --options")
    prepare.add_argument("--task", default="flights", help=TASK)
    prepare.add_argument("--options", type=as_json, default={}, metavar="JSON", help="the task's options")
    prepare.add_argument("--set", dest="settings", action="append", default=[], type=setting, metavar="NAME=VALUE",
                         help="one option of the task, such as train=1-6; repeatable")  # fmt: skip

    train = verbs.add_parser("train", help="shards -> model, resuming from checkpoints")
    train.add_argument("data", help="prepared dataset")
    train.add_argument("--model", required=True, help="folder of the model")
    train.add_argument("--checkpoints", required=True, help="folder of checkpoints and logs")
    train.add_argument("--pins", default="", help="URI of the pins that the data was prepared from")
    train.add_argument("--task", default="", help=TRUSTED_TASK)
    train.add_argument("--nproc", type=int, help="processes; default: one per GPU, or 1")
    train.add_argument("--set", dest="settings", action="append", default=[], type=setting, metavar="NAME=VALUE",
                       help="a field of vgp.train.train_config.TrainConfig; repeatable")  # fmt: skip

    collect = verbs.add_parser("collect", help="files of your own script -> model, metrics, predictions")
    collect.add_argument("data", help="prepared dataset")
    collect.add_argument("--model", required=True, help="the script's AIP_MODEL_DIR")
    collect.add_argument("--checkpoints", default="", help="the folder with script.json")
    collect.add_argument("--task", default="", help=TRUSTED_TASK)

    evaluate = verbs.add_parser("evaluate", help="model -> predictions and metrics")
    evaluate.add_argument("data", help="prepared dataset")
    evaluate.add_argument("destination", help="folder of the evaluation")
    evaluate.add_argument("--model", required=True)
    evaluate.add_argument("--task", default="", help=TRUSTED_TASK)
    evaluate.add_argument("--champion", default="",
                          help="folder of the model to beat, or URI of its pins; default: the baseline")  # fmt: skip

    decide = verbs.add_parser("decide", help="evaluation -> decision and report")
    decide.add_argument("data", help="prepared dataset")
    decide.add_argument("evaluation", help="folder of the evaluation")
    decide.add_argument("--model", required=True)
    decide.add_argument("--report", help="the page to write; default: report.html in the folder of the evaluation")
    decide.add_argument("--summary", help="the text to write; default: summary.md in the folder of the evaluation")
    decide.add_argument("--margin", type=float, default=0.0)
    decide.add_argument("--confidence", type=float, default=0.95, help="confidence of all decisions of a year together")
    decide.add_argument("--nights", type=int, default=365, help="decisions planned for a year; default 365")
    decide.add_argument("--approve", default="auto", help="auto, manual or despite_rivals; default auto")
    _add_table_options(verbs.add_parser("table", help="a table -> a task.toml, which describes what to predict"))
    command.add(verbs)
    _add_predict(verbs, task=TASK, data=DATA)
    serving.add(verbs)
    verbs.add_parser("settings", help="every setting of train, as a list")
    return top


def _add_table_options(verb: argparse.ArgumentParser) -> None:
    verb.add_argument("data", help=DATA)
    verb.add_argument("--target", default="", help="the column to predict; without it the columns are listed")
    verb.add_argument("--kind", default="", choices=("classes", "regression"), help="default: by its values")
    verb.add_argument("--positive", default="", help="the positive class of two")
    verb.add_argument(
        "--leave-out", dest="left_out", action="append", default=[], help="a class to leave out; repeatable"
    )
    verb.add_argument("--key", action="append", default=[], help="a column that identifies a row; repeatable")
    verb.add_argument("--time", default="", help="the column with the time of a row; test rows are the latest; or none")
    verb.add_argument("--group", default="", help="the column of a group, whose rows stay in one split")
    verb.add_argument(
        "--read", action="append", default=[], metavar="COLUMN=TYPE", help="how to read a column; repeatable"
    )
    verb.add_argument("--out", default="task.toml", help="the file to write")
    verb.add_argument("--force", action="store_true", help="replace an existing file")
    verb.add_argument("--json", action="store_true", help="print the proposal as JSON")


def as_json(text: str) -> Any:
    try:
        return json.loads(text)
    except ValueError:
        raise argparse.ArgumentTypeError(f'{text} is not JSON; write it as \'{{"train": "1-6"}}\'') from None


def setting(text: str) -> tuple[str, Any]:
    """Parses `name=value`; the value is JSON or else text."""
    name, equals, value = text.partition("=")
    if not equals:
        raise argparse.ArgumentTypeError(f"{text}: write name=value")
    try:
        return name, json.loads(value)
    except ValueError:
        return name, value


def main(arguments: list[str] | None = None) -> None:
    values = vars(parser().parse_args(arguments))
    verb = values.pop("verb")
    if verb == "models":
        return command.run(values)
    if verb == "serve":
        return serving.run(values)
    _take_declaration(values)
    if verb == "predict":
        return _predict(values)
    if verb == "resolve":
        return _resolve(values)
    if verb == "table":
        from vgp.data.tasks.table import task_toml

        as_json = values.pop("json")
        result = task_toml.write_proposal(**values)
        return print(json.dumps(result)) if as_json else task_toml.print_proposal(result)
    if verb == "settings":
        return print(settings_table.format_settings(), end="")
    settings = dict(values.pop("settings", []))
    if verb == "prepare":
        values["options"].update(settings)
    else:
        values.update(settings)
    if verb == "decide":
        # Beside decision.json: the working folder may hold another report.html or summary.md.
        for name, file in (("report", file_names.REPORT), ("summary", "summary.md")):
            values[name] = values[name] or str(Path(values["evaluation"]) / file)
    result = getattr(calls, verb)(**values)
    if verb == "decide":
        print(f"report: {values['report']}")
    elif verb == "train":
        print(json.dumps(result, indent=1))


@exits
def _take_declaration(values: JsonObject) -> None:
    """Replaces a task.toml by the task `table`, with the file's text in the options."""
    if is_file(values.get("task", "")):
        options = file_options(values["task"], values.get("options", {}))
        values["task"] = "table"
        if "options" in values:
            values["options"] = options


def _resolve(values: JsonObject) -> None:
    as_json = values.pop("json")
    values["task_options"] = values.pop("options")
    values |= dict(values.pop("settings"))
    result = calls.resolve(**values)
    if as_json:
        pins = {name: getattr(result, name) for name in ("digest", "uri", "data", "champion", "words")}
        print(json.dumps({**pins, "config": result.outputs.config, "terms": result.outputs.terms}))
    else:
        print(f"pins: {result.uri}\ndata: {result.data}")


# ---- `predict`: new data and a model -> predictions; can be repeated after a kill


def _add_predict(verbs: Any, *, task: str, data: str) -> None:
    """Adds the parser of `predict`, with the help texts of `task` and `data`."""
    predict = verbs.add_parser("predict", help="new data, model -> predictions")
    predict.add_argument("data", nargs="?", default="", help=data)
    predict.add_argument("--model", default="champion", help="champion, a version's number, an alias, or a folder")
    predict.add_argument("--out", required=True, dest="destination", help="folder, gs://..., or bq://P.DATASET.TABLE")
    predict.add_argument("--staging", default="", help="gs:// folder from which BigQuery loads the rows of a table")
    predict.add_argument("--task", default="flights", help=task)
    predict.add_argument("--options", type=json.loads, default={}, metavar="JSON", help=argparse.SUPPRESS)
    predict.add_argument("--registry", default="", help=f"root of the registry; default: {LOCAL_REGISTRY}")
    predict.add_argument("--model-name", default="", help="the model's name in the registry; default: by the task")
    predict.add_argument("--window", default="", help="days to predict, such as 2013-08; default: all rows")
    predict.add_argument("--as-of", default="", help="a day or a time; later data is left out")
    predict.add_argument("--run", default="", help="a run name, written to every row; default: none")
    predict.add_argument("--shard-rows", type=int, default=0, help="rows of a shard; default: by their width")
    predict.add_argument("--stop-on-drift", action="store_true", help="predict nothing if columns have drifted")
    predict.add_argument("--nproc", type=int, help="processes; default: one per GPU, or per core")
    predict.add_argument("--json", action="store_true", help="print {folder, rows, version, metrics}")


def _predict(values: JsonObject) -> None:
    """Pins data and model, predicts, and prints the result."""
    as_json, nproc, staging = values.pop("json"), values.pop("nproc"), values.pop("staging")
    _find_registry(values)
    from vgp.steps import prediction as step

    with tempfile.TemporaryDirectory(prefix="pins-") as pins:
        resolved = step.resolve(to=pins, task_options=values.pop("options"), **values)
        options = {name: values[name] for name in ("task", "window", "run", "shard_rows", "stop_on_drift")}
        prediction = step.predict(
            data=resolved.data, model=resolved.model, model_name=resolved.model_name, nproc=nproc, staging=staging,
            destination=resolved.destination, **options,
        )  # fmt: skip
    result = {"folder": prediction.folder.path, **prediction.metadata, "metrics": prediction.metrics}
    line = f"{result['rows']:,} rows in {result['shards']:,} shards: {result['folder']}"
    print(json.dumps(result) if as_json else line)


@exits
def _find_registry(values: JsonObject) -> None:
    """Sets the registry of a model that is not a folder; raises UserError if there is none."""
    if "/" in values["model"] or values["model"].startswith((".", "~")) or values["registry"]:
        return
    values["registry"] = os.environ.get(REGISTRY_VARIABLE, "") or (
        LOCAL_REGISTRY if Path(LOCAL_REGISTRY).is_dir() else ""
    )
    if not values["registry"]:
        raise UserError(
            f"model = {values['model']} needs a registry, and {LOCAL_REGISTRY} does not exist: give --registry ROOT, "
            "or a model's folder (with a /)."
        )


if __name__ == "__main__":
    main()
