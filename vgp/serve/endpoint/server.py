"""The server process: listens at once, is healthy after the first prediction, and finishes open requests at its end.

python -m vgp.steps serve runs/model --port 8080
curl localhost:8080/predict -d '{"instances": [{"age": 29, "class": "first"}]}'
"""

import signal
import socket
import sys
import threading
import traceback
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any

import anyio
import uvicorn
from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from vgp.base.documents.json_text import JsonObject
from vgp.base.exits import ProcessFailed, UserError, exits
from vgp.base.text.printable import printable
from vgp.serve.endpoint import served_model
from vgp.serve.endpoint.served_model import Served
from vgp.serve.endpoint.serving_request import MOST_MB, PORT, ServingRequest, not_json, question, request

# ---- the two routes: health and prediction

# https://cloud.google.com/vertex-ai/docs/predictions/custom-container-requirements

#: Maximum of waiting requests; further ones get 503 with Retry-After.
MOST_WAITING = 64


@dataclass
class State:
    """The state of the server; `served` is the model once it is loaded."""

    served: Served | None = None
    waiting: int = 0


def app(state: State, *, predict: str, health: str, most_bytes: int) -> Starlette:
    """Returns the application. An error is `{"error": "..."}`; the status is 400 if the request is invalid."""
    turn = anyio.Semaphore(1)

    async def report_health(_: Request) -> Response:
        return JSONResponse({"status": "ok"} if state.served else {"status": "loading"}, 200 if state.served else 503)

    async def answer(request: Request) -> Response:
        if state.served is None:
            raise HTTPException(503, "the model is still loading")
        if words := not_json(request.headers.get("content-type", ""), request.headers.get("content-encoding", "")):
            raise HTTPException(415, words)
        question_rows = question(await _body(request, most_bytes))
        if state.waiting >= MOST_WAITING:
            raise HTTPException(503, f"{MOST_WAITING} requests are waiting already", {"Retry-After": "1"})
        state.waiting += 1
        try:
            async with turn:  # PyTorch uses all cores for one batch
                if await request.is_disconnected():  # during the wait
                    raise ClientDisconnect
                predictions = await run_in_threadpool(state.served.answer, question_rows)
        finally:
            state.waiting -= 1
        return JSONResponse({"predictions": predictions})

    return Starlette(
        routes=[Route(health, report_health), Route(predict, answer, methods=["POST"])],
        exception_handlers={
            UserError: _answer_mistake,
            HTTPException: _answer_refusal,
            Exception: _failure,
            ClientDisconnect: _answer_gone_client,
        },
    )


async def _body(request: Request, most: int) -> bytes:
    """Returns the body. Raises HTTPException 413 as soon as it is too large."""
    too_large = HTTPException(413, f"the body has more than {most / 1e6:g} MB; send fewer instances at a time")
    declared = request.headers.get("content-length", "")
    if declared.isdecimal() and int(declared) > most:
        raise too_large
    body = bytearray()
    async for chunk in request.stream():
        body += chunk
        if len(body) > most:
            raise too_large
    return bytes(body)


Handler = Callable[[Request, Exception], Awaitable[Response]]


async def _answer_mistake(_: Request, error: Exception) -> Response:
    return JSONResponse({"error": printable(error)}, 400)


async def _answer_refusal(_: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    return JSONResponse({"error": error.detail}, error.status_code, headers=error.headers)


async def _failure(_: Request, error: Exception) -> Response:
    """Logs an unexpected error; the caller gets only its type."""
    traceback.print_exception(error, file=sys.stderr)
    return JSONResponse({"error": f"the model failed: {type(error).__name__}; see the server's log"}, 500)


async def _answer_gone_client(_: Request, error: Exception) -> Response:
    return Response(status_code=499)  # the client is gone


# ---- `python -m vgp.steps serve`: a model behind HTTP, from a shell or as the command of a container


def add(verbs: Any) -> None:
    """Adds the parser of `serve`."""
    serve = verbs.add_parser("serve", help="model -> predictions over HTTP, as Vertex AI's endpoints call them")
    serve.add_argument(
        "model", nargs="?", default="", help="folder of the model, here or gs://; default: AIP_STORAGE_URI"
    )
    serve.add_argument("--name", default="", help="the model's name in the registry")
    serve.add_argument("--version", default="", help="the version's number; default: the beginning of its checksum")
    serve.add_argument("--task", default="", help="module:Class of a task that does not ship")
    serve.add_argument(
        "--sha256", action="append", default=[], metavar="FILE=SHA256", help="expected checksum of a file; repeatable"
    )
    serve.add_argument("--host", default="", help="default: 127.0.0.1; on Vertex AI: 0.0.0.0")
    serve.add_argument("--port", type=int, help=f"default: AIP_HTTP_PORT, or {PORT}; 0 = any free port")
    serve.add_argument("--max-request-mb", type=float, default=MOST_MB, help=f"default: {MOST_MB}")


@exits
def run(values: JsonObject) -> None:
    """Serves a model with the parsed arguments."""
    serve(request(**values))


#: Seconds for open requests after SIGTERM, less than the 30 seconds of a container.
DRAIN_S = 25


def serve(settings: ServingRequest) -> None:
    """Serves until SIGTERM or Ctrl-C, then finishes open requests.

    Raises:
        UserError: The port is taken, or the model cannot be loaded.
        ProcessFailed: The bucket of the model did not answer.
    """
    listener, state, failures = _listener(settings), State(), list[Exception]()
    routes = app(state, predict=settings.predict, health=settings.health, most_bytes=settings.most_bytes)
    config = uvicorn.Config(
        routes,
        log_level="warning",
        access_log=False,
        lifespan="off",
        server_header=False,
        timeout_graceful_shutdown=DRAIN_S,
    )
    server = uvicorn.Server(config)
    threading.Thread(target=_load, args=(settings, state, server, failures, listener), daemon=True).start()
    # Uvicorn raises the signal again after a clean shutdown, which is not a failure.
    before = signal.signal(signal.SIGTERM, lambda *_: None)
    try:
        server.run([listener])
    except KeyboardInterrupt:
        pass
    finally:
        signal.signal(signal.SIGTERM, before)
    if failures:
        raise failures[0]


def _listener(settings: ServingRequest) -> socket.socket:
    """Binds the port, before the model is loaded, so that a taken port fails at once."""
    try:
        return socket.create_server((settings.host, settings.port), backlog=256)
    except OSError as error:
        raise UserError(
            f"{settings.host}:{settings.port} is not available: {error.strerror}. Choose another port: --port 8081."
        ) from None


def _load(
    settings: ServingRequest, state: State, server: uvicorn.Server, failures: list[Exception], listener: socket.socket
) -> None:
    """Loads the model in a thread; stops the server if that fails."""
    try:
        served = served_model.load(settings)
    except Exception as error:
        failure = error if isinstance(error, UserError | ProcessFailed) else ProcessFailed(
            f"{settings.model} failed on a first prediction: {type(error).__name__}: {error}"
        )  # fmt: skip
        failures.append(failure)
        server.should_exit = True
        return
    state.served = served
    host, port = listener.getsockname()[:2]
    name = f"{settings.name} " if settings.name else ""
    print(f"{name}{served.version} at http://{host}:{port}{settings.predict}", file=sys.stderr, flush=True)
