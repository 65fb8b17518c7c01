"""Writes the year as tables and a plot, also into the docs."""

from datetime import date
from pathlib import Path
from typing import Any

from benchmarks.replay.policies import FIRST, LAST, Month, Year

DOCS = Path(__file__).parents[2] / "docs"
BEGIN, END = "<!-- replay: written by python -m benchmarks.replay -->", "<!-- end of replay -->"
COLOURS, LINES = ("#b3541e", "#1f6f8b", "#8a8a8a", "#c9a227"), ("--", "-", ":", "-.")


def tables(years: list[Year]) -> str:
    """Returns all tables as Markdown."""
    every_month, on_drift, *_ = years
    return "\n".join([_figures(years), _losses(years), _reasons(on_drift), _decisions(every_month)])


def _table(head: list[str], rows: list[list[str]]) -> str:
    return "".join(f"| {' | '.join(row)} |\n" for row in [head, *rows]).replace("\n", f"\n|{'---|' * len(head)}\n", 1)


def _figures(years: list[Year]) -> str:
    head = ["policy", "trainings", "promoted", "rows trained on", "assumed cost", "mean log loss", "mean AUC"]
    return _table(head, [
        [year.policy, str(year.trainings), str(year.promotions), f"{year.rows:,}", f"${year.cost_usd:.2f}",
         f"{year.mean('loss'):.4f}", f"{year.mean('auc'):.4f}"]
        for year in years
    ])  # fmt: skip


def _losses(years: list[Year]) -> str:
    return _table(["log loss (version)", *(_name(m)[:3] for m in years[0].months)], [
        [year.policy, *(f"{m.loss:.4f} ({m.champion}){' +' if m.trained else ''}" for m in year.months)]
        for year in years
    ])  # fmt: skip


def _reasons(year: Year) -> str:
    """Returns the decision at the end of each month."""
    rows = [[_name(m), m.why, m.released.words if m.released else "-"] for m in year.months]
    return _table(["end of", year.policy, "and then"], rows)


def _decisions(year: Year) -> str:
    """Returns the gate's figures of each month's new model, in nats."""
    rows = []
    for m in year.months:
        if m.released and (found := m.released.decision).difference is not None:
            assert found.interval and found.level is not None
            low, high = found.interval
            seen = "-" if found.detectable is None else f"{found.detectable:.3f}"
            rows.append([_name(m), f"{found.difference:z.4f}", f"{low:z.4f} to {high:z.4f}", seen])
    return _table(["end of", "the new model's log loss is lower by", "95% interval", "seen with 80% probability"], rows)


def _name(month: Month) -> str:
    return f"{date(2013, month.month, 1):%B}"


def draw(years: list[Year], path: Path) -> None:
    """Draws the champions' loss on each month, with a mark for each training, filled if it promoted."""
    import matplotlib
    from matplotlib.figure import Figure

    style: Any = {"svg.fonttype": "none", "svg.hashsalt": "replay", "font.size": 10, "axes.spines.top": False,
                  "axes.spines.right": False}  # fmt: skip
    with matplotlib.rc_context(style):
        figure = Figure(figsize=(8, 3.6), layout="constrained")
        axes = figure.subplots()
        for year, colour, line in zip(years, COLOURS, LINES, strict=True):
            label = f"{year.policy}: {year.trainings} trainings, mean {year.mean('loss'):.4f}"
            axes.plot([m.month for m in year.months], [m.loss for m in year.months], line, color=colour, label=label,
                      linewidth=2)  # fmt: skip
            for m in year.months:
                if m.trained:
                    axes.plot(m.month, m.loss, "o", color=colour, markerfacecolor=colour if m.replaced else "white")
        axes.set_xticks(range(FIRST + 1, LAST + 1), [_name(m)[:3] for m in years[0].months])
        axes.set_ylabel("log loss of the champion")
        axes.set_title("Flights of 2013: the champion on rows of months to come; dots: trained at the month's end,\n"
                       "filled where the new model became champion", fontsize=10, loc="left")  # fmt: skip
        axes.legend(frameon=False)
        axes.grid(axis="y", color="#dddddd", linewidth=0.6)
        figure.savefig(path, metadata={"Date": None, "Creator": None}, facecolor="white")


def write(years: list[Year]) -> None:
    """Writes the plot, and the tables between their marks in docs/internals/replay.md."""
    draw(years, DOCS / "replay.svg")
    page = DOCS / "internals/replay.md"
    before, rest = page.read_text(encoding="utf-8").split(BEGIN)
    page.write_text(f"{before}{BEGIN}\n\n{tables(years)}\n{END}{rest.split(END)[1]}", encoding="utf-8")
