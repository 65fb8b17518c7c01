"""Artifact Registry and the host of pipeline templates, as kfp's and Google's clients use them."""

import hashlib
import json

import pytest
import requests
from google.api_core import exceptions

from tests.tools.emulator.conftest import PARENT

REPOSITORY = f"{PARENT}/repositories/pipelines"


@pytest.fixture
def registry(cloud):
    """kfp's client under the real host name, which it must see to know Artifact Registry."""
    from kfp.registry import RegistryClient

    return RegistryClient(host="https://us-central1-kfp.pkg.dev/test-project/pipelines")


@pytest.fixture
def artifacts(client):
    from google.cloud.artifactregistry_v1 import ArtifactRegistryClient

    return client(ArtifactRegistryClient, "artifactregistry")


@pytest.fixture
def template(spec, tmp_path):
    path = tmp_path / "pipeline.yaml"
    path.write_text(json.dumps(spec))
    return path


def test_kfp_uploads_tags_lists_downloads_and_deletes(cloud, registry, template, tmp_path):
    name, version = registry.upload_pipeline(str(template), tags=["v1", "latest"])
    assert (name, version) == ("hello", f"sha256:{hashlib.sha256(template.read_bytes()).hexdigest()}")
    for which in ({"tag": "latest"}, {"version": version}):
        got = registry.download_pipeline(name, **which, file_name=str(tmp_path / "got.yaml"))
        assert (tmp_path / "got.yaml").read_bytes() == template.read_bytes(), got
    assert [each["name"].rpartition("/")[2] for each in registry.list_packages()] == ["hello"]
    assert [tag["name"].rpartition("/")[2] for tag in registry.get_version(name, version)["relatedTags"]] == [
        "v1", "latest",
    ]  # fmt: skip
    assert registry.create_tag(name, version, "v2")["version"].endswith(version)
    assert registry.get_tag(name, "v2") in registry.list_tags(name)
    registry.delete_tag(name, "v2")
    assert registry.delete_package(name) is True
    assert registry.list_packages() == {}
    assert cloud.tunnel.strays == []


def test_the_same_content_twice_is_one_version_and_another_is_another(registry, template, spec):
    first = registry.upload_pipeline(str(template), tags="latest")
    assert registry.upload_pipeline(str(template)) == first
    template.write_text(json.dumps({**spec, "sdkVersion": "kfp-2.17.1"}))
    second = registry.upload_pipeline(str(template), tags="latest")
    assert second[0] == first[0] and second[1] != first[1]
    assert len(registry.list_versions("hello")) == 2
    assert registry.get_tag("hello", "latest")["version"].endswith(second[1])
    assert registry.update_tag("hello", first[1], "latest")["version"].endswith(first[1])


def test_what_is_no_pipeline_or_no_repository_is_refused(registry, tmp_path):
    path = tmp_path / "wrong.yaml"
    path.write_text("a: 1")
    with pytest.raises(requests.HTTPError, match="400"):
        registry.upload_pipeline(str(path))
    with pytest.raises(requests.HTTPError, match="404"):
        registry.download_pipeline("hello", tag="latest")


def test_a_job_runs_from_a_template(cloud, registry, template, pipelines):
    name, version = registry.upload_pipeline(str(template), tags="latest")
    uri = f"https://us-central1-kfp.pkg.dev/test-project/pipelines/{name}/latest"
    config = {"gcs_output_directory": "gs://test-bucket"}
    job = pipelines.create_pipeline_job(parent=PARENT, pipeline_job={"template_uri": uri, "runtime_config": config})
    assert job.template_metadata.version == version
    assert job.pipeline_spec["pipelineInfo"]["name"] == "hello"


def test_packages_versions_and_tags_are_read_in_pages(artifacts, registry, template, spec):
    for number in range(3):
        template.write_text(json.dumps({**spec, "sdkVersion": f"kfp-{number}"}))
        registry.upload_pipeline(str(template), tags=f"v{number}")
    package = f"{REPOSITORY}/packages/hello"
    pages = artifacts.list_versions(request={"parent": package, "page_size": 2}).pages
    assert [len(page.versions) for page in pages] == [2, 1]
    tags = {tag.name: tag.version for tag in artifacts.list_tags(request={"parent": package, "page_size": 1})}
    assert len(tags) == len(set(tags.values())) == 3
    version = artifacts.get_version(request={"name": tags[f"{package}/tags/v1"], "view": "FULL"})
    assert [tag.name for tag in version.related_tags] == [f"{package}/tags/v1"]
    with pytest.raises(exceptions.BadRequest, match="tagged"):
        artifacts.delete_version(name=version.name)
    artifacts.delete_version(request={"name": version.name, "force": True}).result(timeout=120)
    assert len(list(artifacts.list_tags(parent=package))) == 2


def test_a_tag_is_made_once_and_points_to_what_there_is(artifacts, registry, template):
    name, version = registry.upload_pipeline(str(template), tags="latest")
    package = f"{REPOSITORY}/packages/{name}"
    for tag_id, target, error in [
        ("latest", version, exceptions.Conflict), ("new", "sha256:0", exceptions.NotFound),
        ("a b", version, exceptions.BadRequest),
    ]:  # fmt: skip
        tag = {"version": f"{package}/versions/{target}"}
        with pytest.raises(error):
            artifacts.create_tag(request={"parent": package, "tag_id": tag_id, "tag": tag})


def test_repositories_have_a_format_and_an_id(artifacts):
    assert artifacts.get_repository(name=REPOSITORY).format_.name == "KFP"
    made = artifacts.create_repository(
        parent=PARENT, repository_id="more", repository={"format_": "DOCKER", "labels": {"a": "b"}}
    ).result(timeout=120)
    assert (made.name, made.format_.name) == (f"{PARENT}/repositories/more", "DOCKER")
    assert len(list(artifacts.list_repositories(parent=PARENT))) == 3
    with pytest.raises(exceptions.Conflict):
        artifacts.create_repository(parent=PARENT, repository_id="more", repository={"format_": "DOCKER"})
    with pytest.raises(exceptions.NotFound):
        artifacts.get_repository(name=f"{PARENT}/repositories/none")
    with pytest.raises(exceptions.Forbidden):
        artifacts.get_repository(name="projects/other/locations/us-central1/repositories/none")


def test_an_image_is_found_by_its_digest(cloud, artifacts):
    cloud.artifacts.add_image("us-central1-docker.pkg.dev/test-project/images/training@sha256:12", "latest")
    image = artifacts.get_docker_image(name=f"{PARENT}/repositories/images/dockerImages/training@sha256:12")
    assert (image.uri.rpartition("/")[2], list(image.tags)) == ("training@sha256:12", ["latest"])
    assert [each.name for each in artifacts.list_docker_images(parent=f"{PARENT}/repositories/images")] == [image.name]
    tag = artifacts.get_tag(name=f"{PARENT}/repositories/images/packages/training/tags/latest")
    assert tag.version.endswith("/versions/sha256:12")
    with pytest.raises(exceptions.NotFound):
        artifacts.get_docker_image(name=f"{PARENT}/repositories/images/dockerImages/training@sha256:13")
