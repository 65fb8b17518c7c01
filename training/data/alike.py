"""How often rows are alike, counted over any number of shards in bounded memory: each hash once a shard."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from training.data import keys
from training.data.keys import Hashes

#: A kind of rows is common if it has more rows than this, and more than this share of all. Kinds that are not common
#: may go to a split whole: by chance a split of a fifth is then off by at most .4 * sqrt(1 / 400), two
#: percentage points, or in a small table by twice what it would be if all its rows differed.
FEW_ROWS = 4
FEW_SHARE = 1 / 400


@dataclass(frozen=True)
class CountFile:
    """The different hashes of one shard, sorted, uint64 (rows,), and beside them how often each occurs there."""

    path: str
    rows: int

    @classmethod
    def write(cls, path: Path, hashes: Hashes) -> "CountFile":
        kinds, counts = np.unique(hashes, return_counts=True)
        np.save(path.with_suffix(".hashes.npy"), kinds)
        np.save(path.with_suffix(".counts.npy"), counts)
        return cls(str(path), len(kinds))

    def hashes(self) -> Hashes:
        return np.load(Path(self.path).with_suffix(".hashes.npy"), mmap_mode="r")

    def counts(self) -> NDArray[np.int64]:
        return np.load(Path(self.path).with_suffix(".counts.npy"), mmap_mode="r")


@dataclass
class Kinds:
    """The rows of a table by kind: those that are alike."""

    rows: int
    kinds: int = 0
    #: Rows that are like another.
    alike: int = 0
    #: The sum of the squares of the kinds' shares: one over their number, if they are equally frequent.
    concentration: float = 0.0
    #: Hashes of the common kinds, sorted, and their rows.
    common: Hashes = field(default_factory=lambda: np.zeros(0, np.uint64))
    common_rows: int = 0


def count(files: Sequence[CountFile]) -> Kinds:
    total = sum(int(file.counts().sum()) for file in files)
    kinds = Kinds(total)
    for slices in keys.ranges(files):
        pairs = list(zip(files, slices, strict=True))
        hashes, position = np.unique(np.concatenate([f.hashes()[s] for f, s in pairs]), return_inverse=True)
        counts = np.zeros(len(hashes), np.int64)
        np.add.at(counts, position, np.concatenate([file.counts()[span] for file, span in pairs]))
        common = counts > max(FEW_ROWS, FEW_SHARE * total)
        kinds.kinds += len(hashes)
        kinds.alike += int(counts[counts > 1].sum())
        kinds.concentration += float(np.square(counts / total).sum())
        kinds.common = np.concatenate([kinds.common, hashes[common]])
        kinds.common_rows += int(counts[common].sum())
    return kinds
