"""Vertex AI is brought after the registry of a bucket, with the settings' terms and the table's permissions alone."""

import json
from typing import Any

import pytest

from tests.vgp.protocol.registered import IMAGE, Registry, shown
from tools.emulator.cloud import Cloud, status
from vgp.base.errors import RequestError, WorkFailed
from vgp.protocol import model_registry
from vgp.settings import Settings
from vgp.vertex import clients, registered_models
from vgp.vertex.permissions import calls
from vgp.vertex.registered_models import Place

ROOT = "gs://test-bucket/registry"


@pytest.fixture
def served(settings: Settings) -> Settings:
    """Settings whose image serves, and with terms of their own."""
    return settings.model_copy(update={"image": IMAGE, "labels": {"team": "sky"}})


def put(settings: Settings, registry: Registry | str) -> None:
    content = registry if isinstance(registry, str) else json.dumps(registry.read())
    blob = clients.storage(settings).bucket("test-bucket").blob("registry/flights/registry.json")
    blob.upload_from_string(content, if_generation_match=None)


def test_the_record_of_the_bucket_is_shown_with_the_terms_of_the_settings(cloud: Cloud, served: Settings) -> None:
    registry = Registry(2, champion=2)
    put(served, registry)
    cloud.policies.only = {name for call in calls() if "models" in call.when for name in call.permissions}
    assert registered_models.find_differences(served, ROOT, "flights") == [
        "not yet: version 1 uploaded",
        "not yet: version 2 uploaded",
    ]
    done = registered_models.update_vertex(served, ROOT, "flights")
    assert done[-1] == "default moved to version 2" and shown(cloud) == {1: set(), 2: {"champion", "default"}}
    model = next(iter(cloud.models.models.values()))
    assert model.name == "projects/123456789012/locations/us-central1/models/flights"
    assert model.versions["2"].labels["team"] == "sky"
    cloud.policies.only = None
    registry.promote(1)
    put(served, registry)
    assert registered_models.find_differences(served, ROOT, "flights")[0] == "not yet: champion moved to version 1"
    assert registered_models.update_vertex(served, f"{ROOT}/", "flights") == [
        "champion moved to version 1",
        "default moved to version 1",
    ]
    assert registered_models.find_differences(served, ROOT, "flights") == []


def test_the_versions_of_a_registry_that_was_moved_are_uploaded_from_where_they_lie(
    cloud: Cloud, served: Settings
) -> None:
    registry = Registry()
    registry.register(1, model="/home/ana/runs/registry/flights/versions/1")
    put(served, registry)
    assert registered_models.update_vertex(served, ROOT, "flights")
    (uploaded,) = next(iter(cloud.models.models.values())).versions.values()
    assert uploaded.message.artifact_uri == f"{ROOT}/flights/versions/{registry.record.versions[0].key}"


def test_values_that_cannot_be_read_or_shown_are_explained(
    cloud: Cloud, served: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(RequestError, match="gs://test-bucket/registry/flights/registry.json does not exist"):
        registered_models.update_vertex(served, ROOT, "flights")
    put(served, "{")
    with pytest.raises(RequestError, match="registry.json is damaged"):
        registered_models.update_vertex(served, ROOT, "flights")
    put(served, Registry(1))
    cloud.policies.missing.add("aiplatform.models.upload")
    with pytest.raises(
        WorkFailed, match=r"(?s)does not show it yet \(flights\): not allowed: .*the role roles/aiplatform.user"
    ):
        registered_models.update_vertex(served, ROOT, "flights")
    with pytest.raises(WorkFailed, match="has no digest, and a tag may change"):
        registry = Registry()
        registry.register(1)
        put(served, registry)
        registered_models.update_vertex(
            served.model_copy(update={"image": "us-docker.pkg.dev/p/r/i:v1"}), ROOT, "flights"
        )
    cloud.policies.missing.clear()
    monkeypatch.setattr(model_registry, "PATIENCE_S", 0.0)
    cloud.fail("aiplatform.*.models.upload", status(429, "Quota exceeded"), forever=True)
    with pytest.raises(WorkFailed, match="out of quota"):
        registered_models.update_vertex(served, ROOT, "flights")


def test_a_change_that_vertex_ai_does_not_show_yet_fails_with_what_was_done(
    served: Settings, monkeypatch: pytest.MonkeyPatch, cloud: Cloud, tmp_path: Any
) -> None:
    put(served, Registry(1))
    answer = {"model": "flights", "said": "version 1 is the champion of flights", "models": [{"model": "flights"}]}
    monkeypatch.setattr(registered_models, "run_verb", lambda *_, **__: answer)
    place = Place(ROOT, tmp_path, served)
    assert registered_models.list_models(place, None)["vertex"] == {"flights": ["not yet: version 1 uploaded"]}
    assert registered_models.run_change(place, "promote", "1", model=None, why=None)["vertex"] == ["version 1 uploaded"]
    cloud.policies.missing.add("aiplatform.models.list")
    with pytest.raises(
        WorkFailed, match=r"(?s)^version 1 is the champion of flights; the registry has the change, .*again"
    ):
        registered_models.run_change(place, "promote", "1", model=None, why=None)
    [words] = registered_models.list_models(place, None)["vertex"]["flights"]
    assert words.startswith("cannot compare flights with Vertex AI's Model Registry: not allowed")
