"""Groups of rows that follow each other in time: days on which a new model does well come in spells.

Rows of one day are one observation, and the next day's is another one only as far as it is not like the day before.
Where each is `carried` over from the one before by a correlation r, the mean of many has (1 + r) / (1 - r) times the
variance of independent ones (an autoregression of order 1; Zwiers & von Storch 1995,
https://doi.org/10.1175/1520-0442(1995)008<0336:TSCIAI>2.0.CO;2).

Shapes: G groups in their order, S samples at once.
"""

import re

import numpy as np

from vgp.evaluation.predictions import Names

#: More than this says that hardly more than one group was seen, and no spread can be told any more.
MOST = 0.95


def in_order(names: Names) -> np.ndarray | None:
    """A code for each row, int (N,), that rises with time; None where the names of the groups tell no time.

    Numbers do, such as days counted from some day on, and texts of one length that begin with a year and a dash.
    """
    values = list(names.values)
    if not values or None in values:
        return None
    if all(re.fullmatch(r"-?\d{1,18}", value) for value in values):
        ranks = np.argsort(np.argsort([int(value) for value in values], kind="stable"), kind="stable")
    elif all(re.match(r"\d{4}-", value) for value in values) and len(set(map(len, values))) == 1:
        ranks = np.argsort(np.argsort(values, kind="stable"), kind="stable")
    else:
        return None
    return np.asarray(ranks.astype(np.min_scalar_type(len(values)))[names.codes])


def carried(errors: np.ndarray) -> np.ndarray:
    """The correlation of neighbours among errors (..., G) in their order, (...): between -1 and 1, about unbiased.

    What is left when the mean of all is taken off is too low by (1 + 3 r) / G: Kendall 1954,
    https://doi.org/10.1093/biomet/41.3-4.403
    """
    count = errors.shape[-1]
    squares = (errors**2).sum(axis=-1)
    with np.errstate(invalid="ignore", divide="ignore"):
        plain = np.where(squares > 0, (errors[..., 1:] * errors[..., :-1]).sum(axis=-1) / squares, 0.0)
    return np.asarray(np.clip(plain + (1 + 3 * plain) / count, -1.0, 1.0))


def assumed(seen: np.ndarray | float, count: int, caution: float) -> np.ndarray:
    """The correlation that neighbours are taken to have, 0 to `MOST`: so many standard errors above what was seen.

    Args:
        seen: As `carried` gives it.
        count: Groups.
    """
    error = np.sqrt((1 - np.square(seen)) / count)
    return np.asarray(np.clip(seen + caution * error, 0.0, MOST))


def stretch(assumed: np.ndarray | float) -> np.ndarray:
    """By what the standard error of the mean is longer than that of independent groups, 1 or more."""
    return np.asarray(np.sqrt((1 + np.asarray(assumed)) / (1 - np.asarray(assumed))))
