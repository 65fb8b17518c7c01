"""A template is found by tag or digest, pinned by its digest, and verified; lists come in pages."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import requests
import yaml

from tools.emulator.cloud import Cloud, lose_response, reset, status
from vgp.base.errors import RequestError, WorkFailed
from vgp.settings import Settings
from vgp.vertex import clients
from vgp.vertex.templates.template import list_tags, list_templates, list_versions, resolve
from vgp.vertex.templates.upload import move_tag, upload

from .content import DOWNLOAD, NAME, TAGS, VERSIONS, content, digest, spec, stored

ONE, TWO = content("one"), content("two")
GOLDEN = (Path(__file__).parents[3] / "golden/training.json").read_bytes()


@pytest.mark.parametrize(
    "reference",
    [
        "training",
        "training:latest",
        "training@v2",
        f"training@{digest(TWO)}",
        f"training@{digest(TWO)[:15]}",
        f"https://us-central1-kfp.pkg.dev/test-project/pipelines/training/{digest(TWO)}",
        "https://us-central1-kfp.pkg.dev/test-project/pipelines/training/v2",
    ],
)
def test_every_way_to_name_a_version_finds_it_pinned(cloud: Cloud, settings: Settings, reference: str) -> None:
    upload(settings, NAME, ONE, tags=["v1", "latest"])
    upload(settings, NAME, TWO, tags=["v2", "latest"])
    found = resolve(settings, reference)
    assert found.spec.content == spec("two") and found.content == TWO
    assert found.digest == digest(TWO) and found.sha256 == digest(TWO)[7:]
    assert found.uri == f"https://us-central1-kfp.pkg.dev/test-project/pipelines/training/{digest(TWO)}"


def test_what_was_pinned_does_not_move_with_its_tag(cloud: Cloud, settings: Settings) -> None:
    upload(settings, NAME, ONE, tags=["stable"])
    pinned = resolve(settings, "training:stable")
    upload(settings, NAME, TWO, tags=["stable"])
    assert pinned.uri and resolve(settings, pinned.uri).spec.content == spec("one")
    assert resolve(settings, "training:stable").spec.content == spec("two")


def test_the_whole_spec_of_a_real_pipeline_comes_back(cloud: Cloud, settings: Settings) -> None:
    upload(settings, NAME, GOLDEN, tags=["latest"])
    found = resolve(settings, NAME)
    assert found.content == GOLDEN and found.spec.content == json.loads(GOLDEN)


@pytest.mark.parametrize("write", [json.dumps, yaml.safe_dump])
def test_json_and_yaml_of_others_are_read(cloud: Cloud, settings: Settings, write: Callable[[Any], str]) -> None:
    upload(settings, NAME, write(spec("one")).encode(), tags=["latest"])
    assert resolve(settings, NAME).spec.content == spec("one")


@pytest.mark.parametrize(
    ("text", "because"),
    [
        ("pipelineInfo: !!python/object/apply:os.getcwd []", "no safe YAML"),
        ("pipelineInfo: {name: training}\n---\nplatforms: {}", "of one document"),
        ("[1, 2", "no safe YAML"),
        ("[" * 100_000, "no safe YAML"),
        (b"\xff\xfe{}", "no safe YAML"),
        ("[1, 2]", "is no spec of the pipeline training"),
        ('{"pipelineInfo": "training"}', "is no spec of the pipeline training"),
        ('{"pipelineInfo": {"name": "scoring"}}', "its pipelineInfo.name is 'scoring'"),
    ],
)
def test_what_is_no_spec_of_the_pipeline_is_refused(
    cloud: Cloud, settings: Settings, text: str | bytes, because: str
) -> None:
    planted = text if isinstance(text, bytes) else text.encode()
    repository = "projects/test-project/locations/us-central1/repositories/pipelines"
    cloud.artifacts.add_version(repository, NAME, digest(planted), planted)
    with pytest.raises(WorkFailed, match=because):
        resolve(settings, f"training@{digest(planted)}")


def test_content_that_does_not_fit_the_digest_is_refused(cloud: Cloud, settings: Settings) -> None:
    upload(settings, NAME, ONE, tags=["latest"])
    cloud.artifacts.content[next(iter(cloud.artifacts.content))] = ONE.replace(b"one", b"0ne")
    with pytest.raises(WorkFailed, match=f"{digest(ONE)}: the downloaded content has the digest sha256:"):
        resolve(settings, NAME)


@pytest.mark.parametrize(
    ("reference", "message"),
    [
        ("trainin", "no template 'trainin'. Did you mean training\\? Upload it: vgp upload trainin"),
        ("training:latets", "training has no tag 'latets'. Did you mean latest\\?"),
        ("training@sha256:00000000", "training has no version sha256:00000000. All: vgp templates training"),
        (f"training@sha256:{'0' * 64}", f"training has no version sha256:{'0' * 64}."),
        ("https://us-central1-kfp.pkg.dev/test-project/pipelines/training/v9", "Choices: latest, v1."),
    ],
)
def test_an_unknown_version_is_reported_with_the_choices(
    cloud: Cloud, settings: Settings, reference: str, message: str
) -> None:
    upload(settings, NAME, ONE, tags=["v1", "latest"])
    with pytest.raises(RequestError, match=message):
        resolve(settings, reference)


def test_in_an_empty_repository_the_next_step_is_named(cloud: Cloud, settings: Settings) -> None:
    with pytest.raises(RequestError, match="None was uploaded there yet. Upload it: vgp upload training"):
        resolve(settings, NAME)
    with pytest.raises(RequestError, match="None was uploaded there yet."):
        list_versions(settings, NAME)


def test_a_missing_repository_is_reported_by_reads_too(cloud: Cloud, settings: Settings) -> None:
    other = settings.model_copy(update={"template_repository": "https://us-central1-kfp.pkg.dev/test-project/none"})
    for read in (lambda: resolve(other, NAME), lambda: list_templates(other), lambda: list_versions(other, NAME)):
        with pytest.raises(WorkFailed, match="Create it: gcloud artifacts repositories create none"):
            read()


def test_without_a_place_the_setting_is_named(settings: Settings) -> None:
    nowhere = settings.model_copy(update={"template_repository": None})
    with pytest.raises(RequestError, match="template_repository = .*or give --repository gs://BUCKET/FOLDER"):
        resolve(nowhere, NAME)
    with pytest.raises(RequestError, match="not a repository of pipeline templates.*gs://BUCKET/FOLDER"):
        resolve(settings, NAME, place="https://evil.example/a/b")


def test_digits_that_fit_two_versions_are_refused(cloud: Cloud, settings: Settings) -> None:
    repository = "projects/test-project/locations/us-central1/repositories/pipelines"
    for last in "01":
        cloud.artifacts.add_version(repository, NAME, f"sha256:{'a' * 63}{last}", ONE)
    with pytest.raises(RequestError, match="training@sha256:aaaaaaaa fits 2 versions: sha256:a{63}0, sha256:a{63}1."):
        resolve(settings, "training@sha256:aaaaaaaa")


@pytest.mark.parametrize("method", [f"{TAGS}.get", DOWNLOAD])
@pytest.mark.parametrize("fault", [status(429), status(500), reset(), lose_response()], ids=str)
def test_a_read_outlasts_a_fault(cloud: Cloud, settings: Settings, method: str, fault: Any) -> None:
    upload(settings, NAME, ONE, tags=["latest"])
    cloud.fail(method, fault)
    assert resolve(settings, NAME).spec.content == spec("one")


def test_all_pages_are_listed_newest_first(cloud: Cloud, settings: Settings) -> None:
    cloud.pages.longest = 2
    made = []
    for number in range(7):
        made.append(upload(settings, NAME, content(str(number)), tags=[f"v{number}", "latest"]).version.digest)
        cloud.clock.advance(60)
    rows = list_versions(settings, NAME)
    assert [row["version"] for row in rows] == made[::-1]
    assert [row["tags"] for row in rows] == [["latest", "v6"], *([f"v{number}"] for number in range(5, -1, -1))]
    assert {row["size"] for row in rows} == {len(content("0"))}
    assert rows[0]["created"] > rows[-1]["created"] and rows[0]["created"].endswith("Z")
    assert rows[-1]["uri"] == f"{settings.template_repository}/training/{made[0]}"
    assert [call.method for call in cloud.requests].count(f"{VERSIONS}.list") == 4


def test_sizes_that_cannot_be_had_are_left_out(cloud: Cloud, settings: Settings) -> None:
    upload(settings, NAME, ONE, tags=["latest"])
    cloud.fail("artifactregistry.*.files.list", status(403, "Permission 'artifactregistry.files.list' denied."))
    [row] = list_versions(settings, NAME)
    assert (row["version"], row["size"]) == (digest(ONE), None)


def test_all_pages_of_packages_are_listed(cloud: Cloud, settings: Settings) -> None:
    cloud.pages.longest = 2
    names = [f"pipeline-{letter}" for letter in "edcba"]
    for name in names:
        upload(settings, name, content(name=name), tags=[])
    assert [row["name"] for row in list_templates(settings)] == sorted(names)


def test_the_tags_of_a_version_are_its_own(cloud: Cloud, settings: Settings) -> None:
    upload(settings, NAME, ONE, tags=["v1", "stable"])
    upload(settings, NAME, TWO, tags=["v2"])
    assert list_tags(settings, resolve(settings, "training:v1")) == ["stable", "v1"]


class TestKfpsOwnClient:
    """What kfp writes we read, and the other way round."""

    @pytest.fixture
    def client(self, cloud: Cloud, settings: Settings, tmp_path: Path) -> Any:
        from kfp.registry import registry_client

        known = Path(registry_client.__file__).parent / "context/kfp_pkg_dev.json"
        names = {"project_id": "test-project", "location": "us-central1", "repo_id": "pipelines"}
        text = known.read_text().replace("https://artifactregistry.googleapis.com", cloud.endpoint("artifactregistry"))
        for key, value in names.items():
            text = text.replace(f"{{{key}}}", value)
        context = tmp_path / "context.json"
        context.write_text(text)
        credentials = clients.credentials()
        credentials.refresh(clients_request())
        host = f"{cloud.endpoint('kfp_registry')}/test-project/pipelines"
        return registry_client.RegistryClient(
            host, auth=registry_client.ApiAuth(credentials.token), config_file=str(context)
        )

    def test_reads_what_we_uploaded(self, client: Any, settings: Settings, tmp_path: Path) -> None:
        upload(settings, NAME, GOLDEN, tags=["v1", "latest"])
        assert [each["name"].rpartition("/")[2] for each in client.list_packages()] == [NAME]
        assert [each["name"].rpartition("/")[2] for each in client.list_versions(NAME)] == [digest(GOLDEN)]
        assert {each["name"].rpartition("/")[2] for each in client.list_tags(NAME)} == {"v1", "latest"}
        assert client.get_tag(NAME, "v1")["version"].endswith(digest(GOLDEN))
        for wanted in ({"version": digest(GOLDEN)}, {"tag": "latest"}):
            path = client.download_pipeline(NAME, **wanted, file_name=str(tmp_path / "got.yaml"))
            assert Path(path).read_bytes() == GOLDEN
            assert yaml.safe_load(Path(path).read_text()) == json.loads(GOLDEN)

    def test_uploads_what_we_find_and_leave_as_one_version(
        self, client: Any, cloud: Cloud, settings: Settings, tmp_path: Path
    ) -> None:
        theirs = tmp_path / "training.yaml"
        theirs.write_text(yaml.safe_dump(json.loads(GOLDEN)))
        assert client.upload_pipeline(str(theirs), tags=["theirs"]) == (NAME, digest(theirs.read_bytes()))
        assert resolve(settings, "training:theirs").spec.content == json.loads(GOLDEN)
        assert move_tag(settings, "training:theirs", "ours")[0] == digest(theirs.read_bytes())
        assert not upload(settings, NAME, theirs.read_bytes(), tags=[]).new
        assert stored(cloud) == [digest(theirs.read_bytes())]


def clients_request() -> Any:
    from google.auth.transport.requests import Request

    return Request(requests.Session())
