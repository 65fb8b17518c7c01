"""The templates of the pages, and the key figures and checks that they show, in words.

Each page has the style of this folder, and begins and ends as `document.html` does.
"""

from dataclasses import dataclass
from pathlib import Path

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup

from vgp.base.text.figures import percent, plus, significant
from vgp.decision.decision import Decision, RivalCheck
from vgp.decision.reason import amount, careful, metric, rival, simple
from vgp.evaluation.record import Evaluation, ModelMetrics
from vgp.evaluation.regression import LOSSES, RegressionFigures

FOLDER = Path(__file__).parent


def environment(*folders: Path) -> Environment:
    """Templates of these folders and of this one; a name that is not given is an error."""
    environment = Environment(
        loader=FileSystemLoader([*folders, FOLDER]),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.globals["css"] = Markup((FOLDER / "style.css").read_text())
    environment.globals["number"] = significant
    environment.globals["plus"] = plus
    environment.globals["model_names"] = MODEL_NAMES
    return environment


def document(title: str, body: str) -> str:
    """A page of markup that is written by hand."""
    return environment().get_template("document.html").render(title=title, body=Markup(body))


# ---- the key figures of the report and the checks behind its decision, in words


MODEL_NAMES = {"challenger": "new model", "champion": "champion", "baseline": "baseline", "boosting": "boosting"}


@dataclass(frozen=True)
class Figure:
    """A figure of merit: its field of `metrics.Scores`, its name, and how it is written; "": in five digits."""

    field: str
    name: str
    format: str
    higher_is_better: bool
    #: For the reader who does not know it.
    meaning: str

    @property
    def direction(self) -> str:
        """Which way is better, in words."""
        return "higher is better" if self.higher_is_better else "lower is better"


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
    if evaluation.regression:
        return _of_regression(evaluation.regression)
    unit = evaluation.unit
    losses = (
        Figure("bits", f"Bits per {unit}", ".4f", False, f"mean surprise for each {unit}"),
        Figure("loss", f"Nats per {unit}", ".4f", False, "the same in natural logarithms"),
    )
    compression = Figure("compression", "Compression", ".2f", True, "times smaller, as the model of a coder")
    return (*losses, compression) if unit == "byte" else losses


def _of_regression(regression: RegressionFigures) -> tuple[Figure, ...]:
    unit = f", in {regression.unit}" if regression.unit else ""
    return (
        Figure("rmse", "RMSE", "", False, f"root mean squared error{unit}"),
        Figure("mae", "MAE", "", False, f"mean absolute error of the predicted {regression.absolute_of}{unit}"),
        Figure("r2", "R²", "z.4f", True, "share of the label's variance that is explained"),
        Figure("mean_pinball", "Pinball loss", "", False, f"mean loss of the predicted quantiles{unit}"),
    )


def value(evaluation: Evaluation, model: str, figure: Figure) -> float | None:
    """The figure of a model."""
    scores = evaluation.regression.models[model] if evaluation.regression else evaluation.models[model]
    found: float | None = getattr(scores.scores, figure.field)
    return found


@dataclass(frozen=True)
class Rival:
    """Another model's figure; `change` is what the new model is beside it: better, worse or equal."""

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
    own = value(evaluation, "challenger", figure)
    rivals = tuple(
        _rival(figure, model, own, value(evaluation, model, figure))
        for model in evaluation.models
        if model != "challenger"
    )
    return Card(figure, written(figure, own), _range(figure, evaluation, ours), rivals)


def written(figure: Figure, value: float | None) -> str:
    if value is None:
        return "undefined"
    return format(value, figure.format) if figure.format else significant(value, 5)


def _range(figure: Figure, evaluation: Evaluation, ours: ModelMetrics) -> str:
    intervals = {"auc": ours.auc_interval, "bits": ours.bits_interval}
    if evaluation.regression:
        of = evaluation.regression.models["challenger"]
        intervals |= {"rmse": of.rmse_interval, "mae": of.mae_interval, "r2": of.r2_interval}
        intervals |= {"mean_pinball": of.pinball_interval}
    interval = intervals.get(figure.field)
    if not interval:
        return ""
    low, high = (significant(end) if evaluation.regression else format(end, ".3f") for end in interval)
    return f"95% interval {low} to {high}"


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
    if decision.level is None or decision.difference is None:
        return []
    calibrated = [_calibration_check(decision)] if decision.calibration else []
    return [_gain_check(decision), *calibrated, *_slice_checks(decision), *_simple_checks(decision)]


def _gain_check(decision: Decision) -> Check:
    assert decision.metric and decision.reference and decision.difference is not None
    assert decision.interval and decision.level is not None
    low, high = (_signed(decision, end) for end in decision.interval)
    year = f", of {decision.nights:,} decisions a year" if decision.nights > 1 else ""
    bound = decision.lower_bound
    sure = "nothing is sure" if bound is None else f"above {_signed(decision, bound)}{careful(decision)}"
    text = (
        f"Better: the gain in {metric(decision)} over {rival(decision)} is {_signed(decision, decision.difference)} "
        f"(95% interval {low} to {high}); at the level of this test, {percent(decision.level)}{year}, {sure}. "
        f"Above {decision.margin:zg} is required."
    )
    if decision.detectable is not None:
        seen = _signed(decision, decision.detectable)
        text += f" Of a true gain of {seen} these rows show that with 80% probability."
    return Check(decision.better, text)


def _signed(decision: Decision, value: float) -> str:
    return plus(amount(decision, value, 3))


def _calibration_check(decision: Decision) -> Check:
    assert decision.reference and decision.calibration
    check, rates = decision.calibration, "quantiles" if decision.metric in LOSSES else "rates"
    text = (
        f"Calibrated: beyond chance, the new model's predicted {rates} are off by {check.challenger:.1%}, "
        f"against {check.reference:.1%} of {rival(decision)}."
    )
    return Check(not check.worse, text)


def _slice_checks(decision: Decision) -> list[Check]:
    tested, worse, skipped = decision.tested_slices, decision.worse_slices, decision.untested_slices
    if not decision.slices:
        return []
    loss = metric(decision)
    text = (
        f"Fair: on {len(worse) or 'none'} of {len(tested)} slices the new model is significantly worse than "
        f"{rival(decision)}"
    )
    if worse:
        text += ": " + ", ".join(f"{s.name} (its {loss} {_signed(decision, s.loss_increase)})" for s in worse)
    if skipped:
        text += f"; {len(skipped)} too small to test ({', '.join(s.name for s in skipped[:8])}"
        text += ", ...)" if len(skipped) > 8 else ")"
    return [Check(not worse, text + ".")]


def _simple_checks(decision: Decision) -> list[Check]:
    """The new model beside simple models and constants that are not the one to beat."""
    checks = [_simple_check(decision, one) for one in decision.rivals]
    for one in decision.constants:
        kind = f"{LOSSES[one.metric]} in {one.unit}" if one.metric in LOSSES else "log loss"
        ours, theirs = (amount(decision, value) for value in (one.challenger, one.constant))
        text = f"Not constant: the new model's {kind} is {ours}, that of {one.what} of the train labels {theirs}."
        checks.append(Check(not one.better, text))
    return checks


def _simple_check(decision: Decision, one: RivalCheck) -> Check:
    ends = (amount(decision, abs(end), 3) for end in (one.lower_bound, one.upper_bound))
    beside = "worse by {} to {}" if one.better else "{} better to {} worse" if one.tied else "better by {1} to {0}"
    tie = ", a tie" if one.tied else ""
    text = (
        f"Worth it: beside {simple(decision, one)}, whose {metric(decision)} is {amount(decision, one.value)}, the new "
        f"model is {beside.format(*ends)}{tie}."
    )
    return Check(not one.better, text)
