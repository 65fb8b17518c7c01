"""Names as people write them: the short forms of accelerators, and the nearest right one."""

import difflib
from collections.abc import Iterable

from vgp.documents.budget import suggestion

#: Google's longest machine type has 19 characters; a longer name than this resembles nothing.
MAX_NAME = 100


class Unknown(ValueError):
    """A name that the catalog does not have."""


def accelerator_key(name: str) -> str:
    """What is left of an accelerator's name without maker, brand and unit: NVIDIA_A100_80GB -> A100_80."""
    words = name.upper().replace("-", "_").replace(" ", "_").split("_")
    kept = [word.removesuffix("GB") for word in words if word not in ("NVIDIA", "TESLA", "GPU", "GB", "")]
    return "_".join(kept)


def closest(name: str, choices: Iterable[str], cutoff: float = 0.7) -> str | None:
    return _closest(name, tuple(choices), cutoff) if len(name) <= MAX_NAME else None


@suggestion
def _closest(name: str, choices: tuple[str, ...], cutoff: float) -> str | None:
    found = difflib.get_close_matches(name, choices, n=1, cutoff=cutoff)
    return found[0] if found else None


def clipped(text: str, most: int = 1500) -> str:
    """The text, or its two ends."""
    half = most // 2
    return text if len(text) <= most else f"{text[:half]} ... {text[-half:]}"


def nearest(name: str, choices: Iterable[str]) -> str:
    """`Nearest: X.` when something close exists, else where the choices are listed."""
    found = closest(name, choices)
    return f"Nearest: {found}." if found else "The command `pipelines machines` lists them all."


def listed(values: Iterable[object], last: str = "or") -> str:
    """1, 2 or 4."""
    words = [str(value) for value in values]
    if len(words) < 2:
        return "".join(words)
    return f"{', '.join(words[:-1])} {last} {words[-1]}"
