"""The process that serves a model: it listens at once, is well when the model has answered, and drains before it ends.

python -m vgp.steps serve runs/model --port 8080
curl localhost:8080/predict -d '{"instances": [{"age": 29, "class": "first"}]}'
"""

import signal
import socket
import sys
import threading

import uvicorn

from vgp.base.exits import ProcessFailed, UserError
from vgp.serve.endpoint import model
from vgp.serve.endpoint.app import State, app
from vgp.serve.endpoint.serving_request import Request

#: Seconds that requests in progress have after SIGTERM, before a container's grace of 30 is over.
DRAIN_S = 25


def serve(asked: Request) -> None:
    """Serves until SIGTERM or Ctrl-C; requests that have begun are answered first.

    Raises:
        UserError: the port is taken, or the model cannot be loaded.
        ProcessFailed: the bucket of the model could not be reached.
    """
    listener, state, failures = _listener(asked), State(), list[Exception]()
    routes = app(state, predict=asked.predict, health=asked.health, most_bytes=asked.most_bytes)
    config = uvicorn.Config(
        routes,
        log_level="warning",
        access_log=False,
        lifespan="off",
        server_header=False,
        timeout_graceful_shutdown=DRAIN_S,
    )
    server = uvicorn.Server(config)
    threading.Thread(target=_load, args=(asked, state, server, failures, listener), daemon=True).start()
    # The server ends in order and then raises the signal again: that it ended is no failure.
    before = signal.signal(signal.SIGTERM, lambda *_: None)
    try:
        server.run([listener])
    except KeyboardInterrupt:
        pass
    finally:
        signal.signal(signal.SIGTERM, before)
    if failures:
        raise failures[0]


def _listener(asked: Request) -> socket.socket:
    """Bound before anything is loaded: whether a port is free takes no model."""
    try:
        return socket.create_server((asked.host, asked.port), backlog=256)
    except OSError as error:
        raise UserError(
            f"{asked.host}:{asked.port} cannot be listened on: {error.strerror}. Take another one: --port 8081."
        ) from None


def _load(
    asked: Request, state: State, server: uvicorn.Server, failures: list[Exception], listener: socket.socket
) -> None:
    """Loads the model beside the server, and ends it if that fails."""
    try:
        served = model.load(asked)
    except Exception as error:
        kept = error if isinstance(error, UserError | ProcessFailed) else ProcessFailed(
            f"{asked.model} could not be made to answer: {type(error).__name__}: {error}"
        )  # fmt: skip
        failures.append(kept)
        server.should_exit = True
        return
    state.served = served
    host, port = listener.getsockname()[:2]
    name = f"{asked.name} " if asked.name else ""
    print(f"{name}{served.version} at http://{host}:{port}{asked.predict}", file=sys.stderr, flush=True)
