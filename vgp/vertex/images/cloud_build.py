"""Builds of Cloud Build: asked for once, followed to the end with their log.

https://cloud.google.com/build/docs/api/reference/rest/v1/projects.locations.builds
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing
from urllib.parse import quote

from vgp.base.clock import Clock
from vgp.base.documents.json_text import JsonObject
from vgp.base.errors import WorkFailed
from vgp.base.text import google_names
from vgp.base.text.printable import one_line, printable
from vgp.settings import Settings
from vgp.vertex import clients, rest
from vgp.vertex.google_errors import explained
from vgp.vertex.patient_reads import Patience, is_transient

#: Of one build, pushing a new image of 8 GB included.
TIMEOUT_S = 3600
#: Docker, as Google provides it to builds, by the digest that public builds of September 2026 name. A newer one:
#: gcloud container images describe gcr.io/cloud-builders/docker --format='value(image_summary.digest)'
BUILDER = "gcr.io/cloud-builders/docker@sha256:3d00b6c1a9b862621c30fc74d4f2abfc62bcbdee631ed3febd31e7edbdf6252c"
#: Seconds between two looks.
LOOK_S = 3.0
_API = "cloudbuild"
_RUNNING = ("STATUS_UNKNOWN", "PENDING", "QUEUED", "WORKING")

Build = JsonObject


class Log:
    """Reads what came since it was last asked. A log that cannot be read is said so once, and stops nothing."""

    def __init__(self, settings: Settings, build: JsonObject) -> None:
        bucket, folder = google_names.split_uri(build["logsBucket"])
        name = "/".join(filter(None, [folder.rstrip("/"), f"log-{build['id']}.txt"]))
        self._url = f"{clients.endpoint(settings, 'storage')}/storage/v1/b/{bucket}/o/{quote(name, safe='')}"
        self._session = clients.session(settings)
        self._link = build.get("logUrl", "")
        self._read, self._rest, self._broken = 0, b"", False

    def new(self) -> Iterator[str]:
        """Whole lines."""
        *lines, self._rest = (self._rest + self._bytes()).split(b"\n")
        for line in lines:
            yield printable(line.decode("utf-8", errors="replace"))
        if self._broken and self._link:
            yield f"the log cannot be read from here; open it at {self._link}"
            self._link = ""

    def rest(self) -> Iterator[str]:
        """What is left at the end: new lines, and one that does not end."""
        yield from self.new()
        if self._rest:
            yield printable(self._rest.decode("utf-8", errors="replace"))
            self._rest = b""

    def close(self) -> None:
        self._session.close()

    def _bytes(self) -> bytes:
        """https://cloud.google.com/storage/docs/json_api/v1/objects/get; not by Google's library, which after its
        first read asks for that generation of the object ever after, and the log is a new one each time it grows."""
        import requests
        from google.auth.exceptions import GoogleAuthError

        if self._broken:
            return b""
        since = {"Range": f"bytes={self._read}-"}
        try:
            answer = self._session.get(self._url, params={"alt": "media"}, headers=since, timeout=clients.ATTEMPT_S)
        except (requests.RequestException, GoogleAuthError):
            return b""  # the next look gets it
        self._broken = answer.status_code in (401, 403)
        if answer.status_code not in (200, 206):
            return b""  # not there yet, nothing new, or busy
        content = answer.content[self._read :] if answer.status_code == 200 else answer.content
        self._read += len(content)
        return bytes(content)


def configuration(
    references: Sequence[str],
    dockerfile: str,
    *,
    logs: str,
    arguments: Mapping[str, str] | None = None,
    service_account: str | None = None,
) -> Build:
    """What Cloud Build is asked for, less the source: also what `gcloud builds submit --config` takes.

    Args:
        references: The image under each of its tags; by the first one the build is found again.
        logs: gs:// folder for the log.
        arguments: Of the Dockerfile.
    """
    words = ["build", "--file", dockerfile]
    words += [word for name, value in (arguments or {}).items() for word in ("--build-arg", f"{name}={value}")]
    words += [word for reference in references for word in ("--tag", reference)]
    build: Build = {
        "steps": [{"id": "image", "name": BUILDER, "args": [*words, "."]}],
        "images": list(references),
        "tags": [references[0].rpartition(":")[2]],
        "timeout": f"{TIMEOUT_S}s",
        "logsBucket": logs,
        "options": {"machineType": "E2_HIGHCPU_8", "diskSizeGb": "200", "logging": "GCS_ONLY"},
    }
    if service_account:
        project = service_account.partition("@")[2].removesuffix(".iam.gserviceaccount.com")
        build["serviceAccount"] = f"projects/{project}/serviceAccounts/{service_account}"
    return build


def start(settings: Settings, build: Build) -> Build:
    """Starts the build, or finds the one that runs already for the same source: after a lost answer, too.

    Raises:
        WorkFailed: Cloud Build refuses, or cannot be reached.
    """
    with explained("build the image", settings):
        if running := _running(settings, build["tags"][0]):
            return running
        try:
            operation = rest.call(
                settings, _API, _parent(settings), query=_project(settings), body=build, **clients.once()
            )
        except Exception as error:
            # Cloud Build gives the ids, so a repeated request would build twice: look whether it began instead.
            if is_transient(error) and (running := _running(settings, build["tags"][0])):
                return running
            raise
    started: Build = operation["metadata"]["build"]
    return started


def follow(settings: Settings, build: Build, tell: Callable[[str], None], *, clock: Clock | None = None) -> Build:
    """Follows the build and returns it once it ends. Passes each log line to `tell`; retries lost connections.

    Raises:
        WorkFailed: it did not succeed, or Ctrl-C: the build itself goes on.
    """
    clock = clock or Clock()
    try:
        with closing(Log(settings, build)) as log:
            return _followed(settings, build["id"], tell, log, clock)
    except KeyboardInterrupt:
        message = f"stopped following; the build continues: {build.get('logUrl', '')}\n  Follow it: the same command."
        raise WorkFailed(message, exit_code=130) from None


def _followed(settings: Settings, id_: str, tell: Callable[[str], None], log: Log, clock: Clock) -> Build:
    patient = Patience(tell, clock)
    while True:
        with explained("follow the build", settings):
            build = patient(lambda: _read(settings, id_))
        for line in log.new():
            tell(line)
        if build.get("status", "STATUS_UNKNOWN") not in _RUNNING:
            break
        clock.sleep(LOOK_S)
    for line in log.rest():
        tell(line)
    if build["status"] != "SUCCESS":
        raise WorkFailed(_why(build))
    return build


def pushed(build: Build, reference: str) -> str:
    """Digest of the image that the build pushed as `reference`.

    Raises:
        WorkFailed: the build reports no digest.
    """
    for image in build.get("results", {}).get("images", ()):
        if image.get("name") == reference and image.get("digest"):
            return str(image["digest"])
    raise WorkFailed(f"The build succeeded but reported no digest for {reference}: {build.get('logUrl', '')}")


def _why(build: Build) -> str:
    why = build.get("failureInfo", {}).get("detail") or build.get("statusDetail") or ""
    words = build["status"].replace("_", " ").lower()
    return "\n  ".join(filter(None, [f"The build ended: {words}.", one_line(why), f"Log: {build.get('logUrl', '')}"]))


def _running(settings: Settings, key: str) -> Build | None:
    query = {**_project(settings), "filter": f'tags="{key}"', "pageSize": 20}
    listed = rest.call(settings, _API, _parent(settings), query=query, **clients.reading())
    return next((build for build in listed.get("builds", ()) if build.get("status") in _RUNNING), None)


def _parent(settings: Settings) -> str:
    return f"v1/projects/{clients.project(settings)}/locations/{settings.region}/builds"


def _read(settings: Settings, id_: str) -> Build:
    query = {**_project(settings), "id": id_}
    return rest.call(settings, _API, f"{_parent(settings)}/{id_}", query=query, **clients.reading())


def _project(settings: Settings) -> dict[str, str]:
    """Returns the project, which the API requires here although the path holds it."""
    return {"projectId": clients.project(settings)}
