"""Checks of names of Google's projects, regions and resources and of container images; URIs of Cloud Storage."""

import re
from collections.abc import Callable

SCHEME = "gs://"


def is_bucket_uri(text: str) -> bool:
    return text.startswith(SCHEME)


def split_uri(uri: str) -> tuple[str, str]:
    """Splits gs://BUCKET/OBJECT; the object may be empty, and a slash at its end stays.

    Raises:
        ValueError: it is not a gs:// URI, or has no bucket.
    """
    bucket, _, name = uri.removeprefix(SCHEME).partition("/")
    if not is_bucket_uri(uri) or not bucket:
        raise ValueError(f"'{uri}' is not a gs://BUCKET/OBJECT URI.")
    return bucket, name


def join_uri(bucket: str, *parts: str) -> str:
    """Joins gs://BUCKET/part/part, without empty parts and slashes at their ends."""
    return SCHEME + "/".join(part.strip("/") for part in (bucket, *parts) if part.strip("/"))


PROJECT = r"(?:[a-z0-9.-]+:)?[a-z][a-z0-9-]{4,28}[a-z0-9]"
LOCATION = r"[a-z]+(?:-[a-z]+[0-9]+)?"
RFC1035 = r"[a-z](?:[a-z0-9-]{0,61}[a-z0-9])?"
_ACCOUNT = re.compile(r"[a-z0-9][a-z0-9-]*@(?:[a-z0-9-]+\.)+gserviceaccount\.com")
_SUBNETWORK = re.compile(
    rf"(?:https://www\.googleapis\.com/compute/v1/projects/{PROJECT}/)?regions/(?P<region>{LOCATION})"
    rf"/subnetworks/{RFC1035}"
)


def check_project(value: str) -> str:
    """Checks a project id: https://cloud.google.com/resource-manager/docs/creating-managing-projects"""
    if value.isdecimal():
        raise ValueError(f"'{value}' is a project number. Write the project id: gcloud projects describe {value}.")
    if not re.fullmatch(PROJECT, value):
        raise ValueError(
            f"'{value}' is not a project id: 6 to 30 lower-case letters, digits and -, a letter first, no - last. "
            "Yours: gcloud projects list."
        )
    return value


def pattern_check(pattern: str, message: str) -> Callable[[str], str]:
    """Returns a check that accepts texts of the pattern; `message`, with `{value}`, is the error for others."""

    def rule(value: str) -> str:
        if not re.fullmatch(pattern, value):
            raise ValueError(message.format(value=value))
        return value

    return rule


def check_service_account(value: str) -> str:
    if not _ACCOUNT.fullmatch(value):
        raise ValueError(
            f"'{value}' is not a service account. Write its e-mail, NAME@PROJECT.iam.gserviceaccount.com; "
            "yours: gcloud iam service-accounts list."
        )
    return value


def check_subnetwork(value: str) -> str:
    """Checks a subnetwork: https://cloud.google.com/dataflow/docs/guides/specifying-networks#subnetwork_parameter"""
    if not _SUBNETWORK.fullmatch(value):
        raise ValueError(
            f"'{value}' is not a subnetwork. Write regions/REGION/subnetworks/NAME; in a shared network "
            "https://www.googleapis.com/compute/v1/projects/HOST_PROJECT/regions/REGION/subnetworks/NAME."
        )
    return value


def subnetwork_region(value: str) -> str:
    """Returns the region of a valid subnetwork."""
    match = _SUBNETWORK.fullmatch(value)
    assert match
    return match["region"]


def check_region(value: str) -> str:
    if not re.fullmatch(r"[a-z]+-[a-z]+[0-9]+", value):
        raise ValueError(f"'{value}' is not a region. Write one like us-central1.")
    return value


def check_machine_type(value: str) -> str:
    """Checks a machine type: https://cloud.google.com/compute/docs/machine-resource"""
    if not re.fullmatch(r"[a-z][a-z0-9]*-[a-z0-9]+(-[a-z0-9]+){0,3}", value):
        raise ValueError(f"'{value}' is not a machine type. Write one like n2-standard-4.")
    return value


def check_dataset(value: str) -> str:
    """Checks a dataset: https://cloud.google.com/bigquery/docs/datasets#dataset-naming"""
    if not re.fullmatch(r"[A-Za-z0-9_]{1,1024}", value):
        raise ValueError(f"'{value}' is not a dataset: at most 1,024 letters, digits and _, without the project.")
    return value


def check_bigquery_location(value: str) -> str:
    """Checks a location of BigQuery: https://cloud.google.com/bigquery/docs/locations"""
    if not re.fullmatch(r"US|EU|[a-z]+-[a-z]+[0-9]+", value):
        raise ValueError(f"'{value}' is not a location of BigQuery. Write US, EU, or a region like europe-west4.")
    return value


_TENSORBOARD = re.compile(rf"projects/(?:{PROJECT}|[0-9]+)/locations/(?P<region>{LOCATION})/tensorboards/[0-9A-Za-z-]+")
_RESOURCE = re.compile(
    rf"projects/(?:{PROJECT}|[0-9]+)/locations/(?P<region>{LOCATION})/persistentResources/(?P<id>.+)"
)
_ATTACHMENT = re.compile(rf"projects/(?:{PROJECT}|[0-9]+)/regions/(?P<region>{LOCATION})/networkAttachments/{RFC1035}")


def check_persistent_resource(value: str) -> str:
    """Checks the id of a persistent resource; returns "", because an id has no region. Raises ValueError.

    https://cloud.google.com/vertex-ai/docs/reference/rest/v1/projects.locations.persistentResources/create
    """
    if not re.fullmatch(r"[a-z](?:[a-z0-9-]{0,126}[a-z0-9])?", value):
        raise ValueError(
            f"'{value}' is not an id of a persistent resource: lower-case letters, digits and -, at most 128."
        )
    return ""


def persistent_resource_region(value: str) -> str:
    """Returns the region in the full name of a persistent resource. Raises ValueError for another text."""
    match = _RESOURCE.fullmatch(value)
    if match is None:
        form = "projects/PROJECT/locations/REGION/persistentResources/ID"
        raise ValueError(
            f"'{value}' is not a persistent resource. Write {form}; yours: gcloud ai persistent-resources list."
        )
    check_persistent_resource(match["id"])
    return match["region"]


def tensorboard_region(value: str) -> str:
    """Returns the region in the name of a TensorBoard. Raises ValueError for another text."""
    match = _TENSORBOARD.fullmatch(value)
    if match is None:
        form = "projects/PROJECT/locations/REGION/tensorboards/NUMBER"
        raise ValueError(f"'{value}' is not a TensorBoard. Write {form}; yours: gcloud ai tensorboards list.")
    return match["region"]


def network_attachment_region(value: str) -> str:
    """Returns the region in the name of a network attachment. Raises ValueError for another text."""
    match = _ATTACHMENT.fullmatch(value)
    if match is None:
        form = "projects/PROJECT/regions/REGION/networkAttachments/NAME"
        fix = f"Write {form}; yours: gcloud compute network-attachments list."
        raise ValueError(f"'{value}' is not a network attachment. {fix}")
    return match["region"]


#: https://github.com/distribution/reference/blob/main/reference.go
_IMAGE = re.compile(
    r"(?:[a-zA-Z0-9.-]+(?::[0-9]+)?/)?[a-z0-9]+(?:(?:[._]|__|-+)[a-z0-9]+)*(?:/[a-z0-9]+(?:(?:[._]|__|-+)[a-z0-9]+)*)*"
    r"(?::(?P<tag>\w[\w.-]{0,127}))?(?:@(?P<digest>sha256:[0-9a-f]{64}))?",
    re.ASCII,
)


def check_image(value: str) -> str:
    """Checks that a container image has a fixed version, because caching on Vertex AI depends on its name.

    Raises:
        ValueError: it is not an image name, has no tag, or is :latest.
    """
    image = _IMAGE.fullmatch(value)
    if not image:
        raise ValueError(f"'{value}' is not an image. Write REGION-docker.pkg.dev/PROJECT/REPOSITORY/IMAGE@sha256:...")
    if not image["digest"] and image["tag"] in (None, "latest"):
        problem = "is :latest" if image["tag"] else "has no tag, which means :latest"
        raise ValueError(
            f"'{value}' {problem}: a rerun may get another image. Use a version tag, or better a digest: "
            "IMAGE@sha256:..."
        )
    return value


def check_pinned_image(value: str) -> str:
    """Checks that a container image is named by its digest. Raises ValueError if not."""
    if not has_digest(check_image(value)):
        raise ValueError(f"'{value}' has no digest. Write IMAGE@sha256:..., or run vgp image build, which writes it.")
    return value


def untagged_image(value: str) -> str:
    """Returns the name of a container image without its tag and digest."""
    return re.sub(r"(:[\w.-]+)?(@sha256:[0-9a-f]{64})?$", "", value)


def has_digest(value: str) -> bool:
    """Whether the name has a digest, and so can mean only one image."""
    image = _IMAGE.fullmatch(value)
    return bool(image and image["digest"])
