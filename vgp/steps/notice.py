"""The exit step of a run: writes the summary as an artifact, prints it, and sends it if configured.

Failures in this step are warnings in its log and do not change the run's state.
"""

import re
import sys
import uuid
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from vgp.base import google_api, webhook
from vgp.base.documents.json_text import JsonObject
from vgp.base.exits import UserError
from vgp.base.text.figures import format_duration, format_usd
from vgp.base.text.printable import one_line, printable
from vgp.base.text.times import price_dates
from vgp.protocol.capacity import ladder_view
from vgp.protocol.capacity.ladder_view import LadderView
from vgp.protocol.job_steps import Step
from vgp.protocol.summary import Summary, run_page, summary_of
from vgp.steps import vertex_records

_LOCAL = "no: this is not a run on Vertex AI"


def send_summary(
    status: Any, path: str, *, address: str, prices: Mapping[str, float | Sequence[Any]], experiment: str = ""
) -> JsonObject:
    """Writes the summary to `path`, prints it, sends it, and returns the artifact's metadata.

    Args:
        status: kfp's PipelineTaskFinalStatus of the steps.
        path: Path of the artifact.
        address: Webhook (https://), or the Secret Manager name of one; "" = none.
        prices: Dollars per hour of each step, with the day of the price; older specs lack the day.
        experiment: Vertex AI experiment that the run joins unless it found nothing new; "" = none.
    """
    try:
        job = _read_job(status)
        # kfp.local names a group of steps as failed; the command prints the step.
        error = str(status.error_message or "") if job else ""
        summary = summary_of(job, prices, state=str(status.state), error=error, ways=_read_ladders(job))
        page = markdown(summary)
        print(page, flush=True)
        _write(path, page)
        joined = {"experiment": _join_experiment(job, summary, experiment)} if experiment else {}
        return {"words": summary.words, "sent": _send(summary, address)} | joined
    except Exception as error:
        _warn(f"the run's summary could not be written: {type(error).__name__}.")
        return {}


def _read_job(status: Any) -> JsonObject:
    """Reads the run's PipelineJob; returns only its name if that fails, and {} for a local run."""
    name = str(status.pipeline_job_resource_name)
    if run_page(name):
        try:
            return {**google_api.read(f"{name.split('/')[3]}-aiplatform", f"v1/{name}"), "name": name}
        except Exception as why:
            _warn(
                f"the run's steps are unknown: {_reason(why)}. The step's account needs aiplatform.pipelineJobs.get "
                "(roles/aiplatform.user)."
            )
        return {"name": name}
    return {}


def _read_ladders(job: JsonObject) -> tuple[LadderView, ...]:
    """Reads the histories of the run's ladders; makes no request for a run without a ladder."""
    if not ladder_view.has_ladder(job.get("pipelineSpec") or {}):
        return ()
    root = str((job.get("runtimeConfig") or {}).get("gcsOutputDirectory", ""))
    try:
        return ladder_view.of_run(ladder_view.client(), root, str(job.get("name", "")).rpartition("/")[2])
    except Exception as error:
        _warn(f"the run's ladders are unknown: {_reason(error)}. The step's account needs storage.objects.list.")
        return ()


def _join_experiment(job: JsonObject, summary: Summary, name: str) -> str:
    """Adds the run to the experiment and returns the outcome as text."""
    if not run_page(summary.name):
        return _LOCAL
    if summary.nothing_new:
        return "no: nothing is new"
    try:
        vertex_records.join(job, name)
        return f"yes: {name}"
    except Exception as error:
        _warn(
            f"the run is not in the experiment {name}: {_reason(error)}. The step's account needs "
            "aiplatform.contexts.get, .create and .addContextChildren (roles/aiplatform.user)."
        )
        return f"no: {_reason(error)}"


def _write(path: str, page: str) -> None:
    try:
        Path(path).parent.mkdir(parents=True, exist_ok=True)
        Path(path).write_text(page, encoding="utf-8")
    except OSError as error:
        _warn(f"the summary could not be written to {path}: {error.strerror}.")


def _send(summary: Summary, address: str) -> str:
    """Sends the message and returns the outcome as text."""
    if not address:
        return "no: no webhook is set"
    if not run_page(summary.name):
        return _LOCAL
    key = str(uuid.uuid5(uuid.NAMESPACE_URL, f"//aiplatform.googleapis.com/{summary.name}"))
    try:
        status = webhook.post_body(_read_address(address), summary.as_json(), key)
    except (webhook.Refused, webhook.Undelivered) as error:
        _warn(f"the summary was not sent: {'the address ' if isinstance(error, webhook.Refused) else ''}{error}")
        return f"no: {error}"
    except Exception as error:
        _warn(f"the summary was not sent: {_reason(error)}.")
        return f"no: {_reason(error)}"
    print(f"summary sent; the webhook answered {status}", flush=True)
    return f"yes: answered {status}"


def _read_address(address: str) -> str:
    """Returns the address, reading it from Secret Manager if it is a secret's name.

    Raises:
        Undelivered: the secret cannot be read.
    """
    if not webhook.is_secret_name(address):
        return address
    try:
        return google_api.read_secret(address)
    except UserError as error:
        raise webhook.Undelivered(str(error)) from None


def _reason(error: Exception) -> str:
    """Returns an error's class and HTTP status; messages of libraries may contain secrets."""
    status = getattr(getattr(error, "response", None), "status_code", None)
    return f"{type(error).__name__}{f', {status}' if status else ''}"


def _warn(text: str) -> None:
    print(f"warning: {one_line(text)}", file=sys.stderr, flush=True)


#: Characters with a meaning in Markdown or HTML.
_MARKS = re.compile(r"([\\`*_{}\[\]()<>#+!|~&])")
#: Maximum number of lines of an error.
_LINES = 30


def markdown(summary: Summary) -> str:
    """Renders headline, result, a row per step, errors and links as Markdown."""
    parts = [f"# {_escape_text(summary.run) or 'This run'}: {summary.state}"]
    if summary.words != summary.state:
        parts.append(_escape_text(summary.words))
    if summary.steps:
        parts.append(
            "\n".join(["| step | state | took | cost | made by |", "|---|---|---|---|---|", *_format_rows(summary)])
        )
    parts += [f"{dates[0].upper()}{dates[1:]}."] if (dates := price_dates(summary.price_dates)) else []
    parts += [f"{_escape_text(way.step)}: {_escape_text(way.words)}." for way in summary.ways]
    parts += [_format_error(step) for step in summary.failed if step.error]
    if summary.links:
        parts.append("\n".join(f"- {name}: <{link}>" for name, link in summary.links.items()))
    if summary.nothing_new and "report" in summary.links:
        parts.append(f"The report is from {_escape_text(summary.since or 'the earlier run')}.")
    return "\n\n".join(parts) + "\n"


def _format_rows(summary: Summary) -> list[str]:
    rows = [
        [_escape_text(step.name), step.state, format_duration(step.seconds), format_usd(summary.usd(step)), ""]
        if step.seconds is not None
        else [_escape_text(step.name), step.state, "", "", _escape_text(step.since)]
        for step in summary.steps
    ]
    seconds = "" if summary.seconds is None else format_duration(summary.seconds)
    rows.append(["together", "", seconds, _cost(summary), ""])
    return [f"| {' | '.join(cells)} |" for cells in rows]


def _cost(summary: Summary) -> str:
    """Returns the estimated cost at list prices."""
    if summary.unpriced and not summary.total_usd:
        return "no price"
    return f"{'at least ' if summary.unpriced else 'about '}{format_usd(summary.total_usd)}"


def _format_error(step: Step) -> str:
    lines = printable(step.error).strip().splitlines()
    return "\n".join([f"{_escape_text(step.name)} failed:", "", *(f"    {line}" for line in lines[:_LINES])])


def _escape_text(text: str) -> str:
    return _MARKS.sub(r"\\\1", one_line(text))
