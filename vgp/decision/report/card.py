"""The card of a model's version: one page for whoever is to use it, or to answer for it.

What it is for, what it must not be used for, how good it is and where, what it was made of, and who let it reign.
After Mitchell et al., Model Cards for Model Reporting, 2019, https://doi.org/10.1145/3287560.3287596; every sentence
follows from what was measured.
"""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from vgp.base.storage import files
from vgp.data import bundle
from vgp.decision.decision import Decision
from vgp.decision.reason import verdict_of
from vgp.decision.report import cards, limits, making, page, plots
from vgp.decision.report.report import title
from vgp.evaluation import record
from vgp.evaluation.record import Evaluation, SliceMetrics
from vgp.evaluation.script import collected
from vgp.protocol import manifest

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
        "checks": cards.checks(decision) if decision else [],
        "cards": cards.cards(measured),
        "uses": limits.uses(dataset, measured),
        "limits": limits.limits(measured, decision),
        **_slices(measured, decision),
        "origin": known,
        "facts": _facts(known),
        "script": making.script(measured),
        "made": making.made(dataset, card),
    }
    Path(path).parent.mkdir(parents=True, exist_ok=True)
    files.write(Path(path), page.environment().get_template("card.html").render(context))


def _slices(measured: Evaluation, decision: Decision | None) -> dict[str, Any]:
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
        "compared with": champion if origin.name else "",
        "cost at most": origin.cost,
        "report": origin.report,
    }
    return {name: text for name, text in facts.items() if text}
