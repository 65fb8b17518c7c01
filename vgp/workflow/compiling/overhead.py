"""Estimates how long a run waits for machines and images, in addition to its work.

The sizes of the images are measured (docs/internals/decisions.md). Google publishes no start times, so the other
figures are assumptions, and the estimate was not verified on Vertex AI.
"""

from collections.abc import Iterable
from dataclasses import asdict, dataclass

from vgp.base.documents.json_text import JsonObject
from vgp.base.text.figures import format_count
from vgp.check.check_finding import StepRow

#: Assumed seconds from the start of a step until its machine begins to pull the image, without and with a GPU.
CPU_MACHINE_S, GPU_MACHINE_S = 45, 120
#: Compressed MB of the images of vgp image build, and the assumed rate of a pull in MB/s.
LIGHT_MB, GPU_MB, PULL_MB_S = 573, 4_024, 50


@dataclass(frozen=True)
class Overhead:
    """The containers that a run starts, and the seconds before they work, if its steps run one after another."""

    containers: int = 0
    #: Of plain steps.
    steps_s: float = 0.0
    #: Of jobs, such as the training, with their launchers.
    jobs_s: float = 0.0

    def __str__(self) -> str:
        """Returns `8 containers, about 6 min of starts around the jobs and 5 min before the jobs start (estimate)`."""
        text = f"{format_count(self.containers, 'container')}, about {self.steps_s / 60:.0f} min of starts"
        if self.jobs_s:
            text += f" around the jobs and {self.jobs_s / 60:.0f} min before the jobs start"
        return f"{text} (estimate)"

    def as_json(self) -> JsonObject:
        return asdict(self)


def estimate(rows: Iterable[StepRow], *, has_light_image: bool) -> Overhead:
    """Returns the overhead of a run of all these steps, none of them a cache hit.

    Args:
        has_light_image: Whether steps without a GPU run in the light image.
    """
    containers, steps_s, jobs_s = 0, 0.0, 0.0
    for row in rows:
        turns, machines = row.turns or 1, row.rungs[0].rows if row.rungs else ()
        own_s = _start_s(row, has_light_image) * turns
        containers += (row.replicas or 1) * turns
        if row.rungs:  # the row itself is the launcher
            containers += sum(machine.replicas or 1 for machine in machines) * turns
            jobs_s += own_s + max(_start_s(machine, has_light_image) for machine in machines) * turns
        elif row.launcher_region is not None:  # Google's launcher has an image of its own
            containers += turns
            jobs_s += own_s + CPU_MACHINE_S * turns
        else:
            steps_s += own_s
    return Overhead(containers, steps_s, jobs_s)


def _start_s(row: StepRow, has_light_image: bool) -> float:
    """Returns the seconds until a container of the row works; 0 on a persistent resource, which keeps its images."""
    if row.is_persistent:
        return 0.0
    megabytes = LIGHT_MB if has_light_image and not row.accelerator_type else GPU_MB
    return (GPU_MACHINE_S if row.accelerator_type else CPU_MACHINE_S) + megabytes / PULL_MB_S
