"""What a launcher is told when a step with a ladder is compiled: the rungs, each with the body of its custom job.

It travels as one argument of a container. Linux takes 128 KiB in one (MAX_ARG_STRLEN), and the programs that bodies
hold are long and the same on every rung: so texts that several rungs share are written once.
"""

import json
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict, dataclass, fields, replace
from typing import Any, Self, TypeVar

Json = dict[str, Any]
_Kind = TypeVar("_Kind")

#: Stands in a container's arguments for the executor input, which is known when the step begins.
EXECUTOR_INPUT = "@executor_input@"
#: What Vertex AI replaces by the project of the run, and by its region.
PROJECT, LOCATION = "{{$.pipeline_google_cloud_project_id}}", "{{$.pipeline_google_cloud_location}}"
STRATEGIES = ("standard", "spot", "flex_start", "reservation")
#: For how long a job on demand and the Spot job that takes over from it may both hold machines, in seconds: once for
#: each hour on demand that has begun.
HANDOVER_S = 360.0
#: A text that is at least so long is written once; the mark takes its place.
_LONG = 64
#: Fields of older plans that nothing depends on any more.
_LEFT_OUT = ("probe_s", "probes_an_hour_s")
_MARK = "@text {}@"


@dataclass(frozen=True, kw_only=True)
class PlannedRung:
    """One place of the ladder: where a job may run, for how much, and its body.

    `job` is what projects.locations.customJobs.create takes in REST (camelCase).
    """

    name: str
    region: str
    #: One of STRATEGIES.
    strategy: str
    timeout_s: float
    job: Json
    #: Of all machines of the job together; None where no price is known.
    usd_per_hour: float | None = None
    #: Of which day that price is, as in 2026-07-30; empty where it is not known.
    price_date: str = ""
    #: From creation until all machines run; what waits longer is cancelled. None: an hour, 24 of Flex-start.
    max_wait_s: float | None = None
    #: How much of the work an hour on it does; the first rung's is 1.
    speed: float = 1.0
    #: Hours that the whole work takes on this rung, where somebody said so; else the timeout counts.
    work_hours: float | None = None
    #: Of which named size it is a rung; empty where the step has no sizes.
    size: str = ""


@dataclass(frozen=True, kw_only=True)
class Plan:
    """A step's ladder, the first rung first."""

    step: str
    rungs: tuple[PlannedRung, ...]
    #: Seconds from the step's first attempt; None: as soon as the ladder's order gives.
    deadline_s: float | None = None
    #: Seconds between two heartbeats, and after how many without one a job saves and stops.
    heartbeat_s: float = 30.0
    orphan_s: float = 600.0
    project: str = PROJECT
    #: The run's region, where its PipelineJob is.
    location: str = LOCATION

    def to_json(self) -> str:
        """One line; texts that occur more than once are written once."""
        whole = asdict(self)
        shared = {text: _MARK.format(number) for number, text in enumerate(_repeated(whole["rungs"]))}
        whole["rungs"] = _mapped(whole["rungs"], lambda text: shared.get(text, text))
        return json.dumps({**whole, "texts": list(shared)}, ensure_ascii=False)

    @classmethod
    def from_json(cls, text: str) -> Self:
        """The plan of `to_json`.

        Raises:
            ValueError: it is not one, in a sentence that says why.
        """
        try:
            whole = _object(json.loads(text), "the plan")
        except json.JSONDecodeError as error:
            raise ValueError(f"the plan is no JSON: {error}.") from None
        marks = {_MARK.format(number): each for number, each in enumerate(whole.pop("texts", []))}
        rungs = _mapped(whole.pop("rungs", []), lambda each: marks.get(each, each))
        if not isinstance(rungs, list) or not rungs:
            raise ValueError("the plan has no rungs: a ladder has at least one.")
        read = tuple(_read(PlannedRung, rung, f"rung {number}") for number, rung in enumerate(rungs, 1))
        kept = {name: value for name, value in whole.items() if name not in _LEFT_OUT}
        plan = _read(cls, {**kept, "rungs": read}, "the plan")
        for rung in plan.rungs:
            _check(rung)
        if len({(rung.size, rung.name) for rung in plan.rungs}) < len(plan.rungs):
            raise ValueError("two rungs of the plan have the same name.")
        return plan

    def of_size(self, size: str) -> Self:
        """The plan with the rungs of a size alone.

        Raises:
            ValueError: there is no such size, or one has to be named.
        """
        if rungs := tuple(rung for rung in self.rungs if rung.size == size):
            return replace(self, rungs=rungs)
        sizes = ", ".join(dict.fromkeys(rung.size for rung in self.rungs if rung.size))
        raise ValueError(f"size = {size!r}: {f'one of {sizes}' if sizes else 'the step has no sizes'}.")


def filled(job: Json, executor_input: str) -> Json:
    """The body of a job with the executor input where it was left open, without the fields that a run leaves empty.

    A run without a network or a key has an empty text for {{$.pipeline_network}}, which the API would not take.
    """
    body: Json = _mapped(_kept(job), lambda text: text.replace(EXECUTOR_INPUT, executor_input))
    return body


def _kept(value: Any) -> Any:
    if isinstance(value, Mapping):
        inner = {key: _kept(each) for key, each in value.items()}
        return {key: each for key, each in inner.items() if each not in ("", None, {}, [])}
    return [_kept(each) for each in value] if isinstance(value, list | tuple) else value


def _check(rung: PlannedRung) -> None:
    if rung.strategy not in STRATEGIES:
        raise ValueError(f"rung {rung.name}: strategy = {rung.strategy!r}: one of {', '.join(STRATEGIES)}.")
    if not isinstance(rung.job, dict) or not rung.job.get("jobSpec", {}).get("workerPoolSpecs"):
        raise ValueError(f"rung {rung.name}: its job has no jobSpec.workerPoolSpecs.")
    numbers = {"speed": rung.speed, "timeout_s": rung.timeout_s}
    optional = {"usd_per_hour": rung.usd_per_hour, "max_wait_s": rung.max_wait_s, "work_hours": rung.work_hours}
    for name, value in {**numbers, **{key: each for key, each in optional.items() if each is not None}}.items():
        if (
            not isinstance(value, int | float)
            or isinstance(value, bool)
            or value < 0
            or (not value and name in numbers)
        ):
            raise ValueError(f"rung {rung.name}: {name} = {value!r}: a number above 0.")


def _read(kind: Callable[..., _Kind], value: Any, what: str) -> _Kind:
    names = {each.name for each in fields(kind)}  # type: ignore[arg-type]
    given = _object(value, what)
    if unknown := sorted(given.keys() - names):
        raise ValueError(
            f"{what} has {', '.join(unknown)}, which this launcher does not know: the image is older "
            "than what compiled the pipeline. Build it again: vgp image build."
        )
    try:
        return kind(**given)
    except TypeError as error:
        raise ValueError(f"{what} lacks a field: {error}.") from None


def _object(value: Any, what: str) -> Json:
    if not isinstance(value, Mapping):
        raise ValueError(f"{what} is no JSON object.")
    return dict(value)


def _repeated(value: Any) -> list[str]:
    """Long texts that occur more than once, in the order of their first time."""
    counts = Counter(_texts(value))
    return [text for text, times in counts.items() if times > 1 and len(text) >= _LONG]


def _texts(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, Mapping):
        for each in value.values():
            yield from _texts(each)
    elif isinstance(value, list | tuple):
        for each in value:
            yield from _texts(each)


def _mapped(value: Any, change: Callable[[str], str]) -> Any:
    """The same value with each text changed; keys stay."""
    if isinstance(value, str):
        return change(value)
    if isinstance(value, Mapping):
        return {key: _mapped(each, change) for key, each in value.items()}
    if isinstance(value, list | tuple):
        return [_mapped(each, change) for each in value]
    return value
