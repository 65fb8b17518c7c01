"""The rule by which a threshold is chosen: what a task says in `operating_point`.

f1              the largest F1 score
cost 5          the least cost, where a missed positive costs as much as 5 false alarms
precision 0.8   the largest recall at which at least 80 % of what is flagged is positive
recall 0.9      the highest threshold at which at least 90 % of the positives are flagged
flagged 0.05    the lowest threshold at which at most 5 % of the rows are flagged
0.5             this threshold
"""

import math
from dataclasses import dataclass

from vgp.base.exits import UserError

#: Rule -> the values that it takes: above the first, and up to the second.
VALUES = {"cost": (0.0, math.inf), "precision": (0.0, 1.0), "recall": (0.0, 1.0), "flagged": (0.0, 1.0)}
CHOICES = "f1; cost, precision, recall or flagged with a number, such as 'cost 5'; or a threshold between 0 and 1"


@dataclass(frozen=True)
class Rule:
    """A rule, and its number if it has one; `fixed` is a threshold that was given as such."""

    name: str
    value: float = 0.0

    @property
    def needs_rows(self) -> bool:
        """Whether the threshold follows from rows, which must be others than those that it is judged on."""
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


def parse(text: str) -> Rule:
    """The rule in a task's words.

    Raises:
        UserError: it is none, with the choices.
    """
    name, _, number = str(text).strip().partition(" ")
    if name == "f1" and not number:
        return Rule("f1")
    low, high = VALUES.get(name, (0.0, 1.0))
    value = _number(number if name in VALUES else str(text))
    if value is None or not low < value <= high or math.isinf(value):
        raise UserError(f"operating_point = {str(text)!r} is no rule for a threshold. It is {CHOICES}.")
    return Rule(name if name in VALUES else "fixed", value)


def _number(text: str) -> float | None:
    try:
        return float(text)
    except ValueError:
        return None
