"""The compiled plan of a step with a ladder: the rungs, each with the body of its custom job.

It is one argument of a container, which Linux limits to 128 KiB (MAX_ARG_STRLEN), so long texts that several rungs
share, such as programs, are stored once.
"""

import json
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict, dataclass, fields, replace
from typing import Any, Self, TypeVar

Json = dict[str, Any]
_Kind = TypeVar("_Kind")

#: Placeholder in a container's arguments for the executor input, which is known when the step begins.
EXECUTOR_INPUT = "@executor_input@"
#: Placeholders of Vertex AI for the project and the region of the run.
PROJECT, LOCATION = "{{$.pipeline_google_cloud_project_id}}", "{{$.pipeline_google_cloud_location}}"
STRATEGIES = ("standard", "spot", "flex_start", "reservation")
#: Seconds for which an on-demand job and the Spot job that replaces it may both hold machines, once per begun hour on
#: demand.
HANDOVER_S = 360.0
#: Minimum length of texts that are stored once and replaced by the mark.
_LONG = 64
#: Obsolete fields of older plans.
_LEFT_OUT = ("probe_s", "probes_an_hour_s")
_MARK = "@text {}@"


@dataclass(frozen=True, kw_only=True)
class PlannedRung:
    """One rung of the ladder: where a job may run, its price, and its body.

    `job` is the REST body of projects.locations.customJobs.create (camelCase).
    """

    name: str
    region: str
    #: One of STRATEGIES.
    strategy: str
    timeout_s: float
    job: Json
    #: Price of all machines of the job together; None if unknown.
    usd_per_hour: float | None = None
    #: Day of that price, such as 2026-07-30; empty if unknown.
    price_date: str = ""
    #: Seconds from creation until all machines run, after which the job is cancelled. None: 1 hour, 24 for Flex-start.
    max_wait_s: float | None = None
    #: Work per hour, relative to the first rung.
    speed: float = 1.0
    #: Hours of the whole work on this rung, if configured; otherwise the timeout counts.
    work_hours: float | None = None
    #: Named size of the rung; empty for a step without sizes.
    size: str = ""


@dataclass(frozen=True, kw_only=True)
class Plan:
    """A step's ladder, the first rung first."""

    step: str
    rungs: tuple[PlannedRung, ...]
    #: Deadline in seconds from the step's first attempt; None: no deadline.
    deadline_s: float | None = None
    #: Seconds between two heartbeats, and seconds without one after which a job saves and stops.
    heartbeat_s: float = 30.0
    orphan_s: float = 600.0
    project: str = PROJECT
    #: Region of the run's PipelineJob.
    location: str = LOCATION

    def to_json(self) -> str:
        """Returns the plan as one line, with each shared text stored once."""
        document = asdict(self)
        shared = {text: _MARK.format(number) for number, text in enumerate(_find_repeated(document["rungs"]))}
        document["rungs"] = _map_texts(document["rungs"], lambda text: shared.get(text, text))
        return json.dumps({**document, "texts": list(shared)}, ensure_ascii=False)

    @classmethod
    def from_json(cls, text: str) -> Self:
        """Parses the text of `to_json`.

        Raises:
            ValueError: the text is not a plan.
        """
        try:
            document = _check_object(json.loads(text), "the plan")
        except json.JSONDecodeError as error:
            raise ValueError(f"the plan is not JSON: {error}.") from None
        marks = {_MARK.format(number): shared for number, shared in enumerate(document.pop("texts", []))}
        rungs = _map_texts(document.pop("rungs", []), lambda text: marks.get(text, text))
        if not isinstance(rungs, list) or not rungs:
            raise ValueError("the plan has no rungs: a ladder has at least one.")
        read = tuple(_read(PlannedRung, rung, f"rung {number}") for number, rung in enumerate(rungs, 1))
        values = {name: value for name, value in document.items() if name not in _LEFT_OUT}
        plan = _read(cls, {**values, "rungs": read}, "the plan")
        for rung in plan.rungs:
            _check(rung)
        if len({(rung.size, rung.name) for rung in plan.rungs}) < len(plan.rungs):
            raise ValueError("two rungs of the plan have the same name.")
        return plan

    def of_size(self, size: str) -> Self:
        """Returns the plan with only the rungs of a size.

        Raises:
            ValueError: there is no such size, or the step needs one.
        """
        if rungs := tuple(rung for rung in self.rungs if rung.size == size):
            return replace(self, rungs=rungs)
        sizes = ", ".join(dict.fromkeys(rung.size for rung in self.rungs if rung.size))
        raise ValueError(f"size = {size!r}: {f'one of {sizes}' if sizes else 'the step has no sizes'}.")


def fill_job(job: Json, executor_input: str) -> Json:
    """Returns the body of a job with the executor input filled in, without empty fields.

    A run without a network or a key has an empty text for {{$.pipeline_network}}, which the API refuses.
    """
    body: Json = _map_texts(_drop_empty(job), lambda text: text.replace(EXECUTOR_INPUT, executor_input))
    return body


def _drop_empty(value: Any) -> Any:
    if isinstance(value, Mapping):
        members = {key: _drop_empty(member) for key, member in value.items()}
        return {key: member for key, member in members.items() if member not in ("", None, {}, [])}
    return [_drop_empty(item) for item in value] if isinstance(value, list | tuple) else value


def _check(rung: PlannedRung) -> None:
    if rung.strategy not in STRATEGIES:
        raise ValueError(f"rung {rung.name}: strategy = {rung.strategy!r}: one of {', '.join(STRATEGIES)}.")
    if not isinstance(rung.job, dict) or not rung.job.get("jobSpec", {}).get("workerPoolSpecs"):
        raise ValueError(f"rung {rung.name}: its job has no jobSpec.workerPoolSpecs.")
    numbers = {"speed": rung.speed, "timeout_s": rung.timeout_s}
    optional = {"usd_per_hour": rung.usd_per_hour, "max_wait_s": rung.max_wait_s, "work_hours": rung.work_hours}
    for name, value in {**numbers, **{key: number for key, number in optional.items() if number is not None}}.items():
        if (
            not isinstance(value, int | float)
            or isinstance(value, bool)
            or value < 0
            or (not value and name in numbers)
        ):
            raise ValueError(f"rung {rung.name}: {name} = {value!r}: must be a number above 0.")


def _read(kind: Callable[..., _Kind], value: Any, title: str) -> _Kind:
    names = {item.name for item in fields(kind)}  # type: ignore[arg-type]
    values = _check_object(value, title)
    if unknown := sorted(values.keys() - names):
        raise ValueError(
            f"{title} has {', '.join(unknown)}, which this launcher does not know: the image is older "
            "than the compiled pipeline. Rebuild it: vgp image build."
        )
    try:
        return kind(**values)
    except TypeError as error:
        raise ValueError(f"{title} lacks a field: {error}.") from None


def _check_object(value: Any, title: str) -> Json:
    if not isinstance(value, Mapping):
        raise ValueError(f"{title} is not a JSON object.")
    return dict(value)


def _find_repeated(value: Any) -> list[str]:
    """Returns the long texts that occur more than once, in the order of their first occurrence."""
    counts = Counter(_list_texts(value))
    return [text for text, times in counts.items() if times > 1 and len(text) >= _LONG]


def _list_texts(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, Mapping):
        for member in value.values():
            yield from _list_texts(member)
    elif isinstance(value, list | tuple):
        for item in value:
            yield from _list_texts(item)


def _map_texts(value: Any, change: Callable[[str], str]) -> Any:
    """Returns a copy with `change` applied to each text; keys stay."""
    if isinstance(value, str):
        return change(value)
    if isinstance(value, Mapping):
        return {key: _map_texts(member, change) for key, member in value.items()}
    if isinstance(value, list | tuple):
        return [_map_texts(item, change) for item in value]
    return value
