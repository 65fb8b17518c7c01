"""The three documents of pins: of the data, of the champion, and of the run that names the two."""

from typing import Any, Literal

from pydantic import Field, JsonValue

from vgp.base.storage.pinned import Frozen, PinnedFile, PinnedObject, PinnedRelation

FORMAT = 1
DIGEST = r"^[0-9a-f]{64}$"

#: What could be seen of the time `as_of`: the objects that were live then, or the windows of today's only.
Seen = Literal["state", "windows", ""]


class Package(Frozen):
    """What brings a task's own data: a package of this version."""

    name: str
    version: str


class DataPins(Frozen):
    """What a dataset is made of: nothing in it moves, and nothing else decides."""

    kind: Literal["data"] = "data"
    format: Literal[1] = 1
    #: The name of the pipeline that computes with it.
    pipeline: str
    #: `module:Class`.
    task: str
    #: What the task is told, windows as dates.
    options: dict[str, JsonValue] = {}
    objects: tuple[PinnedObject, ...] = ()
    files: tuple[PinnedFile, ...] = ()
    #: Tables and queries of BigQuery.
    relations: tuple[PinnedRelation, ...] = ()
    package: Package | None = None
    #: URI of the pins of the weights that training begins with; "" = none. What is prepared does not depend on them.
    weights: str = ""
    #: Whether nothing tells a version of the data: then what the user gave, and the run that reads it and alone may.
    unpinned: bool = False
    asked: str = ""
    run: str = ""
    #: The period of cached results (`vgp.protocol.epoch`).
    epoch: int


class Earlier(Frozen):
    """A version of the registry as it was registered, for the history in a report. None of it ever changes."""

    number: int
    #: UTC.
    created: str
    #: The version that it was compared with; None = there was no champion.
    champion: int | None = None
    metrics: dict[str, float] = {}
    #: The window of its data, in words.
    data: str = ""


class ChampionPins(Frozen):
    """A model, such as the champion: the files of its folder that are read."""

    kind: Literal["champion"] = "champion"
    format: Literal[1] = 1
    folder: str
    objects: tuple[PinnedObject, ...] = ()
    files: tuple[PinnedFile, ...] = ()
    #: Of a version of the registry: its number and key, the URI of its report, and all versions up to it. Later ones
    #: are left out: they would be other pins of the same champion.
    number: int = 0
    key: str = ""
    report: str = ""
    history: tuple[Earlier, ...] = ()
    #: Why its files are not there, which is found again every night: the baseline then stands in. "" = they are.
    problem: str = ""
    epoch: int


#: Pipelines that have another name now: a run goes on with the pins of one that had the old name.
RENAMED = {"retraining": "training"}


class Request(Frozen):
    """What was asked for, as it was given."""

    data: str
    task: str
    task_options: dict[str, Any]
    #: A folder, or what names a version of the registry (`vgp.registry.reigning`).
    champion: str
    #: Where that registry is, and the model's name in it; "" = by the run's place, by the task.
    registry: str = ""
    model_name: str = ""
    #: What training begins with; "" = nothing.
    warm_start: str = ""


class RunPins(Frozen):
    """What one run works on. The two other documents lie beside it, under these names."""

    kind: Literal["run"] = "run"
    format: Literal[1] = 1
    data: str = Field(pattern=DIGEST)
    #: "" without a champion.
    champion: str = Field("", pattern=DIGEST + r"|^$")
    pipeline: str
    #: Project number; "" where no project is.
    project: str
    as_of: str = ""
    request: Request
    seen: Seen = ""
