"""`python -m vgp.steps serve`: a model behind HTTP, from a shell or as the command of a container."""

from typing import Any

from vgp.base.exits import exits
from vgp.serve.endpoint.serving_request import MOST_MB, PORT, request


def add(verbs: Any) -> None:
    """The parser of `serve`."""
    serve = verbs.add_parser("serve", help="model -> predictions over HTTP, as Vertex AI's endpoints call them")
    serve.add_argument(
        "model", nargs="?", default="", help="folder of the model, here or gs://; default: AIP_STORAGE_URI"
    )
    serve.add_argument("--name", default="", help="the model's name in the registry")
    serve.add_argument("--version", default="", help="the version's number; default: the beginning of its checksum")
    serve.add_argument("--task", default="", help="module:Class, where the task does not ship")
    serve.add_argument(
        "--sha256", action="append", default=[], metavar="FILE=SHA256", help="a file's checksum, held to it; repeatable"
    )
    serve.add_argument("--host", default="", help="default: this machine alone, in a container of Vertex AI all")
    serve.add_argument("--port", type=int, help=f"default: AIP_HTTP_PORT, or {PORT}; 0 = any that is free")
    serve.add_argument("--max-request-mb", type=float, default=MOST_MB, help=f"default: {MOST_MB}")


@exits
def run(values: dict[str, Any]) -> None:
    """Serves what the parsed arguments say."""
    asked = request(**values)
    from vgp.serve.endpoint.server import serve

    serve(asked)
