"""A run becomes part of a Vertex AI experiment, from within: whoever started it, a schedule or the console.

As `submit` does from outside (vgp/vertex/runs/run_submission.py), with the names that Google's SDK gives. The console
then shows the run's parameters and the metrics of its artifacts beside those of the experiment's other runs.
https://cloud.google.com/vertex-ai/docs/experiments/add-pipelinerun-experiment
"""

from vgp.base import google_api
from vgp.base.documents.json_text import JsonObject
from vgp.protocol.job_steps import table


def join(job: JsonObject, experiment: str) -> None:
    """Puts the run into the experiment, which is made if it is not there. May be repeated.

    Args:
        job: The PipelineJob as the REST API gives it, with its resource name.

    Raises:
        LookupError: the run has no context.
        requests.RequestException: as `google_api`.
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
