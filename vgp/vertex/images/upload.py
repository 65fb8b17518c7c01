"""The source of an image, put where Cloud Build takes it from."""

from contextlib import closing, suppress

from vgp.base.text import bucket_uri
from vgp.settings import Settings
from vgp.vertex import clients
from vgp.vertex.errors import explained


def folder(settings: Settings) -> str:
    """`gs://` folder of sources and logs of builds; the builder of infra/identities.tf sees nothing else.

    Raises:
        RequestError: no bucket is set.
    """
    return f"{clients.bucket(settings)}/builds"


def upload(settings: Settings, digest: str, content: bytes) -> dict[str, str]:
    """Where it is, as Cloud Build's `storageSource`. Named by its content, it is sent once.

    Raises:
        WorkFailed: the bucket cannot be written.
    """
    from google.api_core import exceptions

    bucket, inside = bucket_uri.cut(folder(settings))
    name = f"{inside}/source/{digest}.tgz"
    with explained("upload the source", settings), closing(clients.storage(settings)) as client:
        blob = client.bucket(bucket).blob(name)
        with suppress(exceptions.PreconditionFailed):  # then it is there
            blob.upload_from_string(
                content, content_type="application/gzip", if_generation_match=0, timeout=clients.ATTEMPT_S
            )
    return {"bucket": bucket, "object": name}
