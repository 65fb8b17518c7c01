"""Optional dependencies of the verbs, and the commands that install them."""

import re
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import vgp
from vgp.base.errors import RequestError, missing_module

NAME = "vgp"
#: Extra of pyproject.toml -> its top-level packages that verbs and workflows import.
PACKAGES = {
    "vertex": ("kfp", "google", "google_cloud_pipeline_components", "certifi", "requests", "urllib3"),
    "training": ("torch", "numpy", "scipy", "sklearn", "pyarrow", "safetensors", "matplotlib", "jinja2", "tokenizers"),
}


@contextmanager
def explain_missing_package() -> Iterator[None]:
    """Replaces the import error of a missing optional package by one with the command that installs it.

    Raises:
        RequestError: a package of an extra is not installed.
    """
    try:
        yield
    except Exception as error:
        package = missing_module(error).partition(".")[0]
        extra = next((extra for extra, packages in PACKAGES.items() if package in packages), None)
        if extra is None:
            raise
        message = f"{package} is not installed. Install the extra {extra}:\n  {format_install_command(extra)}"
        raise RequestError(_explain_conflict(package) or message) from error


def _explain_conflict(package: str) -> str:
    """Returns the reason why Google's pipeline components cannot be installed here; "" if they can.

    https://github.com/kubeflow/pipelines/issues/14438: they have no release for google-cloud-aiplatform 2.
    """
    from importlib import metadata

    if package != "google_cloud_pipeline_components":
        return ""
    try:
        version = metadata.version("google-cloud-aiplatform")
    except metadata.PackageNotFoundError:
        return ""
    if int(version.partition(".")[0]) < 2:
        return ""
    return (
        "custom jobs, ladders and e-mail need google-cloud-pipeline-components, which refuses google-cloud-aiplatform "
        f"{version} (needs < 2).\n  Compile in an environment of its own: python -m venv compile && "
        f"compile/bin/pip install '{format_requirement('vertex')}'"
    )


def format_install_command(extra: str) -> str:
    """Returns the command that installs the extra into the environment of this command."""
    setup = Path(vgp.__file__).parents[1] / "scripts/setup.sh"
    if setup.is_file():
        return f"{setup} {extra}"
    return f"{sys.executable} -m pip install '{format_requirement(extra)}'"


def format_requirement(*extras: str) -> str:
    """Returns the pip requirement of this distribution with `extras`, by its origin (PEP 610) or else its version."""
    name = f"{NAME}[{','.join(extras)}]" if extras else NAME
    origin = _read_origin()
    return f"{name} @ {origin}" if origin else f"{name}=={vgp.__version__}"


def find_rules_url() -> str:
    """Returns the address of the rules' pages on GitHub, or "" if this was not installed from a GitHub repository."""
    match = re.fullmatch(r"git\+(https://github\.com/[\w.-]+/[\w.-]+?)(?:\.git)?@([0-9a-f]{40})", _read_origin())
    return f"{match[1]}/blob/{match[2]}/docs/reference/rules" if match else ""


def _read_origin() -> str:
    """Returns the origin of the wheel or its sources in pip's notation, or "" for an index."""
    import json
    from importlib import metadata  # 20 ms, which --help need not pay

    try:
        record = json.loads(metadata.distribution(NAME).read_text("direct_url.json") or "{}")
    except metadata.PackageNotFoundError:
        return ""
    if "vcs_info" in record:
        return f"{record['vcs_info']['vcs']}+{record['url']}@{record['vcs_info']['commit_id']}"
    return str(record.get("url", ""))
