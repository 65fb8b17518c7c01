"""Checks that the repository of templates exists and has the format KFP."""

import re
from collections.abc import Iterator

from vgp.settings import Settings
from vgp.vertex import clients
from vgp.vertex.preflight.preflight_questions import Finding, Question, call_options, skip_question

_URL = re.compile(r"https://(?P<location>[a-z0-9-]+)-kfp\.pkg\.dev/(?P<project>[^/]+)/(?P<name>[^/]+)")


def list_questions(settings: Settings) -> Iterator[Question]:
    url = settings.template_repository
    if not url:
        yield skip_question("repository.exists", "template repository", "none is set: vgp upload needs one")
        return
    yield Question("repository.exists", url, lambda: _check_repository(settings, url))


def _check_repository(settings: Settings, url: str) -> Iterator[Finding]:
    """https://cloud.google.com/vertex-ai/docs/pipelines/create-pipeline-template"""
    from google.api_core import exceptions

    parts = _URL.fullmatch(url)
    assert parts, "settings/rules.py checked it"
    name = f"projects/{parts['project']}/locations/{parts['location']}/repositories/{parts['name']}"
    create = (
        f"gcloud artifacts repositories create {parts['name']} --repository-format=kfp "
        f"--location={parts['location']} --project={parts['project']}"
    )
    try:
        repository = clients.artifact_registry(settings).get_repository(name=name, **call_options())
    except exceptions.NotFound:
        yield Finding("repository.exists", url, "error", "is not there", create)
        return
    if repository.format_.name != "KFP":
        seen = f"holds {repository.format_.name}, not pipelines (KFP)"
        yield Finding("repository.exists", url, "error", seen, f"Create one under another name: {create}")
        return
    yield Finding("repository.exists", url, "ok", "is there, for pipelines")
