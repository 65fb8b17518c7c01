"""Whether the rows of one group, such as a user, are in the train split and in another one.

Told of a task that makes its rows itself and names a `group`. A part of the groups is remembered: those of the smallest
hashes, the same ones in every split, so that what they share is what all share, about (Broder 1997, bottom-k sketches).
"""

from collections.abc import Iterator, Mapping
from hashlib import blake2b

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from vgp.data.shares import mixed

#: Groups of each split that are remembered.
MOST = 4096
#: Hashes, rising, each once.
Marks = NDArray[np.uint64]


def marks(column: pa.ChunkedArray) -> Marks:
    """Of a column of whole numbers or categories; of others, which name no group, none."""
    values = column.unique()
    if pa.types.is_dictionary(values.type):
        texts = values.cast(values.type.value_type).to_pylist()
        digests = b"".join(blake2b(text.encode(), digest_size=8).digest() for text in texts)
        return _smallest(np.frombuffer(digests, "<u8"))
    if not pa.types.is_integer(values.type):
        return np.zeros(0, np.uint64)
    return _smallest(mixed(values.cast(pa.int64()).to_numpy().astype(np.uint64)))


def merge(first: Mapping[str, Marks], second: Mapping[str, Marks]) -> dict[str, Marks]:
    """Those of both, by split."""
    parts = {split: [held[split] for held in (first, second) if split in held] for split in {**first, **second}}
    return {split: _smallest(np.concatenate(several)) for split, several in parts.items()}


def notes(group: str, splits: Mapping[str, Marks]) -> Iterator[str]:
    """A sentence for each split that shares groups with the train split."""
    train = splits.get("train", np.zeros(0, np.uint64))
    for split, own in splits.items():
        last = min((held[-1] for held in (train, own) if len(held) == MOST), default=np.uint64(2**64 - 1))
        compared = own[own <= last]
        shared = np.count_nonzero(np.isin(compared, train))
        if split != "train" and shared:
            yield (
                f"Of the values of {group} in the {split} split {shared / len(compared):.1%} are in the train split "
                f"too: the test says how well rows of a {group} that is known are told. If new ones will come, have "
                "all rows of one in the same split."
            )


def _smallest(hashes: NDArray[np.generic]) -> Marks:
    return np.unique(np.asarray(hashes, np.uint64))[:MOST]
