"""`vgp cancel RUN`: asks Google to stop a run. May be repeated; a run that has ended stays as it is."""

from typing import Any

from vgp.base.errors import RequestError
from vgp.settings import Settings
from vgp.vertex import clients, resource_names
from vgp.vertex.google_errors import explained
from vgp.vertex.runs import run_search
from vgp.vertex.runs.remote_run import Run, read


def cancel(settings: Settings, reference: str) -> tuple[Run, bool]:
    """The run, and whether this call asked for its end. `latest` is refused: it may be somebody else's by now.

    Raises:
        RequestError: there is no such run.
        WorkFailed: Google refused or could not be reached.
    """
    from google.api_core.exceptions import BadRequest

    if run_search.is_latest(reference):
        raise RequestError(f"cancel {reference}: name the run by its id, so that the right one ends. See: vgp runs.")
    run = run_search.find(settings, reference)
    if run.over or run.state == "cancelling":
        return run, False
    client = clients.pipeline_service(settings)
    with explained(f"cancel {run.id}", settings):
        try:
            client.cancel_pipeline_job(name=run.name, **clients.reading())
        except BadRequest:  # FAILED_PRECONDITION over HTTP: it ended between the two calls
            now = read(client.get_pipeline_job(name=run.name, **clients.reading()))
            if not now.over and now.state != "cancelling":
                raise
            return now, False
        return read(client.get_pipeline_job(name=run.name, **clients.reading())), True


def as_json(settings: Settings, run: Run, asked: bool) -> dict[str, Any]:
    """For --json: the run, and whether this call asked for its end."""
    link = resource_names.run_link(settings, run.id)
    return {"id": run.id, "name": run.name, "state": run.state, "asked": asked, "url": link}
