"""The encryption key: there, enabled, of the right kind, and usable by Vertex AI's agent."""

import pytest

from vgp.machines.placement.request_parts import Engines, Job

from .conftest import AGENT, KEY

WHERE = "--keyring ring --location us-central1 --project test-project"


def test_a_key_that_is_not_there_is_an_error(world):
    world.own["encryption_key"] = KEY.replace("cryptoKeys/key", "cryptoKeys/other")
    world.grant(world.own["encryption_key"], "roles/cloudkms.cryptoKeyEncrypterDecrypter", f"serviceAccount:{AGENT}")
    found = [each for each in world.found() if each.level == "error"]
    assert [(each.check, each.hint) for each in found] == [
        ("key.exists", f"gcloud kms keys create other {WHERE} --purpose encryption")
    ]


@pytest.mark.parametrize("state", ["DISABLED", "DESTROYED", "DESTROY_SCHEDULED"])
def test_a_key_that_cannot_be_used_is_an_error(world, state):
    world.cloud.keys.add(KEY, state=state)
    found = world.only("key.exists", "error")
    assert state.lower() in found.seen
    assert found.hint == f"gcloud kms keys versions enable 1 --key key {WHERE}"


def test_a_key_for_signatures_is_an_error(world):
    world.cloud.keys.add(KEY, purpose="ASYMMETRIC_SIGN")
    world.only("key.exists", "error")


def test_a_key_that_vertex_ai_may_not_use_is_an_error(world):
    world.cloud.policies.bindings[KEY] = {"roles/cloudkms.cryptoKeyDecrypter": [f"serviceAccount:{AGENT}"]}
    found = world.only("key.agent", "error")
    assert "cloudkms.cryptoKeyVersions.useToEncrypt" in found.seen and "useToDecrypt" not in found.seen
    assert found.hint == (
        f"gcloud kms keys add-iam-policy-binding key {WHERE} "
        f"--member serviceAccount:{AGENT} --role roles/cloudkms.cryptoKeyEncrypterDecrypter"
    )


def test_a_key_that_may_not_be_seen_is_unknown(world):
    world.cloud.policies.missing.add("cloudkms.cryptoKeys.get")
    assert "roles/cloudkms.viewer" in world.only("key.exists", "unknown").hint


def test_no_key_is_nothing_to_look_at(world):
    world.own["encryption_key"] = None
    assert [each.level for each in world.look() if each.check.startswith("key.")] == ["skipped"]


def test_services_that_do_not_get_the_key_are_named_with_their_agents(world):
    variables = Engines(dataflow=Job(project="test-project", region="us-central1", image="i", max_workers=2))
    env = [{"name": name, "value": value} for name, value in variables.environment().items()]
    world.spec["deploymentSpec"] = {"executors": {"exec": {"container": {"image": "i", "env": env}}}}
    (found,) = (one for one in world.found() if one.check == "key.dataflow" and one.level == "warning")
    assert "@dataflow-service-producer-prod.iam.gserviceaccount.com" in found.hint
    assert "@compute-system.iam.gserviceaccount.com" in found.hint and "PROJECT_NUMBER" not in found.hint
    assert not [one for one in world.look() if one.check == "key.bigquery"]
