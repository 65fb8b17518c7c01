"""TOML texts, refused if they are expensive to parse, and the search for pipelines.toml.

tomllib recurses into arrays and inline tables, and its time grows with the square of the parts of a dotted key: 200 kB
of `a.a.a...` take minutes.
"""

import os
import re
import tomllib
from pathlib import Path

from vgp.base.documents.bounded_text import Unreadable, read
from vgp.base.documents.json_text import JsonObject
from vgp.base.errors import RequestError

#: Settings have a few kB and four levels.
MAX_BYTES, MAX_LEVELS = 1_000_000, 50

#: Strings, comments and blanks, whose dots and brackets are not syntax.
_TEXT = re.compile(
    r'"""(?:[^\\]|\\.)*?"{3,5}|\'\'\'.*?\'{3,5}|"(?:[^"\\\n]|\\.)*+"|\'[^\'\n]*+\'|#[^\n]*+|[ \t]++', re.DOTALL
)
_NAMES = re.compile(r"[^\n=,\[\]{}]++")


def load(path: Path) -> JsonObject:
    """Returns the values of a file; raises Unreadable."""
    return loads(read(path, MAX_BYTES), str(path))


def loads(text: str, file: str) -> JsonObject:
    """Returns the values of a text; raises Unreadable, about `file`, for invalid TOML and for too deep nesting."""
    try:
        if levels(text) > MAX_LEVELS:
            raise RecursionError
        return tomllib.loads(text)
    except RecursionError:
        raise Unreadable(file, f"nested more than {MAX_LEVELS} levels deep.") from None
    except tomllib.TOMLDecodeError as error:
        raise Unreadable(file, f"not valid TOML: {error}.") from None


def levels(text: str) -> int:
    """Returns an upper bound of the nesting: brackets in brackets, and parts of a dotted key."""
    bare = _TEXT.sub(lambda match: "s" if match[0][0] in "\"'" else "", text)
    depth = deepest = 0
    for bracket in re.findall(r"[\[\]{}]", bare):
        depth += 1 if bracket in "[{" else -1
        deepest = max(deepest, depth)
    return deepest + max((names.count(".") for names in _NAMES.findall(bare)), default=0)


FILE_NAME = "pipelines.toml"


def settings_file() -> Path | None:
    """Returns the path of the nearest pipelines.toml in the current folder or above, or None.

    Raises:
        RequestError: the file is in a parent folder and belongs to another user (its code would run, for example from
            /tmp), is a folder, or a folder cannot be read.
    """
    try:
        here = Path.cwd()
        for depth, folder in enumerate([here, *here.parents]):
            path = folder / FILE_NAME
            if path.is_dir():
                raise RequestError(f"{path} is a folder, but the settings are a file of this name. Rename the folder.")
            if path.is_file():
                if depth and path.stat().st_uid not in (os.getuid(), 0, here.stat().st_uid):
                    raise RequestError(f"{path} belongs to another user. To use it anyway: --settings {path}.")
                return Path(*[".."] * depth, FILE_NAME)
    except OSError as error:
        raise RequestError(f"{error.filename or 'the current folder'} cannot be read: {error.strerror}.") from None
    return None
