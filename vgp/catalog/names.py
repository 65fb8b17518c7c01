"""Names as people write them: the short forms of accelerators, and the nearest right one."""

from collections.abc import Iterable

from vgp.text import nearest as similar
from vgp.text.figures import listed  # noqa: F401
from vgp.text.nearest import MAX_NAME  # noqa: F401
from vgp.text.printable import clipped  # noqa: F401


class Unknown(ValueError):
    """A name that the catalog does not have."""


def accelerator_key(name: str) -> str:
    """What is left of an accelerator's name without maker, brand and unit: NVIDIA_A100_80GB -> A100_80."""
    words = name.upper().replace("-", "_").replace(" ", "_").split("_")
    kept = [word.removesuffix("GB") for word in words if word not in ("NVIDIA", "TESLA", "GPU", "GB", "")]
    return "_".join(kept)


def closest(name: str, choices: Iterable[str], cutoff: float = 0.7) -> str | None:
    return similar.nearest(name, choices, cutoff)


def nearest(name: str, choices: Iterable[str]) -> str:
    """`Nearest: X.` when something close exists, else where the choices are listed."""
    near = closest(name, choices)
    return f"Nearest: {near}." if near else "The command `pipelines machines` lists them all."
