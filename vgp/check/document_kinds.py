"""The kind of a document, recognised by its content, and the judge of that kind."""

from typing import Any

from vgp.base.documents.bounded_text import Unreadable
from vgp.base.documents.document import Document
from vgp.base.documents.node import Node, spellings
from vgp.check import api_object, legacy, pipeline, plain_step
from vgp.check.judgement import Judgement
from vgp.check.sources import source_files

#: Each request that is written as JSON or YAML has one of these words.
_WORDS = (
    "deploymentSpec", "trainingInput", "scaleTier", "masterType",
    *sorted({spelled for name in api_object.TELLING for spelled in spellings(name)}),
)  # fmt: skip
_KINDS = "a compiled pipeline, a custom job, worker pools, a tuning, prediction or deployment request, or trainingInput"


def recognises(document: Document) -> bool:
    """Whether the document is of a kind that can be judged, or has the words of one and cannot be read."""
    data = document.data
    if document.fault is not None:
        return document.asks
    if document.places is not None:
        return True  # what programs do not ask for makes no document
    kinds = (pipeline.recognises, legacy.recognises, api_object.telling_field, api_object.is_pool_list, _is_list)
    return any(bool(kind(data)) for kind in kinds)


def may_ask(file: str, text: str) -> bool:
    """Whether a text has a word by which requests are recognised."""
    asks = source_files.may_ask(file, text)
    return any(word in text for word in _WORDS) if asks is None else asks


def judge(judgement: Judgement) -> None:
    """Judges the document by its kind.

    Raises:
        Unreadable: it is of no kind that can be judged.
    """
    document = judgement.document
    data, node = document.data, Node(document.data)
    if isinstance(data, dict) and set(data) == {"platforms"}:
        return  # kfp's second document: settings of the Kubernetes backend
    if pipeline.recognises(data):
        pipeline.judge(judgement)
    elif legacy.recognises(data):
        legacy.judge(judgement)
    elif api_object.telling_field(data):
        api_object.judge(judgement, "", node)
    elif _is_container(data):
        plain_step.judge(judgement, document.default_step, node.get("container"))
    elif api_object.is_pool_list(data):
        api_object.judge_pools(judgement, "", node)
    elif _is_list(data):
        _objects(judgement, node)
    else:
        raise Unreadable(document.file, _why_not(data))


def _is_list(data: Any) -> bool:
    """A list of objects of the API."""
    return isinstance(data, list) and any(api_object.telling_field(item) for item in data)


def _is_container(data: Any) -> bool:
    """The container of a plain step, as it is read of a program."""
    return isinstance(data, dict) and set(data) == {"container"}


def _objects(judgement: Judgement, node: Node) -> None:
    """A list of objects of the API."""
    for index, item in enumerate(node.items()):
        step = item.get("displayName").text() or f"job[{index}]"
        with judgement.guarded(step, item):
            api_object.judge(judgement, step, item)


def _why_not(data: Any) -> str:
    if isinstance(data, dict) and str(data.get("apiVersion", "")).startswith("argoproj.io"):
        return "an Argo workflow of KFP 1; Vertex AI runs pipelines compiled by KFP 2"
    what = "it is plain text" if isinstance(data, str) else f"it is {type(data).__name__}"
    if isinstance(data, dict):
        what = f"its keys are {', '.join(str(key)[:40] for key in list(data)[:8]) or 'none'}"
    return f"nothing that can be judged: {what}. Wanted is {_KINDS}"
