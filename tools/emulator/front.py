"""Handles an HTTP request: finds its method, applies faults, checks credentials, query and body, calls the handler."""

import json
import re
import time
from collections.abc import Callable
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, Any

from .call import Call
from .discovery import Method, document
from .errors import ApiError
from .faults import Fault
from .quotas import cloud_quotas
from .schema import check_answer, check_query, message_field, read_body
from .server import RESET, Answer, Request

if TYPE_CHECKING:
    from .cloud import Cloud

#: API -> its discovery document; each API has its own port.
DOCUMENTS = {
    "aiplatform": "aiplatform.v1",
    "artifactregistry": "artifactregistry.v1",
    "bigquery": "bigquery.v2",
    "cloudbilling": "cloudbilling.v1",
    "cloudbuild": "cloudbuild.v1",
    "cloudkms": "cloudkms.v1",
    "cloudquotas": "cloudquotas.v1",
    "cloudresourcemanager": "cloudresourcemanager.v3",
    "compute": "compute.v1",
    "dataflow": "dataflow.v1b3",
    "iam": "iam.v1",
    "iamcredentials": "iamcredentials.v1",
    "logging": "logging.v2",
    "secretmanager": "secretmanager.v1",
    "serviceusage": "serviceusage.v1",
}
#: The methods of v1beta1 that are here; their discovery document checks query, body and answer.
BETA = ("aiplatform.projects.locations.pipelineJobs.create",)
#: Query parameters of Google's clients that the documents lack.
UNDOCUMENTED = {"bigquery.jobs.get": ("projection",), "bigquery.jobs.cancel": ("projection",)}
#: Methods whose request and answer need not be JSON.
AS_IT_IS = "GoogleApiHttpBody"
#: The only methods of an endpoint's own host.
DEDICATED = (":predict", ":rawPredict")
#: Methods that google-auth calls by itself, partly in its own threads.
SIGN_INS = ("oauth2", "iamcredentials")


def handle(cloud: "Cloud", request: Request) -> Answer:
    """Answers one request and records it."""
    last = {name: values[-1] for name, values in request.query.items()}
    call = Call("", request.http_method, request.path, last, request.headers, request.query)
    try:
        return answer(cloud, request, call)
    except ApiError as error:
        call.status = error.code
        return Answer(error.code, error.as_json(), error.headers)
    except Exception as error:
        call.status, cloud.crashed = 500, error
        return Answer(500, ApiError(500, f"the loopback cloud broke: {error!r}").as_json())


def answer(cloud: "Cloud", request: Request, call: Call) -> Answer:
    name_method(cloud, request, call)
    with cloud.counting:
        (cloud.sign_ins if request.api in SIGN_INS else cloud.requests).append(call)
        fault = next_fault(cloud, call.method)
    act(cloud.before, call)
    time.sleep(fault.slow_s)
    if fault.reset:
        return RESET
    if fault.answer:
        raise fault.answer
    if cloud.credentials and request.api not in ("storage", "oauth2"):  # the storage server here takes anybody
        cloud.tokens.check(request.headers.get("authorization", ""))
    if fault.repeated:
        run_handler(cloud, request, call)
    answered = run_handler(cloud, request, call)
    time.sleep(fault.late_s)
    call.status = answered.status
    act(cloud.after, call)
    return RESET if fault.lost else answered


def name_method(cloud: "Cloud", request: Request, call: Call) -> None:
    if request.api == "storage":
        call.method = cloud.storage.method(request)
        if name := multipart_name(request):
            call.params["name"] = name
    elif request.api == "kfp_registry":
        call.method = cloud.templates.method(request)
    elif request.api == "oauth2":
        call.method = "oauth2.token"
    else:
        call.definition, call.params = route(request)
        call.method = call.definition.id


def multipart_name(request: Request) -> str:
    """Returns the object's name in an upload whose first part is metadata; "" for any other request."""
    if request.query.get("uploadType") != ["multipart"]:
        return ""
    found = re.search(rb'"name": ?("(?:[^"\\]|\\.)*")', request.body[:4096])
    return str(json.loads(found[1])) if found else ""


def route(request: Request) -> tuple[Method, dict[str, str]]:
    name = DOCUMENTS.get(request.api)
    if request.host.endswith(".vertexai.goog") and not request.path.endswith(DEDICATED):
        name = None
    name = "compute.beta" if request.path.startswith("/compute/beta/") else name
    path = re.sub(r"^/(ui|v1beta1)/(?=.*/operations/\d+$)", "/v1/", request.path)  # as Google's SDK and gcloud ask
    if name == "aiplatform.v1" and path.startswith("/v1beta1/"):
        name = "aiplatform.v1beta1"
    described = cloud_quotas() if name == "cloudquotas.v1" else document(name) if name else None
    if described and (found := described.find(request.http_method, path.lstrip("/"))):
        return found
    raise ApiError(404, f"The requested URL {request.path} was not found on this server.")


def matches_method(pattern: str, method: str) -> bool:
    """Whether `pattern` matches the method; for calls that google-auth makes by itself it must begin with their API."""
    api = method.partition(".")[0]
    return fnmatchcase(method, pattern) and (api not in SIGN_INS or pattern.startswith(api))


def next_fault(cloud: "Cloud", method: str) -> Fault:
    for planned in cloud.faults:
        if matches_method(planned.pattern, method) and (fault := planned.take()):
            return fault
    return Fault()


def act(hooks: list[tuple[str, Callable[[Call], Any]]], call: Call) -> None:
    for pattern, action in hooks:
        if matches_method(pattern, call.method):
            action(call)


def run_handler(cloud: "Cloud", request: Request, call: Call) -> Answer:
    if request.api == "storage":
        return cloud.storage.answer(request)
    if request.api == "oauth2":
        return token(cloud, request)
    if request.api == "kfp_registry":
        with cloud.lock:
            return Answer(200, cloud.templates.answer(request, call), {"Content-Type": "text/plain"})
    read(request, call)
    assert call.definition
    with cloud.lock:
        cloud.settle()
        answered = handler(cloud, call)(call)
        if isinstance(answered, Answer):
            return answered
        integers = "enum-encoding=int" in request.query.get("$alt", [""])[0]
        body = cloud.as_json(answered, integers=integers)
    if call.definition.response:
        check_answer(call.definition.document, call.definition.response, body)
    return Answer(200, body)


def token(cloud: "Cloud", request: Request) -> Answer:
    """Returns an access token, or an error of RFC 6749."""
    try:
        return Answer(200, cloud.tokens.give(request.body))
    except (ApiError, ValueError, KeyError) as error:
        return Answer(400, {"error": "invalid_grant", "error_description": str(error)})


def read(request: Request, call: Call) -> None:
    """Checks query and body of the call by the method's document."""
    method = call.definition
    assert method
    spared = UNDOCUMENTED.get(method.id, ())
    query = {name: values for name, values in request.query.items() if name not in spared}
    check_query(method.parameters, method.document.parameters, query)
    if method.response == AS_IT_IS:
        call.body = request.body
        return
    if request.body:
        try:
            call.body = json.loads(request.body)
        except ValueError as error:
            raise ApiError(400, f"Invalid JSON payload received. {error}") from error
    if method.request:
        complete = request.http_method != "PATCH"
        where = "" if method.flat.rpartition("/")[2].count(":") else message_field(method.request)
        call.body = read_body(method.document, method.request, call.body or {}, where, complete=complete)


def handler(cloud: "Cloud", call: Call) -> Callable[[Call], Any]:
    prefix, _, verb = call.method.rpartition(".")
    found = getattr(cloud.handlers.get(prefix), verb, None)
    beta = call.definition is not None and call.definition.document.name.endswith("beta1")
    if found is None or (beta and call.method not in BETA):
        raise ApiError(501, f"the loopback cloud has no {call.method}")
    return found
