"""How a model was made, in words: what it takes to make it again."""

import platform
import shlex
from importlib import metadata
from pathlib import Path
from typing import Any

from vgp.base.storage import storage
from vgp.data.bundle import ModelCard
from vgp.evaluation.record import Evaluation
from vgp.protocol.manifest import Manifest

MOST_SHOWN_SOURCES = 20
PACKAGES = ("vgp", "torch", "numpy", "scipy", "scikit-learn", "pyarrow")


def script(measured: Evaluation) -> dict[str, Any] | None:
    """What is known of a script in place of our training: what ran, how, and what it left."""
    if measured.script is None:
        return None
    script, launched = measured.script, measured.script.launched
    how = {
        "warning": " ".join(launched.warnings),
        "launch": launched.launch,
        "nodes": str(launched.nodes or ""),
        "processes a node": str(launched.processes or ""),
        "time": f"{launched.seconds:,.0f} s" if launched.seconds is not None else "",
        "model": f"{script.files:,} file{'s' * (script.files != 1)}, {script.bytes:,} bytes" if script.files else "",
        "predictions": f"{script.predictions:,} rows" if script.predictions else "none",
        "checkpoints": launched.checkpoints,
    }
    return {
        "command": shlex.join(launched.command),
        "how": {name: text for name, text in how.items() if text},
        "metrics": {name: f"{value:.6g}" for name, value in script.metrics.items()},
    }


def trained(card: ModelCard) -> dict[str, str]:
    return {
        "task": card.task,
        **{f"option {name}": str(value) for name, value in sorted(card.options.items())},
        "parameters": f"{card.parameters:,}",
        "steps": f"{card.steps:,}",
        **({"weights": str(card.shipped)} if card.shipped and str(card.shipped) else {}),
        "trained on data": _short(card.data),
    }


def settings(card: ModelCard) -> dict[str, str]:
    return {name: str(value) for name, value in sorted(card.config.items()) if name not in ("task", "options")}


def made(dataset: Manifest, card: ModelCard | None) -> dict[str, dict[str, str]]:
    """What it takes to make the same model again, by heading."""
    return {
        **({"Model": trained(card), "Training": settings(card)} if card else {}),
        "Data": {
            **{f"split {name}": text for name, text in dataset.split.items()},
            "fingerprint": _short(dataset.fingerprint),
            **_sources(dataset),
        },
        "Versions" if card else "Versions of the evaluation": {
            "python": platform.python_version(),
            **{name: _version(name) for name in PACKAGES},
        },
    }


def _sources(dataset: Manifest) -> dict[str, str]:
    """Each file with its checksum; of many, their number and size."""
    sources = dataset.sources
    if len(sources) > MOST_SHOWN_SOURCES:
        return {"files": f"{len(sources):,}, {sum(s.bytes for s in sources):,} bytes; the manifest lists them"}
    return {
        _file_name(s.path) if dataset.splits else s.path: f"{s.bytes:,} bytes, sha256 {s.sha256[:16]}..."
        for s in sources
    }


def _short(fingerprint: str) -> str:
    return f"{fingerprint[:16]}..." if len(fingerprint) > 16 else fingerprint or "unknown"


def _file_name(path: str) -> str:
    """Local files without their folder: the report does not depend on where it was made."""
    return path if storage.is_remote(path) else Path(path).name


def _version(package: str) -> str:
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return "not installed"
