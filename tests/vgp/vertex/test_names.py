"""Names are validated before they reach an API."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from vgp.base.errors import RequestError
from vgp.settings import Settings
from vgp.vertex import resource_names

SETTINGS = Settings(project="my-project", region="us-central1")
FULL = "projects/my-project/locations/us-central1/pipelineJobs/training-1"


@pytest.mark.parametrize(
    "given",
    [
        "training-1",
        FULL,
        "projects/123456/locations/us-central1/pipelineJobs/training-1",
        "https://console.cloud.google.com/vertex-ai/locations/us-central1/pipelines/runs/training-1?project=123456",
        "https://console.cloud.google.com/agent-platform/pipelines/locations/us-central1/runs/training-1?project=123456",
    ],
)
def test_a_run_is_found_by_id_by_resource_name_and_by_console_link(given: str) -> None:
    assert resource_names.job(SETTINGS, given) == FULL


def test_a_run_in_another_region_is_refused_with_both_regions() -> None:
    with pytest.raises(RequestError, match="europe-west4.*us-central1"):
        resource_names.job(SETTINGS, FULL.replace("us-central1", "europe-west4"))


@given(st.text(max_size=40))
def test_no_text_gets_out_of_the_place_of_an_id(text: str) -> None:
    try:
        name = resource_names.job(SETTINGS, text)
    except RequestError:
        return
    assert name.count("/") == 5
    assert set(name.rsplit("/", 1)[1]) <= set("abcdefghijklmnopqrstuvwxyz0123456789-")


@given(st.dictionaries(st.text(max_size=70), st.text(max_size=70), max_size=3))
def test_labels_are_taken_only_as_google_takes_them(labels: dict[str, str]) -> None:
    allowed = set("abcdefghijklmnopqrstuvwxyz0123456789-_")
    fine = all(
        key and key[0] in "abcdefghijklmnopqrstuvwxyz" and set(key) | set(value) <= allowed
        and len(key) < 64 and len(value) < 64
        for key, value in labels.items()
    )  # fmt: skip
    if fine:
        assert resource_names.labels(labels) == labels
    else:
        with pytest.raises(RequestError, match="label"):
            resource_names.labels(labels)


def test_more_labels_than_google_takes_are_refused() -> None:
    with pytest.raises(RequestError, match="65 labels; a resource can have at most 64"):
        resource_names.labels({f"key{number}": "" for number in range(65)})


def test_links_lead_to_the_console_of_the_project() -> None:
    link = (
        "https://console.cloud.google.com/vertex-ai/locations/us-central1/pipelines/runs/training-1?project=my-project"
    )
    assert resource_names.run_link(SETTINGS, "training-1") == link
    assert resource_names.job(SETTINGS, link) == FULL
