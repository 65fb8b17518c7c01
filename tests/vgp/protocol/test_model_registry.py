"""Vertex AI's registry follows ours: from nothing, repeated, after a kill at every call, and in races."""

import json
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from tools.emulator.cloud import Cloud, lose_response, reset, status
from vgp.base import google_api
from vgp.protocol import model_registry
from vgp.protocol.model_registry import Terms, differences, reconcile
from vgp.protocol.model_service import ModelService, Refused
from vgp.registry import changes

from .registered import FOLDER, IMAGE, TERMS, CloudClock, Registry, later, shown

WRITES = ("upload", "mergeVersionAliases", "patch", "delete", "deleteVersion")


@pytest.fixture
def service(cloud: Cloud) -> Iterator[ModelService]:
    with google_api.session() as session:
        yield ModelService(session, cloud.endpoint("aiplatform"), "test-project", "us-central1")


@pytest.fixture
def projected(cloud: Cloud, service: ModelService) -> Callable[..., list[str]]:
    def run(registry: Registry, **more: Any) -> list[str]:
        return reconcile(registry.read, service, **{"terms": TERMS, "clock": CloudClock(cloud), **more})

    return run


def calls(cloud: Cloud, *verbs: str) -> int:
    return sum(call.method.rpartition(".")[2] in verbs and ".models." in call.method for call in cloud.requests)


def test_every_version_comes_with_what_serves_it_and_what_it_is_found_by(cloud, projected, service):
    registry = Registry(2, champion=2)
    done = projected(registry, terms=Terms(IMAGE, "projects/p/locations/l/keyRings/r/cryptoKeys/k", {"team": "sky"}))
    assert done == ["version 1 uploaded", "version 2 uploaded", "champion moved to version 2",
                    "default moved to version 2"]  # fmt: skip
    first, second = service.versions("flights")
    version = registry.record.versions[1]
    assert second["artifactUri"] == version.model == f"{FOLDER}/versions/{version.key}"
    assert second["containerSpec"] == {
        "imageUri": IMAGE,
        "command": ["python3", "-m", "vgp.steps", "serve"],
        "args": ["--name", "flights", "--version", "2", "--task", "mine:Flights", "--sha256", f"model.json={'1' * 64}",
                 "--sha256", f"model.safetensors={2:064x}"],
        "ports": [{"containerPort": 8080}],
        "predictRoute": "/predict",
        "healthRoute": "/health",
    }  # fmt: skip
    ours = {"registry-number": "2", "registry-key": version.key[:40], "registry-state": "registered"}
    assert ours.items() <= second["labels"].items() and second["labels"]["run"] == "training-2"
    assert (second["labels"]["team"], first["displayName"]) == ("sky", "flights")
    assert second["encryptionSpec"]["kmsKeyName"].endswith("/k")
    assert "It is better." in second["versionDescription"] and "1-3" in second["versionDescription"]
    assert differences(registry.read(), service) == []


def test_what_is_as_it_should_be_is_looked_at_and_not_written(cloud, projected):
    registry = Registry(2, champion=1)
    projected(registry)
    before = calls(cloud, *WRITES)
    assert projected(registry) == [] and calls(cloud, *WRITES) == before
    assert projected(Registry()) == []


def test_aliases_states_and_deletions_follow_the_record(cloud, projected):
    registry = Registry(3, champion=1)
    registry.change(changes.alias, "canary", 3)
    registry.register(4, state="candidate")
    projected(registry)
    assert shown(cloud) == {1: {"champion", "default"}, 2: set(), 3: {"canary"}, 4: {"candidate"}}
    registry.promote(4)
    registry.change(changes.unalias, "canary")
    registry.change(changes.delete, 1)
    done = projected(registry)
    assert shown(cloud) == {2: set(), 3: set(), 4: {"champion", "default"}}
    assert "version 4 marked registered" in done and "canary removed from version 3" in done


def test_a_rollback_is_one_call_and_the_default(cloud, projected):
    registry = Registry(2, champion=1)
    registry.promote(2)
    projected(registry)
    before = calls(cloud, *WRITES)
    registry.change(changes.rollback)
    assert projected(registry) == ["champion moved to version 1", "default moved to version 1"]
    assert calls(cloud, *WRITES) == before + 2


def test_the_last_version_goes_with_its_model_and_the_default_never_hangs_on_what_goes(cloud, projected):
    registry = Registry(2)
    projected(registry)
    registry.change(changes.delete, 1)
    projected(registry)
    assert shown(cloud) == {2: {"default"}}
    registry.change(changes.delete, 2)
    assert projected(registry) == ["version 2 removed"] and shown(cloud) == {}


def test_what_is_deployed_stays_and_is_named(cloud, projected):
    registry = Registry(2, champion=2)
    projected(registry)
    cloud.models.deployed.add("flights@1")
    registry.change(changes.delete, 1)
    assert projected(registry) == ["version 1 stays on Vertex AI: it is deployed to an endpoint"]


def test_an_alias_that_has_to_be_taken_away_first_is(cloud, projected):
    cloud.models.aliases_move = False
    registry = Registry(2, champion=1)
    projected(registry)
    registry.promote(2)
    assert projected(registry) == ["champion moved to version 2", "default moved to version 2"]
    assert shown(cloud) == {1: set(), 2: {"champion", "default"}}


@pytest.mark.parametrize(
    "lost", [lose_response(), reset(), status(503), status(429)], ids=lambda fault: str(fault)[:40]
)
def test_an_answer_that_does_not_come_doubles_nothing(cloud, projected, lost):
    registry = Registry(2, champion=1)
    for verb in ("upload", "listVersions", "mergeVersionAliases"):
        cloud.fail(f"aiplatform.*.models.{verb}", lost)
    projected(registry)
    assert shown(cloud) == {1: {"champion", "default"}, 2: set()}


def test_an_upload_that_is_late_and_whose_answer_was_lost_is_waited_for(cloud, projected):
    cloud.models.upload_s = 20
    cloud.fail("aiplatform.*.models.upload", lose_response())
    projected(Registry(1, champion=1))
    assert shown(cloud) == {1: {"champion", "default"}} and calls(cloud, "upload") == 1


def test_a_version_that_came_twice_is_kept_once_the_oldest(cloud, projected):
    projected(Registry(1))
    cloud.models.upload_s = 300  # longer than a lost upload is waited for
    cloud.fail("aiplatform.*.models.upload", lose_response())
    registry = Registry(2, champion=2)
    projected(registry)
    later(cloud, minutes=10)
    projected(registry)
    model = next(iter(cloud.models.models.values()))
    assert shown(cloud) == {1: set(), 2: {"champion", "default"}} and model.last_id == 3
    assert sorted(model.versions) == ["1", "2"]


def test_an_operation_that_fails_is_a_sentence_and_the_next_try_succeeds(cloud, projected):
    cloud.models.failures.append((9, "The image cannot be pulled."))
    with pytest.raises(Refused, match="version 1 of flights was not uploaded: The image cannot be pulled."):
        projected(Registry(1))
    cloud.models.failures.append((8, "Quota exceeded."))  # may pass: tried again
    projected(Registry(1))
    assert shown(cloud) == {1: {"default"}}


def test_an_upload_that_google_refuses_is_sent_once_and_one_over_quota_again(cloud, projected):
    cloud.fail("aiplatform.*.models.upload", status(400, "The image is of another region."))
    with pytest.raises(Refused, match="version 1 of flights was not uploaded: .*The image is of another region."):
        projected(Registry(1))
    assert calls(cloud, "upload") == 1
    cloud.fail("aiplatform.*.models.upload", *[status(429)] * 5)  # more often than a lost one is sent
    assert projected(Registry(1)) == ["version 1 uploaded"]


def test_a_kill_at_every_call_leaves_what_the_next_one_completes(cloud, service, monkeypatch):
    """Each run is cut off before or after its first write; one version is missing, one goes, and the alias moves."""
    registry = Registry(2, champion=1)
    reconcile(registry.read, service, TERMS, clock=CloudClock(cloud))
    registry.register(3)
    registry.promote(3)
    registry.change(changes.delete, 2)
    send, killed = service._send, []

    class Killed(BaseException):
        pass

    def cut_off(method: str, *arguments: Any, **more: Any) -> Any:
        if method == "GET":
            return send(method, *arguments, **more)
        if len(killed) % 2 == 0:
            raise Killed
        send(method, *arguments, **more)
        raise Killed

    monkeypatch.setattr(service, "_send", cut_off)
    while True:
        try:
            reconcile(registry.read, service, TERMS, clock=CloudClock(cloud))
            break
        except Killed:
            killed.append(shown(cloud))
    assert len(killed) == 2 * 4
    assert shown(cloud) == {1: set(), 3: {"champion", "default"}}


def test_a_writer_with_an_older_record_restores_the_newer_one(cloud, service):
    """One is about to move the alias to version 1; meanwhile another run promotes version 2 and is done with it."""
    registry = Registry(2)
    reconcile(registry.read, service, TERMS, clock=CloudClock(cloud))
    registry.promote(1)

    def overtaken(_: Any) -> None:
        if registry.record.aliases["champion"] == 1:
            registry.promote(2)
            reconcile(registry.read, service, TERMS, clock=CloudClock(cloud))

    cloud.on("aiplatform.*.models.mergeVersionAliases", overtaken, before=True)
    reconcile(registry.read, service, TERMS, clock=CloudClock(cloud))
    assert shown(cloud) == {1: set(), 2: {"champion", "default"}}


def test_many_at_once_upload_one_version_each_and_agree_on_the_champion(cloud, monkeypatch):
    """Each registers its own version, promotes it, and projects: as pipelines do that end in the same minute."""
    from threading import Lock

    monkeypatch.setattr(model_registry, "FIRST_S", 0.02)
    lock, registry, count = Lock(), Registry(), 12

    def end(number: int) -> None:
        with lock:
            registry.register(len(registry.record.versions) + 1)
            mine = len(registry.record.versions)
            registry.promote(mine)
        with google_api.session() as session:
            service = ModelService(session, cloud.endpoint("aiplatform"), "test-project", "us-central1")
            reconcile(registry.read, service, TERMS, mine=mine)

    with ThreadPoolExecutor(count) as pool:
        list(pool.map(end, range(count)))
    assert shown(cloud)[count] == {"champion", "default"} and sorted(shown(cloud)) == list(range(1, count + 1))
    assert [number for number, aliases in shown(cloud).items() if aliases] == [count]


def test_what_others_have_just_registered_is_left_to_them_until_it_is_old(cloud, projected):
    registry = Registry(2, champion=1)
    later(cloud, minutes=10)
    assert projected(registry, mine=2) == ["version 2 uploaded"]
    later(cloud, minutes=10)
    assert projected(registry, mine=2) == ["version 1 uploaded", "champion moved to version 1",
                                           "default moved to version 1"]  # fmt: skip


def test_a_model_with_another_owner_is_not_touched(cloud, projected):
    other = Registry()
    other.register(1, model="gs://elsewhere/registry/flights/versions/1")
    projected(other)
    before = calls(cloud, *WRITES)
    with pytest.raises(
        Refused, match=r"has a model flights that does not belong to this registry: its version 1 .*model_name"
    ):
        projected(Registry(1))
    assert calls(cloud, *WRITES) == before


@pytest.mark.parametrize(
    ("changed", "terms", "words"),
    [
        (
            {"model": "/home/x/versions/1"},
            TERMS,
            "is at /home/x/versions/1, and Vertex AI reads models from gs:// only",
        ),
        ({}, Terms(image="us-docker.pkg.dev/p/r/training:v1"), "has no digest, and a tag may change"),
        ({}, Terms(), "has no serving image: no image is set"),
    ],
)
def test_what_cannot_be_served_is_refused_before_anything_is_sent(cloud, projected, changed, terms, words):
    registry = Registry()
    registry.register(1, **changed)
    with pytest.raises(Refused, match=words):
        projected(registry, terms=terms)
    assert calls(cloud, *WRITES) == 0


def test_the_files_of_a_script_are_not_uploaded_which_is_reported(cloud, projected):
    registry = Registry()
    registry.register(1, files={"model.pt": {"bytes": 1, "sha256": "0" * 64}})
    [words] = projected(registry)
    assert "version 1 is not on Vertex AI" in words and shown(cloud) == {}


def test_within_a_step_a_refusal_is_one_sentence_with_the_role(cloud):
    cloud.policies.missing.add("aiplatform.models.upload")
    with pytest.raises(Refused, match=r"not up to date: .*aiplatform.models.upload.*roles/aiplatform.user"):
        model_registry.project(Registry(1).read, project="test-project", region="us-central1", terms=TERMS, mine=1)
    cloud.policies.missing.clear()
    place = {"project": "test-project", "region": "us-central1", "terms": TERMS}
    assert model_registry.project(Registry(1).read, **place) == []  # the step that registers a version uploads it
    assert model_registry.project(Registry(1).read, **place, mine=1) == ["version 1 uploaded"]


def test_googles_own_sdk_reads_the_versions_and_the_champion(cloud, projected, sdk):
    registry = Registry(2, champion=1)
    registry.change(changes.alias, "canary", 2)
    projected(registry)
    models = sdk.models.ModelRegistry(model="flights")
    listed = {each.version_id: set(each.version_aliases) for each in models.list_versions()}
    assert listed == {"1": {"champion", "default"}, "2": {"canary"}}
    champion = models.get_model(version="champion")
    assert champion.version_id == "1" and champion.uri == registry.record.versions[0].model
    assert champion.container_spec.image_uri == IMAGE and champion.labels["registry-number"] == "1"
    assert [each.resource_name.rpartition("/")[2] for each in sdk.Model.list(filter="display_name=flights")] == [
        "flights"
    ]
    assert len(models.list_versions(filter="labels.registry-number=2")) == 1
    assert sdk.Model(model_name="flights@canary").version_id == "2"


def test_environments_of_one_project_have_models_of_their_own(cloud, projected, service):
    """Their registries are two, and Vertex AI has one model of a name in a project and region."""
    prod, dev = Registry(1, champion=1), Registry(2, champion=2)
    assert "/registry/flights" in FOLDER
    dev.read = lambda: json.loads(json.dumps(Registry.read(dev)).replace("/registry/", "/registry-dev/"))
    projected(prod)
    projected(dev)
    assert [len(service.versions(name)) for name in ("flights", "flights-dev")] == [1, 2]
    assert service.versions("flights-dev")[0]["displayName"] == "flights-dev"
    assert differences(dev.read(), service) == differences(prod.read(), service) == []
