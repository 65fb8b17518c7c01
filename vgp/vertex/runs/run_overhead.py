"""The overhead of a run: the time in which its containers wait for a machine, pull their image and start.

Before a run it is estimated from the compiled pipeline: docs/explanation/how-a-run-works.md has the assumptions, which
are not verified on Vertex AI. After a run it is the time in which no step was running.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime

from vgp.base.documents.json_text import JsonObject
from vgp.base.text.figures import format_duration
from vgp.base.text.times import moment
from vgp.check.check_finding import StepRow
from vgp.check.spec.dag import Component, table
from vgp.check.spec.pipeline_spec import PipelineSpec
from vgp.vertex.runs.remote_run import Run, Step

#: Seconds until a container has a machine; Google publishes no figure.
WAIT_S = 30.0
#: Seconds to pull an image at 50 MB/s: 573 and 4,024 MB, from docs/internals/decisions.md. The image of Google's
#: launcher, whose size is not published, counts as the light one.
PULL_LIGHT_S, PULL_GPU_S = 11.0, 80.0
#: States of a step that had a container.
_RAN = ("running", "succeeded", "failed", "cancelling", "cancelled")


@dataclass(frozen=True)
class Estimate:
    """The containers of a run, and the time until they work if they start one after another."""

    containers: int
    seconds: float
    #: The containers and seconds of the steps that run in every run: neither cached nor in a condition.
    least_containers: int
    least_seconds: float

    def __str__(self) -> str:
        least = f"; at least {self.least_containers} in {format_duration(self.least_seconds)}"
        return (
            f"about {format_duration(self.seconds)} of waiting, pulling and starting for {self.containers} containers"
            f"{least if self.least_containers < self.containers else ''} (an estimate)"
        )

    def as_json(self) -> JsonObject:
        return {
            "containers": self.containers, "overhead_s": self.seconds,
            "least_containers": self.least_containers, "least_overhead_s": self.least_seconds,
        }  # fmt: skip


def estimate(spec: PipelineSpec, rows: Sequence[StepRow], light_image: str | None) -> Estimate:
    """Estimates the overhead of a run. `rows` are the machines of its steps; each iteration of a loop counts once."""
    by_step: dict[str, list[StepRow]] = {}
    for row in rows:
        by_step.setdefault(row.step, []).append(row)
    always = set(_list_unconditional_steps(spec.root))
    totals, least = [], []
    for step in spec.steps:
        image = table(spec.executor(step.task), "container").get("image")
        starts = _list_start_times(by_step.get(step.name, []), image, light_image)
        totals += starts
        least += starts if step.task.name in always and not step.task.is_cached else []
    return Estimate(len(totals), sum(totals), len(least), sum(least))


def _list_start_times(rows: Sequence[StepRow], image: object, light_image: str | None) -> list[float]:
    """Returns the seconds until each container of a step works: its own, and that of Google's launcher before it."""
    has_launcher = any(row.launcher_region for row in rows)
    has_gpu = any(row.accelerator_type for row in rows)
    is_light = not has_gpu and light_image is not None and (has_launcher or image == light_image)
    own = WAIT_S + (PULL_LIGHT_S if is_light else PULL_GPU_S)
    return [WAIT_S + PULL_LIGHT_S, own] if has_launcher else [own]


def _list_unconditional_steps(group: Component) -> Iterator[str]:
    for task in group.tasks.values():
        if task.condition:
            continue
        if task.component.is_group:
            yield from _list_unconditional_steps(task.component)
        else:
            yield task.name


def measure(run: Run) -> float | None:
    """Returns the seconds of a run that has ended in which no step was running; None if Google gives no times.

    The wait of a training job for its own machines counts as work, because the step's launcher runs meanwhile.
    """
    if not run.over or run.created is None or run.ended is None:
        return None
    spans, begin = [span for step in run.steps if (span := _find_work(step))], run.created
    if not spans:
        return None
    worked, reached = 0.0, begin
    for start, end in sorted(spans):
        worked += max(0.0, (end - max(start, reached)).total_seconds())
        reached = max(reached, end)
    return max(0.0, (run.ended - begin).total_seconds() - worked)


def _find_work(step: Step) -> tuple[datetime, datetime] | None:
    """Returns start and end of a step's work: from its first state RUNNING if Google lists it, else from its start."""
    if step.state not in _RAN or step.start is None or step.end is None:
        return None
    statuses = step.detail.pipeline_task_status if step.detail else ()
    running = [time for status in statuses if status.state.name == "RUNNING" and (time := moment(status.update_time))]
    return max(step.start, min(running, default=step.start)), step.end
