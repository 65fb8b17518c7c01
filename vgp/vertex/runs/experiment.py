"""A run as part of a Vertex AI experiment: its context in ML Metadata becomes a child of the experiment's.

https://cloud.google.com/vertex-ai/docs/experiments/add-pipelinerun-experiment
"""

import contextlib
import time
from typing import Any

from vgp.base.errors import WorkFailed
from vgp.settings import Settings
from vgp.vertex import clients, names
from vgp.vertex.errors import explained
from vgp.vertex.runs.policy import ENDED

#: As Google's SDK writes them, so that its experiments and the console's are the same ones.
_SCHEMA = {"schema_title": "system.Experiment", "schema_version": "0.0.1", "metadata": {"experiment_deleted": False}}


def associate(settings: Settings, job_name: str, experiment: str, *, patience_s: float = 60.0) -> None:
    """Puts the run into the experiment, which is created if it does not exist. May be repeated.

    Raises:
        WorkFailed: Google refused, or the run has no context after `patience_s` seconds.
    """
    with explained(f"add the run to the experiment {experiment}", settings):
        client = clients.metadata_service(settings)
        parent = _experiment(client, settings, experiment)
        context = _run_context(settings, job_name, patience_s)
        client.add_context_children(request={"context": parent, "child_contexts": [context]}, **clients.reading())


def _experiment(client: Any, settings: Settings, experiment: str) -> str:
    """Resource name of the experiment's context."""
    from google.api_core import exceptions

    store = f"{names.location(settings)}/metadataStores/default"
    name = f"{store}/contexts/{names.job_id(experiment)}"
    try:
        client.get_context(name=name, **clients.reading())
    except exceptions.NotFound:
        context = {"display_name": experiment, **_SCHEMA}
        request = {"parent": store, "context_id": experiment, "context": context}
        with contextlib.suppress(exceptions.Conflict):  # after a lost answer, or somebody else was as quick
            client.create_context(request=request, **clients.reading())
    return name


def _run_context(settings: Settings, job_name: str, patience_s: float) -> str:
    """Resource name of the run's context, which Google makes some seconds after the run."""
    client, deadline = clients.pipeline_service(settings), time.monotonic() + patience_s
    while True:
        job = client.get_pipeline_job(name=job_name, **clients.reading())
        if job.job_detail.pipeline_run_context.name:
            return str(job.job_detail.pipeline_run_context.name)
        if job.state.name in ENDED or time.monotonic() > deadline:
            raise WorkFailed(
                "the run was started, but has no context in ML Metadata: it is in no experiment.\n"
                "  The same command adds it while the run answers for it; later, or after --new: the same command with "
                f"--id {names.short(job_name)}."
            )
        time.sleep(1)
