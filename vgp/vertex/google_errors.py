"""Google's errors as messages: what happened, and what to do."""

import re
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from datetime import date
from typing import Any

from vgp.base.errors import WorkFailed
from vgp.base.text.printable import one_line
from vgp.check.check_finding import StepRow
from vgp.machines.placement.refusal import alternatives
from vgp.settings import Settings
from vgp.vertex import clients, permissions
from vgp.vertex.permissions import ACT_AS, role_for, roles

#: The most characters of a message, because a proxy may answer with a page.
_MAX_LENGTH = 1000
_PERMISSION = re.compile(r"\b([a-z]+(?:\.[a-zA-Z]+){2,3})\b")
#: Vertex AI, 400 and 403: "You do not have permission to act as service_account: EMAIL. (or it may not exist)";
#: Cloud Build: "caller does not have permission to act as service account projects/PROJECT/serviceAccounts/NUMBER";
#: IAM: "Permission 'iam.serviceaccounts.actAs' denied on service account EMAIL (or it may not exist)".
#: https://github.com/googleapis/python-aiplatform/issues/1073
_ACT_AS = re.compile(
    r"(?:permission to act as|actAs\b.*?\bon) service[ _]account:?\s+(?:projects/[^/\s]+/serviceAccounts/)?"
    r"(?P<account>[\w-]+(?:@[a-z0-9-]+(?:\.[a-z0-9-]+)+)?)",
    re.I,
)
_METRIC = re.compile(r"\b(?:[a-z]+\.googleapis\.com)/([a-z0-9_]+)\b")
#: HTTPSConnectionPool(host='...', port=443): Max retries exceeded with url: /v1/... (Caused by ...Error("...: why"))
_UNREACHABLE = re.compile(
    r"host='(?P<host>[^']+)'.*Max retries exceeded.*"
    r"\(Caused by \w+\([\"']?(?:HTTPS?Connection\([^)]*\): )?(?P<why>.*?)[\"']?\)\)$"
)
#: The exit code of coreutils' `timeout`: vgp/workflow/compiling/entrypoint.py.
_TIMED_OUT = re.compile(r"non-zero status of 124\b|exit(?:ed with)?(?: status| code)?:? 124\b", re.I)
#: EX_TEMPFAIL of sysexits.h: the training saved a checkpoint because a machine was preempted or lost.
_PREEMPTED = re.compile(r"non-zero status of 75\b|exit(?:ed with)?(?: status| code)?:? 75\b", re.I)
#: EX_UNAVAILABLE of sysexits.h: a store did not answer the step.
_STORE_DOWN = re.compile(r"non-zero status of 69\b|exit(?:ed with)?(?: status| code)?:? 69\b", re.I)
_STOCKOUT = re.compile(r"resources are insufficient|stockout|not enough resources|ZONE_RESOURCE_POOL_EXHAUSTED", re.I)


@contextmanager
def explain_errors(doing: str, settings: Settings) -> Iterator[None]:
    """Turns errors of Google's clients into WorkFailed, with the failed action, Google's message and advice.

    Args:
        doing: The action, as in "list the runs".
    """
    import google.auth.exceptions
    import requests
    from google.api_core import exceptions
    from google.protobuf.json_format import ParseError

    try:
        yield
    except exceptions.RetryError as error:
        raise _failure_error(doing, error.cause or error, settings, "The call was retried.") from None
    except exceptions.GoogleAPICallError as error:
        raise _failure_error(doing, error, settings) from None
    except google.auth.exceptions.TransportError as error:
        raise _failure_error(doing, error, settings, "No token could be fetched.") from None
    except google.auth.exceptions.GoogleAuthError as error:
        hint = "Sign in again: gcloud auth application-default login."
        raise WorkFailed(f"{doing}: the credentials were not accepted: {_first_line(error)}\n  {hint}") from None
    except (ParseError, requests.JSONDecodeError) as error:
        raise _foreign_answer_error(doing, error) from None
    except requests.RequestException as error:
        raise _failure_error(doing, error, settings) from None
    except (AttributeError, UnicodeDecodeError) as error:
        # Google's clients fail on {"error": "denied"}, the answer of some proxies.
        if not _is_raised_by_google(error):
            raise
        raise _foreign_answer_error(doing, error) from None


def advice(
    message: str,
    settings: Settings,
    *,
    code: int | None = None,
    details: Iterable[object] = (),
    machines: StepRow | None = None,
) -> str:
    """Returns advice on an error message of Google, or an empty text.

    Args:
        code: The HTTP status of a call; None for the error of a step.
        details: The details of the error of a call.
        machines: The machines of the failed step.
    """
    project = settings.project or "PROJECT"
    service = _find_disabled_service(message, details)
    if service:
        return f"Enable the API: gcloud services enable {service} --project {project}"
    if _STOCKOUT.search(message):
        return _stockout_advice(settings, machines)
    if _TIMED_OUT.search(message):
        return (
            "It exceeded its timeout, or its own code exited with this status: see its log. "
            "To raise the limit, set timeout in [steps.NAME], for example 6h."
        )
    if _PREEMPTED.search(message):
        return (
            "Exit code 75: a machine of the job was preempted. Saved checkpoints are kept. "
            "Start the run again, or give the step a ladder: docs/how-to/spot-with-a-fallback.md."
        )
    if _STORE_DOWN.search(message):
        return (
            "Exit code 69: Cloud Storage did not answer before the step's deadline. Start the run again; it resumes "
            "from the last checkpoint."
        )
    if "quota" in message.lower() and (metrics := sorted(set(_METRIC.findall(message)))):
        link = f"https://console.cloud.google.com/iam-admin/quotas?project={project}"
        return f"Ask for more of {', '.join(metrics)} in {settings.region}: {link}"
    if refused := _ACT_AS.search(message):
        return _act_as_advice(refused["account"], settings, is_step=code is None)
    if code == 403 or "permission" in message.lower():
        return _permission_advice(message, details, settings)
    return ""


def _act_as_advice(account: str, settings: Settings, *, is_step: bool) -> str:
    """Returns the command that allows the caller to act as the account.

    A step starts its training job as its own service account, so that account needs the role on itself.
    """
    member = clients.caller() or "user:YOU"
    if is_step:
        member = f"serviceAccount:{settings.service_account or account}"
    lines = [
        f"{ACT_AS} is missing: {member} needs the role {role_for(ACT_AS)} on {account}.",
        permissions.act_as(account, member, settings.project or "PROJECT"),
    ]
    if account.endswith(permissions.COMPUTE) and not settings.service_account:
        lines.append("Or set service_account in pipelines.toml: docs/tutorials/vertex.md.")
    return "\n".join([*lines, f"If it may not exist: gcloud iam service-accounts describe {account}"])


def _stockout_advice(settings: Settings, machines: StepRow | None) -> str:
    if machines and machines.rungs:
        text = "No rung of the step's ladder provided machines in time. Add a rung in another region or with another"
        return f"{text} GPU: vgp machines --ladder proposes one."
    region = (machines and machines.region) or settings.region
    combination = machines.combination if machines else None
    strategy = machines.strategy if machines else ""
    hints = alternatives(combination, region, strategy, date.today()) if combination else []
    if not hints:
        look = "`vgp machines --accelerator ...` lists where a GPU is offered"
        hints = [f'Take another region or machine, or wait: strategy = "flex_start". {look}.']
    return "\n".join([f"Every zone of {region} was tried.", *hints])


def _failure_error(doing: str, error: Exception, settings: Settings, more: str = "") -> WorkFailed:
    message = _first_line(getattr(error, "message", None) or error)
    hint = advice(message, settings, code=_find_code(error), details=getattr(error, "details", ())) or _default_advice(
        error
    )
    lines = [f"{doing}: {_describe_status(error)}: {message}", more, *hint.splitlines()]
    return WorkFailed("\n  ".join(filter(None, lines)))


def _foreign_answer_error(doing: str, error: Exception) -> WorkFailed:
    hint = "Check for a proxy or a network's login page, and check the endpoints: vgp config."
    return WorkFailed(f"{doing}: the response did not come from Google: {_first_line(error)}\n  {hint}")


def _is_raised_by_google(error: Exception) -> bool:
    """Whether a library of Google raised the error, rather than its caller."""
    trace = error.__traceback__
    while trace and trace.tb_next:
        trace = trace.tb_next
    return trace is not None and str(trace.tb_frame.f_globals.get("__name__")).startswith("google.")


def _describe_status(error: Exception) -> str:
    words = {400: "refused", 401: "not signed in", 403: "not allowed", 404: "not found", 409: "exists already",
             412: "changed meanwhile", 429: "out of quota, or too many requests"}  # fmt: skip
    code = _find_code(error)
    if code is None:
        return "no connection"
    return words.get(code, f"Google answered {code}")


def _default_advice(error: Exception) -> str:
    code = _find_code(error)
    if code is None:
        return "Nothing is lost: run the same command again when the network is back."
    if code == 401:
        return "Sign in: gcloud auth application-default login."
    if code == 404:
        return "Check project, region and name: vgp config."
    if code >= 500 or code == 429:
        return "Google's service is busy or down. Run the same command again later; it starts nothing twice."
    return ""


def _permission_advice(message: str, details: Iterable[object], settings: Settings) -> str:
    reported = [permission for detail in details if (permission := _read_metadata(detail).get("permission"))]
    services = {name.split(".")[0] for permissions in roles().values() for name in permissions}
    quoted = [name for name in _PERMISSION.findall(message) if name.split(".")[0] in services]
    missing = next(iter([*reported, *quoted]), None)
    if not missing:
        return f"Ask an owner of {settings.project} for access; `vgp preflight` lists what is missing."
    if missing.lower() == ACT_AS.lower():  # IAM writes iam.serviceaccounts.actAs
        missing = ACT_AS
    role = role_for(missing)
    if role is None:
        page = f"https://cloud.google.com/iam/docs/roles-permissions/{missing.split('.')[0]}"
        return f"{missing} is missing. The roles that hold it: {page}"
    target = f" on {settings.service_account}" if missing == ACT_AS and settings.service_account else ""
    return f"{missing} is missing: the role {role}{target} holds it."


def _find_disabled_service(message: str, details: Iterable[object]) -> str | None:
    for detail in details:
        if _field(detail, "reason") == "SERVICE_DISABLED":
            return _read_metadata(detail).get("service")
    service = re.search(r"\b([a-z]+\.googleapis\.com)\b.*(?:has not been used|is disabled|not enabled)", message)
    return service.group(1) if service else None


def _read_metadata(detail: object) -> dict[str, str]:
    return dict(_field(detail, "metadata") or {})


def _field(detail: object, name: str) -> Any:
    """Returns a field of an error detail, which is a message over gRPC and JSON over REST."""
    return detail.get(name) if isinstance(detail, dict) else getattr(detail, name, None)


def _find_code(error: Exception) -> int | None:
    code = getattr(error, "code", None)
    return int(code) if code is not None and not callable(code) else None


def _first_line(error: object) -> str:
    """Returns the first line of Google's message without its URL; for a lost connection, the host and the reason."""
    line = (str(error).strip().splitlines() or [type(error).__name__])[0]
    if unreachable := _UNREACHABLE.search(line):
        return one_line(f"{unreachable['host']} cannot be reached: {unreachable['why']}", _MAX_LENGTH)
    return one_line(re.sub(r"^(?:\d{3} )?(?:[A-Z]+ https?://\S+: )?", "", line), _MAX_LENGTH)
