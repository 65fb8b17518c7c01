"""Builds of Cloud Build: each is started once and followed to its end with its log.

https://cloud.google.com/build/docs/api/reference/rest/v1/projects.locations.builds
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from urllib.parse import quote

from vgp.base.clock import Clock
from vgp.base.documents.json_text import JsonObject
from vgp.base.errors import WorkFailed
from vgp.base.text import google_names
from vgp.base.text.printable import one_line, printable
from vgp.settings import Settings
from vgp.vertex import clients, rest
from vgp.vertex.google_errors import explain_errors
from vgp.vertex.patient_reads import Patience, is_transient

#: Seconds for one build, including the push of a new image of 8 GB.
TIMEOUT_S = 3600
#: Google's Docker builder, pinned to its digest of September 2026. To find a newer digest:
#: gcloud container images describe gcr.io/cloud-builders/docker --format='value(image_summary.digest)'
BUILDER = "gcr.io/cloud-builders/docker@sha256:3d00b6c1a9b862621c30fc74d4f2abfc62bcbdee631ed3febd31e7edbdf6252c"
#: Seconds between two polls.
LOOK_S = 3.0
_API = "cloudbuild"
_RUNNING = ("STATUS_UNKNOWN", "PENDING", "QUEUED", "WORKING")

Build = JsonObject


class Log:
    """A reader of a build's log, which returns the new lines of each poll.

    If the log cannot be read, it returns one line with a link, and the build goes on.
    """

    def __init__(self, settings: Settings, build: JsonObject) -> None:
        bucket, folder = google_names.split_uri(build["logsBucket"])
        name = "/".join(filter(None, [folder.rstrip("/"), f"log-{build['id']}.txt"]))
        self._url = f"{clients.endpoint(settings, 'storage')}/storage/v1/b/{bucket}/o/{quote(name, safe='')}"
        self._session = clients.session(settings)
        self._link = build.get("logUrl", "")
        self._read, self._rest, self._broken = 0, b"", False

    def new(self) -> Iterator[str]:
        """Yields the complete lines since the last call."""
        *lines, self._rest = (self._rest + self._read_bytes()).split(b"\n")
        for line in lines:
            yield printable(line.decode("utf-8", errors="replace"))
        if self._broken and self._link:
            yield f"the log cannot be read from here; open it at {self._link}"
            self._link = ""

    def rest(self) -> Iterator[str]:
        """Yields the remaining lines of a finished build, with a last line that has no line end."""
        yield from self.new()
        if self._rest:
            yield printable(self._rest.decode("utf-8", errors="replace"))
            self._rest = b""

    def close(self) -> None:
        self._session.close()

    def _read_bytes(self) -> bytes:
        """Reads the bytes since the last read: https://cloud.google.com/storage/docs/json_api/v1/objects/get

        Google's library is of no use here: after its first read it keeps asking for that generation of the object, and
        the log gets a new generation each time it grows.
        """
        import requests
        from google.auth.exceptions import GoogleAuthError

        if self._broken:
            return b""
        since = {"Range": f"bytes={self._read}-"}
        try:
            answer = self._session.get(self._url, params={"alt": "media"}, headers=since, timeout=clients.ATTEMPT_S)
        except (requests.RequestException, GoogleAuthError):
            return b""  # the next poll reads it
        self._broken = answer.status_code in (401, 403)
        if answer.status_code not in (200, 206):
            return b""  # no log yet, nothing new, or the server is busy
        content = answer.content[self._read :] if answer.status_code == 200 else answer.content
        self._read += len(content)
        return bytes(content)


@dataclass(frozen=True)
class Target:
    """A target of a Dockerfile."""

    name: str
    #: The image with each of its tags; the first one identifies the build in `start`.
    references: Sequence[str]
    #: Build arguments of the Dockerfile.
    arguments: Mapping[str, str]

    def step(self, dockerfile: str) -> JsonObject:
        """Returns the step that builds the target, at the same time as the other targets."""
        words = ["build", "--file", dockerfile]
        words += [word for name, value in self.arguments.items() for word in ("--build-arg", f"{name}={value}")]
        words += [word for reference in self.references for word in ("--tag", reference)]
        return {"id": self.name, "name": BUILDER, "args": [*words, "."], "waitFor": ["-"]}


def configuration(
    targets: Sequence[Target], dockerfile: str, *, logs: str, service_account: str | None = None
) -> Build:
    """Returns a build without its source, in the form of the API and of `gcloud builds submit --config`.

    Args:
        logs: gs:// folder for the log.
    """
    build: Build = {
        "steps": [target.step(dockerfile) for target in targets],
        "images": [reference for target in targets for reference in target.references],
        "tags": [target.references[0].rpartition(":")[2] for target in targets],
        "timeout": f"{TIMEOUT_S}s",
        "logsBucket": logs,
        "options": {"machineType": "E2_HIGHCPU_8", "diskSizeGb": "200", "logging": "GCS_ONLY"},
    }
    if service_account:
        project = service_account.partition("@")[2].removesuffix(".iam.gserviceaccount.com")
        build["serviceAccount"] = f"projects/{project}/serviceAccounts/{service_account}"
    return build


def start(settings: Settings, build: Build) -> Build:
    """Starts the build, or returns the running build of the same source, also after an answer was lost.

    Raises:
        WorkFailed: Cloud Build refuses, or cannot be reached.
    """
    with explain_errors("build the image", settings):
        if running := _find_running(settings, build["tags"][0]):
            return running
        try:
            operation = rest.call(
                settings, _API, _parent_name(settings), query=_project(settings), body=build, **clients.once()
            )
        except Exception as error:
            # A retry would build twice, because Cloud Build assigns the ids: look for the running build instead.
            if is_transient(error) and (running := _find_running(settings, build["tags"][0])):
                return running
            raise
    started: Build = operation["metadata"]["build"]
    return started


def follow(settings: Settings, build: Build, log_line: Callable[[str], None], *, clock: Clock | None = None) -> Build:
    """Follows the build and returns it once it ends. Passes each log line to `log_line`; retries lost connections.

    Raises:
        WorkFailed: the build did not succeed, or Ctrl-C was pressed, after which the build goes on.
    """
    clock = clock or Clock()
    try:
        with closing(Log(settings, build)) as log:
            return _poll(settings, build["id"], log_line, log, clock)
    except KeyboardInterrupt:
        message = f"stopped following; the build continues: {build.get('logUrl', '')}\n  Follow it: the same command."
        raise WorkFailed(message, exit_code=130) from None


def _poll(settings: Settings, id_: str, log_line: Callable[[str], None], log: Log, clock: Clock) -> Build:
    patient = Patience(log_line, clock)
    while True:
        with explain_errors("follow the build", settings):
            build = patient(lambda: _read(settings, id_))
        for line in log.new():
            log_line(line)
        if build.get("status", "STATUS_UNKNOWN") not in _RUNNING:
            break
        clock.sleep(LOOK_S)
    for line in log.rest():
        log_line(line)
    if build["status"] != "SUCCESS":
        raise WorkFailed(_explain_failure(build))
    return build


def find_pushed_digest(build: Build, reference: str) -> str:
    """Returns the digest of the image that the build pushed as `reference`.

    Raises:
        WorkFailed: the build reports no digest.
    """
    for image in build.get("results", {}).get("images", ()):
        if image.get("name") == reference and image.get("digest"):
            return str(image["digest"])
    raise WorkFailed(f"The build succeeded but reported no digest for {reference}: {build.get('logUrl', '')}")


def _explain_failure(build: Build) -> str:
    why = build.get("failureInfo", {}).get("detail") or build.get("statusDetail") or ""
    words = build["status"].replace("_", " ").lower()
    return "\n  ".join(filter(None, [f"The build ended: {words}.", one_line(why), f"Log: {build.get('logUrl', '')}"]))


def _find_running(settings: Settings, key: str) -> Build | None:
    query = {**_project(settings), "filter": f'tags="{key}"', "pageSize": 20}
    listed = rest.call(settings, _API, _parent_name(settings), query=query, **clients.reading())
    return next((build for build in listed.get("builds", ()) if build.get("status") in _RUNNING), None)


def _parent_name(settings: Settings) -> str:
    return f"v1/projects/{clients.project(settings)}/locations/{settings.region}/builds"


def _read(settings: Settings, id_: str) -> Build:
    query = {**_project(settings), "id": id_}
    return rest.call(settings, _API, f"{_parent_name(settings)}/{id_}", query=query, **clients.reading())


def _project(settings: Settings) -> dict[str, str]:
    """Returns the project, which the API requires here although the path holds it."""
    return {"projectId": clients.project(settings)}
