"""What was copied into a project, by digest: which files are still as they came.

{"version": "0.1.0", "files": {"vgp/train/fit.py": "<SHA-256>"}}
"""

import hashlib
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from vgp.base.errors import RequestError

#: In a project.
PATH = "training/lock/vendored.json"
_DIGEST = re.compile(r"[0-9a-f]{64}")


@dataclass(frozen=True)
class Manifest:
    """The version that the files came from, and their digests."""

    version: str
    files: Mapping[str, str]

    @classmethod
    def of(cls, version: str, contents: Mapping[str, bytes]) -> "Manifest":
        return cls(version, {path: digest(content) for path, content in contents.items()})

    @property
    def text(self) -> str:
        return json.dumps({"version": self.version, "files": dict(self.files)}, indent=1) + "\n"

    @classmethod
    def read(cls, root: Path) -> "Manifest":
        """That of the project at `root`.

        Raises:
            RequestError: there is none, or it is damaged.
        """
        path = root / PATH
        if not path.is_file():
            raise RequestError(f"{root} has no {PATH}: it was not written by `pipelines new project`.")
        try:
            values = json.loads(path.read_text(encoding="utf-8"))
            manifest = cls(values["version"], dict(values["files"]))
        except (OSError, ValueError, KeyError, TypeError, RecursionError):
            raise _damaged(path) from None
        entries = all(_is_entry(name, value) for name, value in manifest.files.items())
        if not entries or not isinstance(manifest.version, str):
            raise _damaged(path)
        return manifest


def digest(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


def _is_entry(path: object, value: object) -> bool:
    """Whether it is a file below the project, with a digest."""
    inside = isinstance(path, str) and not {"", ".", ".."} & set(path.split("/"))
    return inside and isinstance(value, str) and bool(_DIGEST.fullmatch(value))


def _damaged(path: Path) -> RequestError:
    return RequestError(f"{path} is damaged. Take it back from your last commit: git checkout -- {PATH}.")
