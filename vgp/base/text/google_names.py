"""Names of Google's projects, regions and resources, addresses in Cloud Storage, and names of container images."""

import re
from collections.abc import Callable

SCHEME = "gs://"


def is_bucket_uri(text: str) -> bool:
    return text.startswith(SCHEME)


def cut_uri(uri: str) -> tuple[str, str]:
    """(BUCKET, OBJECT) of gs://BUCKET/OBJECT; no object is an empty text. A slash at the end is part of the object.

    Raises:
        ValueError: it is no such address, or names no bucket.
    """
    bucket, _, name = uri.removeprefix(SCHEME).partition("/")
    if not is_bucket_uri(uri) or not bucket:
        raise ValueError(f"'{uri}' is no gs://BUCKET/OBJECT.")
    return bucket, name


def join_uri(bucket: str, *parts: str) -> str:
    """gs://BUCKET/part/part, without empty parts and slashes at their ends."""
    return SCHEME + "/".join(part.strip("/") for part in (bucket, *parts) if part.strip("/"))


PROJECT = r"(?:[a-z0-9.-]+:)?[a-z][a-z0-9-]{4,28}[a-z0-9]"
LOCATION = r"[a-z]+(?:-[a-z]+[0-9]+)?"
RFC1035 = r"[a-z](?:[a-z0-9-]{0,61}[a-z0-9])?"
_ACCOUNT = re.compile(r"[a-z0-9][a-z0-9-]*@(?:[a-z0-9-]+\.)+gserviceaccount\.com")
_SUBNETWORK = re.compile(
    rf"(?:https://www\.googleapis\.com/compute/v1/projects/{PROJECT}/)?regions/(?P<region>{LOCATION})"
    rf"/subnetworks/{RFC1035}"
)


def project(value: str) -> str:
    """https://cloud.google.com/resource-manager/docs/creating-managing-projects"""
    if value.isdecimal():
        raise ValueError(f"'{value}' is a project's number. Write its id: gcloud projects describe {value}.")
    if not re.fullmatch(PROJECT, value):
        raise ValueError(
            f"'{value}' is no project id: 6 to 30 lower-case letters, digits and -, a letter first, no - last. "
            "Yours: gcloud projects list."
        )
    return value


def matching(pattern: str, message: str) -> Callable[[str], str]:
    """Returns a rule that takes the texts of the pattern; `message` says what is wrong with any other `{value}`."""

    def rule(value: str) -> str:
        if not re.fullmatch(pattern, value):
            raise ValueError(message.format(value=value))
        return value

    return rule


def service_account(value: str) -> str:
    if not _ACCOUNT.fullmatch(value):
        raise ValueError(
            f"'{value}' is no service account. Write its e-mail, NAME@PROJECT.iam.gserviceaccount.com; "
            "yours: gcloud iam service-accounts list."
        )
    return value


def subnetwork(value: str) -> str:
    """https://cloud.google.com/dataflow/docs/guides/specifying-networks#subnetwork_parameter"""
    if not _SUBNETWORK.fullmatch(value):
        raise ValueError(
            f"'{value}' is no subnetwork. Write regions/REGION/subnetworks/NAME; of a shared network "
            "https://www.googleapis.com/compute/v1/projects/HOST_PROJECT/regions/REGION/subnetworks/NAME."
        )
    return value


def subnetwork_region(value: str) -> str:
    """The region of a subnetwork that `subnetwork` took."""
    match = _SUBNETWORK.fullmatch(value)
    assert match
    return match["region"]


def region(value: str) -> str:
    if not re.fullmatch(r"[a-z]+-[a-z]+[0-9]+", value):
        raise ValueError(f"'{value}' is no region. Write one like us-central1.")
    return value


def machine(value: str) -> str:
    """https://cloud.google.com/compute/docs/machine-resource"""
    if not re.fullmatch(r"[a-z][a-z0-9]*-[a-z0-9]+(-[a-z0-9]+){0,3}", value):
        raise ValueError(f"'{value}' is no machine. Write Google's name, like n2-standard-4.")
    return value


def dataset(value: str) -> str:
    """https://cloud.google.com/bigquery/docs/datasets#dataset-naming"""
    if not re.fullmatch(r"[A-Za-z0-9_]{1,1024}", value):
        raise ValueError(f"'{value}' is no dataset: at most 1,024 letters, digits and _, without its project.")
    return value


def bigquery_location(value: str) -> str:
    """https://cloud.google.com/bigquery/docs/locations"""
    if not re.fullmatch(r"US|EU|[a-z]+-[a-z]+[0-9]+", value):
        raise ValueError(f"'{value}' is no location of BigQuery. Write US, EU, or a region like europe-west4.")
    return value


_TENSORBOARD = re.compile(rf"projects/(?:{PROJECT}|[0-9]+)/locations/(?P<region>{LOCATION})/tensorboards/[0-9A-Za-z-]+")
_RESOURCE = re.compile(
    rf"projects/(?:{PROJECT}|[0-9]+)/locations/(?P<region>{LOCATION})/persistentResources/(?P<id>.+)"
)
_ATTACHMENT = re.compile(rf"projects/(?:{PROJECT}|[0-9]+)/regions/(?P<region>{LOCATION})/networkAttachments/{RFC1035}")


def persistent_resource(value: str) -> str:
    """No region: its id has none. Raises ValueError: it is no id.

    https://cloud.google.com/vertex-ai/docs/reference/rest/v1/projects.locations.persistentResources/create
    """
    if not re.fullmatch(r"[a-z](?:[a-z0-9-]{0,126}[a-z0-9])?", value):
        raise ValueError(f"'{value}' is no id of a persistent resource: lower-case letters, digits and -, at most 128.")
    return ""


def whole_persistent_resource(value: str) -> str:
    """The region of a persistent resource by its whole name. Raises ValueError: it is no such name."""
    match = _RESOURCE.fullmatch(value)
    if match is None:
        form = "projects/PROJECT/locations/REGION/persistentResources/ID"
        raise ValueError(
            f"'{value}' is no persistent resource. Write {form}; yours: gcloud ai persistent-resources list."
        )
    persistent_resource(match["id"])
    return match["region"]


def tensorboard(value: str) -> str:
    """The region of a TensorBoard by its name. Raises ValueError: it is no such name."""
    match = _TENSORBOARD.fullmatch(value)
    if match is None:
        form = "projects/PROJECT/locations/REGION/tensorboards/NUMBER"
        raise ValueError(f"'{value}' is no TensorBoard. Write {form}; yours: gcloud ai tensorboards list.")
    return match["region"]


def network_attachment(value: str) -> str:
    """The region of a network attachment by its name. Raises ValueError: it is no such name."""
    match = _ATTACHMENT.fullmatch(value)
    if match is None:
        form = "projects/PROJECT/regions/REGION/networkAttachments/NAME"
        fix = f"Write {form}; yours: gcloud compute network-attachments list."
        raise ValueError(f"'{value}' is no network attachment. {fix}")
    return match["region"]


#: https://github.com/distribution/reference/blob/main/reference.go
_IMAGE = re.compile(
    r"(?:[a-zA-Z0-9.-]+(?::[0-9]+)?/)?[a-z0-9]+(?:(?:[._]|__|-+)[a-z0-9]+)*(?:/[a-z0-9]+(?:(?:[._]|__|-+)[a-z0-9]+)*)*"
    r"(?::(?P<tag>\w[\w.-]{0,127}))?(?:@(?P<digest>sha256:[0-9a-f]{64}))?",
    re.ASCII,
)


def image_name(value: str) -> str:
    """The name, if it says which image it is: caching on Vertex AI depends on it.

    Raises:
        ValueError: it is no name, or one whose image changes: without a tag, or :latest.
    """
    image = _IMAGE.fullmatch(value)
    if not image:
        raise ValueError(f"'{value}' is no image. Write REGION-docker.pkg.dev/PROJECT/REPOSITORY/IMAGE@sha256:...")
    if not image["digest"] and image["tag"] in (None, "latest"):
        what = "is :latest" if image["tag"] else "has no tag, which means :latest"
        raise ValueError(
            f"'{value}' {what}: a rerun may get another image. Name a version, or better a digest: IMAGE@sha256:..."
        )
    return value


def has_digest(value: str) -> bool:
    """Whether the name can only ever mean one image."""
    image = _IMAGE.fullmatch(value)
    return bool(image and image["digest"])
