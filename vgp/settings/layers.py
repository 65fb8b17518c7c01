"""Settings from several places laid over one another; every value remembers its place.

Tables merge key by key; texts, numbers and lists replace. Two things give way as a whole:
a step that asks for another machine, and a parameter of a schedule that is itself a table.
"""

import copy
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from vgp.machines.placement.rung import NEEDS
from vgp.settings.document import Document, Keys

#: A ladder asks for machines, too.
_LADDER = ("capacity", "deadline", "probe")


@dataclass(frozen=True)
class Source:
    """Where a value came from."""

    kind: Literal["default", "file", "variable", "flag"] = "default"
    #: environments.prod.region, PIPELINES_REGION, --region; empty for a default.
    name: str = ""
    document: Document | None = None
    #: Keys under which the value stands in the file.
    keys: Keys = ()

    @property
    def line(self) -> int | None:
        return self.document.line(self.keys) if self.document else None

    def __str__(self) -> str:
        """pipelines.toml:12, PIPELINES_REGION, --region or default."""
        return f"{self.document.path}:{self.line}" if self.document else self.name or self.kind


@dataclass(frozen=True)
class Layer:
    """The settings of one place, as a tree of tables."""

    kind: Literal["default", "file", "variable", "flag"]
    values: Mapping[str, Any]
    document: Document | None = None
    #: The table of the file that the tree is: () or ("environments", "prod").
    table: Keys = ()
    #: Variable or flag that gave the value at some keys.
    names: Mapping[Keys, str] = field(default_factory=dict)

    def source(self, keys: Keys) -> Source:
        if self.document is not None:
            full = (*self.table, *keys)
            return Source("file", ".".join(full), self.document, full)
        near = [name for at, name in self.names.items() if keys[: len(at)] == at or at[: len(keys)] == keys]
        return Source(self.kind, self.names.get(keys) or near[-1])


@dataclass
class Merged:
    """The tree of all layers, and the layer of every value."""

    values: dict[str, Any] = field(default_factory=dict)
    origins: dict[Keys, Layer] = field(default_factory=dict, compare=False)
    #: Names of the environments that the file declares, and the file.
    environments: tuple[str, ...] = ()
    path: Path | None = None

    def source(self, keys: Keys) -> Source:
        """The place of the value, or "default"."""
        return self.origins[keys].source(keys) if keys in self.origins else Source()

    def nearest(self, keys: Keys) -> Source:
        """The place of the value; of one that is not there, the place of its table."""
        layers = (self.origins[keys[:size]] for size in range(len(keys), 0, -1) if keys[:size] in self.origins)
        layer = next(layers, None)
        return layer.source(keys) if layer else Source(name=".".join(keys))


def merge(layers: Sequence[Layer]) -> Merged:
    """The layers laid over one another, the weakest first."""
    merged = Merged()
    for layer in layers:
        _lay_over(merged, merged.values, layer.values, (), layer)
    return merged


def put(values: dict[str, Any], keys: Keys, value: Any) -> None:
    """Sets a value in a tree of tables; the ways to it that are no tables give way."""
    table = values
    for key in keys[:-1]:
        inner = table.get(key)
        table[key] = table = inner if isinstance(inner, dict) else {}
    table[keys[-1]] = value


def _lay_over(merged: Merged, base: dict[str, Any], stronger: Mapping[str, Any], at: Keys, layer: Layer) -> None:
    for key in _given_way(at, stronger):
        base.pop(key, None)
        merged.origins.pop((*at, key), None)
    for key, value in stronger.items():
        here = (*at, key)
        if isinstance(value, Mapping) and not is_whole(here):
            if not isinstance(base.get(key), dict):
                base[key] = {}
                _forget(merged, here)
            merged.origins.setdefault(here, layer)
            _lay_over(merged, base[key], value, here, layer)
        else:
            base[key] = copy.deepcopy(value)
            _forget(merged, here)
            merged.origins[here] = layer


def _forget(merged: Merged, here: Keys) -> None:
    for keys in [keys for keys in merged.origins if keys[: len(here)] == here]:
        del merged.origins[keys]


def is_whole(keys: Keys) -> bool:
    """A parameter's value is the pipeline's own business: a table among them is one value."""
    return len(keys) > 3 and keys[0] == "schedules" and keys[2] == "parameters"


def _given_way(at: Keys, stronger: Mapping[str, Any]) -> tuple[str, ...]:
    """What a weaker place said about a step and no longer holds, now that a stronger one asks for another machine."""
    if len(at) != 2 or at[0] != "steps":
        return ()
    gone: tuple[str, ...] = ()
    if "machine" in stronger:
        gone = ("accelerator", "count", *NEEDS, *_LADDER)
    elif any(key in stronger for key in ("accelerator", *NEEDS)):
        gone = ("machine", *_LADDER)
    if "capacity" in stronger:
        gone = tuple(key for key in gone if key not in _LADDER)
    return (*gone, "max_wait") if "strategy" in stronger else gone
