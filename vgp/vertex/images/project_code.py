"""`--code`: the project's own code, packed on this machine and imported by the steps in place of the image's.

An edit of a task then needs no build. The image stays pinned and keeps the library and all packages; the archive
holds the files of `code` in pipelines.toml that git has or does not ignore, and that .dockerignore does not leave out.
Its URI holds the SHA-256 of its bytes and is a variable of each step, so it is part of the run's identity and of cache
keys.
"""

import base64
import hashlib
from collections.abc import Sequence
from contextlib import closing
from dataclasses import dataclass
from typing import TYPE_CHECKING

from vgp.base.documents.json_text import JsonObject
from vgp.base.errors import RequestError
from vgp.base.text import google_names
from vgp.base.text.printable import is_secret
from vgp.protocol import code_archive
from vgp.settings import Settings
from vgp.vertex import clients
from vgp.vertex.google_errors import explain_errors
from vgp.vertex.images.source import IgnoreRules, list_known_files, matches_any, read_text, refuse_foreign

if TYPE_CHECKING:
    from google.cloud.storage import Blob

#: Names that hold a private key or credentials, whatever their content.
_KEY_FILES = ("**/*.pem", "**/*.key", "**/*.p12", "**/*.pfx", "**/.env", "**/.env.*", "**/id_rsa*", "**/.netrc",
              "**/credentials.json", "**/application_default_credentials.json")  # fmt: skip


@dataclass(frozen=True)
class ProjectCode:
    """The packed code of a project, and the settings whose steps import it."""

    uri: str
    files: tuple[str, ...]
    content: bytes
    settings: Settings

    @property
    def label(self) -> str:
        """Returns the first characters of the digest, for a label of the run."""
        return code_archive.digest_of(self.uri)[:32]

    def as_json(self) -> JsonObject:
        return {"uri": self.uri, "files": len(self.files), "bytes": len(self.content)}

    def __str__(self) -> str:
        return f"code: {len(self.files)} files, {len(self.content) / 1024:,.0f} KiB, {self.uri}"


def pack(settings: Settings, *, schedule: bool = False) -> ProjectCode:
    """Packs the code that `code` of the settings lists. Nothing is uploaded.

    Raises:
        RequestError: the settings do not allow it for this environment or for a schedule, a step uses Dataflow, no file
            is left, a file looks like a credential, the code is too large, or no bucket is set.
    """
    _refuse_forbidden(settings, schedule=schedule)
    root = settings.repository.root
    ignored = IgnoreRules.read(read_text(root / ".dockerignore"))
    listed = (name for name in list_known_files(root) if matches_any(settings.code, name))
    files = tuple(name for name in listed if not ignored.excludes(name))
    if not files:
        raise RequestError(
            f"code = {list(settings.code)}: git knows no such file in {root}. List folders of your code in "
            'pipelines.toml, for example code = ["training", "src"].'
        )
    refuse_foreign(root, files)
    try:
        _refuse_large(settings, files)
        content = code_archive.pack(root, files)
        if len(content) > code_archive.MOST_BYTES:
            _refuse_large(settings, files)  # a file grew meanwhile
    except OSError as error:
        raise RequestError(f"--code: {error.filename} cannot be read ({error.strerror}). Repeat the command.") from None
    _refuse_keys(content)
    uri = f"{clients.bucket(settings)}/{code_archive.FOLDER}/{code_archive.file_name(content)}"
    return ProjectCode(uri, files, content, settings.with_code(uri))


def upload(code: ProjectCode) -> bool:
    """Uploads the archive unless it is already there; returns whether it was uploaded.

    Raises:
        RequestError: another object has the archive's name.
        WorkFailed: the bucket cannot be read or written.
    """
    from google.api_core import exceptions

    bucket, name = google_names.split_uri(code.uri)
    with explain_errors("upload the code", code.settings), closing(clients.storage(code.settings)) as client:
        blob = client.bucket(bucket).get_blob(name, timeout=clients.ATTEMPT_S)
        if blob is None:
            blob = client.bucket(bucket).blob(name)
            try:
                blob.upload_from_string(
                    code.content, content_type="application/x-tar", if_generation_match=0, timeout=clients.ATTEMPT_S
                )
                return True
            except exceptions.PreconditionFailed:  # another command has uploaded it meanwhile
                blob.reload(timeout=clients.ATTEMPT_S)
        _refuse_changed(blob, code)
        return False


def _refuse_changed(blob: "Blob", code: ProjectCode) -> None:
    checksum = base64.b64encode(hashlib.md5(code.content, usedforsecurity=False).digest()).decode()
    if blob.md5_hash != checksum or blob.size != len(code.content):
        raise RequestError(
            f"{code.uri} was changed after its upload, and steps would refuse it. Delete it and repeat the command: "
            f"gcloud storage rm {code.uri}"
        )


def _refuse_forbidden(settings: Settings, *, schedule: bool) -> None:
    environment = settings.environment or ""
    strict = schedule or environment.startswith("prod")
    if not (settings.allow_code or (settings.allow_code is None and not strict)):
        runner = "a schedule" if schedule else f"the environment {environment}" if environment else "this project"
        place = f"[environments.{environment}]" if environment else "pipelines.toml"
        raise RequestError(
            f"--code: {runner} runs only code that is in its image. Build the image (vgp image build), or write "
            f"allow_code = true into {place}."
        )
    dataflow = sorted(step for step, request in settings.steps.items() if request.dataflow)
    if dataflow:
        raise RequestError(
            f"--code: [steps.{dataflow[0]}.dataflow] prepares shards on machines that have only the code of the image. "
            "Build the image (vgp image build), or remove the table for this run."
        )


def _refuse_large(settings: Settings, files: Sequence[str]) -> None:
    sizes = {name: (settings.repository.root / name).stat().st_size for name in files}
    if sum(sizes.values()) > code_archive.MOST_BYTES:
        largest = sorted(files, key=lambda name: -sizes[name])[:3]
        names = ", ".join(f"{name} ({sizes[name] / 2**20:.1f} MiB)" for name in largest)
        raise RequestError(
            f"--code: the files of code are {sum(sizes.values()) / 2**20:.1f} MiB, and at most "
            f"{code_archive.MOST_BYTES >> 20} MiB are sent. The largest: {names}. Move data to the bucket, or leave it "
            "out with .gitignore or .dockerignore."
        )


def _refuse_keys(content: bytes) -> None:
    """Checks the packed bytes, because a file can change after it was packed."""
    for name, text in code_archive.read_files(content):
        if matches_any(_KEY_FILES, name.lower()) or is_secret(text.decode("utf-8", "ignore")):
            raise RequestError(
                f"--code: {name} looks like a credential, and everyone who reads the bucket could read it. Leave it "
                "out with .gitignore or .dockerignore; let steps read secrets from Secret Manager."
            )
