"""The folders of the command: data, model, checkpoints and logs."""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import re
from collections.abc import Mapping

from vgp.protocol.launching.request import log

#: Vertex AI's name of an output: <root>/<project number>/<run>/<step>_<task id>/<output>.
OUTPUT = re.compile(r"(gs://.+)/\d+/([^/]+)/([^/]+?)_-?\d{6,}/[^/]+", re.DOTALL)


class Folders:
    """The folders as paths of the file system and as environment variables of the script."""

    def __init__(self, options: argparse.Namespace, environment: Mapping[str, str]):
        data, model, output = map(uri_of, (options.data, options.model, options.checkpoints))
        checkpoints = checkpoint_uri(output, options, environment)
        logs = environment.get("AIP_TENSORBOARD_LOG_DIR") if "CLUSTER_SPEC" in environment else None
        uris = {"data": data, "model": model, "checkpoints": checkpoints, "logs": logs or checkpoints + "-logs"}
        self.output = path_of(output)
        self.paths = {name: path_of(uri) for name, uri in uris.items()}
        self.variables = {
            "AIP_MODEL_DIR": model + "/",
            "AIP_CHECKPOINT_DIR": checkpoints + "/",
            "AIP_TENSORBOARD_LOG_DIR": uris["logs"].rstrip("/") + "/",
            "TRAINING_DATA": self.paths["data"],
            "TRAINING_DATA_URI": data,
        }

    def create(self) -> None:
        """Creates the folders, because many scripts expect them to exist."""
        for folder in (self.paths[name] for name in ("model", "checkpoints", "logs")):
            try:
                os.makedirs(folder, exist_ok=True)
            except OSError as error:
                log(f"the folder {folder} cannot be created ({error.strerror}); the command starts anyway.")

    def write_record(self, facts: dict[str, object]) -> None:
        """Writes script.json for later steps."""
        content = {**facts, "checkpoint_folder": self.variables["AIP_CHECKPOINT_DIR"].rstrip("/")}
        try:
            os.makedirs(self.output, exist_ok=True)
            with open(os.path.join(self.output, "script.json"), "w", encoding="utf-8") as file:
                json.dump(content, file, indent=1)
        except OSError as error:
            log(f"script.json cannot be written to {self.output} ({error.strerror}).")


def uri_of(uri: str) -> str:
    """Returns the canonical URI or uri_of path; "" for a step without data."""
    if not uri:
        return ""
    if uri.startswith("/gcs/"):
        uri = "gs://" + uri[len("/gcs/") :]
    return uri.rstrip("/") if "://" in uri else os.path.abspath(uri)


def path_of(uri: str) -> str:
    return ("/gcs/" + uri[len("gs://") :] if uri.startswith("gs://") else uri).rstrip("/")


def checkpoint_uri(output: str, options: argparse.Namespace, environment: Mapping[str, str]) -> str:
    """Returns the folder of checkpoints that all attempts at a request share.

    The second run of a request has the first one's name with -a2, and so on; runs of one request never overlap. A local
    run uses the folder in TRAINING_CHECKPOINTS.
    """
    place, shared = OUTPUT.fullmatch(output), environment.get("TRAINING_CHECKPOINTS")
    if place:
        root, run, step = place.groups()
        root, run = f"{root}/checkpoints", re.sub(r"-a\d+$", "", run)
    elif shared:
        root, run, step = "", "", os.path.basename(os.path.dirname(output)) or "script"
    else:
        return output + "/script"
    text = json.dumps([run, options.key, options.pins])
    return f"{uri_of(shared) if shared else root}/{step}-{hashlib.sha256(text.encode()).hexdigest()[:12]}"
