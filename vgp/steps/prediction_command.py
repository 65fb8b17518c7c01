"""`python -m vgp.steps predict`: new data and a model from a shell -> predictions, safe to repeat and to kill."""

import argparse
import json
import os
import tempfile
from pathlib import Path
from typing import Any

from vgp.base.exits import UserError, exits
from vgp.protocol.run_folder import REGISTRY_VARIABLE

#: Where `vgp run` has its registry if nobody says.
LOCAL_REGISTRY = "runs/registry"


def add(verbs: Any, *, task: str, data: str) -> None:
    """The parser of `predict`; `task` and `data` are what is said of these options."""
    predict = verbs.add_parser("predict", help="new data, model -> predictions")
    predict.add_argument("data", nargs="?", default="", help=data)
    predict.add_argument("--model", default="champion", help="champion, a version's number, an alias, or a folder")
    predict.add_argument("--out", required=True, dest="destination", help="folder, gs://..., or bq://P.DATASET.TABLE")
    predict.add_argument("--staging", default="", help="of a table: gs://... that its rows are loaded from")
    predict.add_argument("--task", default="flights", help=task)
    predict.add_argument("--options", type=json.loads, default={}, metavar="JSON", help=argparse.SUPPRESS)
    predict.add_argument("--registry", default="", help=f"root of the registry; default: {LOCAL_REGISTRY}")
    predict.add_argument("--model-name", default="", help="the model's name in the registry; default: by the task")
    predict.add_argument("--window", default="", help="days that are predicted, such as 2013-08; default: all rows")
    predict.add_argument("--as-of", default="", help="a day or a moment; what came later is left out")
    predict.add_argument("--run", default="", help="a name that stands in every row; default: none")
    predict.add_argument("--shard-rows", type=int, default=0, help="rows of a shard; default: by their width")
    predict.add_argument("--stop-on-drift", action="store_true", help="score nothing if columns have shifted much")
    predict.add_argument("--nproc", type=int, help="processes; default: one per GPU, or per core")
    predict.add_argument("--json", action="store_true", help="print {folder, rows, version, metrics}")


def run(values: dict[str, Any]) -> None:
    """Pins data and model, predicts, and prints what came of it."""
    as_json, nproc, staging = values.pop("json"), values.pop("nproc"), values.pop("staging")
    _check(values)
    from vgp.steps import prediction as step

    with tempfile.TemporaryDirectory(prefix="pins-") as pins:
        resolved = step.resolve(to=pins, task_options=values.pop("options"), **values)
        own = {name: values[name] for name in ("task", "window", "run", "shard_rows", "stop_on_drift")}
        made = step.predict(
            data=resolved.data, model=resolved.model, model_name=resolved.model_name, nproc=nproc, staging=staging,
            destination=resolved.destination, **own,
        )  # fmt: skip
    told = {"folder": made.folder.path, **made.metadata, "metrics": made.metrics}
    print(json.dumps(told) if as_json else f"{told['rows']:,} rows in {told['shards']:,} shards: {told['folder']}")


@exits
def _check(values: dict[str, Any]) -> None:
    """Finds the registry, if the model is of one; raises UserError if there is none."""
    if "/" in values["model"] or values["model"].startswith((".", "~")) or values["registry"]:
        return
    values["registry"] = os.environ.get(REGISTRY_VARIABLE, "") or (
        LOCAL_REGISTRY if Path(LOCAL_REGISTRY).is_dir() else ""
    )
    if not values["registry"]:
        raise UserError(
            f"model = {values['model']} is of a registry, and none is here ({LOCAL_REGISTRY}): give --registry ROOT, "
            "or a model's folder (with a /)."
        )
