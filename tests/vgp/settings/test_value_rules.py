"""What values must look like: what Google takes is taken, what it refuses is refused with the fix."""

import pytest

from vgp.base.text import google_names
from vgp.base.text.google_names import check_image
from vgp.settings import value_rules

DIGEST = "sha256:" + "0" * 64
RIGHT = {
    google_names.check_project: ["my-project", "a12345", "example.com:my-project", "a" + "b" * 29],
    value_rules.check_region: ["us-central1", "europe-west12", "northamerica-northeast1", "africa-south1"],
    value_rules.check_bucket: [
        "gs://abc", "gs://my_bucket-1", "gs://a.example.org", "gs://b23/folder", "gs://b23/a/b.c/d=1",
        "gs://" + "a" * 63, "gs://1bucket1",
    ],
    check_image: [
        "us-central1-docker.pkg.dev/my-project/training/training:0.1.0", f"a/b@{DIGEST}", f"a/b:latest@{DIGEST}",
        "localhost:5000/training:1", "python:3.11-slim", "us-docker.pkg.dev/example.com/p/r/i:v1_2",
    ],
    google_names.check_service_account: [
        "trainer@my-project.iam.gserviceaccount.com", "123456789-compute@developer.gserviceaccount.com",
        "my-project@appspot.gserviceaccount.com", "x@my-project.example.com.iam.gserviceaccount.com",
    ],
    value_rules.check_network: ["projects/123456789/global/networks/default", "projects/1/global/networks/a-b-1"],
    value_rules.check_encryption_key: ["projects/my-project/locations/europe-west12/keyRings/r_1/cryptoKeys/K-1"],
    value_rules.check_template_repository: [
        "https://us-central1-kfp.pkg.dev/my-project/templates", "https://europe-kfp.pkg.dev/my-project/t",
    ],
    value_rules.check_experiment: ["flights", "0-1", "a" * 128],
    value_rules.check_label_key: ["team", "a", "cost-center_1", "a" * 63],
    value_rules.check_label_value: ["", "ml", "1", "_-", "0" * 63],
    value_rules.check_endpoint: [
        "https://us-central1-aiplatform.googleapis.com", "https://aiplatform-mine.p.googleapis.com", "https://h:8443",
        "http://127.0.0.1:8080", "http://localhost:1", "http://[::1]:80", "http://127.9.9.9",
    ],
}  # fmt: skip
WRONG = {
    google_names.check_project: [
        "", "short", "My-Project", "my_project", "1project", "project-", "a" * 31, "my project", "pröject",
        "my-project\n",
    ],
    value_rules.check_region: ["", "global", "us", "us-central1-a", "US-CENTRAL1", "us-central9"],
    value_rules.check_bucket: [
        "", "gs://", "bucket", "s3://bucket", "gs://ab", "gs://Bucket", "gs://-bucket", "gs://bucket-", "gs://192.168.1.1",
        "gs://goog-x", "gs://my-google-bucket", "gs://a..b", "gs://bucket/../x", "gs://bucket//x", "gs://bucket/a b",
        "gs://" + "a" * 64, "gs://bucket/*", "gs://bucket\n",
    ],
    check_image: [
        "", "training", "a/b", "a/b:latest", "a/b@sha256:123", f"a/b@{DIGEST}0", "a/B:1", "https://h/a:1", "a/b:1 ",
        "a//b:1", "a/b:1; rm -rf /", "a/b:" + "t" * 129, "localhost:5000/training",
    ],
    google_names.check_service_account: [
        "", "me@example.com", "trainer", "Trainer@p.iam.gserviceaccount.com", "a@b@gserviceaccount.com",
        "a@evilgserviceaccount.com",
    ],
    value_rules.check_network: [
        "", "default", "projects/my-project/global/networks/default", "projects/1/global/networks/",
        "https://www.googleapis.com/compute/v1/projects/1/global/networks/a", "projects/1/global/networks/A",
    ],
    value_rules.check_encryption_key: [
        "", "key", "projects/p-12345/locations/us-central1/keyRings/r/cryptoKeys/k/cryptoKeyVersions/1",
        "projects/p-12345/locations/us-central1/keyRings/r", "projects/p-12345/locations//keyRings/r/cryptoKeys/k",
        "projects/p-12345/locations/us-central1/keyRings/r/cryptoKeys/ké",
    ],
    value_rules.check_template_repository: [
        "", "us-central1-kfp.pkg.dev/my-project/r", "https://us-central1-docker.pkg.dev/my-project/r",
        "https://us-central1-kfp.pkg.dev/my-project", "https://us-central1-kfp.pkg.dev/my-project/r/name",
        "https://evil.test/x-kfp.pkg.dev/my-project/r", "http://us-central1-kfp.pkg.dev/my-project/r",
    ],
    value_rules.check_experiment: ["", "-a", "My", "a_b", "a" * 129],
    value_rules.check_label_key: ["", "1a", "A", "a.b", "-a", "a" * 64, "é"],
    value_rules.check_label_value: ["A", "a b", "a.b", "a" * 64, "a\n"],
    value_rules.check_endpoint: [
        "", "host", "http://example.com", "http://localhost.evil.test", "http://127.0.0.1.evil.test", "ftp://h",
        "https://h/path", "https://h?x=1", "https://h#f", "https://", "https://h:99999", "https://[::1", "http://10.0.0.1",
    ],
}  # fmt: skip


def pairs(cases: dict) -> list:
    return [pytest.param(rule, value, id=f"{rule.__name__}-{value[:40]!r}") for rule in cases for value in cases[rule]]


@pytest.mark.parametrize(("rule", "value"), pairs(RIGHT))
def test_what_google_takes_is_taken_as_it_is(rule, value: str) -> None:
    assert rule(value) == value


@pytest.mark.parametrize(("rule", "value"), pairs(WRONG))
def test_what_google_refuses_is_refused_with_what_was_given(rule, value: str) -> None:
    with pytest.raises(ValueError) as refused:
        rule(value)
    assert value.split("/")[-1] in str(refused.value) or repr(value)[1:-1] in str(refused.value)


@pytest.mark.parametrize(
    ("rule", "value", "fix"),
    [
        (google_names.check_project, "123456789", "gcloud projects describe 123456789"),
        (value_rules.check_bucket, "my-bucket/folder", "Write gs://my-bucket."),
        (value_rules.check_network, "projects/my-project/global/networks/n", "gcloud projects describe my-project"),
        (value_rules.check_encryption_key, "projects/p/k/cryptoKeyVersions/3", "Name the key: projects/p/k."),
        (check_image, "a/b", "has no tag, which means :latest"),
        (value_rules.check_endpoint, "http://h.test:1", "Write https://h.test:1."),
    ],
)
def test_the_fix_is_printed(rule, value: str, fix: str) -> None:
    with pytest.raises(ValueError) as refused:
        rule(value)
    assert fix in str(refused.value)


def test_a_slash_at_the_end_is_dropped() -> None:
    assert value_rules.check_bucket("gs://bucket/folder/") == "gs://bucket/folder"
    assert value_rules.check_endpoint("https://host/") == "https://host"
    assert (
        value_rules.check_template_repository("https://us-kfp.pkg.dev/my-project/r/")
        == "https://us-kfp.pkg.dev/my-project/r"
    )


def test_a_password_in_an_address_is_refused_and_not_printed() -> None:
    for address in ("https://me:canary@host", "ftp://me:canary@host", "https://canary@host/path"):
        with pytest.raises(ValueError) as refused:
            value_rules.check_endpoint(address)
        assert "canary" not in str(refused.value)


def test_more_labels_than_a_resource_takes_are_refused() -> None:
    assert len(value_rules.check_labels({f"l{number}": "" for number in range(64)})) == 64
    with pytest.raises(ValueError, match="65 labels; a resource can have at most 64"):
        value_rules.check_labels({f"l{number}": "" for number in range(65)})


@pytest.mark.parametrize(
    "value", ["training", "gs://bucket/sk-learn", "hf_model", "eyJ", "task-eyJ.x", "AIzawa", "", 3, "1//0", "ghp_x"]
)
def test_ordinary_texts_are_no_secrets(value: object) -> None:
    assert not value_rules.is_secret(value)
