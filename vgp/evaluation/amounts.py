"""Figures as people read them, the same in a sentence, on a page and in a table: what is shown as zero has no sign."""

import math


def number(value: float, digits: int = 4) -> str:
    """A number in any unit with so many digits that tell: 68,050 and 0.001234, and powers of ten only where it must."""
    if not value or not 1e-6 <= abs(value) < 1e9:
        return f"{value:z.{digits}g}"
    return f"{value:,.{max(0, digits - 1 - math.floor(math.log10(abs(value))))}f}"


def plus(shown: str) -> str:
    """A difference that is shown so: with a + where it is above zero."""
    return shown if shown.startswith("-") or not shown.strip("0.%") else f"+{shown}"


def percent(share: float) -> str:
    """A small share: 0.0137%."""
    return f"{100 * share:.3g}%"
