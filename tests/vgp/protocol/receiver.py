"""A webhook's receiver: a real HTTPS server on loopback, with a certificate of its own, with scripted answers."""

import json
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import SimpleNamespace
from typing import Any

import pytest

from tools.emulator.tunnel import context
from vgp.base import webhook


class Receiver:
    """`answers`: what the next requests get, a status or "hang" or "drip"; the last one holds for all that follow."""

    def __init__(self) -> None:
        self.answers: list[int | str] = [200]
        self.answer: int | str = ""
        self.requests: list[tuple[str, dict[str, str], Any]] = []
        self.over, self.arrived = threading.Event(), threading.Event()
        receiver = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                receiver.requests.append((self.path, dict(self.headers), body))
                answers = receiver.answers
                receiver.answer = answer = answers.pop(0) if len(answers) > 1 else answers[0]
                receiver.arrived.set()
                if answer == "hang":
                    receiver.over.wait()
                elif answer == "drip":
                    while not receiver.over.wait(0.02):
                        self.wfile.write(b"H")
                else:
                    self.send_response(int(answer))
                    self.send_header("Location", f"{receiver.url}/elsewhere")
                    self.send_header("Content-Length", "0")
                    self.end_headers()

            def log_message(self, *args: Any) -> None:
                pass

        class Server(ThreadingHTTPServer):
            daemon_threads = True

            def get_request(self) -> Any:
                connection, client = super().get_request()
                return context().wrap_socket(connection, server_side=True, do_handshake_on_connect=False), client

            def handle_error(self, *_: Any) -> None:
                pass  # the client has gone

        self.server = Server(("127.0.0.1", 0), Handler)
        self.url = f"https://127.0.0.1:{self.server.server_address[1]}"
        self.thread = threading.Thread(target=self.server.serve_forever, args=(0.02,), daemon=True)
        self.thread.start()

    def lose_patience(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """Ends the time of each try as soon as its request has arrived, however fast the machine is."""
        receiver = self

        class Try(threading.Thread):
            def join(self, timeout: float | None = None) -> None:
                assert receiver.arrived.wait(60)
                receiver.arrived.clear()
                if receiver.answer not in ("hang", "drip"):
                    super().join(60)

        monkeypatch.setattr(webhook, "threading", SimpleNamespace(Thread=Try))

    def close(self) -> None:
        self.over.set()
        self.server.shutdown()
        self.thread.join()
        self.server.server_close()
