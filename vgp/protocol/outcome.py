"""Outcomes of a task: classes, likelihoods of rows, or a number; and the threshold rules for two classes."""

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar, Protocol

from vgp.base.documents.json_text import JsonObject
from vgp.base.exits import UserError
from vgp.protocol.manifest import Frozen

#: The losses of a regression that a decision may test.
LOSSES = ("pinball", "squared", "absolute")
#: Columns of saved predictions, so that no slice has such a name.
PREDICTED = ("row_id", "label", "weight", "group", "group_2", "challenger", "champion", "baseline", "boosting")
#: The key of a dataset's statistics with the definition of its regression.
STATISTIC = "regression"
_NUMBER = re.compile(r"[+-]?\d+(\.\d+)?")


class Predicts(Protocol):
    """The attributes of a task that define its outcome."""

    classes: ClassVar[tuple[str, ...]]
    quantiles: ClassVar[tuple[float, ...]]
    decided_by: ClassVar[str]
    label: ClassVar[str]
    unit: ClassVar[str]
    slices: ClassVar[tuple[str, ...]]

    @property
    def likelihood(self) -> bool: ...

    @property
    def regression(self) -> bool: ...


def check(task: Predicts) -> None:
    """Raises UserError if the task's declaration of its outcome is invalid."""
    name, quantiles = type(task).__name__, task.quantiles
    if clash := sorted({*task.slices} & {*PREDICTED}):
        raise UserError(
            f"{name}.slices names {clash[0]!r}, but predictions reserve {', '.join(PREDICTED)}: rename the feature."
        )
    if not isinstance(quantiles, Sequence) or isinstance(quantiles, str) or not all(map(_is_share, quantiles)):
        raise UserError(
            f"{name}.quantiles is {quantiles!r}: it must be numbers between 0 and 1, such as (0.1, 0.5, 0.9)."
        )
    if any(low >= high for low, high in zip(quantiles, quantiles[1:], strict=False)):
        raise UserError(f"{name}.quantiles is {quantiles!r}: it must rise, each number once.")
    if not quantiles:
        return
    if task.classes:
        raise UserError(
            f"{name} declares both quantiles, which make it a regression, and the classes {', '.join(task.classes)}: "
            "leave one out."
        )
    if task.likelihood:
        raise UserError(f"{name} declares quantiles and has a method `score`: a regression has `predict`.")
    if task.decided_by not in LOSSES:
        raise UserError(f"{name}.decided_by is {task.decided_by!r}: the decision tests one of {', '.join(LOSSES)}.")


def statistics(task: Predicts) -> JsonObject:
    """Returns the definition of a regression for the manifest; models with other definitions cannot be compared."""
    if not task.regression:
        return {}
    return {STATISTIC: {"quantiles": list(task.quantiles), "target": target(task), "unit": task.unit}}


def target(task: Predicts) -> str:
    """Returns the name of the label."""
    return str(getattr(task, "target", "") or task.label)


def in_words(classes: Sequence[str], label: str) -> tuple[str, ...]:
    """Returns the classes for sentences: `survived = 1` for a class whose name is only a number."""
    return tuple(f"{label} = {name}" if label and _NUMBER.fullmatch(name) else name for name in classes)


def unit(task: Predicts) -> str:
    """Returns the unit of the loss that the decision tests for a regression."""
    return loss_unit(task.unit, target(task), task.decided_by)


def loss_unit(label_unit: str, label: str, decided_by: str) -> str:
    """Returns the unit of a loss: the label's, or `units of LABEL` without one; squared for squared errors."""
    return "squared " * (decided_by == "squared") + (label_unit or f"units of {label}")


def _is_share(value: object) -> bool:
    return isinstance(value, int | float) and 0 < value < 1


class Slice(Frozen):
    """The rows where one column has one value."""

    column: str
    value: str
    rows: int

    @property
    def name(self) -> str:
        """Returns the name for people, such as `plan = basic`."""
        return f"{self.column} = {self.value}"


# ---- the rules for the threshold of two classes: the values of a task's `operating_point`
#
# f1              the largest F1 score
# cost 5          the least cost, where a missed positive costs as much as 5 false alarms
# precision 0.8   the largest recall at which at least 80 % of the flagged rows are positive
# recall 0.9      the highest threshold at which at least 90 % of the positives are flagged
# flagged 0.05    the lowest threshold at which at most 5 % of the rows are flagged
# 0.5             this threshold


#: Rule -> the range of its number: above the first value, and up to the second.
VALUES = {"cost": (0.0, math.inf), "precision": (0.0, 1.0), "recall": (0.0, 1.0), "flagged": (0.0, 1.0)}
CHOICES = "f1; cost, precision, recall or flagged with a number, such as 'cost 5'; or a threshold between 0 and 1"


@dataclass(frozen=True)
class Rule:
    """A threshold rule with its number, if it has one; `fixed` is a literal threshold."""

    name: str
    value: float = 0.0

    @property
    def needs_rows(self) -> bool:
        """Whether the threshold is computed from rows, which must not be the rows of the evaluation."""
        return self.name != "fixed"

    @property
    def words(self) -> str:
        return {
            "f1": "the largest F1 score",
            "cost": f"the least cost, a missed positive costing as much as {self.value:g} false alarms",
            "precision": f"the largest recall with a precision of at least {self.value:.4g}",
            "recall": f"the highest threshold with a recall of at least {self.value:.4g}",
            "flagged": f"at most {self.value:.4g} of the rows flagged",
            "fixed": "given by the task",
        }[self.name]


def parse_operating_point(text: str) -> Rule:
    """Parses the threshold rule of a task.

    Raises:
        UserError: it is not a rule; the message has the choices.
    """
    name, _, number = str(text).strip().partition(" ")
    if name == "f1" and not number:
        return Rule("f1")
    low, high = VALUES.get(name, (0.0, 1.0))
    value = _parse_number(number if name in VALUES else str(text))
    if value is None or not low < value <= high or math.isinf(value):
        raise UserError(f"operating_point = {str(text)!r} is not a threshold rule. Choices: {CHOICES}.")
    return Rule(name if name in VALUES else "fixed", value)


def _parse_number(text: str) -> float | None:
    try:
        return float(text)
    except ValueError:
        return None
