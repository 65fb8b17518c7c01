"""An HTTP proxy on loopback that forwards to a storage server, and injects the faults that a test asks for."""

import http.client
import socket
import struct
import threading
import time
from collections import deque
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import urlsplit


@dataclass
class Fault:
    #: A status to answer with; or reset, stall, lost (forwarded, but the answer is not passed on), cut (half of the
    #: answer, then a reset), late (forwarded after `late_s`), short (half of the answer, then an orderly end), flip.
    kind: int | str
    times: float
    #: The request's method and path must contain these.
    method: str
    path: str
    #: So many requests pass before.
    skip: int = 0


class FaultyProxy(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 64

    def __init__(self, upstream: str):
        super().__init__(("127.0.0.1", 0), Handler)
        self.upstream = upstream
        self.url = f"http://127.0.0.1:{self.server_address[1]}"
        self.faults: deque[Fault] = deque()
        #: What ended an upload of several requests, by its path: Google's server repeats it to every later request,
        #: and the one behind us breaks.
        self.ended: dict[str, tuple[int, dict[str, str], bytes]] = {}
        self.closing = threading.Event()
        self.late_s = 0.0
        #: (method, path, fault or None) of every request.
        self.seen: list[tuple[str, str, int | str | None]] = []
        threading.Thread(target=self.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True).start()

    def fail(self, kind: int | str, times: float = 1, *, method: str = "", path: str = "", skip: int = 0) -> None:
        """The next matching requests, but for the first `skip`, meet this fault; one fault after the other."""
        self.faults.append(Fault(kind, times, method, path, skip))

    def take(self, method: str, path: str) -> int | str | None:
        for fault in self.faults:
            if fault.times > 0 and fault.method in method and fault.path in path:
                if fault.skip:
                    fault.skip -= 1
                    continue
                fault.times -= 1
                return fault.kind
        return None

    def hit(self) -> int:
        """Requests that met a fault."""
        return sum(kind is not None for _, _, kind in self.seen)

    def shutdown_request(self, request: Any) -> None:
        self.close_request(request)  # without the orderly end that the base class sends first

    def handle_error(self, request: Any, client_address: Any) -> None:
        pass  # the client has gone

    def close(self) -> None:
        self.closing.set()
        self.shutdown()
        self.server_close()


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True  # a body is sent behind its header at once, and not when that has arrived
    server: FaultyProxy

    def handle_any(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        kind = self.server.take(self.command, self.path)
        self.server.seen.append((self.command, self.path, kind))
        if isinstance(kind, int):
            return self.answer(kind, {}, b"asked to fail")
        if kind == "reset":
            return self.reset()
        if kind == "stall":
            self.server.closing.wait(20)
            return self.reset()
        if kind == "late":
            self.server.closing.wait(self.server.late_s)
        status, headers, content = self.server.ended.get(self.path) or self.forward(body)
        if self.command == "PUT" and status == 200:
            self.server.ended[self.path] = status, headers, content
        if kind == "lost":
            return self.reset()
        if kind == "flip" and content:
            content = content[:-1] + bytes([content[-1] ^ 1])
        self.answer(status, headers, content, cut=kind in ("cut", "short"), orderly=kind == "short")

    do_GET = do_POST = do_PUT = do_DELETE = do_PATCH = handle_any

    def forward(self, body: bytes) -> tuple[int, dict[str, str], bytes]:
        to = urlsplit(self.server.upstream)
        connection = http.client.HTTPConnection(str(to.hostname), to.port, timeout=30)
        headers = {k: v for k, v in self.headers.items() if k.lower() not in ("host", "connection")}
        connection.request(self.command, self.path, body, headers)
        response = connection.getresponse()
        content = response.read()
        connection.close()
        kept = {k: v.replace(self.server.upstream, self.server.url) for k, v in response.getheaders()}
        if "json" in response.getheader("Content-Type", ""):  # links to an object's bytes lead past us otherwise
            content = content.replace(self.server.upstream.encode(), self.server.url.encode())
        return response.status, kept, content

    def answer(
        self, status: int, headers: dict[str, str], content: bytes, *, cut: bool = False, orderly: bool = False
    ) -> None:
        self.send_response(status)
        for name, value in headers.items():
            if name.lower() not in ("content-length", "transfer-encoding", "connection", "date"):
                self.send_header(name, value)
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content[: len(content) // 2] if cut else content)
        if orderly:
            self.close_connection = True
        elif cut:
            time.sleep(0.05)  # let the half arrive before the reset
            self.reset()

    def reset(self) -> None:
        """Ends the connection; with no time to linger, closing it sends a TCP reset."""
        self.close_connection = True
        self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))

    def log_message(self, *args: Any) -> None:
        pass
