"""What an MLflow server is told of a model's evaluation: beside its training, in the same run."""

import hashlib
import os
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from vgp.base.exits import UserError
from vgp.train.tracking import server as address
from vgp.train.tracking.server import Refused, Server, Unreached, now_ms

#: Tag that binds a run to the model that it left: a checksum of its card.
MODEL = "training.model"


def model_tag(card: bytes) -> str:
    return hashlib.sha256(card).hexdigest()


def tell(card: str | Path, figures: Mapping[str, float], tags: Mapping[str, str]) -> None:
    """Adds to the newest run that left this model; told again, it says the same. A failure is a warning.

    Args:
        card: Path of the model's card.
    """
    if not os.environ.get(address.URI):
        return
    try:
        chosen = address.address_of(os.environ)
        assert chosen
        server = Server(chosen)
        found = server.find(server.experiment(), MODEL, model_tag(Path(card).read_bytes()), newest=True)
        if found is None:
            return _warn("it has no run that left this model")
        _log(server, found, figures, tags)
    except (UserError, Refused, Unreached, OSError) as error:
        _warn(str(error))
    except Exception as error:  # an answer of another program, say
        _warn(f"{type(error).__name__} ({error})")


def _log(server: Server, run: Mapping[str, Any], figures: Mapping[str, float], tags: Mapping[str, str]) -> None:
    known = {metric["key"]: metric["value"] for metric in run.get("data", {}).get("metrics", [])}
    named = {f"test.{name}": float(value) for name, value in figures.items()}
    metrics = [{"key": name, "value": value, "timestamp": now_ms(), "step": 0}
               for name, value in named.items() if known.get(name) != value]  # fmt: skip
    server.log(str(run["info"]["run_id"]), metrics, tags=tags)


def _warn(text: str) -> None:
    print(f"warning: MLflow is not told of this evaluation: {text}", file=sys.stderr, flush=True)
