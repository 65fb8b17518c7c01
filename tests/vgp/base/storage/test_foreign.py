"""Places that nothing is read from are refused with the reason and the way, wherever data is named."""

import pytest

from vgp.base.exits import UserError
from vgp.base.storage import finding, storage


@pytest.mark.parametrize(
    ("part", "message"),
    [
        (
            "https://example.com/$(x).csv",
            "curl -fL 'https://example.com/$(x).csv' | gcloud storage cp - gs://BUCKET/NAME",
        ),
        ("http://storage.cloud.google.com/b/a.csv?x=1", "gs://b/a.csv."),
        ("https://my-bucket.storage.googleapis.com/f/a.csv", "gs://my-bucket/f/a.csv."),
        ("gcs://b/a.csv", "Is it gs://b/a.csv?"),
        ("s3a://b/a.csv", "gcloud storage cp -r s3://b/a.csv gs://BUCKET/FOLDER"),
        ("file:///data/a.csv", "write only the path: /data/a.csv."),
        ("hdfs://name/a.csv", "hdfs:// cannot be read"),
    ],
)
def test_what_lies_elsewhere_is_refused_with_the_way_here(part, message):
    with pytest.raises(UserError) as refused:
        storage.find(part)
    assert message in str(refused.value)


@pytest.mark.parametrize("part", ["data/*.csv", "/a/b", "gs://b/*", "BQ://p.d.t", "a:b/c", "C://x", ""])
def test_paths_buckets_and_tables_pass(part):
    finding.refuse_scheme(part)
