"""Runs the steps of the workflow training in this process, each once for equal pins."""

import shutil
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from datetime import date, timedelta
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np
from sklearn.metrics import roc_auc_score

from benchmarks.replay.policies import CONFIG, NIGHTS, OPTIONS, TASK, Released
from vgp.data.rows import Shards
from vgp.decision import decision
from vgp.evaluation import importance, score
from vgp.protocol import manifest
from vgp.protocol import pins as store
from vgp.protocol.pins import ChampionPins
from vgp.registry import registry as registries
from vgp.steps import calls as steps
from vgp.steps.resolution import Resolution


class Work:
    """A folder with the results of the steps that depend on their pins only."""

    def __init__(self, folder: Path):
        self.folder = folder
        shutil.rmtree(folder / "registries", ignore_errors=True)
        self.clock = ""

    def night(self, policy: str, month: int, rules: dict[str, Any]) -> Resolution:
        """Runs the step resolve of one policy at the end of a month."""
        day = last_day(month)
        self.clock = f"{day}T23:59:59Z"
        place = self.folder / "registries" / slug(policy)
        return steps.resolve(
            self.folder / "pins" / "record", place / f"{month:02}.html", pipeline="training", run=f"2013-{month:02}",
            task=TASK, task_options=OPTIONS, champion="auto", registry=str(place), as_of=day, nights=NIGHTS, **CONFIG,
            **rules,
        )  # fmt: skip

    def once(self, name: str, make: Callable[[Path], Any]) -> Path:
        """Returns the folder of that name; makes it unless it is complete."""
        folder = self.folder / "steps" / name
        done = folder.with_name(f"{folder.name}.done")
        if not done.is_file():
            shutil.rmtree(folder, ignore_errors=True)
            folder.mkdir(parents=True)
            make(folder)
            done.touch()
        return folder

    def dataset(self, pins: str) -> Path:
        return self.once(
            f"{shorten_pins(pins)}/dataset", lambda folder: steps.prepare("", folder, task=TASK, pins=pins)
        )

    def model(self, pins: str, data: Path) -> Path:
        return self.once(f"{shorten_pins(pins)}/model", lambda folder: steps.train(
            data, folder, folder.parent / "checkpoints", task=TASK, pins=pins, nproc=1, **CONFIG))  # fmt: skip

    def release(self, night: Resolution, policy: str, month: int) -> Released:
        """Runs all steps after resolve."""
        pins = night
        data = self.dataset(pins.data)
        model = self.model(pins.data, data)
        against = f"{shorten_pins(pins.data)}/against-{shorten_champion(pins.champion)}"
        evaluation = self.once(f"{against}/evaluation", lambda folder: steps.evaluate(
            data, model, folder, champion=pins.champion, task=TASK))  # fmt: skip
        judged = self.once(f"{against}/decision", lambda folder: steps.decide(
            data, model, evaluation, folder / "report.html", folder / "summary.md", folder / "decision.json",
            champion=pins.champion, nights=NIGHTS))  # fmt: skip
        outcome = steps.register(
            data, model, evaluation, judged / "decision.json", judged / "report.html",
            registry=pins.registry, model_name=pins.model_name, task=TASK, run=f"2013-{month:02}",
            pipeline="training", champion=pins.champion, pins=pins.uri,
        )  # fmt: skip
        rows = int(manifest.load(data).rows("train") * CONFIG["epochs"])
        return Released(outcome.words, rows, decision.read(judged / "decision.json"))

    def champion(self, policy: str) -> tuple[int, str]:
        """Returns number and folder of the champion."""
        registry = registries.open(str(self.folder / "registries" / slug(policy)), TASK)
        champion = registry.champion()
        assert champion, "the first model did not beat the baseline"
        return champion.number, registry.version_folder(champion.key)

    def scores(self, folder: str | Path, data: Path) -> tuple[float, float]:
        """Scores the model in the folder on the test rows: mean loss and AUC."""
        dataset = manifest.load(data)
        model = score.load(folder, dataset)
        losses, labels, chances = [], [], []
        for batch in Shards(data, dataset, "test").batches(model.task.batch_rows):
            predicted = model(batch)
            losses.append(importance.row_losses(model.task, predicted, batch))
            labels.append(batch[model.task.label])
            chances.append(predicted[:, 1])
        auc = roc_auc_score(np.concatenate(labels), np.concatenate(chances))
        return float(np.concatenate(losses).mean()), float(auc)


@contextmanager
def clock(work: Work) -> Iterator[None]:
    """Sets the registry's clock to the end of the replayed month."""
    with ExitStack() as stack:
        for module in ("vgp.registry.changes", "vgp.decision.release.effects"):
            stack.enter_context(patch(f"{module}.now", lambda: work.clock))
        yield


def last_day(month: int) -> str:
    return (date(2013 + month // 12, month % 12 + 1, 1) - timedelta(days=1)).isoformat()


def shorten_pins(uri: str) -> str:
    """Returns a short name of pins."""
    return Path(uri).stem[:16]


def shorten_champion(uri: str) -> str:
    """Returns a short name of the champion with these pins, equal in every registry."""
    return store.load(uri, ChampionPins).key[:16] if uri else "none"


def slug(policy: str) -> str:
    return policy.replace(" ", "-")
