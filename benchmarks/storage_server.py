"""A storage server for large objects at the speed of its disk, with the part of Cloud Storage's JSON API for saving.

    with storage_server() as url: ...          # a process of its own; STORAGE_EMULATOR_HOST is set in the block

fake-gcs-server, which the tests use, computes the checksums of all received bytes with every request of a resumable
upload (fakestorage/upload.go), so a gigabyte in 30 requests costs 15 gigabytes of MD5, which would dominate the
measurement. This server reads each byte once and keeps it in a file. Preconditions hold for resumable uploads too.
"""

import base64
import json
import os
import re
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, unquote, urlsplit

import google_crc32c

PIECE = 4 << 20


@dataclass
class Object:
    """A complete object, or one whose upload is in progress."""

    name: str
    path: Path
    #: Generation of the object to replace; "": any.
    expected: str = ""
    crc32c: int = 0
    size: int = 0
    generation: int = 0

    def take(self, data: memoryview) -> None:
        with open(self.path, "ab") as file:
            file.write(data)
        self.crc32c, self.size = google_crc32c.extend(self.crc32c, bytes(data)), self.size + len(data)

    def described(self) -> dict[str, str]:
        checksum = base64.b64encode(self.crc32c.to_bytes(4, "big")).decode()
        return {"name": self.name, "size": str(self.size), "crc32c": checksum, "generation": str(self.generation)}


@dataclass
class Bucket:
    folder: Path
    objects: dict[str, Object] = field(default_factory=dict)
    uploads: dict[str, Object] = field(default_factory=dict)
    lock: threading.Lock = field(default_factory=threading.Lock)
    count: int = 0

    def begin(self, name: str, expected: str) -> tuple[str, Object]:
        with self.lock:
            self.count += 1
            number = str(self.count)
            self.uploads[number] = Object(name, self.folder / number, expected)
            return number, self.uploads[number]

    def commit(self, number: str) -> Object | None:
        """Completes the object; returns None if the precondition fails."""
        with self.lock:
            made = self.uploads.pop(number)
            before = self.objects.get(made.name)
            if made.expected and made.expected != str(before.generation if before else 0):
                return None
            made.generation = self.count = self.count + 1
            self.objects[made.name] = made
            return made


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    bucket: Bucket

    def log_message(self, *words: Any) -> None:
        pass

    def answer(self, code: int, body: bytes = b"", **headers: str) -> None:
        self.send_response(code)
        for name, value in {"Content-Length": str(len(body)), **headers}.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(body)

    def send_json(self, values: Any) -> None:
        self.answer(200, json.dumps(values).encode(), **{"Content-Type": "application/json"})

    @property
    def query(self) -> dict[str, str]:
        return {name: found[-1] for name, found in parse_qs(urlsplit(self.path).query).items()}

    @property
    def body(self) -> bytes:
        return self.rfile.read(int(self.headers.get("Content-Length", 0)))

    def named(self) -> Object | None:
        return self.bucket.objects.get(unquote(urlsplit(self.path).path.rpartition("/o/")[2]))

    def do_POST(self) -> None:
        kind = self.query.get("uploadType")
        if not kind:  # of a bucket
            return self.send_json(json.loads(self.body))
        data, name = self.body, self.query.get("name", "")
        if kind == "multipart":
            boundary = re.search(r"boundary=['\"]?([^'\";]+)", self.headers["Content-Type"])
            assert boundary
            _, about, content, _ = data.split(b"--" + boundary[1].encode(), 3)
            described, data = (part.partition(b"\r\n\r\n")[2].removesuffix(b"\r\n") for part in (about, content))
            name = name or json.loads(described)["name"]
        elif not name:
            name = json.loads(data)["name"]
        number, made = self.bucket.begin(name, self.query.get("ifGenerationMatch", ""))
        if kind == "multipart":
            made.take(memoryview(data))
            return self.commit(number)
        self.answer(200, Location=f"http://{self.headers['Host']}{self.path}&upload_id={number}")

    def do_PUT(self) -> None:
        number, left = self.query["upload_id"], int(self.headers["Content-Length"])
        made, piece = self.bucket.uploads[number], memoryview(bytearray(PIECE))
        while left:
            count = self.rfile.readinto(piece[: min(PIECE, left)])
            if not count:
                return  # the client is gone
            made.take(piece[:count])
            left -= count
        if self.headers["Content-Range"].endswith(f"/{made.size}"):
            return self.commit(number)
        self.answer(308, Range=f"bytes=0-{made.size - 1}")

    def commit(self, number: str) -> None:
        made = self.bucket.commit(number)
        if made:
            return self.send_json(made.described())
        self.answer(412, b'{"error": {"code": 412, "message": "conditionNotMet"}}')

    def do_GET(self) -> None:
        if urlsplit(self.path).path.endswith("/o"):
            there = [
                each for name, each in self.bucket.objects.items() if name.startswith(self.query.get("prefix", ""))
            ]
            return self.send_json({"items": [each.described() for each in there]})
        found = self.named()
        if not found:
            return self.answer(404)
        if self.query.get("alt") != "media":
            return self.send_json(found.described())
        first, _, last = self.headers.get("Range", "bytes=0-").removeprefix("bytes=").partition("-")
        with open(found.path, "rb") as file:
            file.seek(int(first))
            data = file.read(int(last) - int(first) + 1 if last else -1)
        about = {"x-goog-generation": str(found.generation), "x-goog-hash": f"crc32c={found.described()['crc32c']}"}
        self.answer(206 if "Range" in self.headers else 200, data, **about)

    def do_DELETE(self) -> None:
        found = self.named()
        if found:
            del self.bucket.objects[found.name]
            found.path.unlink()
        self.answer(204 if found else 404)


@contextmanager
def storage_server() -> Iterator[str]:
    """Yields the server's URL, and stops the server at the end of the block."""
    with tempfile.TemporaryDirectory() as folder:
        words = [sys.executable, "-m", "benchmarks.storage_server", folder]
        server = subprocess.Popen(words, stdout=subprocess.PIPE, text=True)
        assert server.stdout
        url = os.environ["STORAGE_EMULATOR_HOST"] = server.stdout.readline().strip()
        try:
            yield url
        finally:
            del os.environ["STORAGE_EMULATOR_HOST"]
            server.terminate()
            server.communicate()


def main() -> None:
    Handler.bucket = Bucket(Path(sys.argv[1]))
    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    print(f"http://127.0.0.1:{server.server_port}", flush=True)
    server.serve_forever()


if __name__ == "__main__":
    main()
