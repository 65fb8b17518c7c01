"""Checks single values of pipelines.toml. Each check returns the value, or raises ValueError with the rule and the fix.

The checks cover syntax only; `vgp preflight` checks that buckets, keys and accounts exist.
"""

import re
from collections.abc import Callable
from ipaddress import ip_address
from pathlib import PurePath
from typing import Annotated
from urllib.parse import SplitResult, urlsplit

from pydantic import AfterValidator, BeforeValidator

from vgp.base.text import google_names
from vgp.base.text.google_names import LOCATION, PROJECT, RFC1035, check_image, is_bucket_uri, pattern_check, split_uri
from vgp.base.text.nearest import did_you_mean
from vgp.base.text.printable import is_secret
from vgp.machines.placement.job_options import none_if_empty
from vgp.machines.placement.provisioning import region_known

#: APIs whose address can be replaced; kfp_registry is the host of templates, REGION-kfp.pkg.dev.
APIS = (
    "aiplatform", "artifactregistry", "bigquery", "cloudbilling", "cloudbuild", "cloudkms", "cloudquotas",
    "cloudresourcemanager", "compute", "iam", "kfp_registry", "logging", "secretmanager", "serviceusage", "storage",
)  # fmt: skip
MAX_LABELS = 64
#: Variables by which Google's clients in steps find their hosts; the first is a prefix.
HOST_VARIABLES = (
    "CLOUDSDK_API_ENDPOINT_OVERRIDES_", "STORAGE_EMULATOR_HOST", "BIGQUERY_EMULATOR_HOST",
    "BIGQUERY_STORAGE_EMULATOR_HOST",
)  # fmt: skip
_GOOGLE_DOMAINS = ("googleapis.com", "pkg.dev")

#: Stricter than the syntax of URLs, so that no two parsers can read an address in two ways.
_ADDRESS = re.compile(r"https?://(?:\[[0-9a-f:]+\]|[a-z0-9]+(?:[.-]+[a-z0-9]+)*)(?::[0-9]{1,5})?/?", re.IGNORECASE)
_BUCKET_PART = re.compile(r"[a-z0-9](?:[a-z0-9_-]{0,61}[a-z0-9])?")
_FOLDER = re.compile(r"[A-Za-z0-9_=-][A-Za-z0-9._=-]*")
_KEY = re.compile(
    rf"projects/{PROJECT}/locations/(?P<location>{LOCATION})/keyRings/[\w-]{{1,63}}/cryptoKeys/[\w-]{{1,63}}",
    re.ASCII,
)


def check_workflows(value: object) -> str:
    """Checks the folder of the workflows, which must be inside the repository."""
    if is_secret(value):
        raise ValueError("looks like a credential.")
    path = PurePath(value) if isinstance(value, str) and value.isprintable() else None
    if not path or not value or path.is_absolute() or ".." in path.parts:
        raise ValueError(
            f"{value!r} is not a folder of this repository. Write a path such as pipelines or src/workflows."
        )
    return str(path)


def check_region(value: str) -> str:
    for problem in region_known(value):
        raise ValueError(f"{problem.message} {problem.suggestion}")
    return value


def check_bucket(value: str) -> str:
    """Checks gs://BUCKET or gs://BUCKET/FOLDER, https://cloud.google.com/storage/docs/buckets#naming"""
    if not is_bucket_uri(value):
        raise ValueError(f"'{value}' does not begin with gs://. Write gs://{value.split('/')[0] or 'BUCKET'}.")
    name, folder = split_uri(value)
    folders = folder.rstrip("/").split("/") if folder.strip("/") else []
    parts = name.split(".")
    if not 3 <= len(name) <= (63 if len(parts) == 1 else 222) or not all(map(_BUCKET_PART.fullmatch, parts)):
        raise ValueError(
            f"'{name}' is not a valid bucket name: use 3 to 63 lower-case letters, digits, - and _, with a letter or "
            "digit at both ends."
        )
    if name.startswith("goog") or "google" in name or re.fullmatch(r"[0-9.]+\.[0-9]+", name):
        raise ValueError(f"'{name}' is not a bucket name: Google reserves goog... and refuses IP addresses.")
    if not all(map(_FOLDER.fullmatch, folders)):
        raise ValueError(
            f"'{'/'.join(folders)}' is not a valid folder: use letters, digits, and - _ . = between single /."
        )
    return value.rstrip("/")


def check_dockerfile(value: str) -> str:
    parts = value.split("/")
    if {"", ".", ".."} & set(parts) or not value.isprintable() or value.startswith("-"):
        raise ValueError(
            f"'{value}' is not a file of the repository. Write its path relative to pipelines.toml, such as Dockerfile."
        )
    return value


def check_network(value: str) -> str:
    """Checks a network's name, which has the project's number, not its id.

    https://cloud.google.com/vertex-ai/docs/general/vpc-peering
    """
    if re.fullmatch(rf"projects/{PROJECT}/global/networks/{RFC1035}", value):
        project_id = value.split("/")[1]
        raise ValueError(
            f"'{value}' names the project by its id; Vertex AI takes its number: "
            f"gcloud projects describe {project_id} --format='value(projectNumber)'."
        )
    if not re.fullmatch(rf"projects/[0-9]+/global/networks/{RFC1035}", value):
        raise ValueError(f"'{value}' is not a network. Write projects/NUMBER/global/networks/NAME.")
    return value


def check_encryption_key(value: str) -> str:
    if "/cryptoKeyVersions/" in value:
        raise ValueError(f"'{value}' names a version. Name the key: {value.split('/cryptoKeyVersions/')[0]}.")
    if not _KEY.fullmatch(value):
        raise ValueError(
            f"'{value}' is not a key. Write projects/PROJECT/locations/REGION/keyRings/RING/cryptoKeys/KEY."
        )
    return value


def read_key_location(value: str) -> str:
    """Returns the location of a valid key."""
    key = _KEY.fullmatch(value)
    assert key
    return key["location"]


def check_template_repository(value: str) -> str:
    """Checks a repository of templates, https://cloud.google.com/vertex-ai/docs/pipelines/create-pipeline-template"""
    if not re.fullmatch(rf"https://{LOCATION}-kfp\.pkg\.dev/{PROJECT}/{RFC1035}/?", value):
        raise ValueError(
            f"'{value}' is not a repository of pipeline templates. Write https://REGION-kfp.pkg.dev/PROJECT/REPOSITORY."
        )
    return value.rstrip("/")


check_experiment = pattern_check(
    r"[a-z0-9][a-z0-9-]{0,127}",
    "'{value}' is not a valid experiment name: use at most 128 lower-case letters, digits and -, no - first.",
)


def check_labels(value: dict[str, str]) -> dict[str, str]:
    """Checks the number of labels, https://cloud.google.com/resource-manager/docs/labels-overview"""
    if len(value) > MAX_LABELS:
        raise ValueError(f"{len(value)} labels; a resource can have at most {MAX_LABELS}.")
    return value


check_label_key = pattern_check(
    r"[a-z][a-z0-9_-]{0,62}",
    "'{value}' is not a valid label name: use at most 63 lower-case letters, digits, _ and -, a letter first.",
)
check_label_value = pattern_check(
    r"[a-z0-9_-]{0,63}", "'{value}' is not a valid label value: use at most 63 lower-case letters, digits, _ and -."
)


def check_api(value: str) -> str:
    if value not in APIS:
        raise ValueError(f"this API does not exist. {did_you_mean(value, APIS)}")
    return value


def split_address(value: str) -> SplitResult | None:
    """Returns the parts of an address, or None for a text without a host or with an invalid port."""
    try:
        parts = urlsplit(value)
        return parts if parts.hostname and (parts.port is None or parts.port >= 0) else None
    except ValueError:
        return None


def check_endpoint(value: str) -> str:
    """Checks the address of an API: https, or http to this machine, because every call sends a token."""
    parts = split_address(value)
    if parts and (parts.username or parts.password):
        raise ValueError("an address must not contain a user or password. Write https://HOST.")
    if not parts or parts.scheme not in ("http", "https") or parts.path.strip("/") or parts.query or parts.fragment:
        raise ValueError(f"'{value}' is not the address of an API. Write https://HOST or https://HOST:PORT.")
    if not _ADDRESS.fullmatch(value):
        raise ValueError(f"'{value}' is not the address of an API: a host has only letters, digits, - and dots.")
    if parts.scheme == "http" and not _is_loopback(parts.hostname or ""):
        raise ValueError(f"'{value}' would send your token unencrypted. Write https://{parts.netloc}.")
    return value.rstrip("/")


def check_file_endpoint(value: str) -> str:
    """Checks that a valid address in a settings file is Google's or this machine's.

    Other hosts are refused, because the file may come from another author.
    """
    host = urlsplit(value).hostname or ""
    if not any(host == domain or host.endswith(f".{domain}") for domain in _GOOGLE_DOMAINS) and not _is_loopback(host):
        raise ValueError(
            f"'{value}' is not an address of Google (in googleapis.com, or pkg.dev for templates), and calls send your "
            "token. A file may come from another author, so only a variable may name another host: "
            "PIPELINES_ENDPOINTS__API=https://HOST."
        )
    return value


def check_host_variable(name: str, value: str) -> str:
    """Checks the value of a step's variable: one that names a host of Google's clients must pass the file's rule."""
    if name.startswith(HOST_VARIABLES[0]) or name in HOST_VARIABLES[1:]:
        address = value if "://" in value else f"https://{value}"
        path = urlsplit(address).path  # gcloud's overrides may have one: .../storage/v1/
        check_file_endpoint(check_endpoint(address.removesuffix(path)))
    return value


def _is_loopback(host: str) -> bool:
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def check_index(value: str) -> str:
    """Checks that a package index is an https address without a credential. Raises ValueError if not."""
    if not re.fullmatch(r"https://[A-Za-z0-9.-]+(:\d+)?(/[\w./-]*)?", value, re.ASCII):
        raise ValueError(f"'{value}' is not the address of a package index. Write https://HOST/PATH.")
    return value


def make_optional(rule: Callable[[str], str]) -> tuple[BeforeValidator, AfterValidator]:
    """Returns validators of an optional value; an empty text removes the value of a source with lower priority."""
    return BeforeValidator(none_if_empty), AfterValidator(lambda value: value if value is None else rule(value))


Workflows = Annotated[str, AfterValidator(check_workflows)]
Project = Annotated[str | None, *make_optional(google_names.check_project)]
Region = Annotated[str, AfterValidator(check_region)]
Bucket = Annotated[str | None, *make_optional(check_bucket)]
Image = Annotated[str, AfterValidator(check_image)]
LightImage = Annotated[str | None, *make_optional(google_names.check_pinned_image)]
TorchIndex = Annotated[str | None, *make_optional(check_index)]
Dockerfile = Annotated[str | None, *make_optional(check_dockerfile)]
ServiceAccount = Annotated[str | None, *make_optional(google_names.check_service_account)]
PersistentResource = Annotated[
    str | None, *make_optional(lambda value: google_names.check_persistent_resource(value) or value)
]
Network = Annotated[str | None, *make_optional(check_network)]
EncryptionKey = Annotated[str | None, *make_optional(check_encryption_key)]
TemplateRepository = Annotated[str | None, *make_optional(check_template_repository)]
Experiment = Annotated[str | None, *make_optional(check_experiment)]
Labels = Annotated[
    dict[Annotated[str, AfterValidator(check_label_key)], Annotated[str, AfterValidator(check_label_value)]],
    AfterValidator(check_labels),
]
Endpoints = dict[Annotated[str, AfterValidator(check_api)], Annotated[str, AfterValidator(check_endpoint)]]
