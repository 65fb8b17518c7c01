"""A project whose schedule trains every night on what lies in its bucket: the compiled workflow, the real resolve.

The loopback cloud runs the schedule and keeps the cache; `resolve` is what the step calls, on the loopback's bucket.
The other steps only take their time, since what they get is what decides.
"""

import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import Any

from isolation import sign_out

from tools.emulator.cloud import Cloud
from tools.emulator.plan import Task
from vgp.settings import Schedule, Settings
from vgp.vertex import clients
from vgp.vertex.runs import run_search
from vgp.vertex.runs.remote_run import Run
from vgp.vertex.schedules.declared_schedule import Declaration, declaration
from vgp.vertex.schedules.reconcile import apply

#: The steps that may take earlier results, in their order, and one letter for the outcome of each.
PINNED = ("prepare", "train", "evaluate", "decide")
LETTERS = {"succeeded": "R", "cached": "C", "failed": "F"}
FIRST = datetime(2026, 3, 5, 12, tzinfo=UTC)
NIGHTLY = {
    "pipeline": "training", "cron": "30 2 * * *", "time_zone": "Europe/Berlin",
    "parameters": {
        "data": "gs://test-bucket/raw/*.csv", "task": "visits:Visits", "champion": "gs://test-bucket/champion",
        "task_options": {"train": "30 days", "test": "7 days"},
    },
}  # fmt: skip


@contextmanager
def real_resolve() -> Iterator[None]:
    """The task of the nights as a user's module, and the training code's client for this cloud's storage alone."""
    folder = str(Path(__file__).parents[3] / "helpers")
    sys.path.insert(0, folder)
    sign_out()
    try:
        yield
    finally:
        sign_out()
        sys.path.remove(folder)


def later_steps(inputs: Mapping[str, Any]) -> dict[str, Any]:
    """What the step resolve gives to train, decide and register of its form."""
    from vgp.steps.run_request import read_form

    of_the_run = ("pipeline", "run", "scheduled", "as_of", "pins")
    form = read_form({name: value for name, value in inputs.items() if name not in of_the_run})
    return {"config": form.settings, "terms": form.terms.model_dump(mode="json")}


@dataclass
class Project:
    cloud: Cloud
    settings: Settings
    #: The compiled workflow.
    spec: Mapping[str, Any]
    #: What the step resolve calls; a test puts a broken one in its place.
    resolve: Callable[..., Any] = None  # type: ignore[assignment]
    #: Generations of what lies in the bucket, by name.
    objects: dict[str, int] = field(default_factory=dict)
    #: The first day of each object, and the last day that has come.
    begins: dict[date, date] = field(default_factory=dict)
    until: date = date.min

    def __post_init__(self) -> None:
        from vgp.steps.pins.resolve import resolve

        self.resolve = self.resolve or resolve
        self.bucket = clients.storage(self.settings).bucket("test-bucket")
        self.put("champion/model.json", b"{}")
        self.put("champion/model.safetensors", b"{}")
        today = self.cloud.clock.now().date()
        self.arrives(today - timedelta(days=4), first=today - timedelta(days=44))
        for task, seconds in {"resolve": 30, "prepare": 200, "train": 2400, "evaluate": 400, "decide": 100,
                              "register": 60}.items():  # fmt: skip
            self.cloud.script(task, seconds=seconds)
        self.cloud.script("resolve", seconds=30, outputs=self.resolved)
        apply(self.settings, self.declaration)

    @property
    def declaration(self) -> Declaration:
        declared = Schedule.model_validate(NIGHTLY)
        settings = self.settings.model_copy(update={"schedules": {"nightly": declared}})
        return declaration(settings, "nightly", self.spec, declared.parameters)

    def resolved(self, task: Task) -> dict[str, Any]:
        """What the step `resolve` does, at the cloud's time."""
        from vgp.protocol import run_folder

        record = task.output_uri(task.root, "record")
        output = run_folder.parse(record)
        assert output
        pins = self.resolve(
            self.request(task.inputs), run_folder.pins(record, {}), pipeline=task.inputs["pipeline"],
            project=output.project, now=self.cloud.clock.now(),
            **{name: task.inputs[name] for name in ("run", "scheduled", "as_of", "pins")},
        )  # fmt: skip
        names = ("digest", "uri", "data", "champion", "registry", "model_name")
        return {"Output": "train", **{name: getattr(pins, name) for name in names}, **later_steps(task.inputs)}

    def request(self, inputs: Mapping[str, Any]) -> Any:
        from vgp.data import task_names
        from vgp.protocol.pins import Request

        asked = {name: inputs[name] for name in ("data", "task_options", "champion")}
        return Request(task=task_names.spec(inputs["task"]), **asked)

    def put(self, name: str, content: bytes) -> None:
        blob = self.bucket.blob(name)
        blob.upload_from_string(content)
        self.objects[name] = int(blob.generation)

    def arrives(self, day: date, first: date | None = None) -> None:
        """The visits of a day, in the object of its week, and of the days before it that have none yet.

        With `first` those from then on, in an object of their own.
        """
        from visits import FIRST as ORIGIN
        from visits import table

        monday = day - timedelta(days=day.weekday())
        begin = self.begins.setdefault(first or monday, first or min(monday, self.until + timedelta(days=1)))
        self.until = max(self.until, day)
        self.put(f"raw/{first or monday}.csv", table((begin - ORIGIN).days, (day - ORIGIN).days))

    def night(self, begin: Callable[[], object] | None = None) -> list[Run]:
        """On to the schedule's next time, or to what begins the night instead, and through it; the runs that came."""
        before = set(self.cloud.pipeline_jobs.jobs)
        (begin or self.tick)()
        self.cloud.clock.advance(60)
        for _ in range(3):  # a run that waits for the one before starts between
            self.cloud.clock.advance(2 * 3600)
        return [run_search.find(self.settings, name) for name in self.cloud.pipeline_jobs.jobs if name not in before]

    def tick(self) -> None:
        (schedule,) = self.cloud.schedules.values()
        self.cloud.clock.set(schedule.next_run_time.ToDatetime(tzinfo=UTC))


def became(run: Run) -> str:
    """What became of the pinned steps: RRRR all ran, CCCC all taken from earlier runs, RF-- train failed."""
    states = {step.task: step.state for step in run.steps}
    return "".join(LETTERS.get(states[name], "-") for name in PINNED)
