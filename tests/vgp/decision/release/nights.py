"""Challengers of digits, scored once, and the inputs of the step `register` for each night."""

import json
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch
from digits import Digits
from torch import nn

from vgp.data import bundle
from vgp.decision import decision
from vgp.decision.decision import Decision
from vgp.decision.release import release
from vgp.decision.release.outcome import Outcome
from vgp.decision.release.release import Inputs
from vgp.evaluation import evaluate
from vgp.protocol import manifest
from vgp.protocol import pins as store
from vgp.registry import registry as registries
from vgp.registry import reigning
from vgp.registry.documents import Record
from vgp.registry.registry import Registry

TASK = "digits:Digits"


@dataclass(frozen=True)
class Challenger:
    """A trained model and its predictions of the test rows."""

    data: Path
    model: Path
    evaluation: Path


def challenger(data: Path, folder: Path, steps: int) -> Challenger:
    """Returns a challenger that was trained for this number of steps."""
    dataset, work = manifest.load(data), Digits()
    torch.manual_seed(steps)
    module = work.model(dataset)
    rows = next(release_rows(data, dataset))
    for _ in range(steps):  # by hand: what torch.optim imports takes longer than all else here
        loss = nn.functional.cross_entropy(module(rows["pixels"]), rows["label"])
        with torch.no_grad():
            for weight, gradient in zip(
                module.parameters(), torch.autograd.grad(loss, list(module.parameters())), strict=True
            ):
                weight -= 0.5 * gradient
    card = bundle.ModelCard(
        task=TASK, columns=dataset.columns, data=dataset.fingerprint, config={}, steps=steps,
        parameters=sum(p.numel() for p in module.parameters()),
    )  # fmt: skip
    bundle.save(folder / "model", module, card)
    evaluate.evaluate(data, folder / "model", folder / "evaluation", baseline=False)
    return Challenger(data, folder / "model", folder / "evaluation")


def release_rows(data: Path, dataset: manifest.Manifest) -> Any:
    from vgp.data.rows import Shards

    for batch in Shards(data, dataset, "train").batches(1200):
        yield {name: torch.from_numpy(batch[name]) for name in ("pixels", "label")}


@dataclass
class Nights:
    """Nights that share a registry; each has a name, a challenger and a decision."""

    folder: Path
    root: str

    @property
    def registry(self) -> Registry:
        return registries.open(self.root, "digits")

    @property
    def record(self) -> Record:
        return self.registry.read()

    def pinned(self) -> str:
        """Returns the pins of the present champion, as the step resolve writes them; "" without one."""
        record = self.record
        champion = record.champion()
        return store.save(f"{self.folder}/pins", reigning.pin(self.registry, record, champion, 1)) if champion else ""

    def inputs(self, run: str, one: Challenger, *, champion: str | None = None, **fields: Any) -> Inputs:
        """Returns the inputs of the step `register`; `champion` None = the present champion."""
        folder = self.folder / run
        folder.mkdir(exist_ok=True)
        champion = self.pinned() if champion is None else champion
        facts = {"promote": True, "reason": f"Promote: {run}.", "margin": 0.0, "confidence": 0.95, "level": 1e-4,
                 "reference": "champion" if champion else "baseline"}  # fmt: skip
        decision.write(Decision(**{**facts, "rows": 297, "groups": 297, **fields}), folder / "decision")
        (folder / "report").write_text(f"<!doctype html><p>{json.dumps(str(one.model))}")
        return Inputs(
            str(one.data), str(one.model), str(one.evaluation), str(folder / "decision"), str(folder / "report"),
            champion=champion, task=TASK, run=run, pipeline="training",
        )  # fmt: skip

    def night(self, run: str, one: Challenger, *, approve: Any = "auto", again: str = "", **fields: Any) -> Outcome:
        """Runs the step `register`; `again` = the name of a second run that repeats it."""
        inputs = self.inputs(run, one, **fields)
        outcome = release.release(inputs, self.root, "digits", approve)
        return release.release(replace(inputs, run=again), self.root, "digits", approve) if again else outcome
