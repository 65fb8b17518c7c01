"""Names as people write them: the short forms of accelerators, and the nearest right one."""

import difflib
from collections.abc import Iterable


class Unknown(ValueError):
    """A name that the catalog does not have."""


def accelerator_key(name: str) -> str:
    """What is left of an accelerator's name without maker, brand and unit: NVIDIA_A100_80GB -> A100_80."""
    words = name.upper().replace("-", "_").replace(" ", "_").split("_")
    kept = [word.removesuffix("GB") for word in words if word not in ("NVIDIA", "TESLA", "GPU", "GB", "")]
    return "_".join(kept)


def closest(name: str, choices: Iterable[str], cutoff: float = 0.7) -> str | None:
    found = difflib.get_close_matches(name, list(choices), n=1, cutoff=cutoff)
    return found[0] if found else None


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
