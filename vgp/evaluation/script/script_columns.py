"""The columns of `predictions.parquet` that hold the predictions: one of these forms, told by the names alone.

p_NAME ...       one column for each class, named like the task's classes: p_no, p_yes
probabilities    one list for each row, of as many numbers as there are classes, in their order
probability      of the second of two classes
challenger       as `vgp.evaluation.predictions` writes them: the second of two classes, or a list
nats             the loss of each row, for a task that is judged by a likelihood
mean, q_0.1 ...  of a regression: the mean, and a column for each of the task's quantiles
"""

from collections.abc import Sequence
from dataclasses import dataclass

import pyarrow as pa

from vgp.base.text.printable import listed

ROW_ID, LABEL = "row_id", "label"
MOST_CLASSES = 1_000
PREFIX, LIST, SECOND, OURS, NATS = "p_", "probabilities", "probability", "challenger", "nats"
MEAN, QUANTILE = "mean", "q_"


@dataclass(frozen=True)
class Form:
    """Which columns are read, and of what they are."""

    columns: tuple[str, ...]
    #: Names of the classes; () for losses and numbers. None: as many as the lists are long.
    classes: tuple[str, ...] | None

    @property
    def second_only(self) -> bool:
        """Whether one column holds the probability of the second class alone."""
        return self.classes is not None and len(self.classes) == 2 and self.columns in ((SECOND,), (OURS,))


def form(
    schema: pa.Schema,
    classes: tuple[str, ...] | None,
    *,
    likelihood: bool = False,
    quantiles: tuple[float, ...] = (),
) -> Form:
    """The form of a file with this schema.

    Args:
        classes: Of the task; None if the file itself tells them.
        likelihood: Whether the task has losses in place of classes.
        quantiles: Of a regression.

    Raises:
        ValueError: a column is missing, or it is not clear which ones count.
    """
    names = schema.names
    if doubles := sorted({name for name in names if names.count(name) > 1}):
        raise ValueError(f"the column {listed(doubles)} is there twice")
    if quantiles:
        return Form(_numbers(names, quantiles), ())
    if likelihood:
        return Form((_only([name for name in (NATS, OURS) if name in names], names, _expected(classes, True)),), ())
    by_class = _by_class(names, classes)
    choices = ["p_..."] * bool(by_class) + [name for name in (LIST, SECOND, OURS) if name in names]
    chosen = _only(choices, names, _expected(classes, False))
    if chosen == "p_...":
        return Form(by_class, classes or tuple(name.removeprefix(PREFIX) for name in by_class))
    if chosen == SECOND or (chosen == OURS and not _is_list(schema.field(OURS).type)):
        if classes is not None and len(classes) != 2:
            raise ValueError(
                f"{chosen} is one number, and the task has {len(classes)} classes: {_expected(classes, False)}"
            )
        return Form((chosen,), classes or ("0", "1"))
    return Form((chosen,), classes)


def _numbers(names: Sequence[str], quantiles: tuple[float, ...]) -> tuple[str, ...]:
    wanted = (MEAN, *(f"{QUANTILE}{share:g}" for share in quantiles))
    if missing := [name for name in wanted if name not in names]:
        raise ValueError(f"the column {listed(missing)} is missing: a regression has {listed(wanted)}")
    return wanted


def _by_class(names: Sequence[str], classes: tuple[str, ...] | None) -> tuple[str, ...]:
    """The columns named like the classes; with at least one of them, all must be there."""
    there = [name for name in names if name.startswith(PREFIX)]
    if classes is None:
        if len(there) == 1 or len(there) > MOST_CLASSES:
            raise ValueError(
                f"p_NAME is needed for each of 2 to {MOST_CLASSES:,} classes, and it is there for {len(there):,}"
            )
        return tuple(there)
    wanted = tuple(PREFIX + name for name in classes)
    if not set(wanted) & set(there):
        return ()
    if missing := [name for name in wanted if name not in there]:
        raise ValueError(f"the column {listed(missing)} is missing: the task has the classes {listed(classes)}")
    return wanted


def _only(choices: Sequence[str], names: Sequence[str], expected: str) -> str:
    if not choices:
        raise ValueError(f"it has the columns {listed(names) or 'none'}, and needs {expected}")
    if len(choices) > 1:
        raise ValueError(f"it says the same twice, in {listed(choices)}: leave one of them out")
    return choices[0]


def _expected(classes: tuple[str, ...] | None, likelihood: bool) -> str:
    if likelihood:
        return f"{NATS}: the loss of each row, in nats"
    each = listed([PREFIX + name for name in classes]) if classes else "p_NAME for each class"
    second = (
        f", or {SECOND}, that of {classes[1] if classes else 'class 1'}" if not classes or len(classes) == 2 else ""
    )
    return f"{each}; or {LIST}, a list of them for each row{second}"


def _is_list(kind: pa.DataType) -> bool:
    return bool(pa.types.is_list(kind) or pa.types.is_large_list(kind) or pa.types.is_fixed_size_list(kind))


def require_type(schema: pa.Schema, name: str) -> None:
    """Raises ValueError unless the column is of floating point numbers, or of lists of them."""
    kind = schema.field(name).type
    values = kind.value_type if _is_list(kind) else kind
    if not pa.types.is_floating(values) or (_is_list(kind) and name not in (LIST, OURS)):
        wanted = "lists of floating point numbers" if name == LIST else "floating point numbers"
        raise ValueError(f"the column {listed([name])} is of type {kind}, and must be of {wanted}")
    if name == LIST and not _is_list(kind):
        raise ValueError(f"the column {LIST} is of type {kind}, and must be of lists of floating point numbers")


def require_integers(schema: pa.Schema, name: str) -> None:
    """Raises ValueError unless the column is of whole numbers."""
    kind = schema.field(name).type
    if not pa.types.is_integer(kind):
        hint = " (pandas makes it floating point where a value is missing)" if pa.types.is_floating(kind) else ""
        raise ValueError(f"the column {name} is of type {kind}, and must be of integers{hint}")
