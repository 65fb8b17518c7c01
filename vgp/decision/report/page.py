"""Templates of the HTML pages, and the table of figures and the checks that they show."""

from dataclasses import dataclass
from pathlib import Path

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup

from vgp.base.text.figures import format_significant, with_sign
from vgp.decision.decision import Decision, RivalCheck
from vgp.decision.evidence import describe_evidence
from vgp.decision.reason import format_calibration, format_loss, name_metric, name_reference, name_simple_model
from vgp.evaluation.record import Evaluation
from vgp.evaluation.regression import LOSSES, RegressionFigures

FOLDER = Path(__file__).parent


def environment(*folders: Path) -> Environment:
    """Returns the template environment of these folders and this one; an undefined name raises."""
    environment = Environment(
        loader=FileSystemLoader([*folders, FOLDER]),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.globals["css"] = Markup((FOLDER / "style.css").read_text())
    environment.globals["number"] = format_significant
    environment.globals["plus"] = with_sign
    environment.globals["model_names"] = MODEL_NAMES
    return environment


def document(title: str, body: str) -> str:
    """Returns an HTML page with this body and the style of the reports."""
    return environment().get_template("document.html").render(title=title, body=Markup(body))


# ---- figures of merit


MODEL_NAMES = {"challenger": "new model", "champion": "champion", "baseline": "baseline", "boosting": "boosting"}


@dataclass(frozen=True)
class Figure:
    """A figure of merit: its field of `metrics.Scores`, its name, and its format ("" = five significant digits)."""

    field: str
    name: str
    format: str
    higher_is_better: bool
    #: A definition for readers.
    meaning: str

    @property
    def direction(self) -> str:
        """Which direction is better."""
        return "higher is better" if self.higher_is_better else "lower is better"


FIGURES = (
    Figure("auc", "AUC", ".4f", True, "chance of ranking a random positive above a random negative"),
    Figure("average_precision", "Average precision", ".4f", True, "precision averaged over all recalls"),
    Figure("accuracy", "Accuracy", ".2%", True, "share of rows whose likeliest class is the actual one"),
    Figure("loss", "Log loss", ".4f", False, "mean negative log-likelihood, in nats"),
    Figure("calibration_error", "Calibration error", ".2%", False, "mean distance of predicted from observed rates"),
)


def figures(evaluation: Evaluation) -> tuple[Figure, ...]:
    """Returns the task's figures of merit."""
    if evaluation.classes:
        return FIGURES
    if evaluation.regression:
        return _list_regression_figures(evaluation.regression)
    unit = evaluation.unit
    losses = (
        Figure("bits", f"Bits per {unit}", ".4f", False, f"mean negative log2-likelihood of each {unit}"),
        Figure("loss", f"Nats per {unit}", ".4f", False, "the same loss in natural logarithms"),
    )
    compression = Figure("compression", "Compression", ".2f", True, "times smaller, as the model of a coder")
    return (*losses, compression) if unit == "byte" else losses


def _list_regression_figures(regression: RegressionFigures) -> tuple[Figure, ...]:
    unit = f", in {regression.unit}" if regression.unit else ""
    return (
        Figure("rmse", "RMSE", "", False, f"root mean squared error{unit}"),
        Figure("mae", "MAE", "", False, f"mean absolute error of the predicted {regression.absolute_of}{unit}"),
        Figure("r2", "R²", "z.4f", True, "share of the label's variance that is explained"),
        Figure("mean_pinball", "Pinball loss", "", False, f"mean loss of the predicted quantiles{unit}"),
    )


def value(evaluation: Evaluation, model: str, figure: Figure) -> float | None:
    """Returns a model's value of the figure."""
    scores = evaluation.regression.models[model] if evaluation.regression else evaluation.models[model]
    number: float | None = getattr(scores.scores, figure.field)
    return number


@dataclass(frozen=True)
class Cell:
    """One model's value in the table of figures."""

    model: str
    text: str
    #: Whether no other model's value is better.
    best: bool


@dataclass(frozen=True)
class FigureRow:
    """A figure of merit of all models, the new model first."""

    figure: Figure
    #: 95% interval of the new model's value, or "".
    interval: str
    cells: tuple[Cell, ...]


def figure_rows(evaluation: Evaluation) -> list[FigureRow]:
    """Returns the table of figures, one row a figure; empty if nothing was scored."""
    if not evaluation.scored:
        return []
    return [_build_figure_row(evaluation, figure) for figure in figures(evaluation)]


def _build_figure_row(evaluation: Evaluation, figure: Figure) -> FigureRow:
    values = {model: value(evaluation, model, figure) for model in evaluation.models}
    known = [number for number in values.values() if number is not None]
    best = format_value(figure, max(known) if figure.higher_is_better else min(known)) if len(known) > 1 else ""
    texts = {model: format_value(figure, number) for model, number in values.items()}
    cells = tuple(Cell(model, text, best=text == best) for model, text in texts.items())
    return FigureRow(figure, _format_interval(figure, evaluation), cells)


def format_value(figure: Figure, value: float | None) -> str:
    """Formats a value of the figure."""
    if value is None:
        return "undefined"
    return format(value, figure.format) if figure.format else format_significant(value, 5)


def _format_interval(figure: Figure, evaluation: Evaluation) -> str:
    ours = evaluation.models["challenger"]
    intervals = {"auc": ours.auc_interval, "bits": ours.bits_interval}
    if evaluation.regression:
        of = evaluation.regression.models["challenger"]
        intervals |= {"rmse": of.rmse_interval, "mae": of.mae_interval, "r2": of.r2_interval}
        intervals |= {"mean_pinball": of.pinball_interval}
    interval = intervals.get(figure.field)
    if not interval:
        return ""
    low, high = (format_significant(end) if evaluation.regression else format(end, ".3f") for end in interval)
    return f"new model: 95% interval {low} to {high}"


@dataclass(frozen=True)
class Check:
    """One condition of the decision, and whether the new model meets it."""

    passed: bool
    text: str


def checks(decision: Decision) -> list[Check]:
    """Returns the conditions that the decision rests on; empty if nothing could be compared."""
    check = decision.evidence
    evidence = [Check(check.total >= check.needed, describe_evidence(decision))] if check else []
    if decision.difference is None or not (decision.level or evidence):
        return evidence
    calibrated = [_build_calibration_check(decision)] if decision.calibration else []
    return [_gain_check(decision), *evidence, *calibrated, *_slice_checks(decision), *_simple_checks(decision)]


def _gain_check(decision: Decision) -> Check:
    assert decision.difference is not None and decision.interval is not None
    gain, low, high = (_describe_gain(decision, value) for value in (decision.difference, *decision.interval))
    metric = name_metric(decision)
    text = (
        f"{metric[:1].upper()}{metric[1:]}: the new model is {gain} than {name_reference(decision)} "
        f"(95% interval {low} to {high})."
    )
    if decision.level is None:
        return Check(bool(decision.evidence and decision.evidence.ahead), text)
    bound = "no bound" if decision.lower_bound is None else _describe_gain(decision, decision.lower_bound)
    needs = f"it must be above {decision.margin:zg}{', or the evidence enough' if decision.evidence else ''}"
    return Check(decision.better_tonight, f"{text} The test's lower bound is {bound}; {needs}.")


def _describe_gain(decision: Decision, value: float) -> str:
    """Returns the gain as `0.0052 better` or `0.0052 worse`."""
    return f"{format_loss(decision, abs(value), 3)} {'better' if value >= 0 else 'worse'}"


def _format_signed(decision: Decision, value: float) -> str:
    return with_sign(format_loss(decision, value, 3))


def _build_calibration_check(decision: Decision) -> Check:
    check = decision.calibration
    assert check is not None
    text = (
        f"Calibration error: {format_calibration(check.challenger_error, check.challenger)}, against "
        f"{format_calibration(check.reference_error, check.reference)} of {name_reference(decision)}; "
        f"{'' if check.worse else 'not '}significantly worse."
    )
    return Check(not check.worse, text)


def _slice_checks(decision: Decision) -> list[Check]:
    tested, worse, skipped = decision.tested_slices, decision.worse_slices, decision.untested_slices
    if not decision.slices:
        return []
    text = f"Slices: significantly worse than {name_reference(decision)} on {len(worse) or 'none'} of {len(tested)}"
    if worse:
        loss = name_metric(decision)
        text += ": " + ", ".join(f"{s.name} ({loss} {_format_signed(decision, s.loss_increase)})" for s in worse)
    if skipped:
        names = ", ".join(check.name for check in skipped[:8])
        text += f"; {len(skipped)} with too few rows, or too few of a class, to test ({names}"
        text += ", ...)" if len(skipped) > 8 else ")"
    return [Check(not worse, text + ".")]


def _simple_checks(decision: Decision) -> list[Check]:
    """Returns the comparisons with simple models and constants that are not the model to beat."""
    checks = [_build_rival_check(decision, rival) for rival in decision.rivals]
    for constant in decision.constants:
        loss = f"{LOSSES[constant.metric]} in {constant.unit}" if constant.metric in LOSSES else "log loss"
        ours, theirs = (format_loss(decision, value) for value in (constant.challenger, constant.constant))
        text = f"Constant prediction: {loss} {ours}, against {theirs} of {constant.what} of the train labels."
        checks.append(Check(not constant.better, text))
    return checks


def _build_rival_check(decision: Decision, rival: RivalCheck) -> Check:
    ends = (format_loss(decision, abs(end), 3) for end in (rival.lower_bound, rival.upper_bound))
    template = (
        "worse by {} to {}" if rival.better else "{} better to {} worse" if rival.tied else "better by {1} to {0}"
    )
    name = name_simple_model(decision, rival)
    text = (
        f"{name[:1].upper()}{name[1:]}: {name_metric(decision)} {format_loss(decision, rival.value)}; the new model is "
        f"{template.format(*ends)}{' (a tie)' if rival.tied else ''}."
    )
    return Check(not rival.better, text)
