"""A run as Google tells it, in our words: state, times, parameters, errors, and its steps."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from functools import cached_property
from typing import Any

from vgp.base.text.times import moment
from vgp.check.spec.pipeline_spec import PipelineSpec
from vgp.protocol.capacity.way import Way
from vgp.protocol.summary import Summary, summary_of
from vgp.vertex import resource_names
from vgp.vertex.runs.run_steps import Step, steps_of

#: PipelineState -> our word, where lower case would not do; and the states after which nothing more happens.
_RUN_STATES = {"PIPELINE_STATE_UNSPECIFIED": "unknown"}
ENDED = ("succeeded", "failed", "cancelled")


@dataclass(frozen=True)
class Run:
    """A run at one moment."""

    name: str
    state: str
    created: datetime | None
    started: datetime | None
    ended: datetime | None
    error: str
    display_name: str
    labels: Mapping[str, str]
    #: The compiled pipeline, and the values of its parameters that the run was started with.
    spec: PipelineSpec
    arguments: Mapping[str, Any]
    steps: tuple[Step, ...]
    #: The PipelineJob.
    job: Any = field(compare=False, repr=False)
    #: The ways up its ladders, where somebody asked for them.
    ways: tuple[Way, ...] = ()

    @property
    def id(self) -> str:
        return resource_names.short(self.name)

    @property
    def region(self) -> str:
        return self.name.split("/")[3] if self.name.count("/") >= 3 else ""

    @property
    def pipeline(self) -> str:
        return self.spec.name

    @property
    def over(self) -> bool:
        return self.state in ENDED

    def seconds(self, now: datetime) -> float | None:
        """From its start, or its creation, until its end, or now."""
        begin = self.started or self.created
        return max(0.0, ((self.ended or now) - begin).total_seconds()) if begin else None

    @cached_property
    def summary(self) -> Summary:
        """What it says of itself, as its exit step says it; without prices."""
        from google.protobuf import json_format

        return summary_of(json_format.MessageToDict(type(self.job).pb(self.job)))

    def failed(self) -> list[Step]:
        return [step for step in self.steps if step.state == "failed"]


def read(job: Any) -> Run:
    """The run of a PipelineJob message."""
    from google.protobuf import json_format

    message = type(job).pb(job)
    spec = PipelineSpec(whole(json_format.MessageToDict(message.pipeline_spec)))
    state = _RUN_STATES.get(job.state.name, job.state.name.removeprefix("PIPELINE_STATE_").lower())
    return Run(
        name=job.name, state=state, created=moment(job.create_time), started=moment(job.start_time),
        ended=moment(job.end_time), error=job.error.message, display_name=job.display_name, labels=dict(job.labels),
        spec=spec, arguments=_arguments(json_format.MessageToDict(message.runtime_config)), job=job,
        steps=tuple(steps_of(spec, job.job_detail.task_details, resource_names.short(job.name), over=state in ENDED)),
    )  # fmt: skip


def whole(value: Any) -> Any:
    """JSON as it was before Google's Struct made every number a float."""
    if isinstance(value, float) and value.is_integer() and abs(value) < 2**53:
        return int(value)
    if isinstance(value, dict):
        return {key: whole(inner) for key, inner in value.items()}
    return [whole(inner) for inner in value] if isinstance(value, list) else value


def _arguments(config: Mapping[str, Any]) -> dict[str, Any]:
    """Parameter values, those of kfp 1.8 too: {"parameters": {"epochs": {"intValue": "3"}}}."""
    old = {name: next(iter(value.values()), None) for name, value in config.get("parameters", {}).items()}
    return {**old, **whole(config.get("parameterValues", {}))}
