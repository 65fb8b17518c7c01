"""Names of Google's resources that a custom job may use, and the region that each is of."""

import re

from vgp.base.text.google_names import LOCATION, PROJECT, RFC1035

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
