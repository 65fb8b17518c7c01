"""The samples, seeds, ranks and learning rates of the steps of a run. No torch here.

All are pure functions of the step number. Sample `i` of training is position `i % N` of epoch `i // N`; each epoch has
its own permutation of the N rows. The permutation is computed, not stored: a Feistel network over the next even number
of bits, repeated until the result is below N (Black and Rogaway, "Ciphers with Arbitrary Finite Domains", CT-RSA 2002,
section 3). A resume therefore needs no replay, and 10^10 samples take no memory.
"""

import hashlib
import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from numbers import Real

import numpy as np
from numpy.typing import NDArray

from vgp.base.exits import UserError
from vgp.data.task import Task
from vgp.train.train_config import TrainConfig

# Luby and Rackoff need four rounds; small domains want more to look random.
_ROUNDS = 8
#: Values to permute at once, so that they stay in a core's cache.
_CACHED = 8192


def seed_of(*parts: int | str) -> int:
    """Returns a 63-bit hash of the parts, equal on every machine."""
    text = "/".join(str(part) for part in parts)
    return int.from_bytes(hashlib.blake2b(text.encode(), digest_size=8).digest(), "little") >> 1


def permute(index: NDArray[np.int64], size: int, seed: int) -> NDArray[np.int64]:
    """Maps each of `index` (int64 values in [0, size)) by the permutation of [0, size) for `seed`."""
    half = max(1, math.ceil(math.log2(max(size, 2)) / 2))
    keys = np.array([seed_of(seed, turn) for turn in range(_ROUNDS)], dtype=np.uint64)
    result = index.astype(np.uint64)
    for start in range(0, len(result), _CACHED):
        _walk(result[start : start + _CACHED], size, half, keys)
    return result.astype(np.int64)


def _walk(values: NDArray[np.uint64], size: int, half: int, keys: NDArray[np.uint64]) -> None:
    """Permutes in place until every value is below `size`; at most 3 of 4 values are outside at first."""
    values[:] = _permute(values, half, keys)
    outside = np.flatnonzero(values >= size)
    while outside.size:
        values[outside] = _permute(values[outside], half, keys)
        outside = outside[values[outside] >= size]


def _permute(value: NDArray[np.uint64], half: int, keys: NDArray[np.uint64]) -> NDArray[np.uint64]:
    bits, mask = np.uint64(half), np.uint64((1 << half) - 1)
    left, right = value >> bits, value & mask
    for key in keys:
        mixed = _mix(right + key)
        mixed &= mask
        mixed ^= left
        left, right = right, mixed
    return (left << bits) | right


def _mix(value: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """Applies the finaliser of splitmix64 (Steele, Lea and Flood, OOPSLA 2014) in place, modulo 2^64."""
    value ^= value >> np.uint64(30)
    value *= np.uint64(0xBF58476D1CE4E5B9)
    value ^= value >> np.uint64(27)
    value *= np.uint64(0x94D049BB133111EB)
    value ^= value >> np.uint64(31)
    return value


@dataclass(frozen=True)
class Plan:
    """The samples of each microbatch of each step of a run.

    A global batch that reaches past the end of an epoch continues with the next epoch, so that no sample is dropped and
    no batch is short.
    """

    #: Rows in the training split.
    samples: int
    epochs: float
    global_batch_size: int
    microbatches: int
    seed: int

    @property
    def steps(self) -> int:
        return max(1, math.ceil(self.epochs * self.samples / self.global_batch_size - 1e-9))

    def epoch(self, step: int) -> float:
        """Returns the number of passes over the data after `step` steps."""
        return step * self.global_batch_size / self.samples

    def ends_epoch(self, step: int) -> bool:
        """Whether the step numbered `step` (from 0) uses the last sample of an epoch, or is the last step."""
        return step + 1 == self.steps or int(self.epoch(step + 1)) > int(self.epoch(step))

    def epoch_end(self, step: int) -> int:
        """Returns the number of steps at the end of the epoch of step `step`."""
        done = int(self.epoch(step) + 1e-12)
        return max(step + 1, math.ceil((done + 1) * self.samples / self.global_batch_size))

    def span(self, microbatch: int) -> tuple[int, int]:
        """Returns the positions [start, stop) of a microbatch within its global batch."""
        size, parts = self.global_batch_size, self.microbatches
        return microbatch * size // parts, (microbatch + 1) * size // parts

    def share(self, microbatch: int) -> float:
        """Returns the microbatch's share of the global batch, which is the weight of its mean loss."""
        start, stop = self.span(microbatch)
        return (stop - start) / self.global_batch_size

    def rows(self, first_step: int, last_step: int, microbatches: range) -> NDArray[np.int64]:
        """Returns the row numbers (int64) of these microbatches of steps [first_step, last_step), in training order."""
        start, stop = self.span(microbatches.start)[0], self.span(microbatches.stop - 1)[1]
        steps = np.arange(first_step, last_step, dtype=np.int64)[:, None]
        return self._rows((steps * self.global_batch_size + np.arange(start, stop)).reshape(-1))

    def _rows(self, position: NDArray[np.int64]) -> NDArray[np.int64]:
        epoch, within = np.divmod(position, self.samples)
        result = np.empty_like(position)
        for number in np.unique(epoch):
            mask = epoch == number
            result[mask] = permute(within[mask], self.samples, seed_of(self.seed, "epoch", int(number)))
        return result


def assignment(microbatches: int, world_size: int, rank: int) -> range:
    """Returns the consecutive microbatches of every step for `rank`; if uneven, some ranks get one more."""
    return range(-(-microbatches * rank // world_size), -(-microbatches * (rank + 1) // world_size))


def count_microbatches(world_size: int, global_batch_size: int, *, exact: bool) -> int:
    """Returns the default number of microbatches: one for each process (fewer for tiny batches).

    The exact mode uses the smallest multiple of the processes that is at least 4, so that 1, 2 and 4 processes agree.
    """
    count = world_size * math.ceil(4 / world_size) if exact else world_size
    return count if count <= global_batch_size else min(world_size, global_batch_size)


def blocks(first: int, last: int, length: int) -> Iterator[tuple[int, int]]:
    """Splits steps [first, last) into ranges (start, stop) of at most `length`."""
    for start in range(first, last, length):
        yield start, min(start + length, last)


#: Steps at which a task's own schedule is checked before training.
_SAMPLED_STEPS = 100


class Schedule:
    """The learning rate of each step as a share of its peak: the warm-up, then the configured or the task's curve."""

    def __init__(self, config: TrainConfig, steps: int, task: Task):
        self.steps, self.warmup = steps, math.ceil(config.warmup_fraction * steps)
        self.final, self.decay = config.final_lr_fraction, math.ceil(config.decay_fraction * steps)
        self.own = config.schedule == "auto" and type(task).learning_rate is not Task.learning_rate
        self.task = task
        schedules: dict[str, Callable[[int], float]] = {
            "auto": self._cosine, "cosine": self._cosine, "linear": self._linear, "constant": lambda step: 1.0,
            "warmup_stable_decay": self._stable_decay, "inverse_sqrt": self._inverse_sqrt,
        }  # fmt: skip
        self.of_step: Callable[[int], float] = self._task_factor if self.own else schedules[config.schedule]

    def factor(self, step: int) -> float:
        """Returns the share of the peak learning rate for the step numbered `step`, from 0.

        Raises:
            UserError: the task's own schedule returns a negative or infinite value, or no number.
        """
        if step < self.warmup:
            return (step + 1) / (self.warmup + 1) * (self._task_factor(step) if self.own else 1.0)
        return self.of_step(step)

    def check(self) -> None:
        """Raises UserError if the task's own schedule is invalid at some sampled steps."""
        if not self.own:
            return
        if self.final:
            raise UserError(
                f"final_lr_fraction={self.final} has no effect on the own schedule of {type(self.task).__name__}: "
                "remove it, or set schedule=cosine, linear or warmup_stable_decay."
            )
        steps = sorted({step * (self.steps - 1) // _SAMPLED_STEPS for step in range(_SAMPLED_STEPS + 1)})
        first = {step: self.factor(step) for step in steps}
        for step in reversed(steps):
            if self.factor(step) != first[step]:
                raise UserError(
                    f"learning_rate of {type(self.task).__name__} returns {first[step]:g} for step {step}, and "
                    f"then {self.factor(step):g}: it must depend on the step alone, or a resumed run would differ."
                )

    def _task_factor(self, step: int) -> float:
        value = self.task.learning_rate(step, self.steps)
        number = float(value) if isinstance(value, Real) and not isinstance(value, bool) else math.nan
        if not 0 <= number < math.inf:
            raise UserError(
                f"learning_rate of {type(self.task).__name__} returns {value!r} for step {step} of {self.steps}: it "
                "must return a factor of the peak learning rate, a finite number of at least 0."
            )
        return number

    def _passed(self, step: int) -> float:
        """Returns the completed share of the steps after the warm-up, in [0, 1)."""
        return (step - self.warmup) / max(1, self.steps - self.warmup)

    def _cosine(self, step: int) -> float:
        """Loshchilov and Hutter, https://arxiv.org/abs/1608.03983, without restarts."""
        return self.final + (1 - self.final) * (0.5 * (1 + math.cos(math.pi * self._passed(step))))

    def _linear(self, step: int) -> float:
        return self.final + (1 - self.final) * (1 - self._passed(step))

    def _stable_decay(self, step: int) -> float:
        """Warm-up, stable, decay: Hu et al., https://arxiv.org/abs/2404.06395, section 4."""
        left = (self.steps - max(step, self.warmup)) / max(1, min(self.decay, self.steps - self.warmup))
        return self.final + (1 - self.final) * min(1.0, left)

    def _inverse_sqrt(self, step: int) -> float:
        """Vaswani et al., https://arxiv.org/abs/1706.03762, section 5.3: 1 at the end of the warm-up."""
        return math.sqrt((self.warmup + 1) / (step + 1))
