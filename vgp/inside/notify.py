"""The exit step of a run: its summary, written as an artifact, printed, and sent where that is configured.

Whatever fails in here is a warning in the step's log: how a run ended is no business of its messenger.
"""

import base64
import sys
import uuid
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from vgp.inside import google_api, webhook
from vgp.inside.page import markdown
from vgp.inside.summary import Summary, run_page, summary_of
from vgp.text.printable import one_line


def tell(status: Any, path: str, *, address: str, prices: Mapping[str, float]) -> dict[str, Any]:
    """Writes the summary to `path`, prints it, sends it, and returns what belongs into the artifact's metadata.

    Args:
        status: kfp's PipelineTaskFinalStatus of the steps.
        path: Of the artifact.
        address: Where it is sent, https:// or the name of such an address in Secret Manager; empty: nowhere.
        prices: Dollars per hour of each step.
    """
    try:
        summary = _summary(status, prices)
        page = markdown(summary)
        print(page, flush=True)
        _write(path, page)
        return {"words": summary.words, "sent": _sent(summary, address)}
    except Exception as error:
        _warn(f"the run could not be summed up: {type(error).__name__}.")
        return {}


def _summary(status: Any, prices: Mapping[str, float]) -> Summary:
    """By what Google knows of the run, else by what the status alone tells: kfp.local's runs are known to nobody."""
    name = str(status.pipeline_job_resource_name)
    state, error = str(status.state), str(status.error_message or "")
    if run_page(name):
        try:
            job = google_api.read(f"{name.split('/')[3]}-aiplatform", f"v1/{name}")
            return summary_of({**job, "name": name}, prices, state=state, error=error)
        except Exception as why:
            _warn(
                f"the run's steps are not known: {_reason(why)}. The step's account needs aiplatform.pipelineJobs.get "
                "(roles/aiplatform.user)."
            )
        return summary_of({"name": name}, prices, state=state, error=error)
    # kfp.local calls a run by its group of steps, and that is what it says has failed: the command tells which step.
    return summary_of({}, prices, state=state)


def _write(path: str, page: str) -> None:
    try:
        Path(path).parent.mkdir(parents=True, exist_ok=True)
        Path(path).write_text(page, encoding="utf-8")
    except OSError as error:
        _warn(f"the summary could not be written to {path}: {error.strerror}.")


def _sent(summary: Summary, address: str) -> str:
    """What became of the message, in words."""
    if not address:
        return "no: no webhook is set"
    if not run_page(summary.name):
        return "no: this is no run on Vertex AI"
    key = str(uuid.uuid5(uuid.NAMESPACE_URL, f"//aiplatform.googleapis.com/{summary.name}"))
    try:
        status = webhook.post(_resolved(address), summary.as_json(), key)
    except (webhook.Refused, webhook.Undelivered) as error:
        _warn(f"the summary was not sent: {'the address ' if isinstance(error, webhook.Refused) else ''}{error}")
        return f"no: {error}"
    except Exception as error:
        _warn(f"the summary was not sent: {_reason(error)}.")
        return f"no: {_reason(error)}"
    print(f"sent; answered {status}", flush=True)
    return f"yes: answered {status}"


def _resolved(address: str) -> str:
    """The address itself, or what Secret Manager keeps under its name.

    Raises:
        Undelivered: the secret cannot be read.
    """
    if not webhook.is_secret_name(address):
        return address
    version = address if "/versions/" in address else f"{address}/versions/latest"
    try:
        answer = google_api.read("secretmanager", f"v1/{version}:access")
        return base64.b64decode(answer["payload"]["data"]).decode().strip()
    except Exception as error:
        raise webhook.Undelivered(
            f"{address} cannot be read: {_reason(error)}. The step's account needs secretmanager.versions.access "
            "(roles/secretmanager.secretAccessor)."
        ) from None


def _reason(error: Exception) -> str:
    """The kind of a failure, and the status that an API answered; messages of libraries may hold what is secret."""
    status = getattr(getattr(error, "response", None), "status_code", None)
    return f"{type(error).__name__}{f', {status}' if status else ''}"


def _warn(text: str) -> None:
    print(f"warning: {one_line(text)}", file=sys.stderr, flush=True)
