"""The same content is one version, whatever happens to the requests; tags move only to what was verified."""

from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from tools.emulator.cloud import Cloud, lose_response, reset, status
from vgp.base.errors import RequestError, WorkFailed
from vgp.settings import Settings
from vgp.vertex.templates.upload import move_tag, remove_tag, upload

from .content import DOWNLOAD, NAME, TAGS, UPLOAD, VERSIONS, content, digest, stored, tagged

ONE, TWO = content("one"), content("two")


def test_an_upload_makes_a_version_named_by_its_content(cloud: Cloud, settings: Settings) -> None:
    done = upload(settings, NAME, ONE, tags=["v1", "latest"])
    assert done.new and done.moved == {}
    assert done.version.digest == digest(ONE) and done.version.size == len(ONE)
    assert done.version.created == cloud.clock.now()
    assert done.location == f"{settings.template_repository}/training/{digest(ONE)}"
    assert list(cloud.artifacts.content.values()) == [ONE]
    assert tagged(cloud) == {"v1": digest(ONE), "latest": digest(ONE)}


def test_the_same_content_twice_is_one_version_sent_once(cloud: Cloud, settings: Settings) -> None:
    upload(settings, NAME, ONE, tags=["latest"])
    again = upload(settings, NAME, ONE, tags=["latest", "v1"])
    assert not again.new
    assert stored(cloud) == [digest(ONE)] and tagged(cloud) == {"latest": digest(ONE), "v1": digest(ONE)}
    assert [call.method for call in cloud.requests].count(UPLOAD) == 1


def test_a_tag_moves_to_the_new_version_and_the_old_one_stays(cloud: Cloud, settings: Settings) -> None:
    upload(settings, NAME, ONE, tags=["v1", "latest"])
    done = upload(settings, NAME, TWO, tags=["v2", "latest"])
    assert done.moved == {"latest": digest(ONE)}
    assert stored(cloud) == sorted([digest(ONE), digest(TWO)])
    assert tagged(cloud) == {"v1": digest(ONE), "v2": digest(TWO), "latest": digest(TWO)}


@pytest.mark.parametrize("method", [f"{VERSIONS}.get", UPLOAD, DOWNLOAD, f"{TAGS}.get", f"{TAGS}.create"])
@pytest.mark.parametrize("fault", [status(429), status(503), reset(), lose_response()], ids=str)
def test_a_fault_at_any_request_makes_no_other_version(
    cloud: Cloud, settings: Settings, method: str, fault: Any
) -> None:
    cloud.fail(method, fault)
    upload(settings, NAME, ONE, tags=["latest"])
    assert stored(cloud) == [digest(ONE)] and tagged(cloud) == {"latest": digest(ONE)}


@pytest.mark.parametrize("fault", [status(500), lose_response()], ids=str)
def test_a_fault_while_a_tag_moves_moves_it_once(cloud: Cloud, settings: Settings, fault: Any) -> None:
    upload(settings, NAME, ONE, tags=["latest"])
    cloud.fail(f"{TAGS}.patch", fault)
    upload(settings, NAME, TWO, tags=["latest"])
    assert tagged(cloud) == {"latest": digest(TWO)}


def test_uploads_of_the_same_content_at_once_make_one_version(cloud: Cloud, settings: Settings) -> None:
    with ThreadPoolExecutor(12) as pool:
        list(pool.map(lambda _: upload(settings, NAME, ONE, tags=["v1", "latest"]), range(12)))
    assert stored(cloud) == [digest(ONE)] and tagged(cloud) == {"v1": digest(ONE), "latest": digest(ONE)}


def test_uploads_of_different_content_at_once_end_consistently(cloud: Cloud, settings: Settings) -> None:
    contents = [content(str(number)) for number in range(8)]
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda number: upload(settings, NAME, contents[number], tags=[f"v{number}", "latest"]), range(8)))
    assert stored(cloud) == sorted(map(digest, contents))
    tags = tagged(cloud)
    assert tags.pop("latest") in stored(cloud)
    assert tags == {f"v{number}": digest(each) for number, each in enumerate(contents)}


def test_a_version_that_was_damaged_in_the_registry_gets_no_tag(cloud: Cloud, settings: Settings) -> None:
    upload(settings, NAME, ONE, tags=["v1"])
    cloud.artifacts.content[next(iter(cloud.artifacts.content))] = TWO
    with pytest.raises(WorkFailed, match="damaged or replaced"):
        upload(settings, NAME, ONE, tags=["latest"])
    assert tagged(cloud) == {"v1": digest(ONE)}


def test_content_of_another_pipeline_is_noticed(cloud: Cloud, settings: Settings) -> None:
    with pytest.raises(WorkFailed, match="stored it as 'scoring/sha256:"):
        upload(settings, NAME, content(name="scoring"), tags=["latest"])
    assert tagged(cloud) == {}


@pytest.mark.parametrize("given", ["a b", "sha256:" + "0" * 64, "", "../x", "-v"])
def test_a_tag_that_cannot_be_one_is_refused_before_any_request(cloud: Cloud, settings: Settings, given: str) -> None:
    with pytest.raises(RequestError, match="cannot be a tag"):
        upload(settings, NAME, ONE, tags=["v1", given])
    assert cloud.requests == []


def test_a_repository_that_is_missing_comes_with_the_command_that_creates_it(cloud: Cloud, settings: Settings) -> None:
    with pytest.raises(WorkFailed) as failure:
        upload(settings, NAME, ONE, tags=[], place="https://europe-west4-kfp.pkg.dev/test-project/none")
    assert str(failure.value) == (
        "upload training: there is no repository https://europe-west4-kfp.pkg.dev/test-project/none.\n"
        "  Create it: gcloud artifacts repositories create none --repository-format=kfp --location=europe-west4 "
        "--project=test-project"
    )


def test_a_repository_of_another_format_is_named(cloud: Cloud, settings: Settings) -> None:
    with pytest.raises(WorkFailed, match="images is of format DOCKER, templates need KFP.\n .*create NAME --repo"):
        upload(settings, NAME, ONE, tags=[], place="https://us-central1-kfp.pkg.dev/test-project/images")


@pytest.mark.parametrize(
    ("method", "permission", "role"),
    [
        (f"{VERSIONS}.get", "artifactregistry.versions.get", "roles/artifactregistry"),
        (UPLOAD, "artifactregistry.repositories.uploadArtifacts", "roles/artifactregistry.writer"),
        (DOWNLOAD, "artifactregistry.repositories.downloadArtifacts", "roles/artifactregistry.reader"),
        (f"{TAGS}.create", "artifactregistry.tags.create", "roles/artifactregistry.writer"),
    ],
)
def test_a_permission_that_is_missing_is_named_with_its_role(
    cloud: Cloud, settings: Settings, method: str, permission: str, role: str
) -> None:
    cloud.fail(method, status(403, f"Permission '{permission}' denied on resource (or it may not exist)."))
    with pytest.raises(WorkFailed, match=rf"not allowed[\s\S]*{permission} is missing[\s\S]*{role}"):
        upload(settings, NAME, ONE, tags=["latest"])


def test_a_tag_is_pointed_to_a_version_again_and_again(cloud: Cloud, settings: Settings) -> None:
    for each in (ONE, TWO):
        upload(settings, NAME, each, tags=["latest"])
    assert move_tag(settings, "training:latest", "stable") == (digest(TWO), None)
    assert move_tag(settings, f"training@{digest(ONE)}", "stable") == (digest(ONE), digest(TWO))
    assert move_tag(settings, f"training@{digest(ONE)[:19]}", "stable") == (digest(ONE), digest(ONE))
    assert tagged(cloud) == {"latest": digest(TWO), "stable": digest(ONE)}


def test_a_tag_cannot_point_to_what_is_not_there(cloud: Cloud, settings: Settings) -> None:
    upload(settings, NAME, ONE, tags=[])
    with pytest.raises(RequestError, match=f"has no version {digest(TWO)}"):
        move_tag(settings, f"training@{digest(TWO)}", "stable")
    assert tagged(cloud) == {}


@pytest.mark.parametrize("fault", [status(503), lose_response()], ids=str)
def test_a_tag_is_taken_away_and_the_version_stays(cloud: Cloud, settings: Settings, fault: Any) -> None:
    upload(settings, NAME, ONE, tags=["v1", "latest"])
    cloud.fail(f"{TAGS}.delete", fault)
    assert remove_tag(settings, "training:v1") == digest(ONE)
    assert stored(cloud) == [digest(ONE)] and tagged(cloud) == {"latest": digest(ONE)}


@pytest.mark.parametrize("given", ["training", f"training@{digest(ONE)}"])
def test_only_what_names_a_tag_can_be_taken_away(cloud: Cloud, settings: Settings, given: str) -> None:
    upload(settings, NAME, ONE, tags=["latest"])
    with pytest.raises(RequestError, match="names no tag"):
        remove_tag(settings, given)
    assert tagged(cloud) == {"latest": digest(ONE)}
