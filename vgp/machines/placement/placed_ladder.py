"""A ladder: the rungs of a step, each placed in each of its regions, and its maximum cost.

ladder(request, region="us-central1", name="train").rungs[0].name    # 1-spot-us-central1

Only one job runs at a time. The jobs of a rung run for its timeout in total at most, and the ladder until its
deadline, or for 7 days, Vertex AI's limit for the launcher's step. So the maximum cost is that of all the time on the
most expensive rungs.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import date

from vgp.base.gpu_peaks import peak_of_accelerator
from vgp.base.text.figures import format_duration
from vgp.machines.placement import job_fields, plain
from vgp.machines.placement.machine_rules import PlacementError, Problem, refuse
from vgp.machines.placement.placement import Placement
from vgp.machines.placement.placing import place, seconds_of
from vgp.machines.placement.step_request import Request

#: Time from the request for machines to the first training step, if there is capacity: minutes for the machines, for an
#: image of some GB, and for the processes. No deadline can be shorter.
START_S = 600
MAX_DEADLINE_S = plain.MAX_TIMEOUT_S
#: The launcher's step outlives its ladder; its own limit is for a launcher that hangs.
_GRACE_S = 1800


@dataclass(frozen=True, kw_only=True)
class PlacedRung:
    """One rung in one region."""

    #: Position in pipelines.toml, from 1; a rung of several regions has one position.
    number: int
    request: Request
    placement: Placement
    #: Hourly work by its GPUs, relative to the first rung.
    speed: float = 1.0

    @property
    def provisioning(self) -> str:
        """Returns its provisioning: one of prices.PROVISIONING, or persistent."""
        return "persistent" if self.request.persistent_resource else self.request.provisioning

    @property
    def name(self) -> str:
        """Returns its unique name in the ladder: 2-flex_start-us-central1."""
        return f"{self.number}-{self.provisioning}-{self.placement.region}"

    @property
    def gpus(self) -> int:
        """Returns the number of GPUs of all nodes."""
        return self.placement.combination.count * self.placement.nodes


@dataclass(frozen=True, kw_only=True)
class Ladder:
    """The rungs of a step, the preferred one first."""

    step: str
    rungs: tuple[PlacedRung, ...]
    #: Seconds from the step's first attempt.
    deadline_s: int | None = None

    @property
    def limit_s(self) -> int:
        """Returns the maximum duration of the ladder."""
        return min(self.deadline_s or MAX_DEADLINE_S, MAX_DEADLINE_S)


def ladder(request: Request, *, region: str, name: str, as_of: date | None = None) -> Ladder:
    """Returns the ladder of a step; each rung is checked as if it were the step's only machine.

    Args:
        request: The step's, with `capacity`.
        region: Region of the run; the step's region overrides it, and a rung's overrides both.
        name: Name of the step, for messages.
        as_of: Day on which retirements are judged; today by default.

    Raises:
        PlacementError: a rung is impossible (the message has its position), or the deadline is too short.
    """
    deadline_s = seconds_of(request.deadline)
    refuse(_deadline(request, deadline_s), f"{name} has a ladder")
    placed = list(_place_rungs(request, region, name, as_of or date.today(), deadline_s))
    refuse(_find_equal_rungs(placed), f"{name} has a ladder")
    first = placed[0]
    rungs = tuple(
        PlacedRung(
            number=rung.number, request=rung.request, placement=rung.placement, speed=_compare_speed(rung, first)
        )
        for rung in placed
    )
    return Ladder(step=name, rungs=rungs, deadline_s=deadline_s)


def deadline_s(text: str | None) -> int | None:
    """Returns the seconds of a deadline such as 12h.

    Raises:
        PlacementError: it is not a duration, or no run can have it.
    """
    try:
        seconds = seconds_of(job_fields.check_duration(text))
    except ValueError as error:
        raise PlacementError(Problem("GPU028", "deadline", str(error))) from None
    refuse(_deadline(Request(), seconds))
    return seconds


def climber_s(deadline_s: float | None) -> int:
    """Returns the limit of the launcher's step."""
    return MAX_DEADLINE_S if deadline_s is None else min(int(deadline_s) + _GRACE_S, MAX_DEADLINE_S)


def _place_rungs(request: Request, region: str, name: str, as_of: date, deadline_s: int | None) -> Iterator[PlacedRung]:
    for number, rung in enumerate(request.capacity, 1):
        rung_request = request.of_rung(rung)
        if deadline_s is not None and rung_request.timeout is None:
            rung_request = rung_request.model_copy(update={"timeout": deadline_s})
        for where in rung.regions or (rung_request.region or region,):
            placed_request = rung_request.model_copy(update={"region": where})
            provisioning = "persistent_resource" if rung_request.persistent_resource else rung_request.provisioning
            label = f"{name}, rung {number} ({provisioning})"
            placement = place(placed_request, region=region, as_of=as_of, name=label)
            limit_s = deadline_s or MAX_DEADLINE_S
            refuse((*_work(placement), *_check_wait(placement, limit_s)), f"{label} asks for {placement.combination}")
            yield PlacedRung(number=number, request=placed_request, placement=placement)


def _work(placement: Placement) -> Iterator[Problem]:
    if placement.timeout_s > MAX_DEADLINE_S:
        text = f"Vertex AI ends a pipeline task after 7 days; the timeout is {format_duration(placement.timeout_s)}."
        yield Problem("GPU028", "timeout", text, "Set 7d or less.")


def _check_wait(placement: Placement, limit_s: int) -> Iterator[Problem]:
    """Yields a problem if a rung waits as long as the step may take, because no other rung would be tried."""
    if placement.strategy != "flex_start" or placement.max_wait_s is None or 0 < placement.max_wait_s < limit_s:
        return
    waits = f"{format_duration(placement.max_wait_s)} waits as long as the step may take, {format_duration(limit_s)}"
    how = waits if placement.max_wait_s else "0s waits without limit"
    text = f"max_wait = {how}, and no other rung would be tried."
    yield Problem("GPU028", "max_wait", text, "Limit the wait, for example max_wait = '2h'.")


def _deadline(request: Request, deadline_s: int | None) -> Iterator[Problem]:
    """Yields the problems of the deadline."""
    if deadline_s is None:
        return
    if deadline_s > MAX_DEADLINE_S:
        text = f"Vertex AI ends a pipeline task after 7 days; the deadline is {format_duration(deadline_s)}."
        yield Problem("GPU028", "deadline", text, "Set 7d or less.")
    if deadline_s <= START_S:
        least = f"machines, image and processes take some {format_duration(START_S)}"
        text = f"No rung can meet a deadline of {format_duration(deadline_s)}: {least} before the first step."
        yield Problem("GPU028", "deadline", text, "Set a longer one, for example 12h.")
    if request.command is not None:
        yield from _check_script_timeout(request, deadline_s)


def _check_script_timeout(request: Request, deadline_s: int) -> Iterator[Problem]:
    """Yields the problems of a command's timeout: commands log no progress, so only the timeout bounds their work."""
    timeouts = [seconds_of(request.of_rung(rung).timeout) for rung in request.capacity]
    if None in timeouts:
        text = "A command reports no progress, so the launcher cannot know whether it meets the deadline."
        yield Problem(
            "GPU028", "timeout", text, "Set the maximum duration of its work: timeout = '6h' next to capacity."
        )
        return
    least_s = min(seconds for seconds in timeouts if seconds is not None) + START_S
    if least_s > deadline_s:
        least = f"timeout and start take {format_duration(least_s)}"
        text = f"No rung does the command's work by the deadline, {format_duration(deadline_s)}: {least}."
        yield Problem("GPU028", "deadline", text, "Set a later deadline, or a shorter timeout.")


def _find_equal_rungs(rungs: Sequence[PlacedRung]) -> Iterator[Problem]:
    """Yields a problem if two rungs are equal; a refused rung is retried anyway."""
    known: dict[object, PlacedRung] = {}
    for rung in rungs:
        spec = rung.placement
        key = (
            spec.combination, spec.nodes, spec.region, rung.provisioning, spec.reservation, rung.request.image,
            rung.request.persistent_resource,
        )  # fmt: skip
        before = known.setdefault(key, rung)
        if before is not rung:
            machine = f"{spec.combination} in {spec.region}, {rung.provisioning}"
            text = f"Rungs {before.number} and {rung.number} are equal: {machine}."
            yield Problem("GPU028", "capacity", text, "Keep one; a refused rung is retried after a while.")


def _compare_speed(rung: PlacedRung, first: PlacedRung) -> float:
    """Returns the hourly work relative to the first rung, by the peaks of their GPUs; 1 if one is unknown."""
    own, other = (peak_of_accelerator(each.placement.combination.accelerator_type or "") for each in (rung, first))
    return 1.0 if not own or not other else round(own * rung.gpus / (other * first.gpus), 4)
