"""The registry of a bucket, and what Vertex AI's Model Registry shows of it: told, and brought after it.

Whoever changes the record calls `follow`; a step of a run does the same from within (vgp/protocol/model_registry.py).
"""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from vgp.base.errors import RequestError, WorkFailed
from vgp.base.text.bucket_uri import cut
from vgp.protocol import model_registry
from vgp.protocol.model_registry import Terms
from vgp.protocol.model_service import ModelService
from vgp.protocol.model_upload import Refused
from vgp.settings import Settings
from vgp.vertex import clients, names
from vgp.vertex.errors import explained

#: The record's file in the folder of a model: vgp/registry/documents.py.
RECORD = "registry.json"


def follow(settings: Settings, root: str, model: str) -> list[str]:
    """Makes Vertex AI show what the registry at `root` says of the model; returns what was done, in words.

    Raises:
        WorkFailed: Vertex AI could not be brought after it; the registry itself stays as it is.
    """
    terms = Terms(settings.image, settings.encryption_key or "", names.labels(dict(settings.labels)))
    doing = f"the registry has it, and Vertex AI's Model Registry does not show it yet ({model})"
    with _asked(doing, settings) as service:
        return model_registry.reconcile(lambda: record(settings, root, model), service, terms)


def differences(settings: Settings, root: str, model: str) -> list[str]:
    """What Vertex AI does not show of the model yet, in words.

    Raises:
        WorkFailed: one of the two cannot be read.
    """
    with _asked(f"what Vertex AI shows of {model} is not known", settings) as service:
        return model_registry.differences(record(settings, root, model), service)


def record(settings: Settings, root: str, model: str) -> dict[str, Any]:
    """The record of the model in its JSON form; each version lies where the registry does, also if that was moved.

    Raises:
        RequestError: there is none, or it is no JSON.
    """
    from google.api_core.exceptions import NotFound

    uri = f"{root.rstrip('/')}/{model}/{RECORD}"
    bucket, name = cut(uri)
    try:
        content = clients.storage(settings).bucket(bucket).blob(name).download_as_bytes(**clients.reading())
        found = dict(json.loads(content))
        folder = f"{uri.removesuffix(RECORD)}versions"
        return {**found, "versions": [{**one, "model": f"{folder}/{one['key']}"} for one in found["versions"]]}
    except NotFound:
        raise RequestError(f"{uri} is not there: a run that registers its model makes it.") from None
    except (ValueError, LookupError, TypeError) as error:
        raise RequestError(f"{uri} is damaged: {error}. Restore an earlier version of the object.") from None


@contextmanager
def _asked(doing: str, settings: Settings) -> Iterator[ModelService]:
    """The service of the settings' project and region; what it refuses in our words."""
    try:
        with explained(doing, settings), clients.session(settings) as session:
            base = clients.endpoint(settings, "aiplatform")
            yield ModelService(session, base, clients.project(settings), settings.region)
    except Refused as refusal:
        raise WorkFailed(f"{doing}: {refusal}") from None
