"""The place where templates lie: an Artifact Registry repository or a folder in a bucket, by how its address begins."""

from vgp.base.errors import RequestError
from vgp.base.text.bucket_uri import is_bucket_uri
from vgp.settings import Settings, rules
from vgp.vertex.templates.bucket import Bucket
from vgp.vertex.templates.repository import Repository
from vgp.vertex.templates.store import Store


def open_store(settings: Settings, place: str | None = None) -> Store:
    """The store at `place`, or at the template repository of the settings.

    Raises:
        RequestError: there is none, or `place` is neither a repository nor a bucket folder.
    """
    place = place or settings.template_repository
    if not place:
        raise RequestError(
            "no place for templates is set. "
            'Write template_repository = "https://REGION-kfp.pkg.dev/PROJECT/REPOSITORY" into pipelines.toml, '
            "or give --repository gs://BUCKET/FOLDER."
        )
    try:
        if is_bucket_uri(place):
            return Bucket(settings, rules.bucket(place))
        return Repository(settings, rules.template_repository(place))
    except ValueError as error:
        raise RequestError(f"{error} A folder in a bucket is gs://BUCKET/FOLDER.") from None
