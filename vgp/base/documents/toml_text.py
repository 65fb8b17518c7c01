"""TOML texts, refused before they cost much, and where pipelines.toml is.

tomllib recurses into arrays and inline tables, and takes the square of the parts of a dotted key: 200 kB of `a.a.a...`
keep it busy for minutes.
"""

import os
import re
import tomllib
from pathlib import Path

from vgp.base.documents.bounded_text import Unreadable, read
from vgp.base.documents.json_text import JsonObject
from vgp.base.errors import RequestError

#: Settings have a few kB, and four levels.
MAX_BYTES, MAX_LEVELS = 1_000_000, 50

#: Strings and comments, in which dots and brackets mean nothing.
_TEXT = re.compile(
    r'"""(?:[^\\]|\\.)*?"{3,5}|\'\'\'.*?\'{3,5}|"(?:[^"\\\n]|\\.)*+"|\'[^\'\n]*+\'|#[^\n]*+|[ \t]++', re.DOTALL
)
_NAMES = re.compile(r"[^\n=,\[\]{}]++")


def load(path: Path) -> JsonObject:
    """The values of a file; raises Unreadable."""
    return loads(read(path, MAX_BYTES), str(path))


def loads(text: str, file: str) -> JsonObject:
    """The values of a text; raises Unreadable: it is no TOML, or nested too deeply. `file` is how it is called."""
    try:
        if levels(text) > MAX_LEVELS:
            raise RecursionError
        return tomllib.loads(text)
    except RecursionError:
        raise Unreadable(file, f"nested more than {MAX_LEVELS} levels deep, which no settings are.") from None
    except tomllib.TOMLDecodeError as error:
        raise Unreadable(file, f"this is not valid TOML: {error}.") from None


def levels(text: str) -> int:
    """How deep the text nests at most: brackets in brackets, or parts of a dotted key."""
    bare = _TEXT.sub(lambda match: "s" if match[0][0] in "\"'" else "", text)
    depth = deepest = 0
    for bracket in re.findall(r"[\[\]{}]", bare):
        depth += 1 if bracket in "[{" else -1
        deepest = max(deepest, depth)
    return deepest + max((names.count(".") for names in _NAMES.findall(bare)), default=0)


FILE_NAME = "pipelines.toml"


def settings_file() -> Path | None:
    """The nearest pipelines.toml, from the current folder upward.

    Raises:
        RequestError: it lies above, and is neither the user's nor of the owner of this folder: code would be run that
            somebody put into a parent folder, /tmp say. Or a folder on the way cannot be read.
    """
    try:
        here = Path.cwd()
        for depth, folder in enumerate([here, *here.parents]):
            path = folder / FILE_NAME
            if path.is_file():
                if depth and path.stat().st_uid not in (os.getuid(), 0, here.stat().st_uid):
                    raise RequestError(f"{path} belongs to another user. To use it all the same: --settings {path}.")
                return Path(*[".."] * depth, FILE_NAME)
    except OSError as error:
        raise RequestError(f"{error.filename or 'the current folder'} cannot be read: {error.strerror}.") from None
    return None
