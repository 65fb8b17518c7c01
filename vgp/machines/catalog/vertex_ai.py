"""What a SKU of Vertex AI's custom training sells: a part of a machine, or the fee on one that is paid otherwise.

part("Vertex AI: Training/Pipelines Management fee on G2 Instance Core in Iowa")  # ("G2 Instance Core", "Fee")
"""

import re

from vgp.machines.catalog import skus

SERVICE = "C7E2-9256-1C43"

_TRAINING = re.compile(
    r"\s*(?:Vertex AI: ?Training(?:/Pipelines)? |Training - )(management fee on )?(?:on )?(.+?)(?: running)?"
    r"(?: in \S| (?:USA|Europe|Asia)$)",
    re.I,
)
#: Words that are not in every name of a part.
_LOOSE = {"nvidia", "tesla", "gpu", "predefined", "instance"}


def _words(name: str) -> frozenset[str]:
    return frozenset(re.findall(r"[a-z0-9]+", name.lower())) - _LOOSE


_PARTS = {
    **{_words(name): part for name, part in skus.NAMES.items()},
    _words("C2 Core"): "Compute optimized Core",
    _words("C2 RAM"): "Compute optimized Ram",
    _words("M1 Core"): "Memory-optimized Instance Core",
    _words("M1 RAM"): "Memory-optimized Instance Ram",
    _words("H200"): "H200 141GB GPU",
    _words("B200"): "A4 Nvidia B200 (1 gpu slice)",
    _words("RTX 6000"): "RTX 6000 96GB",
    _words("Tpu-v5e Accelerator"): "TpuV5e",
    _words("Tpu V6e"): "TpuV6e",
    _words("Tpu-7x Accelerator"): "TPU7x",
    _words("Tpu 7x"): "TPU7x",
}


def part(description: str) -> tuple[str, str] | None:
    """The part and the usage that a description tells, or None: it sells something else."""
    match = _TRAINING.match(description)
    found = _PARTS.get(_words(match.group(2))) if match else None
    return (found, skus.FEE if match.group(1) else skus.TRAINING) if match and found else None
