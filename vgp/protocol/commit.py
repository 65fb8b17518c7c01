"""The commit of the code that a run was started from, told by whoever started it as a label of the run.

A label and no parameter: neither the pipeline's spec nor what a step's results are cached by changes with a commit.
"""

import re
import sys

from vgp.base import google_api
from vgp.protocol.job_steps import table
from vgp.protocol.summary import run_page

LABEL = "code-commit"


def of_run(job: str) -> str:
    """The full hash; "" where the run is none on Vertex AI, was started from code that is no commit, or by the console.

    Args:
        job: The resource name of the run.
    """
    if not run_page(job):
        return ""
    try:
        told = table(google_api.read(f"{job.split('/')[3]}-aiplatform", f"v1/{job}"), "labels").get(LABEL, "")
    except Exception as error:  # of Google's clients and of the network: a version without its commit is a version
        print(
            f"warning: the commit of the code is not known: {type(error).__name__}. The step's account needs "
            "aiplatform.pipelineJobs.get (roles/aiplatform.user).",
            file=sys.stderr,
            flush=True,
        )
        return ""
    return str(told) if is_commit(str(told)) else ""


def is_commit(text: str) -> bool:
    """Whether the text is a full hash of git's, of either length."""
    return re.fullmatch(r"[0-9a-f]{40}|[0-9a-f]{64}", text) is not None
