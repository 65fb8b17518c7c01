from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest
from helpers.run_wing import *  # noqa: F403

from vgp.decision.decide import decide
from vgp.evaluation import predictions, predictions_writer, record
from vgp.evaluation.predictions import Header, Names


def names(values) -> Names:
    distinct, codes = np.unique(np.asarray(values).astype(str), return_inverse=True)
    return Names(codes, tuple(distinct.tolist()))


def table(probability) -> np.ndarray:
    """(N,) of the second class -> (N, 2); tables as they are."""
    probability = np.asarray(probability, np.float64)
    return np.stack([1 - probability, probability], axis=1) if probability.ndim == 1 else probability


@dataclass
class Save:
    """Writes predictions as `evaluate` would, from plain arrays."""

    folder: Path

    def __call__(
        self, label, challenger, *, champion=None, baseline=None, boosting=None, group=None, group_2=None, same=False,
        constant=(), doubts=(), **slices,
    ) -> Path:  # fmt: skip
        scored = {"challenger": challenger, "champion": champion, "baseline": baseline, "boosting": boosting}
        models = {name: table(p) for name, p in scored.items() if p is not None}
        sides = models["challenger"].shape[1]
        header = Header(
            task="m:T", split="test", classes=tuple("abcdefghij"[:sides]), models=tuple(models),
            group="" if group is None else "day", second_group="" if group_2 is None else "user",
            slices=tuple(slices), same=same, constant=constant, doubts=tuple(doubts),
        )  # fmt: skip
        batch = {"row_id": np.arange(len(label)), "label": np.asarray(label), **models}
        batch |= {name: names(values) for name, values in slices.items()}
        batch |= {} if group is None else {"group": names(group)}
        batch |= {} if group_2 is None else {"group_2": names(group_2)}
        predictions_writer.write(self.folder, header, [batch])
        return self.folder


def uncompared(folder) -> str:
    """Why the champion was not compared, which is then kept and costs none of the year's error."""
    header, decision = predictions.read(folder).header, decide(folder, margin=-0.5)
    assert (decision.promote, decision.level, decision.reference) == (False, None, "champion")
    assert (
        decision.reason.startswith("Keep the champion: the champion could not be scored") and not header.champion_gone
    )
    assert "champion" not in header.models and header.champion_problem in " ".join(record.load(folder).notes)
    return header.champion_problem


@pytest.fixture
def save(tmp_path):
    return Save(tmp_path / "evaluation")
