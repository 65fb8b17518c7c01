"""The card of a model's version: one page for people who use the model or are responsible for it.

It has the intended use, limits, figures, slices, origin, and who promoted the model, after Mitchell et al., Model Cards
for Model Reporting, 2019, https://doi.org/10.1145/3287560.3287596. Every sentence follows from a measurement.
"""

from dataclasses import dataclass
from pathlib import Path

from vgp.base.storage import files
from vgp.base.text.figures import format_significant
from vgp.data import bundle
from vgp.decision.decision import Decision
from vgp.decision.reason import format_calibration, name_reference, verdict_of
from vgp.decision.report import making, page, plots
from vgp.decision.report.report import title
from vgp.evaluation import collected, record
from vgp.evaluation.record import Evaluation, SliceMetrics
from vgp.evaluation.regression import RegressionFigures
from vgp.protocol import manifest
from vgp.protocol.manifest import Manifest

#: Name of the card in a version's folder.
FILE_NAME = "card.html"
#: Maximum number of slices in the table, the largest ones.
MOST_SLICES = 40


@dataclass(frozen=True)
class Origin:
    """The origin of a version; "" = unknown."""

    #: Name of the model in the registry.
    name: str = ""
    pipeline: str = ""
    run: str = ""
    #: URI of the pins.
    pins: str = ""
    commit: str = ""
    image: str = ""
    #: URI of the archive of code that the run imported in place of the image's; "" = none.
    code: str = ""
    #: UTC, such as 2026-11-22T10:00:00Z.
    registered: str = ""
    #: Who promoted it and why, or whose approval it needs.
    who: str = ""
    why: str = ""
    #: The version that it was compared with; None = there was no champion.
    champion: int | None = None
    #: URI of the run's report.
    report: str = ""
    #: Highest cost of the run, in words.
    cost: str = ""


def write(
    path: str | Path,
    *,
    data: str | Path,
    model: str | Path,
    evaluation: str | Path,
    decision: Decision | None = None,
    origin: Origin | None = None,
) -> None:
    """Writes the card: one HTML file that loads nothing, the same bytes for the same inputs.

    Args:
        path: The file to write, `card.html` in the version's folder.
        data: Directory of the prepared dataset.
        model: Directory of the model.
        evaluation: Directory with `metrics.json`.
        decision: None leaves it out.

    Raises:
        UserError: a directory lacks its files.
    """
    dataset, measured = manifest.load(data), record.load(evaluation)
    is_script = measured.script or collected.is_script(str(model))
    card = None if is_script else bundle.load_card(model)
    known = origin or Origin()
    context = {
        "name": known.name or title(measured),
        "what": title(measured),
        "manifest": dataset,
        "evaluation": measured,
        "decision": decision,
        "verdict": verdict_of(decision) if decision else "",
        "checks": page.checks(decision) if decision else [],
        "figures": page.figure_rows(measured),
        "uses": intended_uses(dataset, measured),
        "limits": known_limits(measured, decision),
        **_slices(measured, decision),
        "origin": known,
        "facts": _facts(known),
        "script": making.script(measured),
        "made": making.describe_reproduction(dataset, card),
    }
    Path(path).parent.mkdir(parents=True, exist_ok=True)
    files.write(Path(path), page.environment().get_template("card.html").render(context))


def _slices(measured: Evaluation, decision: Decision | None) -> dict[str, object]:
    """Returns the largest slices by column, and those that are significantly worse than the model to beat."""
    kept = sorted(measured.slices, key=lambda row: -row.rows)[:MOST_SLICES]
    by_column: dict[str, list[SliceMetrics]] = {}
    for row in measured.slices:
        if row in kept:
            by_column.setdefault(row.column, []).append(row)
    return {
        "slices": by_column,
        "left_out": len(measured.slices) - len(kept),
        "slice_metric_name": plots.slice_metric_name(measured),
        "worse": {(check.column, check.value) for check in decision.worse_slices} if decision else set(),
    }


def _facts(origin: Origin) -> dict[str, str]:
    """Returns the known facts of the origin by name."""
    champion = "the baseline" if origin.champion is None else f"version {origin.champion}"
    facts = {
        "registered": origin.registered,
        "pipeline": origin.pipeline,
        "run": origin.run,
        "pins": origin.pins,
        "commit": origin.commit,
        "image": origin.image,
        "code": origin.code,
        "compared with": champion if origin.name else "",
        "cost at most": origin.cost,
        "report": origin.report,
    }
    return {name: text for name, text in facts.items() if text}


# ---- intended use and limits, in sentences that follow from measurements


#: Maximum number of names that a sentence lists.
MOST_NAMES = 12


def intended_uses(dataset: Manifest, measured: Evaluation) -> list[str]:
    """Returns sentences on what the model predicts, from which columns, and at which threshold."""
    columns = [column.name for column in dataset.columns if column.kind in ("number", "category", "vector")]
    columns = [name for name in columns if name != measured.target]
    learned = f"{dataset.rows('train'):,} of {dataset.split['train']}" if "train" in dataset.split else ""
    sentences = [
        _describe_predictions(measured),
        f"It uses {_names(columns)} of a row; a value that the training data lacks counts as missing."
        if columns
        else "",
        f"It is meant for rows like its training data: {learned}." if learned else "",
        _describe_operating_point(measured),
    ]
    return [sentence for sentence in sentences if sentence]


def known_limits(measured: Evaluation, decision: Decision | None) -> list[str]:
    """Returns sentences on uses that the measurements do not support."""
    sentences = [
        "Not for rows unlike its data: nothing was measured for other places, times or kinds of rows.",
        _describe_drift(measured),
        "Not as an explanation: it shows correlations, not the effect of changing a value.",
        _describe_worse_slices(decision),
        _weakest(measured),
        _describe_unknowns(measured, decision),
        _describe_calibration(decision),
        "" if measured.scored else "Nothing was measured, because there were no predictions.",
    ]
    return [sentence for sentence in sentences if sentence]


def _describe_predictions(measured: Evaluation) -> str:
    target = measured.target or "the label"
    if measured.regression:
        return f"It predicts {target}, a number{_describe_unit(measured.regression)}: its mean and quantiles."
    if measured.classes:
        return f"It predicts {target}, as a probability for each of {_names(list(measured.classes))}."
    return f"It predicts how likely a row is, in bits per {measured.unit}." if measured.scored else ""


def _describe_unit(regression: RegressionFigures) -> str:
    return f" in {regression.unit}" if regression.unit else ""


def _describe_operating_point(measured: Evaluation) -> str:
    point = measured.thresholds.operating if measured.thresholds else None
    chosen = measured.thresholds.chosen if measured.thresholds else None
    if point is None or chosen is None:
        return ""
    name = measured.classes[1]
    found = f"{point.recall:.0%} of all {name} are found" if point.recall is not None else f"the rows have no {name}"
    right = f"{point.precision:.0%} of flagged rows are {name}" if point.precision is not None else "no row is flagged"
    return (
        f"A row counts as {name} from a probability of {point.threshold:.3g} on ({chosen.rule}): {right}, and {found}."
    )


def _describe_drift(measured: Evaluation) -> str:
    if not measured.drift:
        return ""
    shifted = [column.column for column in measured.drift.shifted]
    if not shifted:
        return "Check new data for drift: no column shifted from training to test, but later data may differ."
    return f"Check new data for drift: from training to test {_names(shifted)} shifted."


def _describe_worse_slices(decision: Decision | None) -> str:
    if not decision or not decision.worse_slices:
        return ""
    where = [check.name for check in decision.worse_slices]
    return f"Not for {_names(where)} without a check: it is significantly worse there than {name_reference(decision)}."


def _weakest(measured: Evaluation) -> str:
    """Returns a sentence on the slice with the worst figure; "" for a regression."""
    metric = measured.slice_metric
    known: list[tuple[float, SliceMetrics]] = []
    for row in measured.slices:
        value = getattr(row.models["challenger"], metric)
        if value is not None and row.interval:
            known.append((value, row))
    if len(known) < 2 or measured.regression or not measured.classes:
        return ""
    value, row = min(known, key=lambda pair: pair[0])
    all_rows = getattr(measured.models["challenger"].scores, metric)
    low, high = row.interval or (value, value)
    return (
        f"It is weakest at {row.name}: {plots.slice_metric_name(measured)} {value:.3f} (95% interval "
        f"{low:.3f} to {high:.3f}), {format_significant(all_rows, 3)} over all rows."
    )


def _describe_unknowns(measured: Evaluation, decision: Decision | None) -> str:
    columns = list(dict.fromkeys(row.column for row in measured.slices))
    if not columns:
        return (
            "Its quality on parts of the rows is unknown, because the task names no slices." if measured.scored else ""
        )
    few = [check.name for check in decision.untested_slices] if decision else []
    small = f"; {_names(few)} had too few rows, or too few of a class, for a test" if few else ""
    return f"Slices were measured by {_names(columns)} only{small}."


def _describe_calibration(decision: Decision | None) -> str:
    if not decision or not decision.calibration or not decision.calibration.worse:
        return ""
    check = decision.calibration
    return f"Not as rates: its calibration error is {format_calibration(check.challenger_error, check.challenger)}."


def _names(names: list[str]) -> str:
    """Returns names as a list in a sentence."""
    if len(names) > MOST_NAMES:
        return f"{', '.join(names[:MOST_NAMES])} and {len(names) - MOST_NAMES:,} more"
    return " and ".join(filter(None, [", ".join(names[:-1]), *names[-1:]]))
