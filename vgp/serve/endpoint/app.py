"""The two routes of a served model: whether it is well, and what it predicts.

https://cloud.google.com/vertex-ai/docs/predictions/custom-container-requirements
"""

import sys
import traceback
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any

import anyio
from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from vgp.base.exits import UserError
from vgp.base.text.printable import printable
from vgp.serve.endpoint.model import Served
from vgp.serve.endpoint.parsing import not_json, question

#: Requests that may wait for their turn; more are told to come again.
MOST_WAITING = 64


@dataclass
class State:
    """The model, as soon as it has answered once."""

    served: Served | None = None
    waiting: int = 0


def app(state: State, *, predict: str, health: str, most_bytes: int) -> Starlette:
    """The application. A failure is `{"error": "..."}`, with 400 where the request is to be mended."""
    turn = anyio.Semaphore(1)

    async def is_well(_: Request) -> Response:
        return JSONResponse({"status": "ok"} if state.served else {"status": "loading"}, 200 if state.served else 503)

    async def predicts(request: Request) -> Response:
        if state.served is None:
            raise HTTPException(503, "the model is still loading")
        if words := not_json(request.headers.get("content-type", ""), request.headers.get("content-encoding", "")):
            raise HTTPException(415, words)
        asked = question(await _body(request, most_bytes))
        if state.waiting >= MOST_WAITING:
            raise HTTPException(503, f"{MOST_WAITING} requests are waiting already", {"Retry-After": "1"})
        state.waiting += 1
        try:
            async with turn:  # PyTorch uses all cores for one batch
                if await request.is_disconnected():  # while it waited
                    raise ClientDisconnect
                predictions = await run_in_threadpool(state.served.answer, asked)
        finally:
            state.waiting -= 1
        return JSONResponse({"predictions": predictions})

    return Starlette(
        routes=[Route(health, is_well), Route(predict, predicts, methods=["POST"])],
        exception_handlers={UserError: _mistake, HTTPException: _refusal, Exception: _failure, ClientDisconnect: _gone},
    )


async def _body(request: Request, most: int) -> bytes:
    """The body. Raises HTTPException 413 as soon as it is too large."""
    too_large = HTTPException(413, f"the body has more than {most / 1e6:g} MB: send fewer instances at a time")
    declared = request.headers.get("content-length", "")
    if declared.isdecimal() and int(declared) > most:
        raise too_large
    body = bytearray()
    async for chunk in request.stream():
        body += chunk
        if len(body) > most:
            raise too_large
    return bytes(body)


Handler = Callable[[Request, Any], Awaitable[Response]]


async def _mistake(_: Request, error: Exception) -> Response:
    return JSONResponse({"error": printable(error)}, 400)


async def _refusal(_: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    return JSONResponse({"error": error.detail}, error.status_code, headers=error.headers)


async def _failure(_: Request, error: Exception) -> Response:
    """What nobody foresaw: the log has it, the caller has its kind alone."""
    traceback.print_exception(error, file=sys.stderr)
    return JSONResponse({"error": f"the model failed: {type(error).__name__}; the log says more"}, 500)


async def _gone(_: Request, error: Exception) -> Response:
    return Response(status_code=499)  # nobody reads it
