"""The settings of a recurring run, and references to the uploaded template that it may run.

    [schedules.nightly]
    pipeline = "training"
    cron = "30 2 * * *"
    time_zone = "Europe/Berlin"
    parameters = {epochs = 3.0}

A reference to a template has one of these forms; it is checked before any part of it becomes part of a URL:

    training                 the version that has the tag `latest`
    training:v3              the version that has the tag v3; also written training@v3
    training@sha256:4be6...  exactly this version; eight digits of the digest are enough
    https://us-central1-kfp.pkg.dev/my-project/templates/training/v3
    gs://my-bucket/templates/training/4be6....json
    training@URI             a URI, which must be of this template
"""

import json
import re
from dataclasses import dataclass
from datetime import UTC, date, datetime, time
from functools import cache
from typing import Annotated

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, ValidationInfo, field_validator

from vgp.base.documents.json_text import JsonObject
from vgp.base.errors import RequestError
from vgp.base.text.google_names import pattern_check
from vgp.base.text.nearest import nearest
from vgp.base.text.printable import PASSWORD
from vgp.settings.repository import Repository, find_workflow
from vgp.settings.value_rules import make_optional

LATEST = "latest"
PREFIX = "sha256:"
#: https://github.com/kubeflow/pipelines/issues/7382: a version is named by the SHA-256 of its content.
_DIGEST = re.compile(r"sha256:[0-9a-f]{8,64}")
#: https://cloud.google.com/vertex-ai/docs/pipelines/create-pipeline-template
_NAME = re.compile(r"[a-z0-9][a-z0-9-]{3,127}")
#: Narrower than Artifact Registry's [a-zA-Z0-9-._~:@], so that a reference can be read in one way only.
_TAG = re.compile(r"[a-zA-Z0-9_][a-zA-Z0-9_.-]{0,127}")
_URI = re.compile(r"(?P<place>https://[a-z0-9-]+-kfp\.pkg\.dev/[^/]+/[^/]+)/(?P<name>[^/]+)/(?P<version>[^/]+)")
_OBJECT = re.compile(r"(?P<place>gs://.+)/(?P<name>[^/]+)/(?P<version>[0-9a-f]{64})\.json")


@dataclass(frozen=True)
class Reference:
    """A reference to a template version by tag or digest."""

    name: str
    tag: str | None
    #: `sha256:` and 8 to 64 hex digits.
    digest: str | None
    #: Repository or bucket folder of the template; None: that of the settings.
    place: str | None = None

    def __str__(self) -> str:
        return f"{self.name}:{self.tag}" if self.tag else f"{self.name}@{self.digest}"


def parse_reference(text: str) -> Reference:
    """Parses a reference to a template version.

    Raises:
        RequestError: the text names no template, or breaks a rule of names.
    """
    if PASSWORD.search(text):
        raise RequestError(
            "a template's address must not contain a user or password. The command uses your Google credentials."
        )
    name, sign, version = text.partition("@")
    if reference := _parse_uri(text):
        return reference
    if reference := _parse_uri(version):
        if reference.name != name:
            raise RequestError(f"{version} is a version of {reference.name}, not of {name!r}.")
        return reference
    if "://" in text:
        raise RequestError(
            f"{text} is not a template. Write NAME, NAME:TAG, NAME@sha256:..., "
            "https://REGION-kfp.pkg.dev/PROJECT/REPOSITORY/NAME/TAG, or gs://BUCKET/FOLDER/NAME/SHA256.json."
        )
    if not sign:
        name, sign, version = text.partition(":")
    return _build_reference(name, version if sign else LATEST, None)


def _parse_uri(uri: str) -> Reference | None:
    if match := _URI.fullmatch(uri):
        return _build_reference(match["name"], match["version"], match["place"])
    if match := _OBJECT.fullmatch(uri):
        return _build_reference(match["name"], PREFIX + match["version"], match["place"])
    return None


def _build_reference(name: str, version: str, place: str | None) -> Reference:
    if version.startswith(PREFIX):
        return Reference(check_package(name), None, check_digest(version), place)
    return Reference(check_package(name), check_tag(version), None, place)


def check_package(text: str) -> str:
    """Returns a valid name of a template.

    Raises:
        RequestError: Artifact Registry would refuse the name.
    """
    if not _NAME.fullmatch(text):
        raise RequestError(
            f"{text!r} cannot be a template's name: use 4 to 128 lower-case letters, digits and -, no - first. "
            "It is the name of the pipeline: @dsl.pipeline(name=...)."
        )
    return text


def check_tag(text: str) -> str:
    """Returns a valid tag.

    Raises:
        RequestError: the text cannot be a tag.
    """
    if not _TAG.fullmatch(text):
        raise RequestError(
            f"{text!r} cannot be a tag: use at most 128 letters, digits, . _ and -, no . or - first. "
            "A digest is written NAME@sha256:..."
        )
    return text


def check_digest(text: str) -> str:
    """Returns a valid digest of a version, complete or shortened to at least eight digits.

    Raises:
        RequestError: the text is not a digest.
    """
    if not _DIGEST.fullmatch(text):
        raise RequestError(
            f"{text!r} is not a digest. Write sha256: and at least 8 of its 64 hex digits, in lower case."
        )
    return text


#: Name of a schedule or an environment.
NAME = re.compile(r"[a-z][a-z0-9-]{0,39}")
_CRON = "minute hour day month weekday, as in 30 2 * * 1-5"


check_name = pattern_check(
    NAME.pattern, "'{value}' is not a valid name: use at most 40 lower-case letters, digits and -, a letter first."
)


def check_pipeline(value: str, info: ValidationInfo) -> str:
    """Checks that the workflow exists, if the context of the validation knows the repository."""
    if isinstance(info.context, Repository):
        find_workflow(value, info.context)
    return value


def check_template(value: str) -> str:
    parse_reference(value)
    return value


def check_cron(value: str) -> str:
    """Checks five fields of Unix cron. Refuses extensions (L, W, #, seconds, @daily), which Vertex AI does not
    document."""
    from cronsim import CronSim, CronSimError

    value = " ".join(value.split())
    if value.upper().startswith(("TZ=", "CRON_TZ=")):
        raise ValueError(f"'{value}' contains a time zone; write it as time_zone = \"...\".")
    if len(value.split()) != 5:
        raise ValueError(f"'{value}' is not a cron expression. Write five fields, {_CRON}.")
    try:
        if re.search(r"[^0-9A-Za-z*/, -]|[0-9]L|\bL", value):
            raise CronSimError("Only digits, names, * / , and - are allowed")
        next(CronSim(value, datetime(2000, 1, 1)))
    except CronSimError as error:
        raise ValueError(f"'{value}' is not a cron expression: {str(error).lower()}. Write {_CRON}.") from None
    except StopIteration:
        raise ValueError(f"'{value}' never happens. Write {_CRON}.") from None
    return value


def check_time_zone(value: str) -> str:
    """Checks a name of the IANA time zone database, https://www.iana.org/time-zones"""
    known = _list_time_zones()
    if value not in known:
        city = [zone for zone in known if zone.lower().endswith(f"/{value.lower()}")]
        near = next(iter(sorted(city)), None) or nearest(value, known, cutoff=0.5)
        hint = f"Did you mean {near}?" if near else "Write one like UTC or Europe/Berlin."
        raise ValueError(f"there is no time zone '{value}'. {hint}")
    return value


@cache
def _list_time_zones() -> frozenset[str]:
    from zoneinfo import available_timezones

    return frozenset(available_timezones())  # reads hundreds of files


def parse_moment(value: object, zone: str) -> datetime | None:
    """Returns a day or time in UTC. Without an offset it is local to `zone`; a day means its midnight."""
    from zoneinfo import ZoneInfo

    if value is None or value == "":
        return None
    try:
        value = datetime.fromisoformat(value) if isinstance(value, str) else value
    except ValueError:
        raise ValueError(f"'{value}' is not a time. Write 2027-01-31 or 2027-01-31T06:00:00.") from None
    if isinstance(value, date) and not isinstance(value, datetime):
        value = datetime.combine(value, time())
    if not isinstance(value, datetime):
        raise ValueError(f"{value} is not a time. Write 2027-01-31 or 2027-01-31T06:00:00.")
    local = value if value.tzinfo else value.replace(tzinfo=ZoneInfo(zone))
    # UTC, because Python compares times of one zone by the wall clock, which is wrong in the repeated hour in autumn.
    instant = local.astimezone(UTC)
    if instant.astimezone(local.tzinfo).replace(tzinfo=None) != value.replace(tzinfo=None):
        raise ValueError(f"{value} does not exist in {zone}: the clocks jump over it.")
    return instant


Name = Annotated[str, AfterValidator(check_name)]
Pipeline = Annotated[str, AfterValidator(check_pipeline)]
Template = Annotated[str | None, *make_optional(check_template)]
Cron = Annotated[str, AfterValidator(check_cron)]
TimeZone = Annotated[str, AfterValidator(check_time_zone)]


class Schedule(BaseModel):
    """A recurring run of a pipeline. https://cloud.google.com/vertex-ai/docs/pipelines/schedule-pipeline-run"""

    model_config = ConfigDict(frozen=True, extra="forbid")

    #: Name of the pipeline: see `vgp list`.
    pipeline: Pipeline
    #: Uploaded version to run instead of the local pipeline: `training:latest`, `training@sha256:...`.
    template: Template = None
    #: Minute, hour, day, month and weekday in `time_zone`, such as `30 2 * * 1-5`. No seconds, `L`, `W`, `#` or
    #: `@daily`.
    cron: Cron
    #: A name of the IANA time zone database, such as `Europe/Berlin`.
    time_zone: TimeZone = "UTC"
    #: Parameters of the pipeline; those that are not named keep their defaults.
    parameters: JsonObject = {}
    #: First moment of a run: a date or a time, in `time_zone` unless it has an offset. Default: now.
    start: datetime | None = None
    #: Last moment of a run, written like `start`. Default: never.
    end: datetime | None = None
    #: Runs of this schedule at one time.
    max_concurrent_runs: int = Field(default=1, ge=1)
    #: Whether a run that is due while `max_concurrent_runs` are active waits. Otherwise it is skipped.
    queueing: bool = False
    #: Whether runs that fell into a pause are started when the schedule resumes.
    catch_up: bool = False
    #: Number of runs after which the schedule ends.
    max_runs: int | None = Field(default=None, ge=1)
    #: Whether the schedule is paused.
    paused: bool = False

    @field_validator("parameters")
    @classmethod
    def _as_json(cls, value: JsonObject) -> JsonObject:
        for name, parameter in value.items():
            try:
                json.dumps(parameter, allow_nan=False)
            except (TypeError, ValueError):
                raise ValueError(f"{name} is a date, or no finite number. Write it in quotes.") from None
        return value

    @field_validator("start", "end", mode="before")
    @classmethod
    def _moment(cls, value: object, info: ValidationInfo) -> datetime | None:
        return parse_moment(value, info.data.get("time_zone", "UTC"))

    @field_validator("end")
    @classmethod
    def _after_start(cls, value: datetime | None, info: ValidationInfo) -> datetime | None:
        start = info.data.get("start")
        if value and start and value <= start:
            raise ValueError(f"the end, {value.isoformat()}, is not after the start, {start.isoformat()}.")
        return value
