"""Vertex AI's Model Registry brought after ours by the step that has just changed it.

What fails in here is a sentence of the outcome and no failure of the step: the registry itself is as it should be, and
the next run, or `vgp models`, brings Vertex AI after it.
"""

import sys
from collections.abc import Callable

from vgp.base.documents.json_text import JsonObject
from vgp.base.text.printable import one_line
from vgp.protocol.model_registry import Terms, project
from vgp.protocol.model_service import Refused
from vgp.protocol.summary import run_page


def follow(job: str, read: Callable[[], JsonObject], mine: int | None, terms: JsonObject) -> dict[str, str]:
    """What became of it, for the metadata of the version: nothing where the run is none on Vertex AI.

    Args:
        job: The resource name of the run.
        read: Returns the record in its JSON form, as it is now.
        mine: The version that this run has registered; None = none.
        terms: What the settings say: encryption_key and labels.
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
