"""Google Cloud on loopback: real HTTP servers, for Google's real clients, with state, a clock and faults.

    from loopback.cloud import Cloud, lost_response, reset, slow, status

    with Cloud() as cloud:                     # or the pytest fixture `cloud`
        cloud.environment                      # for os.environ or a subprocess: endpoints, credentials, project
        cloud.endpoint("aiplatform")           # http://127.0.0.1:PORT
        cloud.script("train", seconds=600, metrics={"auc": 0.7})    # in jobs created from now on
        cloud.script("evaluate", fail="CUDA out of memory")
        cloud.clock.advance(3600)              # jobs progress, schedules tick
        cloud.clock.run(60)                    # or time passes by itself, a minute a second
        cloud.jobs, cloud.schedules            # messages by resource name, as they are now
        cloud.requests[-1].method              # "aiplatform.projects.locations.pipelineJobs.create"
        cloud.fail("aiplatform.*.pipelineJobs.create", status(503), reset(), lost_response(), slow(2))  # one a call
        cloud.on("aiplatform.*.schedules.patch", lambda call: process.kill())  # handled, not yet answered

It follows the discovery documents that google-api-python-client carries (discovery.py): routes, query parameters,
fields, enums and required fields are theirs. Vertex AI's bodies are parsed strictly into google.cloud.aiplatform_v1.
Resource names hold the project's number, as Vertex AI's do; requests may use either.
"""

import json
import re
import threading
import time
from collections.abc import Callable, Iterator
from datetime import datetime
from fnmatch import fnmatchcase
from tempfile import TemporaryDirectory
from typing import Any, Self

from . import artifact_registry, compute, projects
from .call import Call
from .clock import Clock
from .contexts import Contexts
from .credentials import Tokens, key_file
from .custom_jobs import CustomJobs
from .discovery import Method, document
from .errors import ApiError, denied
from .faults import Fault, Planned, lost_response, reset, slow, status
from .listing import Pages
from .logs import Entries
from .messages import to_json
from .operations import Operations
from .pipeline_jobs import PipelineJobs, to_json_job
from .plan import Script
from .policies import Policies
from .quotas import QuotaInfos, cloud_quotas
from .schedules import Schedules
from .schema import check_answer, check_query, message_field, read_body
from .server import RESET, Answer, Request, Servers
from .services import Services
from .storage import Storage
from .templates import Templates

__all__ = ["Cloud", "lost_response", "reset", "slow", "status"]

#: API -> its discovery document; each API has a port of its own.
DOCUMENTS = {
    "aiplatform": "aiplatform.v1",
    "artifactregistry": "artifactregistry.v1",
    "cloudbilling": "cloudbilling.v1",
    "cloudkms": "cloudkms.v1",
    "cloudquotas": "cloudquotas.v1",
    "cloudresourcemanager": "cloudresourcemanager.v3",
    "compute": "compute.v1",
    "iam": "iam.v1",
    "logging": "logging.v2",
    "serviceusage": "serviceusage.v1",
}
OTHERS = ("kfp_registry", "oauth2", "storage")


class Cloud:
    def __init__(
        self,
        *,
        project: str = "test-project",
        project_number: str = "123456789012",
        region: str = "us-central1",
        now: datetime | None = None,
        credentials: bool = True,
    ):
        self.project, self.project_number, self.region = project, project_number, region
        #: Whether a request without a valid token is refused; gcloud can run without.
        self.credentials = credentials
        self.clock = Clock(now, self.settle)
        self.pages = Pages()
        self.tokens = Tokens()
        self.requests: list[Call] = []
        self._faults: list[Planned] = []
        self._hooks: list[tuple[str, Callable[[Call], Any]]] = []
        self._lock = threading.RLock()
        self._folder = TemporaryDirectory(prefix="loopback-")
        self.policies = Policies()
        self.operations = Operations(self)
        self.custom_jobs = CustomJobs(self)
        self.pipeline_jobs = PipelineJobs(self)
        self.live_schedules = Schedules(self)
        self.contexts = Contexts(self)
        self.artifacts = artifact_registry.Store(self)
        self.templates = Templates(self, self.artifacts)
        self.services = Services(self)
        self.quotas = QuotaInfos(self)
        self.projects, self.billing = projects.Projects(self), projects.Billing(self)
        self.accounts, self.keys = projects.ServiceAccounts(self), projects.CryptoKeys(self)
        self.zones = compute.Catalog()
        self.logs = Entries(self)
        self.storage = Storage(self)
        self._services: dict[str, Any] = {service.prefix: service for service in self._all_services()}
        for name, kind in (("pipelines", "KFP"), ("images", "DOCKER")):
            self.artifacts.add_repository(f"projects/{project}/locations/{region}/repositories/{name}", kind)
        self._servers = Servers([*DOCUMENTS, *OTHERS], self.handle)

    def _all_services(self) -> Iterator[Any]:
        yield from (self.operations, self.custom_jobs, self.pipeline_jobs, self.live_schedules, self.contexts)
        yield from (self.services, self.quotas, self.projects, self.billing, self.accounts, self.keys, self.logs)
        yield from (kind(self.artifacts) for kind in artifact_registry.SERVICES)
        yield from (kind(self, self.zones) for kind in compute.SERVICES)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        self._servers.close()
        self.storage.close()
        self._folder.cleanup()

    def endpoint(self, api: str) -> str:
        return self._servers.by_api[api].url

    @property
    def environment(self) -> dict[str, str]:
        """What a client's process needs in its environment to be here, and nowhere else."""
        key = f"{self._folder.name}/key.json"
        with open(key, "w") as file:
            file.write(key_file(self.project, f"{self.endpoint('oauth2')}/token"))
        apis = [*DOCUMENTS, "kfp_registry", "storage"]
        gcloud = ("aiplatform", "artifactregistry", "compute", "logging", "iam", "serviceusage")
        overrides = {f"CLOUDSDK_API_ENDPOINT_OVERRIDES_{api.upper()}": f"{self.endpoint(api)}/" for api in gcloud}
        return {
            **{f"PIPELINES_ENDPOINTS__{api.upper()}": self.endpoint(api) for api in apis},
            **overrides,
            "PIPELINES_PROJECT": self.project,
            "PIPELINES_REGION": self.region,
            "PIPELINES_BUCKET": "gs://test-bucket",
            "PIPELINES_TEMPLATE_REPOSITORY": f"https://{self.region}-kfp.pkg.dev/{self.project}/pipelines",
            "STORAGE_EMULATOR_HOST": self.endpoint("storage"),
            "GOOGLE_APPLICATION_CREDENTIALS": key,
            "GOOGLE_CLOUD_PROJECT": self.project,
            "NO_GCE_CHECK": "true",
        }

    @property
    def jobs(self) -> dict[str, Any]:
        """PipelineJob messages by resource name."""
        with self._lock:
            self.settle()
            now = self.clock.now()
            return {name: to_json_job(job, now) for name, job in self.pipeline_jobs.jobs.items()}

    @property
    def schedules(self) -> dict[str, Any]:
        """Schedule messages by resource name."""
        with self._lock:
            self.settle()
            return {name: live.message for name, live in self.live_schedules.live.items()}

    def script(self, task: str = "*", **what: Any) -> None:
        """What tasks of this name do in jobs created from now on; see plan.Script. The last script that fits holds."""
        with self._lock:
            self.pipeline_jobs.scripts.append(Script(task, **what))

    def fail(self, method: str, *faults: Fault, forever: bool = False) -> None:
        """The next calls of the method (a pattern) meet these faults, one each; `forever`: all meet the first."""
        with self._lock:
            self._faults.append(Planned(method, list(faults), forever))

    def on(self, method: str, action: Callable[[Call], Any]) -> None:
        """Calls `action` whenever the method (a pattern) was handled, and before it is answered."""
        self._hooks.append((method, action))

    def settle(self) -> None:
        with self._lock:
            self.live_schedules.settle()

    def resource(self, name: str, permission: str) -> str:
        """The name with the project's number.

        Raises:
            ApiError: 403 in a project that is not ours.
        """
        found = re.fullmatch(r"projects/([^/]+)(/.*)?", name)
        if not found or found[1] not in (self.project, self.project_number):
            raise denied(permission, f"//{permission.split('.')[0]}.googleapis.com/{name}")
        return f"projects/{self.project_number}{found[2] or ''}"

    def as_json(self, message: Any, *, integers: bool = False) -> Any:
        return message if isinstance(message, dict | bytes) else to_json(message, integers=integers)

    def handle(self, request: Request) -> Answer:
        """One request, from the first byte to the last."""
        call = Call(
            "", request.http_method, request.path, {k: v[-1] for k, v in request.query.items()}, request.headers
        )
        try:
            return self.answer(request, call)
        except ApiError as error:
            call.status = error.code
            return Answer(error.code, error.as_json(), error.headers)
        except Exception as error:
            call.status = 500
            self.crashed = error
            return Answer(500, ApiError(500, f"the loopback cloud broke: {error!r}").as_json())

    def answer(self, request: Request, call: Call) -> Answer:
        if request.api == "oauth2":
            return Answer(200, self.tokens.give(request.body))
        self.name_method(request, call)
        with self._lock:
            self.requests.append(call)
            fault = self.fault(call.method)
        time.sleep(fault.slow_s)
        if fault.reset:
            return RESET
        if fault.answer:
            raise fault.answer
        if self.credentials and request.api != "storage":  # the storage server of this machine takes anybody
            self.tokens.check(request.headers.get("authorization", ""))
        answer = self.handled(request, call)
        call.status = answer.status
        for pattern, action in self._hooks:
            if fnmatchcase(call.method, pattern):
                action(call)
        return RESET if fault.lost else answer

    def name_method(self, request: Request, call: Call) -> None:
        if request.api == "storage":
            call.method = self.storage.method(request)
        elif request.api == "kfp_registry":
            call.method = self.templates.method(request)
        else:
            call.definition, call.params = self.route(request)
            call.method = call.definition.id

    def handled(self, request: Request, call: Call) -> Answer:
        if request.api == "storage":
            return self.storage.answer(request)
        if request.api == "kfp_registry":
            with self._lock:
                return Answer(200, self.templates.answer(request, call), {"Content-Type": "text/plain"})
        self.read(request, call)
        with self._lock:
            self.settle()
            answer = self.handler(call)(call)
            integers = "enum-encoding=int" in request.query.get("$alt", [""])[0]
            body = self.as_json(answer, integers=integers)
        assert call.definition
        if call.definition.response:
            check_answer(call.definition.document, call.definition.response, body)
        return Answer(200, body)

    def route(self, request: Request) -> tuple[Method, dict[str, str]]:
        name = DOCUMENTS[request.api]
        described = cloud_quotas() if name == "cloudquotas.v1" else document(name)
        if found := described.find(request.http_method, request.path.lstrip("/")):
            return found
        raise ApiError(404, f"The requested URL {request.path} was not found on this server.")

    def fault(self, method: str) -> Fault:
        for planned in self._faults:
            if fnmatchcase(method, planned.pattern) and (fault := planned.take()):
                return fault
        return Fault()

    def read(self, request: Request, call: Call) -> None:
        """The query and the body, against what the method takes."""
        method = call.definition
        assert method
        check_query(method.parameters, method.document.parameters, request.query)
        if request.body:
            try:
                call.body = json.loads(request.body)
            except ValueError as error:
                raise ApiError(400, f"Invalid JSON payload received. {error}") from error
        if method.request:
            complete = request.http_method != "PATCH"
            where = message_field(method.request) if method.http_method != "POST" or ":" not in method.flat else ""
            call.body = read_body(method.document, method.request, call.body or {}, where, complete=complete)

    def handler(self, call: Call) -> Callable[[Call], Any]:
        prefix, _, verb = call.method.rpartition(".")
        handler = getattr(self._services.get(prefix), verb, None)
        if handler is None:
            raise ApiError(501, f"the loopback cloud has no {call.method}")
        return handler
