"""The records that the steps of a run write to Vertex AI: in the Model Registry and in an experiment.

A failure to update the Model Registry is a warning and does not fail the step, because our registry is correct, and
the next run or `vgp models` updates Vertex AI. The exit step adds a run to the experiment, so that runs started by a
schedule or in the console join it as those of `vgp submit` do (vgp/vertex/runs/run_submission.py); the names are those
of Google's SDK. The console then compares the run's parameters and metrics with those of the experiment's other runs.
https://cloud.google.com/vertex-ai/docs/experiments/add-pipelinerun-experiment
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
        read: Returns the current record in its JSON form.
        mine: The version that this run registered, or None.
        terms: Settings: encryption_key and labels.
    """
    if not run_page(job):
        return {}
    _, number, _, region, *_ = job.split("/")
    try:
        changes = project(read, project=number, region=region, terms=Terms(**terms), mine=mine)
    except Refused as error:
        print(f"warning: {one_line(str(error))}", file=sys.stderr, flush=True)
        return {"vertex": f"not up to date: {one_line(str(error))}"}
    for change in changes:
        print(f"Vertex AI: {one_line(change)}", flush=True)
    return {"vertex": "up to date"}


# ---- the experiment of a run


def join(job: JsonObject, experiment: str) -> None:
    """Adds the run to the experiment, creating the experiment if needed. Can be repeated.

    Args:
        job: The PipelineJob in its REST form, with its resource name.

    Raises:
        LookupError: the run has no context.
        requests.RequestException: as in `google_api`.
    """
    child = table(table(job, "jobDetail"), "pipelineRunContext").get("name")
    if not child:
        raise LookupError("the run has no context in ML Metadata")
    region = str(job["name"]).partition("/pipelineJobs/")[0]
    host, store = f"{region.rpartition('/')[2]}-aiplatform", f"{region}/metadataStores/default"
    parent = f"{store}/contexts/{experiment}"
    if not google_api.holds(host, f"v1/{parent}"):
        body = {
            "displayName": experiment, "schemaTitle": "system.Experiment", "schemaVersion": "0.0.1",
            "metadata": {"experiment_deleted": False},
        }  # fmt: skip
        google_api.write(host, f"v1/{store}/contexts?contextId={experiment}", body)
    google_api.write(host, f"v1/{parent}:addContextChildren", {"childContexts": [str(child)]})
