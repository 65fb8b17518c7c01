"""Dataset, model, evaluation and decision -> one self-contained HTML page, and a short Markdown summary.

python -m training decide DATA --model MODEL EVALUATION --report report.html
"""

import platform
import re
from importlib import metadata
from pathlib import Path
from typing import Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup

from training import bundle
from training.bundle import ModelCard
from training.data import manifest as manifests
from training.data.manifest import Manifest
from training.evaluation import record
from training.evaluation.decision import Decision
from training.evaluation.reason import verdict
from training.evaluation.record import Evaluation, SliceMetrics
from training.report import cards, plots, svg
from training.report import data as summaries
from training.storage import files

FOLDER = Path(__file__).parent
#: Slices in the plot; the table below it has them all.
MOST_PLOTTED_SLICES = 45
MOST_SHOWN_SOURCES = 20
PACKAGES = ("vertex-gpu-pipelines", "torch", "numpy", "scipy", "scikit-learn", "pyarrow")


def write(
    path: str | Path,
    *,
    data: str | Path,
    model: str | Path,
    evaluation: str | Path,
    decision: Decision | None = None,
) -> None:
    """Writes the report: one HTML file that loads nothing, the same bytes for the same inputs.

    Args:
        path: The file to write.
        data: Directory of the prepared dataset.
        model: Directory of the new model.
        evaluation: Directory with `metrics.json`.
        decision: None leaves the verdict out.

    Raises:
        UserError: a directory does not hold what it should.
    """
    manifest, card, measured = manifests.load(data), bundle.load_card(model), record.load(evaluation)
    context = {
        **_headline(manifest, measured, decision),
        **_plots(card, measured, decision),
        "sample": card.sample,
        "slice_metric_name": plots.slice_metric_name(measured),
        **_tables(measured, decision),
        **_data(data, manifest, measured),
        "made": _made(manifest, card),
    }
    html = _environment().get_template("template.html").render(context)
    path = Path(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    files.write(path, html)


def markdown(*, evaluation: str | Path, decision: Decision | None = None) -> str:
    """The decision and the key figures as Markdown, for the console's summary."""
    measured = record.load(evaluation)
    models = list(measured.models)
    lines = [f"# {task_name(measured.task)}", ""]
    lines += [decision.reason, ""] if decision else []
    lines += ["| | " + " | ".join(cards.MODEL_NAMES[model] for model in models) + " |"]
    lines += ["|---" + "|---:" * len(models) + "|"]
    for figure in cards.figures(measured):
        values = [cards.written(figure, getattr(measured.models[m].scores, figure.field)) for m in models]
        lines.append(f"| {figure.name} | {' | '.join(values)} |")
    lines += ["", f"{measured.rows:,} rows of the {measured.split} split."]
    lines += [f"- {check.text}" for check in (cards.checks(decision) if decision else [])]
    return "\n".join(lines + [f"- {note}" for note in measured.notes]) + "\n"


def task_name(task: str) -> str:
    """`training.tasks.language_model:LanguageModel` -> `Language model`."""
    words = re.sub(r"(?<=[a-z0-9])(?=[A-Z])|_", " ", task.rpartition(":")[2]).lower()
    return words[:1].upper() + words[1:]


def _environment() -> Environment:
    environment = Environment(
        loader=FileSystemLoader(FOLDER),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.globals["css"] = Markup((FOLDER / "style.css").read_text())
    environment.globals["model_names"] = cards.MODEL_NAMES
    return environment


def _headline(manifest: Manifest, measured: Evaluation, decision: Decision | None) -> dict[str, Any]:
    reason = decision.reason.partition(": ")[2] if decision else ""  # its first words are the heading
    return {
        "title": task_name(measured.task),
        "manifest": manifest,
        "evaluation": measured,
        "decision": decision,
        "verdict": verdict(decision.promote, decision.reference) if decision else "",
        "reason": reason[:1].upper() + reason[1:],
        "checks": cards.checks(decision) if decision else [],
        "cards": cards.cards(measured),
    }


def _plots(card: ModelCard, measured: Evaluation, decision: Decision | None) -> dict[str, Any]:
    worse = {(s.column, s.value) for s in decision.worse_slices} if decision else set()
    plotted = _most_frequent(measured.slices)
    with svg.style():
        return {
            "learning_curve": plots.learning_curve(card.history) if card.history else None,
            "roc": plots.roc(measured) if any(m.roc for m in measured.models.values()) else None,
            "calibration": plots.calibration(measured) if measured.classes else None,
            "slice_plot": plots.slices(measured, plotted, worse) if plotted else None,
            "unplotted": len(measured.slices) - len(plotted),
        }


def _most_frequent(rows: tuple[SliceMetrics, ...]) -> list[SliceMetrics]:
    kept = sorted(rows, key=lambda row: -row.rows)[:MOST_PLOTTED_SLICES]
    return [row for row in rows if row in kept]


def _tables(measured: Evaluation, decision: Decision | None) -> dict[str, Any]:
    by_column: dict[str, list[SliceMetrics]] = {}
    for row in measured.slices:
        by_column.setdefault(row.column, []).append(row)
    return {
        "slices": by_column,
        "slice_checks": {(s.column, s.value): s for s in decision.slices} if decision else {},
    }


def _data(data: str | Path, manifest: Manifest, measured: Evaluation) -> dict[str, Any]:
    return {
        "splits": summaries.splits(data, manifest),
        "columns": summaries.columns(data, manifest, measured.split),
    }


def _made(manifest: Manifest, card: ModelCard) -> dict[str, dict[str, str]]:
    """Everything that it takes to make the same model again, by heading."""
    return {
        "Model": {
            "task": card.task,
            **{f"option {name}": str(value) for name, value in sorted(card.options.items())},
            "parameters": f"{card.parameters:,}",
            "steps": f"{card.steps:,}",
            "trained on data": _short(card.data),
        },
        "Training": {
            name: str(value) for name, value in sorted(card.config.items()) if name not in ("task", "options")
        },
        "Data": {
            **{f"split {name}": text for name, text in manifest.split.items()},
            "fingerprint": _short(manifest.fingerprint),
            **_sources(manifest),
        },
        "Versions": {"python": platform.python_version(), **{name: _version(name) for name in PACKAGES}},
    }


def _sources(manifest: Manifest) -> dict[str, str]:
    """Each file with its checksum; of many, their number and size."""
    sources = manifest.sources
    if len(sources) > MOST_SHOWN_SOURCES:
        return {"files": f"{len(sources):,}, {sum(s.bytes for s in sources):,} bytes; the manifest lists them"}
    return {_file_name(s.path): f"{s.bytes:,} bytes, sha256 {s.sha256[:16]}..." for s in sources}


def _short(fingerprint: str) -> str:
    return f"{fingerprint[:16]}..." if len(fingerprint) > 16 else fingerprint or "unknown"


def _file_name(path: str) -> str:
    """Local files without their folder: the report does not depend on where it was made."""
    return path if "://" in path else Path(path).name


def _version(package: str) -> str:
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return "not installed"
