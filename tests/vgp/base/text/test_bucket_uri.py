"""An address in Cloud Storage is cut at its bucket, and nowhere else."""

import pytest

from vgp.base.text.google_names import join_uri, split_uri


@pytest.mark.parametrize(
    ("uri", "parts"),
    [
        ("gs://b", ("b", "")), ("gs://b/", ("b", "")), ("gs://b/a/c.json", ("b", "a/c.json")),
        ("gs://b/a/", ("b", "a/")), ("gs://b//a", ("b", "/a")), ("gs://b/gs://c", ("b", "gs://c")),
    ],
)  # fmt: skip
def test_bucket_and_object(uri, parts):
    assert split_uri(uri) == parts


@pytest.mark.parametrize("uri", ["", "gs://", "gs:///a", "b/a", "https://b/a", "/gcs/b/a"])
def test_what_is_no_address_is_refused(uri):
    with pytest.raises(ValueError, match="not a gs://BUCKET/OBJECT"):
        split_uri(uri)


def test_parts_are_joined_by_one_slash():
    assert join_uri("b") == join_uri("b", "") == "gs://b"
    assert join_uri("b", "folder/", "", "/a.json") == "gs://b/folder/a.json"
