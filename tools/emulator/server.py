"""HTTP servers on loopback: one thread accepts on every port, and each connection has its own thread."""

import contextlib
import gzip
import json
import os
import selectors
import socket
import struct
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, urlsplit

from .tunnel import Tunnel


@dataclass
class Request:
    api: str
    #: The host that a proxied client requested; else empty.
    host: str
    http_method: str
    #: The path as sent, and the path without the query.
    target: str
    path: str
    query: dict[str, list[str]]
    headers: dict[str, str]
    body: bytes


@dataclass
class Answer:
    status: int
    #: JSON or raw bytes; None resets the connection.
    body: Any
    headers: dict[str, str] = field(default_factory=dict)


RESET = Answer(0, None)


class Server(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 256

    def __init__(self, api: str, handle: Callable[[Request], Answer], tunnel: Tunnel, now: Callable[[], datetime]):
        super().__init__(("127.0.0.1", 0), Handler)
        self.api = api
        self.now = now
        self.handle = handle
        self.tunnel = tunnel
        self.url = f"http://127.0.0.1:{self.server_address[1]}"
        self.timeout = 0
        self.connections: set[socket.socket] = set()

    def process_request(self, request: Any, client_address: Any) -> None:
        self.connections.add(request)
        super().process_request(request, client_address)

    def shutdown_request(self, request: Any) -> None:
        self.connections.discard(request)
        self.close_request(request)  # the base class first ends the connection in order, which would hide a reset

    def handle_error(self, request: Any, client_address: Any) -> None:
        pass  # the client has gone

    def close(self) -> None:
        self.server_close()
        for connection in list(self.connections):
            with contextlib.suppress(OSError):  # it has ended by itself
                connection.shutdown(socket.SHUT_RDWR)


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    wbufsize = -1
    server: Server
    #: Set once the connection is a tunnel to a host of Google.
    api = host = ""

    def do_CONNECT(self) -> None:
        """Turns the connection into a TLS tunnel to another host."""
        host = self.path.partition(":")[0]
        api = self.server.tunnel.api_of(host)
        if self.server.api != "tunnel" or api is None:
            return self.send_error(403, "the loopback cloud reaches nothing but itself")
        self.server.tunnel.busy.add(self)
        self.send_response_only(200, "Connection established")
        self.end_headers()
        self.wfile.flush()
        self.connection = self.server.tunnel.wrap_in_tls(self.connection)
        self.server.connections.add(self.connection)
        self.rfile, self.wfile = self.connection.makefile("rb"), self.connection.makefile("wb")
        self.api, self.host = api, host
        self.close_connection = False  # CONNECT comes as HTTP/1.0, what follows does not

    def finish(self) -> None:
        for each in (self.wfile, self.rfile, *([self.connection] if self.api else [])):
            with contextlib.suppress(OSError, ValueError):  # the client has gone
                each.close()
        self.server.connections.discard(self.connection)
        self.server.tunnel.busy.discard(self)

    def handle_any(self) -> None:
        url = urlsplit(self.path)
        headers = {name.lower(): value for name, value in self.headers.items()}
        query = parse_qs(url.query, keep_blank_values=True)
        request = Request(
            self.api or self.server.api, self.host, self.command, self.path, url.path, query, headers, self.read_body()
        )
        answer = self.server.handle(request)
        if answer.body is None:
            return self.reset()
        body = answer.body if isinstance(answer.body, bytes) else json.dumps(answer.body).encode()
        self.send_response(answer.status)
        for name, value in {"Content-Type": "application/json; charset=UTF-8", **answer.headers}.items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)
        self.wfile.flush()
        self.server.tunnel.busy.discard(self)

    do_GET = do_POST = do_PUT = do_DELETE = do_PATCH = handle_any

    def read_body(self) -> bytes:
        if self.headers.get("Transfer-Encoding", "").lower() == "chunked":
            body = b"".join(iter(self.read_chunk, b""))
        else:
            body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        return gzip.decompress(body) if self.headers.get("Content-Encoding") == "gzip" else body

    def read_chunk(self) -> bytes:
        chunk = self.rfile.read(int(self.rfile.readline().split(b";")[0], 16))
        self.rfile.readline()
        return chunk

    def reset(self) -> None:
        """Ends the connection; with no time to linger, closing it sends a TCP reset."""
        self.close_connection = True
        self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))

    def date_time_string(self, timestamp: float | None = None) -> str:
        """Returns the cloud's time for the header Date."""
        return super().date_time_string(self.server.now().timestamp())

    def log_message(self, *args: Any) -> None:
        pass


class Servers:
    """A server for each API, and a proxy to all of them."""

    def __init__(
        self, apis: list[str], handle: Callable[[Request], Answer], tunnel: Tunnel, now: Callable[[], datetime]
    ):
        self.tunnel = tunnel
        self.by_api = {api: Server(api, handle, tunnel, now) for api in [*apis, "tunnel"]}
        self._wake, self._woken = os.pipe()[::-1]
        self._thread = threading.Thread(target=self._accept, daemon=True)
        self._thread.start()

    def _accept(self) -> None:
        with selectors.DefaultSelector() as selector:
            selector.register(self._woken, selectors.EVENT_READ)
            for server in self.by_api.values():
                selector.register(server, selectors.EVENT_READ, server)
            while True:
                for key, _ in selector.select():
                    if key.data is None:
                        return
                    key.data.handle_request()

    def url(self, api: str) -> str:
        return self.by_api[api].url

    def close(self) -> None:
        self.tunnel.rest()
        os.write(self._wake, b".")
        self._thread.join()
        os.close(self._wake)
        os.close(self._woken)
        for server in self.by_api.values():
            server.close()
