"""Resource names and console links: builds, parses and validates them."""

import re
from urllib.parse import quote

from vgp.base.errors import RequestError
from vgp.settings import Settings, value_rules
from vgp.vertex.clients import project

#: https://cloud.google.com/vertex-ai/docs/reference/rest/v1/projects.locations.pipelineJobs/create
_JOB_ID = re.compile(r"[a-z][-a-z0-9]{0,127}")
_MAX_LABEL = 63
_KEY = re.compile(rf"[a-z0-9-]{{1,{_MAX_LABEL}}}")
_JOB_NAME = re.compile(
    r"(?:^|/)locations/(?P<region>[a-z0-9-]+)/(?:pipelineJobs|pipelines/runs|runs)/(?P<id>[a-z][-a-z0-9]{0,127})(?:[?#]|$)"
)


def location(settings: Settings) -> str:
    """Returns `projects/PROJECT/locations/REGION`, the parent of runs and schedules."""
    return f"projects/{project(settings)}/locations/{settings.region}"


def persistent_resource(settings: Settings, id_: str) -> str:
    """Returns the resource name of a persistent resource in the region of the settings."""
    return f"{location(settings)}/persistentResources/{id_}"


def job_id(text: str) -> str:
    """Returns the text if it is a valid id of a run.

    Raises:
        RequestError: the text is not a valid id.
    """
    if not _JOB_ID.fullmatch(text):
        raise RequestError(
            f"{text!r} is no valid run id: use lower-case letters, digits and -, a letter first, at most 128."
        )
    return text


def key(text: str) -> str:
    """Returns the text if it is a valid key of a request; ids and labels of runs contain the key.

    Raises:
        RequestError: the text is not a valid key.
    """
    if _KEY.fullmatch(text):
        return text
    near = re.sub(r"[^a-z0-9]+", "-", text.lower()).strip("-")
    hint = f" Write {near}." if _KEY.fullmatch(near) else ""
    raise RequestError(
        f"--key {text!r}: use lower-case letters, digits and -, at most {_MAX_LABEL}: ids contain it.{hint}"
    )


def in_label(text: str) -> bool:
    """Whether the text is short enough for the value of a label."""
    return len(text) <= _MAX_LABEL


def job(settings: Settings, reference: str) -> str:
    """Returns the resource name of a run from its id, its resource name or its console link.

    Raises:
        RequestError: `reference` is none of these, or its region is not that of the settings.
    """
    name = _JOB_NAME.search(reference)
    if not name:
        return f"{location(settings)}/pipelineJobs/{job_id(reference)}"
    if name["region"] != settings.region:
        raise RequestError(f"{reference} is in {name['region']}, but the settings have region = {settings.region}.")
    return f"{location(settings)}/pipelineJobs/{name['id']}"


def short(resource_name: str) -> str:
    """Returns the last part of a resource name."""
    return resource_name.rsplit("/", 1)[-1]


def run_link(settings: Settings, run_id: str) -> str:
    """Returns the link to the run's page in the console."""
    return _console_url(settings, f"vertex-ai/locations/{settings.region}/pipelines/runs/{quote(run_id)}")


def schedule_link(settings: Settings, schedule_id: str) -> str:
    """Returns the link to the schedule's page in the console."""
    return _console_url(settings, f"vertex-ai/locations/{settings.region}/pipelines/schedules/{quote(schedule_id)}")


def _console_url(settings: Settings, page: str) -> str:
    return f"https://console.cloud.google.com/{page}?project={quote(project(settings))}"


def labels(values: dict[str, str]) -> dict[str, str]:
    """Returns the labels if they are valid.

    Raises:
        RequestError: a key or value is invalid, https://cloud.google.com/resource-manager/docs/labels-overview
    """
    try:
        for key, value in values.items():
            value_rules.check_label_key(key)
            value_rules.check_label_value(value)
        return value_rules.check_labels(values)
    except ValueError as error:
        raise RequestError(f"labels: {error}") from None
