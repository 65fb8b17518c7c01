"""Which sample is trained on when, and under which seed: pure functions of the step number.

Sample `i` of training is position `i % N` of epoch `i // N`; each epoch is another permutation of the N rows.
The permutation is computed, not stored: a Feistel network over the next even number of bits, walked until it
lands below N (Black and Rogaway, "Ciphers with Arbitrary Finite Domains", CT-RSA 2002, section 3). Resuming is
arithmetic, and 10^10 samples cost no memory.
"""

import hashlib
import math
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

# Luby and Rackoff need four rounds; small domains want more to look random.
_ROUNDS = 8
#: Values permuted at once: what stays in a core's cache.
_CACHED = 8192


def seed_of(*parts: int | str) -> int:
    """63 bits that depend on every part; the same on every machine."""
    text = "/".join(str(part) for part in parts)
    return int.from_bytes(hashlib.blake2b(text.encode(), digest_size=8).digest(), "little") >> 1


def permute(index: NDArray[np.int64], size: int, seed: int) -> NDArray[np.int64]:
    """Where each of `index` (values in [0, size)) goes under the permutation of [0, size) that `seed` names."""
    half = max(1, math.ceil(math.log2(max(size, 2)) / 2))
    keys = np.array([seed_of(seed, turn) for turn in range(_ROUNDS)], dtype=np.uint64)
    result = index.astype(np.uint64)
    for start in range(0, len(result), _CACHED):
        _walk(result[start : start + _CACHED], size, half, keys)
    return result.astype(np.int64)


def _walk(values: NDArray[np.uint64], size: int, half: int, keys: NDArray[np.uint64]) -> None:
    """Permutes in place, until every value is below `size`: at most 3 of 4 lie outside at first."""
    values[:] = _feistel(values, half, keys)
    outside = np.flatnonzero(values >= size)
    while outside.size:
        values[outside] = _feistel(values[outside], half, keys)
        outside = outside[values[outside] >= size]


def _feistel(value: NDArray[np.uint64], half: int, keys: NDArray[np.uint64]) -> NDArray[np.uint64]:
    bits, mask = np.uint64(half), np.uint64((1 << half) - 1)
    left, right = value >> bits, value & mask
    for key in keys:
        mixed = _mix(right + key)
        mixed &= mask
        mixed ^= left
        left, right = right, mixed
    return (left << bits) | right


def _mix(value: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """The finaliser of splitmix64 (Steele, Lea and Flood, OOPSLA 2014), in place; wraps modulo 2^64."""
    value ^= value >> np.uint64(30)
    value *= np.uint64(0xBF58476D1CE4E5B9)
    value ^= value >> np.uint64(27)
    value *= np.uint64(0x94D049BB133111EB)
    value ^= value >> np.uint64(31)
    return value


@dataclass(frozen=True)
class Plan:
    """The steps of a run: which samples each microbatch of each step holds.

    A global batch that reaches past the end of an epoch takes the rest from the next, so no sample is dropped and
    no batch is short.
    """

    samples: int
    """Rows in the training split."""
    epochs: float
    global_batch_size: int
    microbatches: int
    seed: int

    @property
    def steps(self) -> int:
        return max(1, math.ceil(self.epochs * self.samples / self.global_batch_size - 1e-9))

    def epoch(self, step: int) -> float:
        """Passes over the data completed after `step` steps."""
        return step * self.global_batch_size / self.samples

    def ends_epoch(self, step: int) -> bool:
        """Whether the step numbered `step` (from 0) takes the last sample of an epoch, or is the last step."""
        return step + 1 == self.steps or int(self.epoch(step + 1)) > int(self.epoch(step))

    def epoch_end(self, step: int) -> int:
        """Steps done when the epoch that step `step` belongs to has ended."""
        done = int(self.epoch(step) + 1e-12)
        return max(step + 1, math.ceil((done + 1) * self.samples / self.global_batch_size))

    def span(self, microbatch: int) -> tuple[int, int]:
        """First and past-the-last position of a microbatch within its global batch."""
        size, parts = self.global_batch_size, self.microbatches
        return microbatch * size // parts, (microbatch + 1) * size // parts

    def share(self, microbatch: int) -> float:
        """The microbatch's share of the global batch: the weight of its mean loss."""
        start, stop = self.span(microbatch)
        return (stop - start) / self.global_batch_size

    def rows(self, first_step: int, last_step: int, microbatches: range) -> NDArray[np.int64]:
        """Row numbers of these microbatches of steps first_step..last_step-1, in the order they are trained on."""
        start, stop = self.span(microbatches.start)[0], self.span(microbatches.stop - 1)[1]
        steps = np.arange(first_step, last_step, dtype=np.int64)[:, None]
        return self._rows((steps * self.global_batch_size + np.arange(start, stop)).reshape(-1))

    def _rows(self, position: NDArray[np.int64]) -> NDArray[np.int64]:
        epoch, within = np.divmod(position, self.samples)
        result = np.empty_like(position)
        for number in np.unique(epoch):
            chosen = epoch == number
            result[chosen] = permute(within[chosen], self.samples, seed_of(self.seed, "epoch", int(number)))
        return result


def assignment(microbatches: int, world_size: int, rank: int) -> range:
    """The consecutive microbatches of every step that `rank` computes; the first ranks get one more if uneven."""
    return range(-(-microbatches * rank // world_size), -(-microbatches * (rank + 1) // world_size))


def count_microbatches(world_size: int, global_batch_size: int, *, exact: bool) -> int:
    """Where nobody says: one for each process (fewer for tiny batches).

    The exact mode takes the smallest multiple of the processes that is at least 4, so that 1, 2 and 4 agree.
    """
    chosen = world_size * math.ceil(4 / world_size) if exact else world_size
    return chosen if chosen <= global_batch_size else min(world_size, global_batch_size)


def blocks(first: int, last: int, length: int) -> Iterator[tuple[int, int]]:
    """Cuts steps first..last-1 into runs of at most `length`."""
    for start in range(first, last, length):
        yield start, min(start + length, last)
