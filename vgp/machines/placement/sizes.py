"""Several sizes of one step, of which each run takes one: [steps.train.sizes.small], [steps.train.sizes.large].

A size is a rung that stands alone, or has a ladder of its own; what it leaves open is as the step has it.
"""

import re
from typing import Any

from vgp.machines.placement.rung import NEEDS, Rung

_NAME = re.compile(r"[a-z][a-z0-9-]{0,30}")
_MACHINE = ("machine", "accelerator", *NEEDS)


class Size(Rung):
    """What the step asks for in this size."""

    #: Its ladder; empty: that of the step, unless the size names a machine, which is then its only rung.
    capacity: tuple[Rung, ...] = ()

    def of(self, step: dict[str, Any]) -> dict[str, Any]:
        """The keys of the step in this size; always with a ladder, of one rung at least."""
        named = any(getattr(self, name) for name in _MACHINE)
        kept = {name: value for name, value in step.items() if not (named and name == "capacity")}
        values = self.over(kept)
        only = Rung(regions=self.regions) if self.regions else Rung()
        return {**values, "capacity": values.get("capacity") or (only,)}


def named(sizes: dict[str, Any]) -> dict[str, Any]:
    """The sizes, if they are called as a parameter's value can be."""
    for name in sizes:
        if not _NAME.fullmatch(name):
            raise ValueError(f"'{name}' is no name of a size: at most 31 lower-case letters, digits and -.")
    return sizes
