"""The card of a model's version: one page for whoever is to use it, or to answer for it.

What it is for, what it must not be used for, how good it is and where, what it was made of, and who let it reign.
After Mitchell et al., Model Cards for Model Reporting, 2019, https://doi.org/10.1145/3287560.3287596; every sentence
follows from what was measured.
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

#: Its file in a version's folder.
FILE_NAME = "card.html"
#: Slices in the table: the largest.
MOST_SLICES = 40


@dataclass(frozen=True)
class Origin:
    """Where a version came from, as far as it is known; "" = it is not."""

    #: The name of the model in the registry.
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
    #: Who, or what, let it become champion, and why; or for whom it waits.
    who: str = ""
    why: str = ""
    #: The version that it was compared with; None = there was no champion.
    champion: int | None = None
    #: URI of the run's report.
    report: str = ""
    #: What the run cost at most, in words.
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
        UserError: a directory does not hold what it should.
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
        "made": making.made(dataset, card),
    }
    Path(path).parent.mkdir(parents=True, exist_ok=True)
    files.write(Path(path), page.environment().get_template("card.html").render(context))


def _slices(measured: Evaluation, decision: Decision | None) -> dict[str, object]:
    """The largest slices by column, and which of them are significantly worse than the model to beat."""
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
    """Where it came from, by name."""
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


# ---- what a model is for, and what it must not be used for, in sentences that follow from what was measured


#: Names that a sentence lists; of more it says how many.
MOST_NAMES = 12


def intended_uses(dataset: Manifest, measured: Evaluation) -> list[str]:
    """What it predicts, of what, and how it is to be read."""
    columns = [column.name for column in dataset.columns if column.kind in ("number", "category", "vector")]
    columns = [name for name in columns if name != measured.target]
    learned = f"{dataset.rows('train'):,} of {dataset.split['train']}" if "train" in dataset.split else ""
    sentences = [
        _predicts(measured),
        f"It takes {_names(columns)} of a row; a value that it never saw counts as missing." if columns else "",
        f"It is meant for rows like those that it learned from: {learned}." if learned else "",
        _operating(measured),
    ]
    return [sentence for sentence in sentences if sentence]


def known_limits(measured: Evaluation, decision: Decision | None) -> list[str]:
    """What it must not be used for, or not without a look of one's own."""
    sentences = [
        "Not for rows of another kind: outside of the columns, places and times of its data nothing was measured.",
        _drift(measured),
        "Not as an explanation: it says what goes together, not what would happen if a value were changed.",
        _worse(decision),
        _weakest(measured),
        _unknown(measured, decision),
        _calibration(decision),
        "" if measured.scored else "Nothing could be measured: there were no predictions to judge it by.",
    ]
    return [sentence for sentence in sentences if sentence]


def _predicts(measured: Evaluation) -> str:
    target = measured.target or "the label"
    if measured.regression:
        return f"It predicts {target}, a number{_unit(measured.regression)}: its mean and quantiles."
    if measured.classes:
        return f"It predicts {target}, as a probability for each of {_names(list(measured.classes))}."
    return f"It says how likely a row is, in bits per {measured.unit}." if measured.scored else ""


def _unit(regression: RegressionFigures) -> str:
    return f" in {regression.unit}" if regression.unit else ""


def _operating(measured: Evaluation) -> str:
    point = measured.thresholds.operating if measured.thresholds else None
    chosen = measured.thresholds.chosen if measured.thresholds else None
    if point is None or chosen is None:
        return ""
    found = f"{point.recall:.0%} of all are found" if point.recall is not None else "none of them are there to be found"
    right = f"{point.precision:.0%} of those flagged are" if point.precision is not None else "none is flagged"
    return (
        f"A row counts as {measured.classes[1]} from a probability of {point.threshold:.3g} on ({chosen.rule}): "
        f"{right}, and {found}."
    )


def _drift(measured: Evaluation) -> str:
    if not measured.drift:
        return ""
    shifted = [column.column for column in measured.drift.shifted]
    if not shifted:
        return "Not without looking again: no column had moved between training and test, and later ones may have."
    return f"Not without looking again: from training to test {_names(shifted)} moved already."


def _worse(decision: Decision | None) -> str:
    if not decision or not decision.worse_slices:
        return ""
    where = [check.name for check in decision.worse_slices]
    return f"Not without a look at {_names(where)}: there it is significantly worse than {name_reference(decision)}."


def _weakest(measured: Evaluation) -> str:
    """The slice with the worst figure, where a figure tells."""
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


def _unknown(measured: Evaluation, decision: Decision | None) -> str:
    columns = list(dict.fromkeys(row.column for row in measured.slices))
    if not columns:
        return "Of parts of the rows nothing is known: the task names no slices." if measured.scored else ""
    few = [check.name for check in decision.untested_slices] if decision else []
    small = f"; too few rows to test there were of {_names(few)}" if few else ""
    return f"Of groups of rows only those by {_names(columns)} were looked at{small}."


def _calibration(decision: Decision | None) -> str:
    if not decision or not decision.calibration or not decision.calibration.worse:
        return ""
    check = decision.calibration
    return f"Not as rates: its calibration error is {format_calibration(check.challenger_error, check.challenger)}."


def _names(names: list[str]) -> str:
    """Some names as a list in a sentence."""
    if len(names) > MOST_NAMES:
        return f"{', '.join(names[:MOST_NAMES])} and {len(names) - MOST_NAMES:,} more"
    return " and ".join(filter(None, [", ".join(names[:-1]), *names[-1:]]))
