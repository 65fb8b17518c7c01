"""Names of container images."""

import re

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
