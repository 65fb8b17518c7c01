"""Resources of the engines that prepare data, from one variable; they do not affect the results.

PREPARE_ENGINES='{"memory_gb": 4, "bigquery": {"max_gb": 500}}' python -m vgp.steps prepare ...
"""

import json
import os
from collections.abc import Mapping
from typing import TYPE_CHECKING, Annotated

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, ValidationError

from vgp.base.documents import json_text
from vgp.base.exits import UserError
from vgp.base.text.nearest import did_you_mean
from vgp.base.text.printable import MOST_LETTERS, quote

if TYPE_CHECKING:
    from pydantic_core import ErrorDetails

VARIABLE = "PREPARE_ENGINES"
EXAMPLE = '{"memory_gb": 4, "bigquery": {"project": "my-project", "max_gb": 500}}'


def _check_bucket_uri(value: str) -> str:
    if value and not (value.startswith("gs://") and value.strip("/") != "gs:"):
        raise ValueError("must be a folder of a bucket, gs://BUCKET/FOLDER")
    return value.rstrip("/")


BucketUri = Annotated[str, AfterValidator(_check_bucket_uri)]


class _Strict(BaseModel):
    model_config = ConfigDict(
        frozen=True, extra="forbid", strict=True, allow_inf_nan=False, use_attribute_docstrings=True
    )


class BigQuery(_Strict):
    """The project and location of queries, and their maximum cost."""

    project: str = ""
    """The project that queries run in and are billed to; empty = the project of the credentials."""
    dataset: str = "vertex_gpu_pipelines"
    """The dataset for intermediate results; created if missing."""
    location: str = ""
    """Location of the source, such as EU or us-central1; empty = looked up."""
    max_gb: float = Field(default=100.0, gt=0)
    """Maximum that the queries of one step may read, in GiB; more is refused before anything is billed."""
    expiry_days: int = Field(default=7, ge=1, le=365)
    """Days after which BigQuery deletes intermediate results."""


class Dataflow(_Strict):
    """The job that processes shards on many machines."""

    project: str = ""
    """The project of the job; empty = the project of the credentials."""
    region: str = ""
    """Region of the job; should be the bucket's region."""
    machine: str = "n2-standard-4"
    """Machine type of the workers."""
    max_workers: int = Field(default=10, ge=1, le=4000)
    """Maximum number of workers."""
    disk_gb: int = Field(default=50, ge=30)
    """Disk of each worker in GB."""
    service_account: str = ""
    """E-mail of the service account of the workers; empty = the project's default."""
    subnetwork: str = ""
    """regions/REGION/subnetworks/NAME; workers then have no public address. Empty = the network `default`."""
    temp: BucketUri = ""
    """Folder of a bucket for the job's files."""
    image: str = ""
    """Container image of the workers: the image of this process."""
    max_hours: float = Field(default=24.0, gt=0)
    """Hours after which the job is cancelled."""


class Engines(_Strict):
    """Resources for preparing data; they do not affect the prepared bytes."""

    memory_gb: float = Field(default=0.0, ge=0)
    """Maximum memory of the local engine, in GiB; 0 = by the size of the input."""
    workers: int = Field(default=0, ge=0)
    """Local processes or threads; 0 = the number of usable cores."""
    bigquery: BigQuery = BigQuery()
    dataflow: Dataflow | None = None
    """None = local processes prepare the shards."""


def engines(environment: Mapping[str, str] = os.environ) -> Engines:
    """Returns the settings in the variable PREPARE_ENGINES, or the defaults without it.

    Raises:
        UserError: it is not a JSON object, or has unknown settings or invalid values; names each.
    """
    text = environment.get(VARIABLE, "")
    if not text.strip():
        return Engines()
    try:
        json_text.parse_json(text.encode())
    except ValueError as error:
        raise UserError(
            f"{VARIABLE} cannot be read as JSON ({error}): {quote(text)}. Write it like {EXAMPLE}."
        ) from None
    try:
        return Engines.model_validate_json(text)
    except ValidationError as error:
        raise UserError("\n".join(f"{VARIABLE}: {_format_problem(problem)}" for problem in error.errors())) from None


def _format_problem(problem: "ErrorDetails") -> str:
    *tables, name = map(str, problem["loc"]) if problem["loc"] else [""]
    where = ".".join([*tables, name])
    match problem["type"]:
        case "extra_forbidden":
            return f"there is no setting {quote(where)}. {did_you_mean(name, _fields(tables))}"
        case "model_type" | "model_attributes_type":
            return f"{where or 'it'} must be an object, {EXAMPLE if not where else '{...}'}."
    message = problem["msg"].removeprefix("Value error, ").removeprefix("Input ")
    return f"{where} is {_format(problem['input'])}; it {message}."


def _format(value: object) -> str:
    return quote(value) if isinstance(value, str) else json.dumps(value)[:MOST_LETTERS]


def _fields(tables: list[str]) -> list[str]:
    models: dict[str, type[BaseModel]] = {"bigquery": BigQuery, "dataflow": Dataflow}
    return list(models.get(".".join(tables), Engines).model_fields)
