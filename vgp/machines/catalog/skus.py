"""The SKUs of Google's catalog whose sum a price is, and what a SKU of Vertex AI's training sells.

The catalog sells machines by the part: a vCPU, a GB, a GPU, each by region and usage; Compute Engine has SKUs of its
own, and Vertex AI's training. skus.csv has those that are known with their prices, prices.json where each is from.
Whoever has an id looks it up: https://cloud.google.com/skus?filter=ID

part("Vertex AI: Training/Pipelines Management fee on G2 Instance Core in Iowa")  # ("G2 Instance Core", "Fee")
"""

import csv
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from importlib.resources import files

from vgp.machines.catalog.catalog import document
from vgp.machines.catalog.hardware import Machine

#: Family -> how the descriptions of its vCPU, memory and GPU SKUs begin. A slice of an A4 or A4X has the others in it.
_PARTS: dict[str, tuple[str | None, str | None, str | None]] = {
    "a2-highgpu": ("A2 Instance Core", "A2 Instance Ram", "Nvidia Tesla A100 GPU"),
    "a2-megagpu": ("A2 Instance Core", "A2 Instance Ram", "Nvidia Tesla A100 GPU"),
    "a2-ultragpu": ("A2 Instance Core", "A2 Instance Ram", "Nvidia Tesla A100 80GB GPU"),
    "a3-highgpu": ("A3 Instance Core", "A3 Instance Ram", "Nvidia H100 80GB GPU"),
    "a3-megagpu": ("A3Plus Instance Core", "A3Plus Instance Ram", "Nvidia H100 80GB Mega GPU"),
    "a3-ultragpu": ("A3Ultra Instance Core", "A3Ultra Instance Ram", "H200 141GB GPU"),
    "a4-highgpu": (None, None, "A4 Nvidia B200 (1 gpu slice)"),
    "a4x-highgpu": (None, None, "NVIDIA GB200"),
    "g2": ("G2 Instance Core", "G2 Instance Ram", "Nvidia L4 GPU"),
    "g4": ("G4 Instance Core", "G4 Instance Ram", "RTX 6000 96GB"),
    "n1": ("N1 Predefined Instance Core", "N1 Predefined Instance Ram", None),
    "e2": ("E2 Instance Core", "E2 Instance Ram", None),
    "n2": ("N2 Instance Core", "N2 Instance Ram", None),
    "n4": ("N4 Instance Core", "N4 Instance Ram", None),
    "c2": ("Compute optimized Core", "Compute optimized Ram", None),
    "m1": ("Memory-optimized Instance Core", "Memory-optimized Instance Ram", None),
}
#: What attaches to N1.
ATTACHED = {
    "NVIDIA_TESLA_T4": "Nvidia Tesla T4 GPU",
    "NVIDIA_TESLA_P4": "Nvidia Tesla P4 GPU",
    "NVIDIA_TESLA_P100": "Nvidia Tesla P100 GPU",
    "NVIDIA_TESLA_V100": "Nvidia Tesla V100 GPU",
}
#: Generation of a TPU machine -> what an hour of one of its chips is sold as.
CHIPS = {"v5e": "TpuV5e", "v6e": "TpuV6e", "TPU7x": "TPU7x"}
#: TPU v2 and v3 -> what an hour of one core is sold as: on a board of its own, and in a Pod. Of Vertex AI alone.
CORES = {
    "TPU_V2": ("Tpu-v2 Accelerator", "Tpu-v2 Pod Accelerator"),
    "TPU_V3": ("Tpu-v3 Accelerator", "Tpu-v3 Pod Accelerator"),
}
#: The same part by another name, in some regions or by usage.
ALSO = {
    "Nvidia H100 80GB Plus GPU": "Nvidia H100 80GB Mega GPU",
    "A3 Ultra Instance Core": "A3Ultra Instance Core",
    "A3 Ultra Instance Ram": "A3Ultra Instance Ram",
    "Compute optimized Instance Core": "Compute optimized Core",
    "Compute optimized Instance Ram": "Compute optimized Ram",
}
PARTS = {part for row in (*_PARTS.values(), *CORES.values()) for part in row if part}
PARTS |= {*ATTACHED.values(), *CHIPS.values()}
#: Every name of a part -> the part.
NAMES = {**{part: part for part in PARTS}, **ALSO}
COLUMNS = ("part", "region", "usage", "sku", "usd_h", "source")
#: Of Compute Engine, by the catalog's own words: what is paid as long as it runs, and what Spot costs.
ON_DEMAND, SPOT = "OnDemand", "Preemptible"
#: Of Vertex AI: what on-demand training costs, and its fee on machines that are paid as Compute Engine's.
TRAINING, FEE = "Training", "Fee"


@dataclass(frozen=True)
class Listed:
    """The SKUs of one usage that a machine is made of, with their sum per hour in USD."""

    usd: float
    ids: tuple[str, ...]
    sources: tuple[str, ...]


def parts(machine: Machine, accelerator: str | None = None, count: int = 0) -> Iterator[tuple[str, float]]:
    """Each part of the machine, and how much of it: vCPU, GB, GPUs. Nothing for a family that is sold otherwise."""
    core, memory, gpu = _PARTS.get(machine.family, (None, None, None))
    for part, amount in ((core, machine.vcpu), (memory, machine.memory_gb), (gpu, machine.gpus)):
        if part:
            yield part, amount
    if accelerator in ATTACHED and count:
        yield ATTACHED[accelerator], count


def listed(machine: Machine, accelerator: str | None, count: int, region: str, usage: str) -> Listed | None:
    """The SKUs of every part of the machine with its GPUs; None where one is not known."""
    return total(list(parts(machine, accelerator, count)), region, usage)


def total(asked: Sequence[tuple[str, float]], region: str, usage: str) -> Listed | None:
    """The SKUs of so much of each part; None where one is not known."""
    found = [_table().get((part, region, usage)) for part, _ in asked]
    rows = [row for row in found if row is not None]
    if not rows or len(rows) < len(asked):
        return None
    usd = sum(float(row["usd_h"]) * amount for row, (_, amount) in zip(rows, asked, strict=True))
    return Listed(usd, tuple(row["sku"] for row in rows), tuple(dict.fromkeys(row["source"] for row in rows)))


@cache
def _table() -> dict[tuple[str, str, str], dict[str, str]]:
    text = (files("vgp.machines.catalog") / "data" / "skus.csv").read_text(encoding="utf-8")
    rows, reading = csv.DictReader(text.splitlines()), document("prices.json")["reading"]
    return {(row["part"], row["region"], row["usage"]): {**row, "source": row["source"] or reading} for row in rows}


VERTEX_AI = "C7E2-9256-1C43"

_TRAINING = re.compile(
    r"\s*(?:Vertex AI: ?Training(?:/Pipelines)? |Training - )(management fee on )?(?:on )?(.+?)(?: running)?"
    r"(?: in \S| (?:USA|Europe|Asia)$)",
    re.I,
)
#: Words that are not in every name of a part.
_LOOSE = {"nvidia", "tesla", "gpu", "predefined", "instance"}


def _words_of_name(name: str) -> frozenset[str]:
    return frozenset(re.findall(r"[a-z0-9]+", name.lower())) - _LOOSE


_VERTEX_AI_PARTS = {
    **{_words_of_name(name): vertex_ai_part for name, vertex_ai_part in NAMES.items()},
    _words_of_name("C2 Core"): "Compute optimized Core",
    _words_of_name("C2 RAM"): "Compute optimized Ram",
    _words_of_name("M1 Core"): "Memory-optimized Instance Core",
    _words_of_name("M1 RAM"): "Memory-optimized Instance Ram",
    _words_of_name("H200"): "H200 141GB GPU",
    _words_of_name("B200"): "A4 Nvidia B200 (1 gpu slice)",
    _words_of_name("RTX 6000"): "RTX 6000 96GB",
    _words_of_name("Tpu-v5e Accelerator"): "TpuV5e",
    _words_of_name("Tpu V6e"): "TpuV6e",
    _words_of_name("Tpu-7x Accelerator"): "TPU7x",
    _words_of_name("Tpu 7x"): "TPU7x",
}


def vertex_ai_part(description: str) -> tuple[str, str] | None:
    """The part and the usage that a description tells, or None: it sells something else."""
    match = _TRAINING.match(description)
    found = _VERTEX_AI_PARTS.get(_words_of_name(match.group(2))) if match else None
    return (found, FEE if match.group(1) else TRAINING) if match and found else None
