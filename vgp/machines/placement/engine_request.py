"""What a step that prepares data may use besides its machine: BigQuery, Dataflow, and how much of its memory.

[steps.prepare]
memory_gb = 24

[steps.prepare.bigquery]
max_gb = 500

The step reads it from one environment variable, as JSON (vgp/base/engine_settings.py); a check reads the cost there.
"""

import json
from collections.abc import Callable, Mapping
from typing import Annotated, Any

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, model_validator

from vgp.base.text import google_names
from vgp.machines.placement import plain

VARIABLE = plain.ENGINES_VARIABLE


def _unless_empty(rule: Callable[[str], str]) -> AfterValidator:
    return AfterValidator(lambda value: rule(value) if value else value)


class _Strict(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)


class BigQuery(_Strict):
    """Where queries run and what they may cost."""

    #: That queries run in and are billed to; empty: that of the settings.
    project: Annotated[str, _unless_empty(google_names.project)] = ""
    #: For what is computed on the way; made where it is missing.
    dataset: Annotated[str, AfterValidator(google_names.dataset)] = "vertex_gpu_pipelines"
    #: Where the source is: EU, us-central1; empty: found when the step runs.
    location: Annotated[str, _unless_empty(google_names.bigquery_location)] = ""
    #: Most that the queries of one try of the step may read, in GiB.
    max_gb: float = Field(default=100.0, gt=0)
    expiry_days: int = Field(default=7, ge=1, le=365)


class Dataflow(_Strict):
    """The job that works on shards with many machines."""

    #: Empty: that of the settings, as for all that follows.
    region: Annotated[str, _unless_empty(google_names.region)] = ""
    machine: Annotated[str, AfterValidator(google_names.machine)] = "n2-standard-4"
    max_workers: int = Field(default=10, ge=1, le=4000)
    disk_gb: int = Field(default=50, ge=30, le=64_000)
    service_account: Annotated[str, _unless_empty(google_names.service_account)] = ""
    #: regions/REGION/subnetworks/NAME: workers then have no public address.
    subnetwork: Annotated[str, _unless_empty(google_names.subnetwork)] = ""
    #: When the job is cancelled.
    max_hours: float = Field(default=24.0, gt=0)

    @model_validator(mode="after")
    def _in_one_region(self) -> "Dataflow":
        if self.subnetwork and self.region and google_names.subnetwork_region(self.subnetwork) != self.region:
            raise ValueError(f"the subnetwork is in another region than {self.region}: name one of the same region.")
        return self


class Job(Dataflow):
    """A Dataflow job as the step starts it: with what the settings have for every step."""

    project: str = ""
    temp: str = ""
    image: str = ""


class Engines(_Strict):
    """What stands in the variable."""

    #: Most memory of the engine, in GiB; 0: by the size of the input.
    memory_gb: float = Field(default=0.0, ge=0)
    #: Processes or threads; 0: as many as there are cores.
    workers: int = Field(default=0, ge=0)
    bigquery: BigQuery | None = None
    dataflow: Job | None = None

    def environment(self) -> dict[str, str]:
        """The variable, without what is empty; nothing if that is all."""
        values = _without_empty(self.model_dump())
        return {VARIABLE: json.dumps(values, separators=(",", ":"))} if values else {}


def _without_empty(values: Mapping[str, Any]) -> dict[str, Any]:
    inner = {key: _without_empty(value) if isinstance(value, dict) else value for key, value in values.items()}
    return {key: value for key, value in inner.items() if value not in ("", 0, None, {})}
