"""TOML texts of any author: what would cost tomllib and tomlkit too much is refused before they see it.

tomllib recurses into arrays and inline tables, and takes the square of the parts of a dotted key: 200 kB of `a.a.a...`
keep it busy for minutes.
"""

import re
import tomllib
from pathlib import Path
from typing import Any

from vgp.base.documents.reading import Unreadable, read

#: Settings have a few kB, and four levels.
MAX_BYTES, MAX_LEVELS = 1_000_000, 50

#: Strings and comments, in which dots and brackets mean nothing.
_TEXT = re.compile(
    r'"""(?:[^\\]|\\.)*?"{3,5}|\'\'\'.*?\'{3,5}|"(?:[^"\\\n]|\\.)*+"|\'[^\'\n]*+\'|#[^\n]*+|[ \t]++', re.DOTALL
)
_NAMES = re.compile(r"[^\n=,\[\]{}]++")


def load(path: Path) -> dict[str, Any]:
    """The values of a file; raises Unreadable."""
    return loads(read(path, MAX_BYTES), str(path))


def loads(text: str, file: str) -> dict[str, Any]:
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
