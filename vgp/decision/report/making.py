"""The provenance of a model in words: everything that reproduces it."""

import platform
import shlex
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path
from urllib.parse import quote

from markupsafe import Markup
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from vgp.base.storage import storage
from vgp.data.bundle import ModelCard
from vgp.decision.report import page, svg
from vgp.decision.report.plots import WIDTH_IN
from vgp.decision.report.svg import CHALLENGER, CHAMPION, MUTED, render
from vgp.evaluation.record import Evaluation
from vgp.protocol.manifest import Manifest
from vgp.protocol.pins import ChampionPins

MOST_SHOWN_SOURCES = 20
PACKAGES = ("vgp", "torch", "numpy", "scipy", "scikit-learn", "pyarrow")


def script(measured: Evaluation) -> dict[str, object] | None:
    """Returns the facts of a script's training: its command, how it ran, and its own metrics."""
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


def describe_training(card: ModelCard) -> dict[str, str]:
    return {
        "task": card.task,
        **{f"option {name}": str(value) for name, value in sorted(card.options.items())},
        "parameters": f"{card.parameters:,}",
        "steps": f"{card.steps:,}",
        **({"weights": str(card.shipped)} if card.shipped and str(card.shipped) else {}),
        "trained on data": _shorten(card.data),
    }


def list_settings(card: ModelCard) -> dict[str, str]:
    return {name: str(value) for name, value in sorted(card.config.items()) if name not in ("task", "options")}


def describe_reproduction(dataset: Manifest, card: ModelCard | None) -> dict[str, dict[str, str]]:
    """Returns everything that reproduces the model, by heading."""
    return {
        **({"Model": describe_training(card), "Training": list_settings(card)} if card else {}),
        "Data": {
            **{f"split {name}": text for name, text in dataset.split.items()},
            "fingerprint": _shorten(dataset.fingerprint),
            **_sources(dataset),
        },
        "Versions" if card else "Versions of the evaluation": {
            "python": platform.python_version(),
            **{name: _find_version(name) for name in PACKAGES},
        },
    }


def _sources(dataset: Manifest) -> dict[str, str]:
    """Returns each file with its checksum, or for many files their number and size."""
    sources = dataset.sources
    if len(sources) > MOST_SHOWN_SOURCES:
        return {"files": f"{len(sources):,}, {sum(s.bytes for s in sources):,} bytes; the manifest lists them"}
    return {
        _file_name(s.path) if dataset.splits else s.path: f"{s.bytes:,} bytes, sha256 {s.sha256[:16]}..."
        for s in sources
    }


def _shorten(fingerprint: str) -> str:
    return f"{fingerprint[:16]}..." if len(fingerprint) > 16 else fingerprint or "unknown"


def _file_name(path: str) -> str:
    """Returns a local file's name without its folder, so that the report does not depend on the machine."""
    return path if storage.is_remote(path) else Path(path).name


def _find_version(package: str) -> str:
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return "not installed"


# ---- the champion's report, and a figure of merit over all versions that the registry had when the run began


#: Versions in the table; the plot has them all.
MOST_ROWS = 30


@dataclass(frozen=True)
class Row:
    """A version, or the new model, as a line of the table."""

    name: str
    day: str
    data: str
    value: str
    champion: bool = False


def context(champion: ChampionPins | None, measured: Evaluation, data: str) -> dict[str, object]:
    """Returns the template values of earlier versions; empty if the champion is not a version of a registry.

    Args:
        data: The window of this run's data, in words.
    """
    if champion is None or not champion.number or not measured.scored:
        return {"history": None}
    figure = page.figures(measured)[0]
    name = next((n for n in (figure.field, f"bits_per_{measured.unit}") if n in measured.scalars), figure.field)
    rows = [
        Row(
            str(v.number),
            v.created[:10],
            v.data,
            page.format_value(figure, v.metrics.get(name)),
            v.number == champion.number,
        )
        for v in champion.history[-MOST_ROWS:]
    ]
    new = measured.scalars.get(name)
    points = [(v.number, v.metrics[name]) for v in champion.history if name in v.metrics]
    with svg.style():
        plot = _plot(points, new, champion.number, figure.name) if points else None
    return {
        "history": {
            "figure": figure.name,
            "rows": [*rows, Row("new model", "", data, page.format_value(figure, new))],
            "left_out": len(champion.history) - len(rows),
            "plot": plot,
            "number": champion.number,
            "report": _browser_page(champion.report),
        }
    }


def _browser_page(report: str) -> str:
    """Returns the URL at which a browser opens a report; "" if there is none."""
    if not report:
        return ""
    if storage.is_remote(report):
        return f"https://storage.cloud.google.com/{quote(report.removeprefix('gs://'))}"
    return Path(report).as_uri()


def _plot(points: list[tuple[int, float]], new: float | None, reigns: int, name: str) -> Markup:
    """The figure of each version on its own test rows, and of the new model as the last point."""
    figure = Figure((WIDTH_IN, 2.4), layout="constrained")
    axes = figure.subplots()
    axes.plot(*zip(*points, strict=True), "o-", color=MUTED, markersize=3, linewidth=1.2)
    axes.plot(*zip(*[p for p in points if p[0] == reigns], strict=True), "D", color=CHAMPION, label="champion")
    last = max(number for number, _ in points) + 1
    if new is not None:
        axes.plot([last], [new], "o", color=CHALLENGER, label="new model")
    axes.set(xlabel="version", ylabel=name)
    axes.xaxis.set_major_locator(MaxNLocator(integer=True))
    axes.legend(loc="best")
    shown = f"{len(points)} version{'s' if len(points) > 1 else ''}, the last at {points[-1][1]:.4g}"
    return render(
        figure, "history", f"{name} by version: {shown}{f', the new model {new:.4g}' if new is not None else ''}."
    )
