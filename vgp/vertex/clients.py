"""Google's generated clients over REST, and the timeout and retry of each call.

Credentials are Application Default Credentials:
https://cloud.google.com/docs/authentication/application-default-credentials
"""

import os
import sys
from collections.abc import Callable
from functools import cache
from typing import TYPE_CHECKING, TypedDict, TypeVar

from vgp import __version__
from vgp.base import google_api
from vgp.base.errors import RequestError
from vgp.base.google_api import is_label, is_private
from vgp.settings import Settings

if TYPE_CHECKING:
    from google.api_core.retry import Retry
    from google.auth.credentials import Credentials
    from google.auth.transport.requests import AuthorizedSession
    from google.cloud.aiplatform_v1.services.job_service import JobServiceClient
    from google.cloud.aiplatform_v1.services.metadata_service import MetadataServiceClient
    from google.cloud.aiplatform_v1.services.pipeline_service import PipelineServiceClient
    from google.cloud.aiplatform_v1.services.schedule_service import ScheduleServiceClient
    from google.cloud.artifactregistry_v1 import ArtifactRegistryClient
    from google.cloud.cloudquotas_v1 import CloudQuotasClient
    from google.cloud.kms_v1 import KeyManagementServiceClient
    from google.cloud.logging import Client as LoggingClient
    from google.cloud.resourcemanager_v3 import ProjectsClient
    from google.cloud.service_usage_v1 import ServiceUsageClient
    from google.cloud.storage import Client as StorageClient

Client = TypeVar("Client")
USER_AGENT = f"vertex-gpu-pipelines/{__version__}"
#: The timeout of one attempt at a call, and of a call with its retries, seconds.
ATTEMPT_S, CALL_S = 30.0, 120.0
#: The command prints a notice after this many failures.
NOTICE_AFTER = 4


class CallOptions(TypedDict):
    """The arguments `retry` and `timeout` of a call of Google's clients."""

    retry: "Retry | None"
    #: Seconds that one attempt may take.
    timeout: float


def pipeline_service(settings: Settings) -> "PipelineServiceClient":
    """Returns a client of pipeline jobs."""
    from google.cloud.aiplatform_v1.services.pipeline_service import PipelineServiceClient

    return _build_client(PipelineServiceClient, settings, "aiplatform")


def schedule_service(settings: Settings) -> "ScheduleServiceClient":
    """Returns a client of schedules."""
    from google.cloud.aiplatform_v1.services.schedule_service import ScheduleServiceClient

    return _build_client(ScheduleServiceClient, settings, "aiplatform")


def job_service(settings: Settings) -> "JobServiceClient":
    """Returns a client of custom jobs."""
    from google.cloud.aiplatform_v1.services.job_service import JobServiceClient

    return _build_client(JobServiceClient, settings, "aiplatform")


def metadata_service(settings: Settings) -> "MetadataServiceClient":
    """Returns a client of ML Metadata, which holds experiments."""
    from google.cloud.aiplatform_v1.services.metadata_service import MetadataServiceClient

    return _build_client(MetadataServiceClient, settings, "aiplatform")


def artifact_registry(settings: Settings) -> "ArtifactRegistryClient":
    """Returns a client of Artifact Registry: packages, versions and tags."""
    from google.cloud.artifactregistry_v1 import ArtifactRegistryClient

    return _build_client(ArtifactRegistryClient, settings, "artifactregistry")


def quotas(settings: Settings) -> "CloudQuotasClient":
    """Returns a client of the Cloud Quotas API."""
    from google.cloud.cloudquotas_v1 import CloudQuotasClient

    return _build_client(CloudQuotasClient, settings, "cloudquotas")


def service_usage(settings: Settings) -> "ServiceUsageClient":
    """Returns a client of Service Usage, which lists the enabled APIs."""
    from google.cloud.service_usage_v1 import ServiceUsageClient

    return _build_client(ServiceUsageClient, settings, "serviceusage")


def projects(settings: Settings) -> "ProjectsClient":
    """Returns a client of Resource Manager: projects and their policies."""
    from google.cloud.resourcemanager_v3 import ProjectsClient

    return _build_client(ProjectsClient, settings, "cloudresourcemanager")


def keys(settings: Settings) -> "KeyManagementServiceClient":
    """Returns a client of Cloud KMS."""
    from google.cloud.kms_v1 import KeyManagementServiceClient

    return _build_client(KeyManagementServiceClient, settings, "cloudkms")


def logging(settings: Settings) -> "LoggingClient":
    """Returns a client of Cloud Logging."""
    from google.api_core.client_info import ClientInfo
    from google.cloud.logging import Client

    return Client(
        project=project(settings),
        credentials=credentials(),
        client_options={"api_endpoint": endpoint(settings, "logging")},
        client_info=ClientInfo(user_agent=USER_AGENT),
        _use_grpc=False,
    )


def storage(settings: Settings) -> "StorageClient":
    """Returns a client of Cloud Storage. Google's library reads STORAGE_EMULATOR_HOST."""
    from google.api_core.client_info import ClientInfo
    from google.cloud.storage import Client

    # Otherwise the first use of a bucket starts a thread that reads its metadata for OpenTelemetry traces.
    os.environ.setdefault("DISABLE_GCS_PYTHON_CLIENT_OTEL_BUCKET_METADATA", "true")
    override = settings.endpoints.get("storage")
    options = {"api_endpoint": override} if override else None
    info = ClientInfo(user_agent=USER_AGENT)
    return Client(project=project(settings), credentials=credentials(), client_info=info, client_options=options)


def session(settings: Settings) -> "AuthorizedSession":
    """Returns a `requests` session with credentials, for APIs without a generated REST client."""
    from google.auth.transport.requests import AuthorizedSession

    session = AuthorizedSession(credentials())
    session.headers["User-Agent"] = USER_AGENT
    if settings.project:
        # Without this header, the quota project is that of gcloud, in which the API may be disabled.
        session.headers["x-goog-user-project"] = settings.project
    return session


def endpoint(settings: Settings, api: str) -> str:
    """Returns the base URL of an API: from the settings, CLOUDSDK_API_ENDPOINT_OVERRIDES_..., or Google's default.

    The URL of Vertex AI is regional.

    Raises:
        RequestError: the URL would send the access token unencrypted over a network, or the region is invalid.
    """
    host = f"{settings.region}-aiplatform" if api == "aiplatform" else api
    if not is_label(host):  # a region may come from a run's spec or from a file in the bucket
        raise RequestError(
            f"{settings.region!r} is not a region; no call was sent. Set region, for example us-central1."
        )
    variable = f"CLOUDSDK_API_ENDPOINT_OVERRIDES_{api.upper()}"
    override = settings.endpoints.get(api) or os.environ.get(variable)
    if override and not is_private(override):
        raise RequestError(f"{variable}={override}: use https; http is allowed only for 127.0.0.1.")
    return (override or f"https://{host}.googleapis.com").rstrip("/")


def project(settings: Settings) -> str:
    """Returns the project id.

    Raises:
        RequestError: no project is set.
    """
    if not settings.project:
        raise RequestError(
            'no project is set. Write project = "..." into pipelines.toml (vgp init), or set PIPELINES_PROJECT.'
        )
    return settings.project


def bucket(settings: Settings) -> str:
    """Returns the `gs://` URI under which runs write, without a trailing slash.

    Raises:
        RequestError: no bucket is set.
    """
    if not settings.bucket:
        raise RequestError(
            'no bucket is set. Write bucket = "gs://..." into pipelines.toml (vgp init), or set PIPELINES_BUCKET.'
        )
    return settings.bucket.rstrip("/")


@cache
def credentials() -> "Credentials":
    """Returns Application Default Credentials, unless gcloud's variables set an access token or disable credentials.

    Raises:
        RequestError: no credentials were found.
    """
    import logging

    import google.auth
    from google.auth.credentials import AnonymousCredentials
    from google.auth.exceptions import DefaultCredentialsError
    from google.oauth2.credentials import Credentials

    # google-auth looks up regional access boundaries in a thread; urllib3 warns if a firewall blocks the request.
    logging.getLogger("urllib3.connectionpool").setLevel(logging.ERROR)
    if os.environ.get("CLOUDSDK_AUTH_DISABLE_CREDENTIALS", "").lower() == "true":
        return AnonymousCredentials()
    if token := os.environ.get("CLOUDSDK_AUTH_ACCESS_TOKEN"):
        return Credentials(token)
    try:
        return google.auth.default(scopes=[google_api.SCOPE])[0]
    except DefaultCredentialsError as error:
        raise RequestError(
            f"no credentials: {str(error).splitlines()[0]}\n"
            "  On your machine: gcloud auth application-default login\n"
            "  In CI: workload identity federation, or GOOGLE_APPLICATION_CREDENTIALS=key.json."
        ) from None


def principal(credentials: object) -> str:
    """Returns the account of the credentials as an IAM policy names it, or an empty text if it is unknown.

    A user's credentials hold the account only if gcloud wrote it there.
    """
    email = getattr(credentials, "service_account_email", None)
    if email and email != "default":
        return f"serviceAccount:{email}"
    account = getattr(credentials, "account", "")
    return f"user:{account}" if account else ""


def caller() -> str:
    """Returns the account of the credentials in use; empty if it is unknown or no credentials are loaded yet."""
    return principal(credentials()) if credentials.cache_info().currsize else ""


def repeating() -> "Retry":
    """Returns the retry of calls that may be repeated: reads, and creates under an id that the caller chooses."""
    return google_api.retry_policy(deadline_s=CALL_S, on_error=_slow_answer_notice())


def reading() -> CallOptions:
    """Returns `retry` and `timeout` for a call that may be repeated."""
    return {"retry": repeating(), "timeout": ATTEMPT_S}


def repeating_storage() -> "Retry":
    """Returns the retry of the Cloud Storage client, which covers its errors of uploads and downloads."""
    from google.cloud.storage.retry import DEFAULT_RETRY

    retry: Retry = DEFAULT_RETRY.with_timeout(CALL_S).with_delay(initial=0.5, maximum=15.0, multiplier=2.0)
    return retry


def storage_reading() -> CallOptions:
    """Returns `retry` and `timeout` for a call of Cloud Storage, including uploads and deletions."""
    return {"retry": repeating_storage(), "timeout": ATTEMPT_S}


def _slow_answer_notice() -> Callable[[Exception], None]:
    """Returns a function that counts failures and prints one notice on stderr after `NOTICE_AFTER` of them."""
    failures = 0

    def count_failure(_: Exception) -> None:
        nonlocal failures
        failures += 1
        if failures == NOTICE_AFTER:
            print(f"no answer from Google yet; trying again for up to {CALL_S:g} s", file=sys.stderr, flush=True)

    return count_failure


def once() -> CallOptions:
    """Returns `retry` and `timeout` for a call without retries, such as a create whose id Google chooses."""
    return {"retry": None, "timeout": ATTEMPT_S}


def _build_client(kind: Callable[..., Client], settings: Settings, api: str) -> Client:
    import requests
    from google.api_core.client_options import ClientOptions
    from google.api_core.gapic_v1.client_info import ClientInfo

    return kind(
        credentials=credentials(),
        transport="rest",
        client_options=ClientOptions(api_endpoint=endpoint(settings, api), quota_project_id=settings.project),
        client_info=ClientInfo(user_agent=USER_AGENT, rest_version=requests.__version__),
    )
