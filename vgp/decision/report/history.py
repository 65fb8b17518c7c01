"""The champion's report, and a figure of merit over all versions that the registry had when the run began."""

from dataclasses import dataclass
from pathlib import Path
from urllib.parse import quote

from markupsafe import Markup
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from vgp.base.storage import storage
from vgp.decision.report import cards, svg
from vgp.decision.report.plots import WIDTH_IN
from vgp.decision.report.svg import CHALLENGER, CHAMPION, MUTED, render
from vgp.evaluation.record import Evaluation
from vgp.protocol.pins import ChampionPins

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
    """What the page shows of earlier versions: nothing where the champion is no version of a registry.

    Args:
        data: The window of this run's data, in words.
    """
    if champion is None or not champion.number or not measured.scored:
        return {"history": None}
    figure = cards.figures(measured)[0]
    name = next((n for n in (figure.field, f"bits_per_{measured.unit}") if n in measured.scalars), figure.field)
    rows = [
        Row(
            str(v.number),
            v.created[:10],
            v.data,
            cards.written(figure, v.metrics.get(name)),
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
            "rows": [*rows, Row("new model", "", data, cards.written(figure, new))],
            "left_out": len(champion.history) - len(rows),
            "plot": plot,
            "number": champion.number,
            "report": page(champion.report),
        }
    }


def page(report: str) -> str:
    """Where a browser opens a report; "" if there is none."""
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
