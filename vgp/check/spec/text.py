"""The one textual form of a spec: JSON, and the same read as YAML.

Vertex's SDK and its template registry read YAML 1.1, to which 1e-05 is a text and \\ud83d\\ude00 two broken characters:
written as 1.0e-05 and as the character itself, both are the same in JSON and in YAML.
"""

import json
import re
from collections.abc import Mapping
from typing import Any

_STRING_OR_EXPONENT = re.compile(r'"(?:[^"\\]|\\.)*"|(?<![.\d])(?P<whole>\d+)(?P<exponent>e[+-]\d+)')
_ESCAPE = re.compile(r"(?P<pair>\\ud[89ab][0-9a-f]{2}\\ud[c-f][0-9a-f]{2})|\\.")


def as_text(value: object, kept: object = None) -> str:
    """Returns the text of a JSON value, keys in order, but for those of the table `kept`, which stay as they are."""
    return _STRING_OR_EXPONENT.sub(_as_yaml, json.dumps(_sorted(value, kept), indent=2)) + "\n"


def _sorted(value: Any, kept: object) -> Any:
    if isinstance(value, Mapping):
        return {key: _sorted(value[key], kept) for key in (value if value is kept else sorted(value))}
    return [_sorted(member, kept) for member in value] if isinstance(value, list) else value


def _as_yaml(match: re.Match[str]) -> str:
    if match["whole"]:
        return f"{match['whole']}.0{match['exponent']}"
    return _ESCAPE.sub(lambda escape: json.loads(f'"{escape[0]}"') if escape["pair"] else escape[0], match[0])
