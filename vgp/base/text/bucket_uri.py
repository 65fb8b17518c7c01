"""Addresses in Cloud Storage: gs://BUCKET/OBJECT, cut and put together in one place."""

SCHEME = "gs://"


def is_bucket_uri(text: str) -> bool:
    return text.startswith(SCHEME)


def cut(uri: str) -> tuple[str, str]:
    """(BUCKET, OBJECT) of gs://BUCKET/OBJECT; no object is an empty text. A slash at the end is part of the object.

    Raises:
        ValueError: it is no such address, or names no bucket.
    """
    bucket, _, name = uri.removeprefix(SCHEME).partition("/")
    if not is_bucket_uri(uri) or not bucket:
        raise ValueError(f"'{uri}' is no gs://BUCKET/OBJECT.")
    return bucket, name


def join(bucket: str, *parts: str) -> str:
    """gs://BUCKET/part/part, without empty parts and slashes at their ends."""
    return SCHEME + "/".join(part.strip("/") for part in (bucket, *parts) if part.strip("/"))
