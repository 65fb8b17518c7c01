"""The report of a run: one self-contained HTML page, and a short Markdown summary.

python -m vgp.steps decide DATA --model MODEL EVALUATION --report report.html
"""

import re
from pathlib import Path

from markupsafe import Markup

from vgp.base.storage import files, pinned
from vgp.data import bundle
from vgp.data.bundle import ModelCard
from vgp.decision.decision import Decision
from vgp.decision.reason import verdict_of
from vgp.decision.report import findings, ladder, making, page, plots, svg
from vgp.evaluation import collected, record
from vgp.evaluation.record import Evaluation, SliceMetrics
from vgp.protocol import manifest
from vgp.protocol import pins as store
from vgp.protocol.manifest import Manifest
from vgp.protocol.pins import ChampionPins

#: Slices in the plot; the table below it has them all.
MOST_PLOTTED_SLICES = 45
#: Name of the class of tasks that a task.toml declares.
ANY_TABLE = "Table"


def write(
    path: str | Path,
    *,
    data: str | Path,
    model: str | Path,
    evaluation: str | Path,
    decision: Decision | None = None,
    champion: str = "",
) -> None:
    """Writes the report: one HTML file that loads nothing, the same bytes for the same inputs.

    Args:
        path: The file to write.
        data: Directory of the prepared dataset.
        model: Directory of the new model.
        evaluation: Directory with `metrics.json`.
        decision: None leaves the verdict out.
        champion: URI of the champion's pins, which list earlier versions; "" = none.

    Raises:
        UserError: a directory does not hold what it should.
    """
    dataset, measured = manifest.load(data), record.load(evaluation)
    card = None if measured.script or collected.is_script(str(model)) else bundle.load_card(model)
    context = {
        **_build_headline(dataset, measured, decision),
        **_draw_plots(card, measured, decision),
        "sample": card.sample if card else "",
        "script": making.script(measured),
        "slice_metric_name": plots.slice_metric_name(measured),
        **_build_tables(measured, decision),
        **_build_data_section(data, dataset, measured),
        **_build_findings(data, dataset, measured),
        **making.context(_read_pins(champion), measured, dataset.window),
        **ladder.context(model),
        "made": making.describe_reproduction(dataset, card),
    }
    html = page.environment().get_template("template.html").render(context)
    path = Path(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    files.write(path, html)


def _read_pins(champion: str) -> ChampionPins | None:
    return store.load(champion, ChampionPins) if pinned.read_digest(champion) else None


def markdown(*, evaluation: str | Path, decision: Decision | None = None) -> str:
    """Returns the decision and the key figures as Markdown, for the console's summary."""
    measured = record.load(evaluation)
    models = list(measured.models)
    lines = [f"# {_cell(title(measured))}", ""]
    lines += [decision.reason, ""] if decision else []
    if not measured.scored:
        warnings = measured.script.launched.warnings if measured.script else ()
        lines += [*(f"- {_cell(warning)}" for warning in warnings), *([""] if warnings else [])]
        return "\n".join(lines + _own_figures(measured)) + "\n"
    lines += ["| | " + " | ".join(page.MODEL_NAMES[model] for model in models) + " |"]
    lines += ["|---" + "|---:" * len(models) + "|"]
    for figure in page.figures(measured):
        values = [page.format_value(figure, page.value(measured, m, figure)) for m in models]
        lines.append(f"| {figure.name}, {figure.direction} | {' | '.join(values)} |")
    lines += ["", f"{measured.rows:,} rows {measured.of_which}."]
    lines += [f"- {check.text}" for check in (page.checks(decision) if decision else [])]
    lines += [f"- {note}" for note in measured.notes]
    own = _own_figures(measured)
    return "\n".join([*lines, *([""] if own else []), *own]) + "\n"


def _own_figures(measured: Evaluation) -> list[str]:
    """Returns the figures that a script reported itself, as a table."""
    if not (measured.script and measured.script.metrics):
        return []
    rows = [f"| {_cell(name)} | {value:.6g} |" for name, value in measured.script.metrics.items()]
    return ["| the script's own figure | |", "|---|---:|", *rows]


def _cell(text: str) -> str:
    """Escapes text from outside for a Markdown table."""
    return re.sub(r"([\\`*_{}\[\]<>#|~])", r"\\\1", text)


def title(measured: Evaluation) -> str:
    """Returns the task's name; for a task.toml, which has no name, its target."""
    name = task_name(measured.task)
    return measured.target if name == ANY_TABLE and measured.target else name


def task_name(task: str) -> str:
    """Returns a task's name in words, such as `Language model` for `training.tasks.language_model:LanguageModel`."""
    words = re.sub(r"(?<=[a-z0-9])(?=[A-Z])|_", " ", task.rpartition(":")[2]).lower()
    return words[:1].upper() + words[1:]


def _build_headline(dataset: Manifest, measured: Evaluation, decision: Decision | None) -> dict[str, object]:
    reason = decision.reason.partition(": ")[2] if decision else ""  # its first words are the heading
    first, dot, rest = reason.partition(". ")
    return {
        "title": title(measured),
        "manifest": dataset,
        "evaluation": measured,
        "decision": decision,
        "verdict": verdict_of(decision) if decision else "",
        "reason": (first[:1].upper() + first[1:] + dot.strip(), rest),
        "checks": page.checks(decision) if decision else [],
        "figures": page.figure_rows(measured),
    }


def _draw_plots(card: ModelCard | None, measured: Evaluation, decision: Decision | None) -> dict[str, object]:
    worse = {(s.column, s.value) for s in decision.worse_slices} if decision else set()
    plotted = _select_most_frequent(measured.slices)
    with svg.style():
        return {
            "learning_curve": plots.learning_curve(card.history) if card and card.history else None,
            "roc": plots.roc(measured) if any(m.roc for m in measured.models.values()) else None,
            **(plots.draw_regression_plots(measured.regression) if measured.regression else {}),
            "precision_recall": _draw_precision_recall(measured),
            "calibration": plots.calibration(measured) if measured.classes and measured.scored else None,
            "slice_plot": plots.slices(measured, plotted, worse) if plotted else None,
            "unplotted": len(measured.slices) - len(plotted),
        }


def _draw_precision_recall(measured: Evaluation) -> Markup | None:
    known = any(model.precision_recall for model in measured.models.values())
    return plots.precision_recall(measured) if known else None


def _select_most_frequent(rows: tuple[SliceMetrics, ...]) -> list[SliceMetrics]:
    kept = sorted(rows, key=lambda row: -row.rows)[:MOST_PLOTTED_SLICES]
    return [row for row in rows if row in kept]


def _build_tables(measured: Evaluation, decision: Decision | None) -> dict[str, object]:
    by_column: dict[str, list[SliceMetrics]] = {}
    for row in measured.slices:
        by_column.setdefault(row.column, []).append(row)
    return {
        "slices": by_column,
        "slice_checks": {(s.column, s.value): s for s in decision.slices} if decision else {},
    }


def _build_data_section(data: str | Path, dataset: Manifest, measured: Evaluation) -> dict[str, object]:
    return {"splits": findings.split_summaries(data, dataset)}


def _build_findings(data: str | Path, dataset: Manifest, measured: Evaluation) -> dict[str, object]:
    columns = findings.column_summaries(data, dataset, measured.split)
    withheld = measured.examples.withheld if measured.examples else ()
    return {
        "columns": [c.withheld() if findings.is_private(c.name, withheld) else c for c in columns],
        "bars": findings.bars(measured),
        "shifts": findings.shifts(measured, columns),
        "steady": findings.steady(measured) if measured.drift else "",
        "rates": findings.rates,
    }
