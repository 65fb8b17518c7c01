"""The report's key figures and the checks behind its decision, in words."""

from dataclasses import dataclass

from training.evaluation.decision import Decision
from training.evaluation.reason import metric, rival
from training.evaluation.record import Evaluation, ModelMetrics

MODEL_NAMES = {"challenger": "new model", "champion": "champion", "baseline": "baseline", "boosting": "boosting"}


@dataclass(frozen=True)
class Figure:
    """A figure of merit: its field of `metrics.Scores`, its name, and how it is written."""

    field: str
    name: str
    format: str
    higher_is_better: bool
    #: For the reader who does not know it.
    meaning: str


FIGURES = (
    Figure("auc", "AUC", ".4f", True, "chance of ranking a random positive above a random negative"),
    Figure("average_precision", "Average precision", ".4f", True, "mean share of right ones among those flagged"),
    Figure("accuracy", "Accuracy", ".2%", True, "share of rows whose likeliest class is right"),
    Figure("loss", "Log loss", ".4f", False, "mean surprise in nats"),
    Figure("calibration_error", "Calibration error", ".2%", False, "how far predicted rates are from what happens"),
)


def figures(evaluation: Evaluation) -> tuple[Figure, ...]:
    """The figures of merit that the task has."""
    if evaluation.classes:
        return FIGURES
    unit = evaluation.unit
    losses = (
        Figure("bits", f"Bits per {unit}", ".4f", False, f"mean surprise for each {unit}"),
        Figure("loss", f"Nats per {unit}", ".4f", False, "the same in natural logarithms"),
    )
    compression = Figure("compression", "Compression", ".2f", True, "times smaller, as the model of a coder")
    return (*losses, compression) if unit == "byte" else losses


@dataclass(frozen=True)
class Rival:
    """Another model's figure; `change` is the new model's advantage over it: better, worse or equal."""

    model: str
    name: str
    value: str
    change: str


@dataclass(frozen=True)
class Card:
    figure: Figure
    value: str
    #: 95% interval, or "".
    range: str
    rivals: tuple[Rival, ...]


def cards(evaluation: Evaluation) -> list[Card]:
    if not evaluation.scored:
        return []
    return [_card(evaluation, figure) for figure in figures(evaluation)]


def _card(evaluation: Evaluation, figure: Figure) -> Card:
    ours = evaluation.models["challenger"]
    value = getattr(ours.scores, figure.field)
    rivals = tuple(
        _rival(figure, model, value, getattr(measured.scores, figure.field))
        for model, measured in evaluation.models.items()
        if model != "challenger"
    )
    return Card(figure, written(figure, value), _range(figure, ours), rivals)


def written(figure: Figure, value: float | None) -> str:
    return "undefined" if value is None else format(value, figure.format)


def _range(figure: Figure, ours: ModelMetrics) -> str:
    interval = {"auc": ours.auc_interval, "bits": ours.bits_interval}.get(figure.field)
    if not interval:
        return ""
    low, high = interval
    return f"95% interval {low:.3f} to {high:.3f}"


def _rival(figure: Figure, model: str, ours: float | None, theirs: float | None) -> Rival:
    change = ""
    if ours is not None and theirs is not None:
        shown_ours, shown_theirs = written(figure, ours), written(figure, theirs)
        better = (ours > theirs) == figure.higher_is_better
        change = "equal" if shown_ours == shown_theirs else "better" if better else "worse"
    return Rival(model, MODEL_NAMES[model], written(figure, theirs), change)


@dataclass(frozen=True)
class Check:
    passed: bool
    text: str


def checks(decision: Decision) -> list[Check]:
    """What the decision rests on; empty if nothing could be compared."""
    if decision.lower_bound is None:
        return []
    calibrated = [_calibration_check(decision)] if decision.calibration else []
    return [_gain_check(decision), *calibrated, *_slice_checks(decision)]


def _gain_check(decision: Decision) -> Check:
    assert decision.metric and decision.reference and decision.difference is not None
    assert decision.lower_bound is not None and decision.upper_bound is not None
    text = (
        f"Better: the gain in {metric(decision)} over {rival(decision)} is "
        f"{decision.difference:+.4f}; at {100 * decision.confidence:g}% confidence it is above "
        f"{decision.lower_bound:+.4f} and below {decision.upper_bound:+.4f}. Above {decision.margin:g} is required."
    )
    return Check(decision.lower_bound > decision.margin, text)


def _calibration_check(decision: Decision) -> Check:
    assert decision.reference and decision.calibration
    check = decision.calibration
    text = (
        f"Calibrated: beyond chance, predicted rates are off by {check.challenger:.1%}, "
        f"against {check.reference:.1%} of {rival(decision)}."
    )
    return Check(not check.worse, text)


def _slice_checks(decision: Decision) -> list[Check]:
    tested, worse, skipped = decision.tested_slices, decision.worse_slices, decision.untested_slices
    if not decision.slices:
        return []
    loss = metric(decision) if decision.metric == "bits" else "log loss"
    text = (
        f"Fair: {len(worse) or 'none'} of {len(tested)} slices {'are' if len(worse) > 1 else 'is'} significantly worse"
    )
    if worse:
        text += ": " + ", ".join(f"{s.column} {s.value} ({loss} {s.loss_increase:+.3f})" for s in worse)
    if skipped:
        text += f"; {len(skipped)} too small to test ({', '.join(f'{s.column} {s.value}' for s in skipped[:8])}"
        text += ", ...)" if len(skipped) > 8 else ")"
    return [Check(not worse, text + ".")]
