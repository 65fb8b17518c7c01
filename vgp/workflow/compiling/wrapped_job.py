"""The fields of a custom job in what Google's wrapper makes of a step.

The wrapper (create_custom_training_job_from_component of google-cloud-pipeline-components 2.22) takes most of them as
arguments. Those that it does not take go into the JSON that its launcher sends: the launcher reads that text with
json.loads, and hands it to `JobServiceClient.create_custom_job` as it is.
"""

import json
from collections.abc import Iterator
from typing import Any

from vgp.machines.placement.job_options import JobOptions
from vgp.machines.placement.placement import Placement
from vgp.machines.placement.rules import Problem
from vgp.settings import Settings

_WITHOUT_ARGUMENT = ("enable_dashboard_access", "protected_artifact_location_id")
#: Where the text of the launcher has the objects that fields are added to.
_SPEC, _SCHEDULING = '"job_spec": {', '"scheduling": {'
_ADVICE = "Set it at the top of pipelines.toml, or in the environment."


def arguments(placement: Placement) -> dict[str, Any]:
    """What the wrapper takes; `network` is left to the run unless the job has an interface of its own."""
    fields = placement.job_fields()
    scheduling = {name: value for name, value in fields.pop("scheduling").items() if name != "disable_retries"}
    directory = fields.pop("base_output_directory", {}).get("output_uri_prefix")
    given = {name: value for name, value in fields.items() if name not in _WITHOUT_ARGUMENT}
    given |= {"base_output_directory": directory} if directory else {}
    given |= {"network": ""} if "psc_interface_config" in given else {}
    return {**scheduling, **given}


def complete(job: Any, placement: Placement) -> None:
    """Puts what the wrapper has no argument for into what its launcher sends."""
    fields = placement.job_fields()
    _add(job, _SPEC, {name: fields[name] for name in _WITHOUT_ARGUMENT if name in fields})
    _add(job, _SCHEDULING, {name: True for name in ("disable_retries",) if name in fields["scheduling"]})


def _add(job: Any, at: str, fields: dict[str, Any]) -> None:
    container = job.component_spec.implementation.container
    if fields:
        number = next(index for index, text in enumerate(container.args) if isinstance(text, str) and at in text)
        inner = json.dumps(fields)[1:-1]
        container.args[number] = container.args[number].replace(at, f"{at}{inner}, ", 1)


def problems(options: JobOptions, settings: Settings) -> Iterator[Problem]:
    """What speaks against a job's options in a run with these settings."""
    if options.private_service_connect and settings.network:
        text = "private_service_connect and network exclude each other: a job reaches a network by one of the two."
        yield Problem("GPU035", "private_service_connect", text, 'Drop one: network = "" in an environment drops it.')
    if options.reserved_ip_ranges and not settings.network:
        text = "reserved_ip_ranges needs network: they are ranges of it."
        yield Problem("GPU035", "reserved_ip_ranges", text, _ADVICE)
    if options.nfs and not (settings.network or options.private_service_connect):
        text = "nfs needs network or private_service_connect: the job reaches the server through it."
        yield Problem("GPU035", "nfs", text, _ADVICE)
    if options.tensorboard and not settings.service_account:
        text = "tensorboard needs service_account: Vertex AI uploads the curves as that account."
        yield Problem("GPU035", "tensorboard", text, _ADVICE)
