"""The commit of the code of a run, which is a label that the command sets when it starts the run.

It is a label and not a parameter, so that a commit changes neither the pipeline's spec nor cache keys.
"""

import re
import sys

from vgp.base import google_api
from vgp.protocol.job_steps import table
from vgp.protocol.summary import run_page

LABEL = "code-commit"


def of_run(job: str) -> str:
    """Returns the full hash; "" for a local run, uncommitted code, or a start in the console.

    Args:
        job: The resource name of the run.
    """
    if not run_page(job):
        return ""
    try:
        commit = table(google_api.read(f"{job.split('/')[3]}-aiplatform", f"v1/{job}"), "labels").get(LABEL, "")
    except Exception as error:  # any client or network error: a version works without its commit
        print(
            f"warning: the commit of the code is unknown: {type(error).__name__}. The step's account needs "
            "aiplatform.pipelineJobs.get (roles/aiplatform.user).",
            file=sys.stderr,
            flush=True,
        )
        return ""
    return str(commit) if is_commit(str(commit)) else ""


def is_commit(text: str) -> bool:
    """Whether the text is a full git hash, SHA-1 or SHA-256."""
    return re.fullmatch(r"[0-9a-f]{40}|[0-9a-f]{64}", text) is not None
