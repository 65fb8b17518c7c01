"""What a verb needs beyond the light base: when it is not installed, the command that installs it."""

import re
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import vgp
from vgp.base.errors import RequestError, lacking

NAME = "vgp"
#: Packages at the top of what each extra of pyproject.toml installs, as far as verbs and workflows import them.
PACKAGES = {
    "vertex": ("kfp", "google", "google_cloud_pipeline_components", "certifi", "requests", "urllib3"),
    "training": ("torch", "numpy", "scipy", "sklearn", "pyarrow", "safetensors", "matplotlib", "jinja2", "tokenizers"),
}


@contextmanager
def named() -> Iterator[None]:
    """Turns the lack of such a package into a request that says how to install it.

    Raises:
        RequestError: a package of an extra is not installed.
    """
    try:
        yield
    except Exception as error:
        package = lacking(error).partition(".")[0]
        extra = next((extra for extra, packages in PACKAGES.items() if package in packages), None)
        if extra is None:
            raise
        message = f"this needs {package}, which is not installed. Install the extra {extra}:\n  {command(extra)}"
        raise RequestError(message) from error


def command(extra: str) -> str:
    """Installs the extra where this command runs: in its repository, or beside the wheel that it came as."""
    setup = Path(vgp.__file__).parents[1] / "scripts/setup.sh"
    if setup.is_file():
        return f"{setup} {extra}"
    return f"{sys.executable} -m pip install '{requirement(extra)}'"


def requirement(*extras: str) -> str:
    """This very distribution with extras, for pip: from where it came (PEP 610), else in its version."""
    name = f"{NAME}[{','.join(extras)}]" if extras else NAME
    origin = _origin()
    return f"{name} @ {origin}" if origin else f"{name}=={vgp.__version__}"


def rules_url() -> str:
    """The pages of the rules on the web, where this came from a repository on GitHub; else empty."""
    found = re.fullmatch(r"git\+(https://github\.com/[\w.-]+/[\w.-]+?)(?:\.git)?@([0-9a-f]{40})", _origin())
    return f"{found[1]}/blob/{found[2]}/docs/reference/rules" if found else ""


def _origin() -> str:
    """Where the wheel or its sources came from, as pip writes it; empty for an index."""
    import json
    from importlib import metadata  # 20 ms, which --help need not pay

    try:
        record = json.loads(metadata.distribution(NAME).read_text("direct_url.json") or "{}")
    except metadata.PackageNotFoundError:
        return ""
    if "vcs_info" in record:
        return f"{record['vcs_info']['vcs']}+{record['url']}@{record['vcs_info']['commit_id']}"
    return str(record.get("url", ""))
