"""The records of a run in Vertex AI, written by the run's own steps: in the Model Registry and in an experiment.

A failure to update the Model Registry is a sentence of the outcome and no failure of the step: the registry itself is
as it should be, and the next run, or `vgp models`, updates Vertex AI. A run joins an experiment from within, whether a
schedule or the console started it, as `submit` does from outside (vgp/vertex/runs/run_submission.py), with the names
that Google's SDK gives. The console then shows the run's parameters and the metrics of its artifacts beside those of
the experiment's other runs. https://cloud.google.com/vertex-ai/docs/experiments/add-pipelinerun-experiment
"""

import sys
from collections.abc import Callable

from vgp.base import google_api
from vgp.base.documents.json_text import JsonObject
from vgp.base.text.printable import one_line
from vgp.protocol.job_steps import table
from vgp.protocol.model_registry import Terms, project
from vgp.protocol.model_service import Refused
from vgp.protocol.summary import run_page

# ---- Vertex AI's Model Registry, updated after a change of the registry


def follow(job: str, read: Callable[[], JsonObject], mine: int | None, terms: JsonObject) -> dict[str, str]:
    """Updates Vertex AI's Model Registry and returns the outcome as metadata; {} for a local run.

    Args:
        job: The resource name of the run.
        read: Returns the record in its JSON form, as it is now.
        mine: The version that this run registered, or None.
        terms: Settings: encryption_key and labels.
    """
    if not run_page(job):
        return {}
    _, number, _, region, *_ = job.split("/")
    try:
        done = project(read, project=number, region=region, terms=Terms(**terms), mine=mine)
    except Refused as error:
        print(f"warning: {one_line(str(error))}", file=sys.stderr, flush=True)
        return {"vertex": f"not up to date: {one_line(str(error))}"}
    for step in done:
        print(f"Vertex AI: {one_line(step)}", flush=True)
    return {"vertex": "up to date"}


# ---- the experiment of a run


def join(job: JsonObject, experiment: str) -> None:
    """Adds the run to the experiment, creating the experiment if needed. Can be repeated.

    Args:
        job: The PipelineJob as the REST API gives it, with its resource name.

    Raises:
        LookupError: the run has no context.
        requests.RequestException: as in `google_api`.
    """
    child = table(table(job, "jobDetail"), "pipelineRunContext").get("name")
    if not child:
        raise LookupError("the run has no context in ML Metadata")
    place = str(job["name"]).partition("/pipelineJobs/")[0]
    host, store = f"{place.rpartition('/')[2]}-aiplatform", f"{place}/metadataStores/default"
    parent = f"{store}/contexts/{experiment}"
    if not google_api.holds(host, f"v1/{parent}"):
        made = {
            "displayName": experiment, "schemaTitle": "system.Experiment", "schemaVersion": "0.0.1",
            "metadata": {"experiment_deleted": False},
        }  # fmt: skip
        google_api.write(host, f"v1/{store}/contexts?contextId={experiment}", made)
    google_api.write(host, f"v1/{parent}:addContextChildren", {"childContexts": [str(child)]})
