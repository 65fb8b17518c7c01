"""Templates in a bucket: a version is an object that is written once, the tags one object that is swapped."""

import json
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from tools.emulator.cloud import Cloud, lose_response, reset, slow, status
from vgp.base.errors import RequestError, WorkFailed
from vgp.settings import Settings
from vgp.vertex import clients
from vgp.vertex.templates.bucket_store import Bucket
from vgp.vertex.templates.template import list_templates, list_versions, resolve
from vgp.vertex.templates.upload import move_tag, remove_tag, upload

from .content import NAME, content, digest, spec

#: google-cloud-storage reads downloads as streams, and leaves one that was refused to the garbage collector.
pytestmark = pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")

ONE, TWO = content("one"), content("two")
PLACE = "gs://test-bucket/templates"
GET, INSERT = "storage.objects.get", "storage.objects.insert"


def objects(settings: Settings) -> dict[str, bytes]:
    found = clients.storage(settings).bucket("test-bucket").list_blobs()
    return {blob.name: blob.download_as_bytes() for blob in found}


def index(settings: Settings) -> dict[str, str]:
    return json.loads(objects(settings)[f"templates/{NAME}/tags.json"])


def name(of: bytes) -> str:
    return f"templates/{NAME}/{digest(of)[7:]}.json"


def test_a_version_is_an_object_named_by_its_content(cloud: Cloud, settings: Settings) -> None:
    done = upload(settings, NAME, ONE, tags=["v1", "latest"], place=PLACE)
    assert done.new and done.location == f"gs://test-bucket/{name(ONE)}" and done.version.created
    tags = json.dumps({"latest": digest(ONE), "v1": digest(ONE)}, indent=2) + "\n"
    assert objects(settings) == {name(ONE): ONE, f"templates/{NAME}/tags.json": tags.encode()}


def test_the_same_content_twice_is_one_version_written_once(cloud: Cloud, settings: Settings) -> None:
    upload(settings, NAME, ONE, tags=["latest"], place=PLACE)
    writes = [call.method for call in cloud.requests].count(INSERT)
    assert not upload(settings, NAME, ONE, tags=["latest"], place=PLACE).new
    assert [call.method for call in cloud.requests].count(INSERT) == writes == 2


def test_a_version_that_is_there_is_never_written_again(cloud: Cloud, settings: Settings) -> None:
    """As when two uploads both find nothing, or the answer to a write was lost."""
    for _ in range(2):
        Bucket(settings, PLACE).publish(NAME, ONE, digest(ONE))
    versions_of_the_object = clients.storage(settings).bucket("test-bucket").list_blobs(versions=True)
    assert len({blob.generation for blob in versions_of_the_object}) == 1
    assert [call.status for call in cloud.requests if call.method == INSERT] == [200, 412]


@pytest.mark.parametrize(("method", "at"), [*((GET, at) for at in range(4)), (INSERT, 0), (INSERT, 1)])
@pytest.mark.parametrize("fault", [status(429), status(503), reset(), lose_response()], ids=str)
def test_a_fault_at_any_request_makes_no_other_version(
    cloud: Cloud, settings: Settings, method: str, at: int, fault: Any
) -> None:
    cloud.fail(method, *[slow(0)] * at, fault)
    upload(settings, NAME, ONE, tags=["latest"], place=PLACE)
    assert set(objects(settings)) == {name(ONE), f"templates/{NAME}/tags.json"}
    assert index(settings) == {"latest": digest(ONE)}


def test_uploads_at_once_lose_no_version_and_no_tag(cloud: Cloud, settings: Settings) -> None:
    contents = [content(str(number)) for number in range(6)]

    def publish(number: int) -> None:
        upload(settings, NAME, contents[number // 2], tags=[f"v{number}", "latest"], place=PLACE)

    with ThreadPoolExecutor(6) as pool:
        list(pool.map(publish, range(6)))
    tags = index(settings)
    assert {f"v{number}": digest(contents[number // 2]) for number in range(6)}.items() < tags.items()
    assert tags["latest"] in map(digest, contents[:3])
    assert len(objects(settings)) == 4


def test_an_upload_that_loses_every_race_is_reported(
    cloud: Cloud, settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    cloud.fail(INSERT, status(412), forever=True)
    monkeypatch.setattr("vgp.vertex.templates.bucket_store._TAG_ATTEMPTS", 3)
    with pytest.raises(WorkFailed, match="other uploads keep changing the tags"):
        Bucket(settings, PLACE).set_tag(NAME, "latest", digest(ONE))


def test_a_version_is_found_by_every_name(cloud: Cloud, settings: Settings) -> None:
    upload(settings, NAME, ONE, tags=["v1", "latest"], place=PLACE)
    upload(settings, NAME, TWO, tags=["latest"], place=PLACE)
    for reference in ("training:v1", f"training@{digest(ONE)}", f"training@{digest(ONE)[:15]}"):
        assert resolve(settings, reference, place=PLACE).spec.content == spec("one")
    found = resolve(settings, f"gs://test-bucket/{name(TWO)}")
    assert found.spec.content == spec("two") and found.location == f"gs://test-bucket/{name(TWO)}"
    assert found.uri is None, "Vertex AI takes no gs:// as the template_uri of a run"


def test_the_place_can_be_the_whole_bucket_and_the_setting(cloud: Cloud, settings: Settings) -> None:
    upload(settings, NAME, ONE, tags=["latest"], place="gs://test-bucket")
    assert f"{NAME}/{digest(ONE)[7:]}.json" in objects(settings)
    assert resolve(settings, NAME, place="gs://test-bucket/").spec.content == spec("one")
    assert [row["name"] for row in list_templates(settings, place="gs://test-bucket")] == [NAME]


def test_versions_and_packages_are_listed_past_other_objects(cloud: Cloud, settings: Settings) -> None:
    upload(settings, NAME, ONE, tags=["v1"], place=PLACE)
    upload(settings, NAME, TWO, tags=["latest"], place=PLACE)
    upload(settings, "scoring", content(name="scoring"), tags=[], place=PLACE)
    clients.storage(settings).bucket("test-bucket").blob(f"templates/{NAME}/notes.txt").upload_from_string("x")
    clients.storage(settings).bucket("test-bucket").blob(f"templates/deep/er/{'0' * 64}.json").upload_from_string("x")
    rows = {row["version"]: row for row in list_versions(settings, NAME, place=PLACE)}
    assert set(rows) == {digest(ONE), digest(TWO)}
    assert rows[digest(ONE)]["tags"] == ["v1"] and rows[digest(ONE)]["size"] == len(ONE)
    assert [row["name"] for row in list_templates(settings, place=PLACE)] == ["scoring", NAME]


def test_tags_move_and_go(cloud: Cloud, settings: Settings) -> None:
    upload(settings, NAME, ONE, tags=["v1", "latest"], place=PLACE)
    upload(settings, NAME, TWO, tags=["latest"], place=PLACE)
    assert move_tag(settings, "training:v1", "stable", place=PLACE) == (digest(ONE), None)
    assert move_tag(settings, "training:latest", "stable", place=PLACE) == (digest(TWO), digest(ONE))
    assert remove_tag(settings, "training:v1", place=PLACE) == digest(ONE)
    assert index(settings) == {"latest": digest(TWO), "stable": digest(TWO)}
    with pytest.raises(RequestError, match="has no version"):
        move_tag(settings, f"training@sha256:{'0' * 64}", "stable", place=PLACE)


def test_an_object_that_was_replaced_is_refused(cloud: Cloud, settings: Settings) -> None:
    upload(settings, NAME, ONE, tags=["latest"], place=PLACE)
    clients.storage(settings).bucket("test-bucket").blob(name(ONE)).upload_from_string(TWO)
    with pytest.raises(WorkFailed, match="damaged or replaced"):
        resolve(settings, NAME, place=PLACE)


def test_a_bucket_that_is_missing_comes_with_the_command_that_creates_it(cloud: Cloud, settings: Settings) -> None:
    with pytest.raises(
        WorkFailed, match="no bucket gs://other.\n  Create it: gcloud storage buckets create gs://other "
    ):
        upload(settings, NAME, ONE, tags=[], place="gs://other/x")


def test_a_place_that_is_no_folder_is_refused(settings: Settings) -> None:
    with pytest.raises(RequestError, match="is not a valid folder"):
        upload(settings, NAME, ONE, tags=[], place="gs://test-bucket/../x")


def test_an_upload_makes_six_requests(cloud: Cloud, settings: Settings) -> None:
    """As many as the test of faults takes one by one."""
    upload(settings, NAME, ONE, tags=["latest"], place=PLACE)
    assert [call.method for call in cloud.requests] == [GET, INSERT, GET, GET, GET, INSERT]
