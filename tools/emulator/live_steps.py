"""Live steps: each step of a run is a process on this machine, or the custom job that Google's launcher creates.

    work = cloud.custom_jobs.works(folder, World(seed=7))
    cloud.pipeline_jobs.works(work.machines)            # runs that are created from now on

A run is planned again whenever a step has ended; active steps count as long. There are no images, and a cancelled step
has no time limit.
"""

import json
import os
import signal
import subprocess
import threading
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

from . import step_container
from .machines import Machines
from .messages import new
from .retries import waits

if TYPE_CHECKING:
    from .cloud import Cloud
    from .plan import Task

#: Real seconds between two polls.
LOOK_S = 0.05
#: The assumed duration of an active step.
LONG = timedelta(days=400)
#: Google's launcher of custom jobs, whose work is done here, because it can call only Google's own addresses.
GOOGLES = "google_cloud_pipeline_components.container.v1.custom_job.launcher"
#: The launcher of a ladder, which runs as long as the cloud.
LAUNCHER = "vgp.launch.capacity"
#: States of a custom job that has ended.
ENDED = {4: "", 5: "failed", 7: "was cancelled", 9: "expired"}


@dataclass
class Try:
    """One start of a step's container; `task` as it was planned then."""

    task: "Task"
    began: datetime
    process: "subprocess.Popen[bytes] | None" = None
    #: The custom job of the step.
    job: str = ""
    ended: datetime | None = None
    error: str = ""
    outputs: dict[str, Any] = field(default_factory=dict)
    metadata: dict[str, dict[str, Any]] = field(default_factory=dict)
    uris: dict[str, str] = field(default_factory=dict)
    #: Bytes of its log that Cloud Logging has.
    logged: int = 0


class LiveRun:
    """The steps of one run, by path; they keep their ids and tries when the run is planned again."""

    def __init__(self, cloud: "Cloud", machines: Machines, placeholder_values: Mapping[str, str]) -> None:
        self.cloud, self.machines, self.placeholder_values = cloud, machines, placeholder_values
        self.labels: dict[str, str] = {}
        self.ids: dict[str, int] = {}
        self.tries: dict[int, list[Try]] = {}
        #: When the next start of a step is due.
        self.due: list[datetime] = []
        self.cancelled = False

    @property
    def active(self) -> list[Try]:
        return [one for tries in self.tries.values() for one in tries if not one.ended]

    def id(self, path: str) -> int:
        return self.ids[path] if path in self.ids else self.ids.setdefault(path, self.cloud.pipeline_jobs.next_id())

    def play(self, task: "Task", container: Mapping[str, Any], done: Mapping[str, "Task"]) -> None:
        """Fills the task with its state so far; starts its container if that is due."""
        tries, now, begin = self.tries.setdefault(task.id, []), self.cloud.clock.now(), task.start
        for number, pause in enumerate([0.0, *waits(task.spec)]):
            begin += timedelta(seconds=pause)
            if number == len(tries):
                if self.cancelled or now < begin:
                    self.due += [] if self.cancelled else [begin]
                    task.end = begin + LONG
                    return
                tries.append(self._begin(task, container, done, begin))
            one = tries[number]
            task.output_id, task.end = one.task.output_id, one.ended or one.began + LONG
            if not one.error:
                task.outputs = one.outputs
                # The step's own outputs replace those of a script.
                task.script = replace(task.script, metadata=one.metadata, uris=one.uris, metrics={})
                return
            begin = task.end
            task.failed_tries.append(begin)
            task.script = replace(task.script, fail=one.error)
        task.failed_tries.pop()
        task.final, task.error = "FAILED", one.error

    def _begin(self, task: "Task", container: Mapping[str, Any], done: Mapping[str, "Task"], begin: datetime) -> Try:
        task.output_id = self.cloud.pipeline_jobs.next_id() if self.tries[task.id] else task.id
        one, given = (
            Try(task, begin),
            step_container.executor_input(task, done, self.placeholder_values["pipeline_job_resource_name"]),
        )
        words = [
            step_container.fill_placeholders(word, given, self.placeholder_values)
            for key in ("command", "args")
            for word in container.get(key, ())
        ]
        if GOOGLES in words:
            one.job = self._custom_job(dict(zip(words, words[1:], strict=False)))
            return one
        folder = self._folder(task)
        folder.mkdir(parents=True, exist_ok=True)
        # A step keeps the real time, because a replaced datetime crashes some C libraries.
        clock = {} if LAUNCHER in words else dict.fromkeys(self.cloud.clock.variables, "")
        environment = {
            **self.machines.variables, **clock, "VERTEX_AI_PIPELINES_RUN_LABELS": json.dumps(self.labels),
            **{each["name"]: each["value"] for each in container.get("env", ())},
        }  # fmt: skip
        with open(folder / "log", "wb") as log:
            one.process = subprocess.Popen(
                [self.machines.local(word) for word in words], stdin=subprocess.DEVNULL, stdout=log, stderr=log,
                env=environment, cwd=folder, start_new_session=True,
            )  # fmt: skip
        return one

    def _custom_job(self, placeholder_values: Mapping[str, str]) -> str:
        from google.protobuf import json_format
        from google_cloud_pipeline_components.container.v1.gcp_launcher.utils.json_util import recursive_remove_empty

        body = recursive_remove_empty(json.loads(placeholder_values["--payload"], strict=False))
        message = json_format.ParseDict(body, new("CustomJob"))
        message.labels.update(self.labels)
        parent = self.cloud.resource(
            f"projects/{placeholder_values['--project']}/locations/{placeholder_values['--location']}", ""
        )
        return str(self.cloud.custom_jobs.begin(parent, message).message.name)

    # ---- ends

    def has_changed(self, now: datetime) -> bool:
        """Whether a step has ended since the last poll, or another one is due."""
        ended = [one for one in self.active if self._look(one, now)]
        return bool(ended) or any(begin <= now for begin in self.due)

    def _look(self, one: Try, now: datetime) -> bool:
        if one.process:
            code = one.process.poll()
            error = None if code is None else f"The step failed with exit code {code}." if code else ""
            self._log(one, whole=code is not None)
        else:
            job = self.cloud.custom_jobs.jobs[one.job].render(now)
            words = ENDED.get(job.state)
            error = f"Job {one.job} {words}: {job.error.message}" if words else words
        if error is None:
            return False
        one.ended, one.error = now, error
        one.outputs, one.metadata, one.uris = step_container.collect_outputs(self.cloud, self.machines.mount, one.task)
        if one.job:
            uri = f"https://{one.job.split('/')[3]}-aiplatform.googleapis.com/v1/{one.job}"
            one.outputs["gcp_resources"] = json.dumps(
                {"resources": [{"resourceType": "CustomJob", "resourceUri": uri}]}
            )
        return True

    def _log(self, one: Try, *, whole: bool) -> None:
        """Sends the lines since the last poll to Cloud Logging."""
        with open(self._folder(one.task) / "log", "rb") as log:
            log.seek(one.logged)
            new = log.read()
        ready = new if whole else new[: new.rfind(b"\n") + 1]
        one.logged += len(ready)
        for line in ready.decode(errors="replace").splitlines():
            self.cloud.logs.add(line, job_id=str(one.task.id))

    def _folder(self, task: "Task") -> Path:
        return self.machines.folder / "steps" / f"{task.name}_{task.output_id}"

    def cancel(self) -> None:
        self.cancelled = True
        for one in self.active:
            if one.process:
                one.process.send_signal(signal.SIGTERM)
            else:
                self.cloud.custom_jobs.jobs[one.job].cancel(self.cloud.clock.now())

    def close(self) -> None:
        for one in self.active:
            if one.process and one.process.poll() is None:
                os.killpg(one.process.pid, signal.SIGKILL)
                one.process.wait()


class Watch:
    """A thread that polls active steps until it is closed."""

    def __init__(self, cloud: "Cloud") -> None:
        self.cloud, self._over = cloud, threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)
        self._thread.start()

    def _watch(self) -> None:
        while not self._over.wait(LOOK_S):
            try:
                self.cloud.settle()
            except Exception as error:  # a fault of this server, which the fixture reports at the end of the test
                self.cloud.crashed = error
                return

    def close(self) -> None:
        self._over.set()
        self._thread.join()
