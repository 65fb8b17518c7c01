"""What names a template: its package, its tag or its digest. Validated here, before any of it becomes part of a URL.

training                 the version that has the tag `latest`
training:v3              the version that has the tag v3; training@v3 means the same
training@sha256:4be6...  exactly this version; eight digits of the digest are enough
https://us-central1-kfp.pkg.dev/my-project/templates/training/v3
gs://my-bucket/templates/training/4be6....json
training@URI             a URI, which must be of this template
"""

import re
from dataclasses import dataclass

from vgp.base.errors import RequestError
from vgp.base.text.printable import PASSWORD

LATEST = "latest"
PREFIX = "sha256:"
#: https://github.com/kubeflow/pipelines/issues/7382: a version is named by the SHA-256 of its content.
_DIGEST = re.compile(r"sha256:[0-9a-f]{8,64}")
#: https://cloud.google.com/vertex-ai/docs/pipelines/create-pipeline-template
_NAME = re.compile(r"[a-z0-9][a-z0-9-]{3,127}")
#: Narrower than Artifact Registry's [a-zA-Z0-9-._~:@], so that a reference can be read in one way only.
_TAG = re.compile(r"[a-zA-Z0-9_][a-zA-Z0-9_.-]{0,127}")
_URI = re.compile(r"(?P<place>https://[a-z0-9-]+-kfp\.pkg\.dev/[^/]+/[^/]+)/(?P<name>[^/]+)/(?P<version>[^/]+)")
_OBJECT = re.compile(r"(?P<place>gs://.+)/(?P<name>[^/]+)/(?P<version>[0-9a-f]{64})\.json")


@dataclass(frozen=True)
class Reference:
    """A template version as a person or a file names it: by tag or by digest."""

    name: str
    tag: str | None
    #: `sha256:` and 8 to 64 hex digits.
    digest: str | None
    #: The repository or bucket folder that it lies in; None: that of the settings.
    place: str | None = None

    def __str__(self) -> str:
        return f"{self.name}:{self.tag}" if self.tag else f"{self.name}@{self.digest}"


def parse(given: str) -> Reference:
    """`given` as a reference.

    Raises:
        RequestError: it names no template, or breaks a rule of names.
    """
    if PASSWORD.search(given):
        raise RequestError("a template's address must not hold a user or password: who asks is who is signed in.")
    name, sign, version = given.partition("@")
    if there := _located(given):
        return there
    if there := _located(version):
        if there.name != name:
            raise RequestError(f"{version} is a version of {there.name}, not of {name!r}.")
        return there
    if "://" in given:
        raise RequestError(
            f"{given} is no template. Write NAME, NAME:TAG, NAME@sha256:..., "
            "https://REGION-kfp.pkg.dev/PROJECT/REPOSITORY/NAME/TAG, or gs://BUCKET/FOLDER/NAME/SHA256.json."
        )
    if not sign:
        name, sign, version = given.partition(":")
    return _reference(name, version if sign else LATEST, None)


def _located(uri: str) -> Reference | None:
    if found := _URI.fullmatch(uri):
        return _reference(found["name"], found["version"], found["place"])
    if found := _OBJECT.fullmatch(uri):
        return _reference(found["name"], PREFIX + found["version"], found["place"])
    return None


def _reference(name: str, version: str, place: str | None) -> Reference:
    if version.startswith(PREFIX):
        return Reference(package(name), None, digest(version), place)
    return Reference(package(name), tag(version), None, place)


def package(given: str) -> str:
    """`given` as the name of a template.

    Raises:
        RequestError: Artifact Registry would not take it.
    """
    if not _NAME.fullmatch(given):
        raise RequestError(
            f"{given!r} cannot be a template's name: 4 to 128 lower-case letters, digits and -, no - first. "
            "It is the name of the pipeline: @dsl.pipeline(name=...)."
        )
    return given


def tag(given: str) -> str:
    """`given` as a tag.

    Raises:
        RequestError: it cannot be one.
    """
    if not _TAG.fullmatch(given):
        raise RequestError(
            f"{given!r} cannot be a tag: at most 128 letters, digits, . _ and -, no . or - first. "
            "A digest is written NAME@sha256:..."
        )
    return given


def digest(given: str) -> str:
    """`given` as a version's digest, in full or its first eight digits or more.

    Raises:
        RequestError: it is none.
    """
    if not _DIGEST.fullmatch(given):
        raise RequestError(f"{given!r} is no digest: write sha256: and at least 8 of its 64 hex digits, in lower case.")
    return given
