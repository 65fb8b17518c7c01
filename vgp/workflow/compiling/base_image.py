"""The base of the image that is built here, as the Dockerfile of the repository names it."""

import re

from vgp.settings import Settings
from vgp.settings.repository import DOCKERFILES

_ARGUMENT = re.compile(r"(?mi)^\s*ARG\s+(\w+)=[\"']?([^\s\"']+)")
_FROM = re.compile(r"(?mi)^\s*FROM\s+(?:--\S+\s+)*(\S+)")
_NAMED = re.compile(r"\$\{?(\w+)\}?")


def base_image(settings: Settings) -> str:
    """The image of the last FROM, with the defaults of its ARGs; "" where there is no Dockerfile that can be read.

    `vgp image build --base` takes another one: then the Dockerfile does not tell it.
    """
    if settings.file is None:
        return ""
    names = [settings.dockerfile] if settings.dockerfile else DOCKERFILES
    path = next((path for name in names if (path := settings.repository.root / name).is_file()), None)
    try:
        text = path.read_text(encoding="utf-8") if path else ""
    except (OSError, UnicodeDecodeError):
        return ""
    defaults, stages = dict(_ARGUMENT.findall(text)), _FROM.findall(text)
    return _NAMED.sub(lambda match: defaults.get(match[1], ""), stages[-1]) if stages else ""
