"""The Terraform of infra/, parsed: what the tests ask about it."""

import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import hcl2
from hcl2 import SerializationOptions

FOLDER = Path(__file__).resolve().parents[2] / "infra"
FILES = sorted(FOLDER.glob("*.tf"))
#: Every file's text without comments: what Terraform sees.
TEXT = "\n".join(re.sub(r"(?m)^\s*#.*$|\s# .*$", "", path.read_text()) for path in FILES)

_PLAIN = SerializationOptions(with_comments=False, explicit_blocks=False, strip_string_quotes=True)


def blocks(kind: str) -> Iterator[Any]:
    """The blocks of a kind (resource, variable, locals ...) of all files."""
    for path in FILES:
        yield from _parsed(path).get(kind, [])


@cache
def _parsed(path: Path) -> dict[str, Any]:
    return hcl2.loads(path.read_text(), serialization_options=_PLAIN)


def resources(type_: str = "") -> Iterator[tuple[str, str, dict[str, Any]]]:
    """Type, name and body of every resource whose type starts with `type_`."""
    for block in blocks("resource"):
        for found, named in block.items():
            for name, body in named.items():
                if found.startswith(type_):
                    yield found, name, body


def locals_() -> dict[str, Any]:
    return {name: value for block in blocks("locals") for name, value in block.items()}


def custom_roles() -> dict[str, set[str]]:
    """Name of a role that is made here -> its permissions."""
    return {name: set(body["permissions"]) for _, name, body in resources("google_project_iam_custom_role")}


def roles_on_project() -> set[str]:
    """Every role that is granted on the whole project."""
    texts = [str(body) for _, _, body in resources("google_project_iam")]
    texts += [str(value) for name, value in locals_().items() if name.endswith("_roles")]
    return set(re.findall(r"roles/[a-zA-Z.]+", " ".join(texts)))
