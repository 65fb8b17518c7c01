"""A request -> its pins: data as objects and files, windows as dates, the champion as its files."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True)
class Resolved:
    """What the step `resolve` gives: short texts, and what people are told."""

    #: Of the run's pins.
    digest: str
    #: Where the run's pins lie.
    uri: str
    #: Where the pins of the data lie; what `prepare` and `train` take.
    data: str
    #: Where the pins of the champion lie; "" without one. What `evaluate` takes.
    champion: str
    #: One sentence a line.
    words: tuple[str, ...] = ()
    #: Figures for the artifact.
    metadata: Mapping[str, Any] = field(default_factory=dict)
