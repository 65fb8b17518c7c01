import math

import numpy as np
import pytest

from vgp.evaluation import ngrams

START = 3  # tokens 0, 1, 2 and the one that starts a row


def rows(*texts: list[int], width: int = 8) -> tuple[np.ndarray, np.ndarray]:
    table = np.full((len(texts), width), START, np.uint16)
    for row, tokens in zip(table, texts, strict=True):
        row[1 : len(tokens) + 1] = tokens
    return table, np.array([len(tokens) for tokens in texts])


def probability(history: list[int], token: int, texts: list[list[int]]) -> float:
    """Witten-Bell by the formula, one n-gram at a time."""
    whole = [[START, *text] for text in texts]
    result = 1 / 4
    for order in range(1, min(ngrams.ORDER, len(history) + 1) + 1):
        context = history[len(history) - order + 1 :]
        followers = [t[i] for t in whole for i in range(max(1, order - 1), len(t)) if t[i - order + 1 : i] == context]
        if followers:
            kinds = len(set(followers))
            result = (followers.count(token) + kinds * result) / (len(followers) + kinds)
    return result


def test_losses_are_those_of_the_formula_also_for_what_was_never_seen():
    texts = [[0, 1, 0, 1, 2], [1, 1], [0, 0, 0, 2, 1, 0, 1]]
    fitted = ngrams.fit(*rows(*texts), 4)
    for text in (*texts, [2, 2, 2, 0, 1]):
        table, (count,) = rows(text)
        found = fitted.losses(table)[0, :count]
        whole = [START, *text]
        expected = [-math.log(probability(whole[:i], whole[i], texts)) for i in range(1, count + 1)]
        np.testing.assert_allclose(found, expected)


def test_probabilities_of_all_next_tokens_sum_to_one():
    draw = np.random.default_rng(0)
    table = draw.integers(0, 4, (50, 9)).astype(np.uint16)
    fitted = ngrams.fit(table, np.full(50, 8), 4)
    for place in (1, 2, 8):
        total = np.zeros(50)
        for token in range(4):
            changed = table.copy()
            changed[:, place] = token
            total += np.exp(-fitted.losses(changed)[:, place - 1])
        assert total == pytest.approx(np.ones(50))
