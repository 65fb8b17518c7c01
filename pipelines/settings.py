"""pipelines.toml -> typed settings, checked once.

image = "us-central1-docker.pkg.dev/my-project/training/training@sha256:..."
region = "us-central1"

[steps.train]
machine = "g2-standard-24"
"""

import tomllib
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict, ValidationError

from pipelines.errors import RequestError, nearest
from pipelines.machines.placement import Request

FILE_NAME = "pipelines.toml"


class Settings(BaseModel):
    """Where things run. Unknown keys are refused."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    #: Region of the jobs; GPUs differ from region to region.
    region: str = "us-central1"
    #: The image of every step: by digest, or by a version tag.
    image: str = "us-central1-docker.pkg.dev/my-project/training/training:0.1.0"
    #: The machine of each step, by the step's name.
    steps: dict[str, Request] = {}

    def request(self, step: str) -> Request:
        return self.steps.get(step, Request())


def load(path: Path | None = None) -> Settings:
    """Settings from `path`, or from pipelines.toml in this folder or the repository; defaults if there is none.

    Raises:
        RequestError: the file cannot be read, is no TOML, or has a value that is not allowed.
    """
    found = path or _nearby()
    if found is None:
        return Settings()
    try:
        values = tomllib.loads(found.read_text(encoding="utf-8"))
    except OSError as error:
        raise RequestError(f"{found}: {error.strerror or error}.") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise RequestError(f"{found} is not valid TOML: {error}.") from None
    try:
        return Settings.model_validate(values)
    except ValidationError as error:
        raise RequestError(_explain(found, error)) from None


def _nearby() -> Path | None:
    folders = [Path.cwd(), Path(__file__).resolve().parent.parent]
    return next((folder / FILE_NAME for folder in folders if (folder / FILE_NAME).is_file()), None)


def _explain(path: Path, error: ValidationError) -> str:
    """One line for each wrong value: where it stands in the file, what is wrong, and the near choice."""
    return "\n".join(_line(path, detail) for detail in error.errors())


def _line(path: Path, detail: Any) -> str:
    keys = [str(part) for part in detail["loc"]]
    message = detail["msg"].removeprefix("Value error, ")
    if detail["type"] == "extra_forbidden":
        fields = Request.model_fields if keys[0] == "steps" else Settings.model_fields
        message = f"there is no such setting. {nearest(keys[-1], fields)}"
    return f"{path}:{_line_number(path, keys)}: {'.'.join(keys)}: {message}"


def _line_number(path: Path, keys: list[str]) -> int:
    """Line on which the key stands; TOML's parser does not tell, so its table and name are searched for."""
    table, line = "", 1
    for number, text in enumerate(path.read_text(encoding="utf-8").splitlines(), start=1):
        text = text.strip()
        if text.startswith("["):
            table = text.strip("[] ")
            if table == ".".join(keys):
                return number
        name = text.split("=", 1)[0].strip().strip('"')
        if text and ".".join(filter(None, [table, name])) == ".".join(keys[: len(keys)]):
            return number
        if table and ".".join(keys).startswith(table + "."):
            line = max(line, number if text.startswith("[") else line)
    return line
