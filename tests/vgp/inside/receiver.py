"""A webhook's receiver: a real HTTPS server on loopback, with a certificate of its own, that answers as it is told."""

import json
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from loopback.tunnel import context


class Receiver:
    """`answers`: what the next requests get, a status or "hang" or "drip"; the last one holds for all that follow."""

    def __init__(self) -> None:
        self.answers: list[int | str] = [200]
        self.requests: list[tuple[str, dict[str, str], Any]] = []
        self.over = threading.Event()
        receiver = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                receiver.requests.append((self.path, dict(self.headers), body))
                answers = receiver.answers
                answer = answers.pop(0) if len(answers) > 1 else answers[0]
                if answer == "hang":
                    receiver.over.wait(10)
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

    def close(self) -> None:
        self.over.set()
        time.sleep(0)
        self.server.shutdown()
        self.thread.join()
        self.server.server_close()
