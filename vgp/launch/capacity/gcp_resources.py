"""The output `gcp_resources`, by which the console leads from a step to its job: that of the moment.

https://github.com/kubeflow/pipelines/blob/master/components/google-cloud/google_cloud_pipeline_components/proto/gcp_resources.proto
"""

import json
from pathlib import Path

from vgp.launch.capacity.step_run import uri as bucket_uri
from vgp.protocol.capacity.folder import ControlFolder
from vgp.protocol.capacity.job_service import uri


def write(path: str, job: str) -> None:
    """Names the job of that resource name in place of what was there. Google's own errors come through."""
    text = json.dumps({"resources": [{"resourceType": "CustomJob", "resourceUri": uri(job)}]})
    place = bucket_uri(path)
    if place.startswith("gs://"):
        folder, _, name = place.rpartition("/")
        ControlFolder(folder).put(name, text)
    else:
        Path(path).parent.mkdir(parents=True, exist_ok=True)
        Path(path).write_text(text, encoding="utf-8")
