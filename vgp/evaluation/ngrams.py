"""The baseline of a language model: trigrams of tokens, counted in seconds.

Interpolated with bigrams, unigrams and the uniform distribution by the method of Witten and Bell 1991
(https://doi.org/10.1109/18.87000), method C: p(w|h) = (count(hw) + kinds(h) p(w|shorter h)) / (count(h) + kinds(h)).
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

ORDER = 3
#: Maximum number of tokens to count, so that sorting takes seconds.
MOST_TOKENS = 20_000_000

Numbers = NDArray[np.int64]


@dataclass(frozen=True)
class Counts:
    """The sorted n-grams of one length, as numbers in base `vocab`, and their contexts."""

    grams: Numbers
    times: Numbers
    contexts: Numbers
    #: Occurrences of each context, and number of distinct tokens after it.
    totals: Numbers
    kinds: Numbers


@dataclass(frozen=True)
class Ngrams:
    """Fitted counts, shortest first."""

    vocab: int
    counts: tuple[Counts, ...]
    rows: int

    def losses(self, tokens_BT: NDArray[np.uint16]) -> NDArray[np.float64]:
        """Returns the loss in nats of every token after the first, given the previous ones; float64 (B, T - 1)."""
        probability = np.full((tokens_BT.shape[0], tokens_BT.shape[1] - 1), 1 / self.vocab)
        for length, counts in enumerate(self.counts, 1):
            numbers = _numbers(tokens_BT, length, self.vocab)
            part = probability[:, max(0, length - 2) :]  # the first tokens of a row have shorter contexts
            part[:] = _interpolate(counts, numbers[:, 1:] if length == 1 else numbers, self.vocab, part)
        return np.asarray(-np.log(probability))


def fit(tokens_BT: NDArray[np.uint16], counts_B: Numbers, vocab: int) -> Ngrams:
    """Counts n-grams in rows that predict `counts_B` tokens each; the vocabulary's last token opens texts."""
    rows, width = tokens_BT.shape
    used = min(rows, max(1, MOST_TOKENS // width))
    chosen = np.linspace(0, rows - 1, used).astype(np.int64)
    tokens_BT, counts_B = tokens_BT[chosen], counts_B[chosen]
    predicted_BT = tokens_BT[:, 1:] != vocab - 1
    predicted_BT &= predicted_BT.cumsum(axis=1) <= counts_B[:, None]
    counts = []
    for length in range(1, ORDER + 1):
        numbers = _numbers(tokens_BT, length, vocab)
        numbers = numbers[:, 1:] if length == 1 else numbers  # a row's first token is not predicted
        counts.append(_counts(numbers[predicted_BT[:, max(0, length - 2) :]], vocab))
    return Ngrams(vocab, tuple(counts), used)


def _numbers(tokens_BT: NDArray[np.uint16], length: int, vocab: int) -> Numbers:
    """Returns each run of `length` tokens as one number, int64 (B, T - length + 1)."""
    width = tokens_BT.shape[1] - length + 1
    numbers = np.zeros((tokens_BT.shape[0], width), np.int64)
    for i in range(length):
        numbers = numbers * vocab + tokens_BT[:, i : i + width]
    return numbers


def _counts(numbers: Numbers, vocab: int) -> Counts:
    grams, times = np.unique(numbers, return_counts=True)
    contexts, start = np.unique(grams // vocab, return_index=True)
    totals = np.add.reduceat(times, start) if len(times) else times
    return Counts(grams, times, contexts, totals, np.diff(start, append=len(grams)))


def _interpolate(counts: Counts, numbers: Numbers, vocab: int, shorter: NDArray[np.float64]) -> NDArray[np.float64]:
    times = _look_up(counts.grams, counts.times, numbers)
    totals = _look_up(counts.contexts, counts.totals, numbers // vocab)
    kinds = _look_up(counts.contexts, counts.kinds, numbers // vocab)
    return np.where(totals > 0, (times + kinds * shorter) / np.maximum(totals + kinds, 1), shorter)


def _look_up(keys: Numbers, values: Numbers, wanted: Numbers) -> Numbers:
    if not len(keys):
        return np.zeros_like(wanted)
    place = np.minimum(np.searchsorted(keys, wanted), len(keys) - 1)
    return np.where(keys[place] == wanted, values[place], 0)
