"""What would a year of retraining have brought? The flights of 2013, month by month, under three policies.

    python -m benchmarks.replay                # the table, docs/replay.svg, and the table in docs/retraining.md

At the end of each month, from May on, every policy decides with the steps of the workflow retraining, in this process
(training has one of its own): resolve as of that day, and where it says so prepare, train, evaluate, decide, register,
each policy with a registry of its own. A model learns from three months and is tested on the fourth. Every month is
scored with the champion that reigned when it began: rows that nobody had seen. Steps are functions of their pins, so
what two policies compute alike is computed once, as a cache would; all policies share the first champion.

The registry's clock is that of the month. Nothing of the wall clock is in the figures: the same machine gives the same
ones again. Dollars are those of `GPU_HOURS` of the default machine for each training: an assumption, not a measurement.
"""

import argparse
import shutil
import tempfile
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from datetime import date, timedelta
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np
from sklearn.metrics import roc_auc_score

from training import steps
from training.data import manifest
from training.data.rows import Shards
from training.evaluation import row_losses, score
from training.pins import store
from training.pins.documents import ChampionPins
from training.registry import registry as registries
from training.registry.documents import Record
from training.retraining import step
from training.retraining.step import Retraining

TASK, OPTIONS = "flights", {"train": "3 months", "test": "1 month"}
#: The first month in which a model beats the baseline; that of April does not.
FIRST, LAST = 5, 12
CONFIG: dict[str, Any] = {"epochs": 3.0, "learning_rate": 1e-3, "seed": 0}
#: The decisions of the gate share the error of a year: one a month.
NIGHTS = 12
POLICIES: dict[str, dict[str, Any]] = {
    "every month": {"when": "always"},
    "on drift": {"when": "drift", "retrain_every": ""},
    "never": {"when": "never"},
}
#: What a training is taken to cost: an hour of g2-standard-24, on demand in us-central1 (`pipelines machines`).
USD_PER_HOUR, GPU_HOURS = 2.30, 1.0
DOCS = Path(__file__).parents[1] / "docs"
BEGIN, END = "<!-- replay: written by python -m benchmarks.replay -->", "<!-- end of replay -->"


@dataclass
class Month:
    """One month under one policy."""

    month: int
    #: The version that reigned when it began, and its scores on the month's rows.
    champion: int
    loss: float
    auc: float
    #: What was decided at its end, why, and what came of it.
    trained: bool = False
    cause: str = ""
    why: str = ""
    released: str = ""
    rows: int = 0


@dataclass
class Year:
    policy: str
    months: list[Month] = field(default_factory=list)

    @property
    def trainings(self) -> int:
        return sum(month.trained for month in self.months)

    @property
    def promotions(self) -> int:
        return sum("champion since" in month.released for month in self.months)

    @property
    def rows(self) -> int:
        return sum(month.rows for month in self.months)

    def mean(self, name: str) -> float:
        return float(np.mean([getattr(month, name) for month in self.months]))


class Work:
    """A folder in which the steps that are functions of their pins leave their results, each once."""

    def __init__(self, folder: Path):
        self.folder = folder
        shutil.rmtree(folder / "registries", ignore_errors=True)
        self.clock = ""

    def night(self, policy: str, month: int, rules: dict[str, Any]) -> Retraining:
        """The step resolve of one policy at the end of a month."""
        day = last_day(month)
        self.clock = f"{day}T23:59:59Z"
        place = self.folder / "registries" / slug(policy)
        return step.resolve(
            self.folder / "pins" / "record", place / f"{month:02}.html", pipeline="retraining", run=f"2013-{month:02}",
            task=TASK, task_options=OPTIONS, champion="auto", registry=str(place), as_of=day, nights=NIGHTS, **CONFIG,
            **rules,
        )  # fmt: skip

    def once(self, name: str, last: str, make: Callable[[Path], Any]) -> Path:
        """The folder of that name, made unless its last file is there."""
        folder = self.folder / "steps" / name
        if not (folder / last).is_file():
            shutil.rmtree(folder, ignore_errors=True)
            folder.mkdir(parents=True)
            make(folder)
        return folder

    def dataset(self, pins: str) -> Path:
        return self.once(f"{named(pins)}/dataset", manifest.FILE_NAME,
                         lambda folder: steps.prepare("", folder, task=TASK, pins=pins))  # fmt: skip

    def model(self, pins: str, data: Path) -> Path:
        return self.once(f"{named(pins)}/model", "model.json", lambda folder: steps.train(
            data, folder, folder.parent / "checkpoints", task=TASK, pins=pins, nproc=1, **CONFIG))  # fmt: skip

    def release(self, night: Retraining, policy: str, month: int) -> tuple[str, int]:
        """All steps after resolve; what came of it, and the rows that training went over."""
        pins = night.resolved
        data = self.dataset(pins.data)
        model = self.model(pins.data, data)
        judged = self.once(f"{named(pins.data)}/against-{reigning(pins.champion)}", "done", lambda folder: self.judge(
            folder, data, model, pins.champion))  # fmt: skip
        outcome = steps.register(
            data, model, judged / "evaluation", judged / "decision.json", judged / "report.html",
            registry=pins.registry, model_name=pins.model_name, task=TASK, run=f"2013-{month:02}",
            pipeline="retraining", champion=pins.champion, pins=pins.uri,
        )  # fmt: skip
        return outcome.words, int(manifest.load(data).rows("train") * CONFIG["epochs"])

    def judge(self, folder: Path, data: Path, model: Path, champion: str) -> None:
        steps.evaluate(data, model, folder / "evaluation", champion=champion, task=TASK)
        steps.decide(
            data, model, folder / "evaluation", folder / "report.html", folder / "summary.md",
            folder / "decision.json", champion=champion, nights=NIGHTS,
        )  # fmt: skip
        (folder / "done").touch()

    def record(self, policy: str) -> Record:
        return registries.open(str(self.folder / "registries" / slug(policy)), TASK).read()

    def scores(self, policy: str, data: Path) -> tuple[int, float, float]:
        """The reigning champion on the test rows: its number, mean loss and AUC."""
        registry = registries.open(str(self.folder / "registries" / slug(policy)), TASK)
        champion = registry.champion()
        assert champion, "the first model did not beat the baseline"
        dataset = manifest.load(data)
        model = score.load(registry.version_folder(champion.key), dataset)
        losses, labels, chances = [], [], []
        for batch in Shards(data, dataset, "test").batches(model.task.batch_rows):
            predicted = model(batch)
            losses.append(row_losses.of_batch(model.task, predicted, batch))
            labels.append(batch[model.task.label])
            chances.append(predicted[:, 1])
        auc = roc_auc_score(np.concatenate(labels), np.concatenate(chances))
        return champion.number, float(np.concatenate(losses).mean()), float(auc)


@contextmanager
def clock(work: Work) -> Iterator[None]:
    """The registry tells the time of the month that is replayed."""
    with ExitStack() as stack:
        for module in ("training.registry.changes", "training.release.effects"):
            stack.enter_context(patch(f"{module}.now", lambda: work.clock))
        yield


def replay(work: Work, say: Callable[[str], None]) -> list[Year]:
    """All policies through the year."""
    years = [Year(policy) for policy in POLICIES]
    for year in years:
        first = work.night(year.policy, FIRST, {"when": "always"})
        words, _ = work.release(first, year.policy, FIRST)
    say(f"2013-{FIRST:02}  {'all':12} first model: {words}")
    for month in range(FIRST + 1, LAST + 1):
        for year in years:
            night = work.night(year.policy, month, POLICIES[year.policy])
            lived = Month(month, *work.scores(year.policy, work.dataset(night.resolved.data)))
            lived.trained, lived.cause, lived.why = night.verdict.train, night.verdict.cause, night.verdict.why
            if lived.trained:
                lived.released, lived.rows = work.release(night, year.policy, month)
            year.months.append(lived)
            figures = f"version {lived.champion}  loss {lived.loss:.4f}  AUC {lived.auc:.4f}"
            say(f"2013-{month:02}  {year.policy:12} {figures}  {night.verdict.headline} {lived.released}")
    return years


def table(years: list[Year]) -> str:
    """The figures of the year, and the champions, as Markdown."""
    lines = [
        "| policy | trainings | promoted | rows trained on | assumed cost | mean log loss | mean AUC |",
        "|---|---|---|---|---|---|---|",
    ]
    lines += [
        f"| {year.policy} | {year.trainings} | {year.promotions} | {year.rows:,} | "
        f"${year.trainings * GPU_HOURS * USD_PER_HOUR:.2f} | {year.mean('loss'):.4f} | {year.mean('auc'):.4f} |"
        for year in years
    ]
    months = [month.month for month in years[0].months]
    lines += ["", "| log loss (version) | " + " | ".join(f"{date(2013, m, 1):%b}" for m in months) + " |",
              "|---|" + "---|" * len(months)]  # fmt: skip
    for year in years:
        cells = [f"{m.loss:.4f} ({m.champion}){' +' if m.trained else ''}" for m in year.months]
        lines.append(f"| {year.policy} | {' | '.join(cells)} |")
    return "\n".join(lines) + "\n"


def reasons(year: Year) -> str:
    """What was decided at the end of each month, as Markdown."""
    lines = [f"| end of | {year.policy} | and then |", "|---|---|---|"]
    lines += [f"| {date(2013, m.month, 1):%B} | {m.why} | {m.released or '-'} |" for m in year.months]
    return "\n".join(lines) + "\n"


def draw(years: list[Year], path: Path) -> None:
    """The champions' loss on each month; a mark where a policy trained at the month's end, filled if it promoted."""
    import matplotlib
    from matplotlib.figure import Figure

    style: Any = {"svg.fonttype": "none", "svg.hashsalt": "replay", "font.size": 10, "axes.spines.top": False,
                  "axes.spines.right": False}  # fmt: skip
    with matplotlib.rc_context(style):
        figure = Figure(figsize=(8, 3.6), layout="constrained")
        axes = figure.subplots()
        for year, colour, line in zip(years, ("#b3541e", "#1f6f8b", "#8a8a8a"), ("--", "-", ":"), strict=True):
            x, y = [m.month for m in year.months], [m.loss for m in year.months]
            label = f"{year.policy}: {year.trainings} trainings, mean {year.mean('loss'):.4f}"
            axes.plot(x, y, line, color=colour, label=label, linewidth=2)
            for m in year.months:
                if m.trained:
                    better = "champion since" in m.released
                    axes.plot(m.month, m.loss, "o", color=colour, markerfacecolor=colour if better else "white")
        axes.set_xticks(range(FIRST + 1, LAST + 1), [f"{date(2013, m, 1):%b}" for m in range(FIRST + 1, LAST + 1)])
        axes.set_ylabel("log loss of the champion")
        axes.set_title("Flights of 2013: the champion on rows of months to come; dots: trained at the month's end,\n"
                       "filled where the new model became champion", fontsize=10, loc="left")  # fmt: skip
        axes.legend(frameon=False)
        axes.grid(axis="y", color="#dddddd", linewidth=0.6)
        figure.savefig(path, metadata={"Date": None, "Creator": None}, facecolor="white")


def write(years: list[Year]) -> None:
    """The plot, and the tables between their marks in docs/retraining.md."""
    draw(years, DOCS / "replay.svg")
    page = DOCS / "retraining.md"
    text = page.read_text(encoding="utf-8")
    before, rest = text.split(BEGIN)
    after = rest.split(END)[1]
    drift = next(year for year in years if year.policy == "on drift")
    page.write_text(f"{before}{BEGIN}\n\n{table(years)}\n{reasons(drift)}\n{END}{after}", encoding="utf-8")


def last_day(month: int) -> str:
    return (date(2013 + month // 12, month % 12 + 1, 1) - timedelta(days=1)).isoformat()


def named(uri: str) -> str:
    """A short name of pins."""
    return Path(uri).stem[:16]


def reigning(uri: str) -> str:
    """A short name of the champion with these pins, the same in every registry."""
    return store.load(uri, ChampionPins).key[:16] if uri else "none"


def slug(policy: str) -> str:
    return policy.replace(" ", "-")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--work", type=Path, help="keeps prepared data and models there, and goes on with them")
    parser.add_argument("--no-docs", action="store_true", help="print only")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="replay-") as scratch:
        work = Work((given.work or Path(scratch)).absolute())
        with clock(work):
            years = replay(work, lambda line: print(line, flush=True))
    print(table(years))
    print(reasons(years[1]))
    if not given.no_docs:
        write(years)


if __name__ == "__main__":
    main()
