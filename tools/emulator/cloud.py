"""Google Cloud on loopback: real HTTP servers, for Google's real clients, with state, a clock and faults.

    from tools.emulator.cloud import Cloud, lose_response, reset, slow, status

    with Cloud() as cloud:                     # or the pytest fixture `cloud`
        cloud.environment                      # variables of a client: endpoints, credentials, project
        cloud.endpoint("aiplatform")           # http://127.0.0.1:PORT
        cloud.script("train", seconds=600, metrics={"auc": 0.7})    # in jobs created from now on
        cloud.script("evaluate", fail="CUDA out of memory")         # every try; fails=1: only the first
        cloud.script("resolve", outputs=work)                       # the result of work(task), which reads task.inputs
        cloud.clock.advance(3600)              # jobs progress, schedules tick
        cloud.clock.run(60)                    # time passes by itself, a minute a second
        cloud.jobs, cloud.schedules            # messages by resource name, as they are now
        cloud.requests[-1].method              # "aiplatform.projects.locations.pipelineJobs.create"
        cloud.fail("aiplatform.*.pipelineJobs.create", status(503), reset(), lose_response(), slow(2))  # one a call
        cloud.on("aiplatform.*.schedules.patch", lambda call: process.kill())  # handled, not yet answered

    The project has everything that a run needs, until a test changes it:

        cloud.policies.missing.add("aiplatform.pipelineJobs.create")    # the caller may not: 403
        cloud.policies.only = {"aiplatform.pipelineJobs.get"}            # the caller's only permission
        cloud.policies.bindings["projects/test-project"] = {"roles/editor": ["serviceAccount:..."]}
        cloud.services.enabled.discard("compute.googleapis.com")
        cloud.quotas.set("CustomModelTrainingL4GPUsPerProjectPerRegion", 8, region="us-central1")
        cloud.accounts.add("runner@test-project.iam.gserviceaccount.com"); cloud.keys.add("projects/..."); cloud.billing
        cloud.zones.zones["us-central1-a"]["acceleratorTypes"]; cloud.zones.networks
        cloud.artifacts.add_image("us-central1-docker.pkg.dev/test-project/images/training@sha256:...", "latest")
        cloud.models.upload_s = 90; cloud.models.failures = [(8, "quota")]; cloud.models.deployed.add("flights@2")
        cloud.endpoints.environment = {"PYTHONPATH": ...}      # of the processes that serve deployed models
        cloud.custom_jobs.works(folder, World(seed=7))         # jobs start processes: see region.py, capacity.py
        cloud.logs.add("a line", job_id="123", severity="ERROR")
        cloud.dataflow.runs = lambda job: job.log("...")    # replaces the pipelines of Dataflow jobs
        cloud.secrets.versions["runs-webhook"] = ["https://..."]
        cloud.storage.buckets["test-bucket"]["location"] = "EU"; cloud.storage.bindings
        cloud.bigquery.write("test-project.flights.rows", pa.table(...))     # see bigquery.py
        cloud.pages.longest = 2                # no list answers with more at once
        cloud.tunnel.strays                    # other hosts that a client tried to reach

It follows the discovery documents that google-api-python-client carries (discovery.py): routes, query parameters,
fields, enums and required fields are theirs. Vertex AI's bodies are parsed strictly into google.cloud.aiplatform_v1.
Resource names hold the project's number, as Vertex AI's do; requests may use either.
"""

import re
import threading
from collections.abc import Callable, Iterator
from datetime import datetime
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Self

from . import artifact_registry, cloud_build, compute, dataflow, front, projects
from .artifact_store import Store
from .bigquery import SERVICES as BIGQUERY_SERVICES
from .bigquery import BigQuery
from .call import Call
from .clock import Clock
from .contexts import Contexts
from .credentials import Tokens, key_file
from .custom_jobs import CustomJobs
from .endpoints import EndpointOperations, Endpoints
from .errors import permission_error
from .faults import Fault, Planned, late, lose_response, repeat_request, reset, slow, status
from .job_resources import PersistentResources, Tensorboards
from .listing import Pages
from .logs import Entries
from .messages import to_json
from .models import ModelOperations, Models
from .operations import Operations
from .pipeline_jobs import PipelineJobs, to_json_job
from .plan import Script
from .policies import Policies
from .quotas import QuotaInfos
from .schedules import Schedules
from .secrets import SecretPolicies, Secrets
from .server import Servers
from .services import Services
from .storage import Storage
from .templates import Templates
from .tunnel import Tunnel

__all__ = ["Cloud", "late", "lose_response", "repeat_request", "reset", "slow", "status"]


#: APIs that have no endpoint setting, because only Google's libraries and steps call them.
NO_SETTING = ("dataflow", "iamcredentials")


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
        self.tokens = Tokens(self.clock.now)
        self.requests: list[Call] = []
        #: Calls that google-auth makes by itself.
        self.sign_ins: list[Call] = []
        #: Exceptions of this server, which are no client's fault.
        #: Methods that the test itself calls through clients of vgp.
        self.called_by_test: set[str] = set()
        self.crashed: Exception | None = None
        self.faults: list[Planned] = []
        self.before: list[tuple[str, Callable[[Call], Any]]] = []
        self.after: list[tuple[str, Callable[[Call], Any]]] = []
        self.lock = threading.RLock()
        #: Guards `requests` and `faults` only, because a scripted step calls storage during the creation of a job.
        self.counting = threading.Lock()
        self._folder = TemporaryDirectory(prefix="loopback-")
        self.policies = Policies()
        self.operations = Operations(self)
        self.custom_jobs = CustomJobs(self)
        self.persistent_resources, self.tensorboards = PersistentResources(self), Tensorboards(self)
        self.pipeline_jobs = PipelineJobs(self)
        self.live_schedules = Schedules(self)
        self.models = Models(self)
        self.endpoints = Endpoints(self, Path(self._folder.name) / "endpoints")
        self.contexts = Contexts(self)
        self.artifacts = Store(self)
        self.templates = Templates(self, self.artifacts)
        self.services = Services(self)
        self.quotas = QuotaInfos(self)
        self.projects, self.billing = projects.Projects(self), projects.Billing(self)
        self.accounts, self.keys = projects.ServiceAccounts(self), projects.CryptoKeys(self)
        self.zones = compute.Catalog(region)
        self.logs = Entries(self)
        self.storage = Storage(self)
        self.secrets = Secrets(self)
        self.builds = cloud_build.Builds(self)
        self.bigquery = BigQuery(self)
        self.dataflow = dataflow.Jobs(self)
        self.handlers: dict[str, Any] = {service.prefix: service for service in self._all_services()}
        for name, kind in (("pipelines", "KFP"), ("images", "DOCKER")):
            self.artifacts.add_repository(f"projects/{project}/locations/{region}/repositories/{name}", kind)
        apis = [*front.DOCUMENTS, "kfp_registry", "oauth2", "storage"]
        self.tunnel = Tunnel(region, project_number, apis, self._folder.name)
        self._servers = Servers(apis, lambda request: front.handle(self, request), self.tunnel, self.clock.now)

    def _all_services(self) -> Iterator[Any]:
        yield from (self.operations, self.custom_jobs, self.pipeline_jobs, self.live_schedules, self.contexts)
        yield from (self.persistent_resources, self.tensorboards)
        yield from (self.services, self.quotas, self.projects, self.billing, self.accounts, self.keys, self.logs)
        yield from (
            projects.AllowedLocations(),
            self.builds,
            self.models,
            ModelOperations(self),
            self.endpoints,
            EndpointOperations(self),
            self.dataflow,
            dataflow.Messages(self.dataflow),
            cloud_build.Locations(self),
            self.secrets,
            SecretPolicies(self),
        )
        yield from (kind(self.artifacts) for kind in artifact_registry.SERVICES)
        yield from (kind(self.bigquery) for kind in BIGQUERY_SERVICES)
        yield from (kind(self, self.zones) for kind in compute.SERVICES)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        self.pipeline_jobs.close()
        self.custom_jobs.close()
        self.endpoints.close()
        self._servers.close()
        self.storage.close()
        self.bigquery.close()
        self._folder.cleanup()

    def endpoint(self, api: str) -> str:
        return self._servers.url(api)

    @property
    def environment(self) -> dict[str, str]:
        """The variables that connect a client's process to this cloud, and to no other host."""
        key = f"{self._folder.name}/key.json"
        with open(key, "w") as file:
            file.write(key_file(self.project, f"{self.endpoint('oauth2')}/token"))
        apis = [api for api in (*front.DOCUMENTS, "kfp_registry", "storage") if api not in NO_SETTING]
        gcloud = ("aiplatform", "artifactregistry", "compute", "dataflow", "logging", "iam", "serviceusage")
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
            **self.tunnel.environment(self._servers.url("tunnel")),
        }

    @property
    def jobs(self) -> dict[str, Any]:
        """PipelineJob messages by resource name."""
        with self.lock:
            self.settle()
            now = self.clock.now()
            return {name: to_json_job(job, now) for name, job in self.pipeline_jobs.jobs.items()}

    @property
    def schedules(self) -> dict[str, Any]:
        """Schedule messages by resource name."""
        with self.lock:
            self.settle()
            return {name: live.message for name, live in self.live_schedules.live.items()}

    def script(self, task: str = "*", **behaviour: Any) -> None:
        """Sets the behaviour of a task in jobs that are created later; see plan.Script. The last match counts."""
        with self.lock:
            self.pipeline_jobs.scripts.append(Script(task, **behaviour))

    def fail(self, method: str, *faults: Fault, forever: bool = False) -> None:
        """Adds faults to the next calls of the method (a pattern), one each; with `forever` the first to all calls."""
        with self.counting:
            self.faults.append(Planned(method, list(faults), forever))

    def on(self, method: str, action: Callable[[Call], Any], *, before: bool = False) -> None:
        """Calls `action` between the handling of the method (a pattern) and its answer, or `before` the handling."""
        (self.before if before else self.after).append((method, action))

    def settle(self) -> None:
        with self.lock:
            self.live_schedules.settle()
            self.operations.settle()
            self.custom_jobs.settle()
            self.endpoints.settle()
            self.pipeline_jobs.settle()

    def resource(self, name: str, permission: str) -> str:
        """Returns the name with the project's number; an empty permission is not checked.

        Raises:
            ApiError: 403 in another project, or if the caller lacks the permission.
        """
        found = re.fullmatch(r"projects/([^/]+)(/.*)?", name)
        if not found or found[1] not in (self.project, self.project_number):
            raise permission_error(permission, f"//{permission.split('.')[0]}.googleapis.com/{name}")
        if self.policies.lacks(permission):
            raise permission_error(permission, f"//{permission.split('.')[0]}.googleapis.com/{name}")
        return f"projects/{self.project_number}{found[2] or ''}"

    def as_json(self, message: Any, *, integers: bool = False) -> Any:
        return message if isinstance(message, dict | bytes) else to_json(message, integers=integers)
