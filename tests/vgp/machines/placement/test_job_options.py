"""What a custom job may have besides its machines: every published field has a key, or a reason."""

import pytest
from google.cloud.aiplatform_v1.types import CustomJobSpec
from pydantic import ValidationError

from vgp.machines.placement.job_fields import PUBLISHED as FIELDS
from vgp.machines.placement.job_fields import explain_field
from vgp.machines.placement.job_options import JobOptions
from vgp.machines.placement.machine_rules import PlacementError
from vgp.machines.placement.placing import place
from vgp.machines.placement.step_request import Request

BOARD = "projects/my-project/locations/us-central1/tensorboards/123"
ATTACHMENT = "projects/my-project/regions/us-central1/networkAttachments/training"
PEERING = {"domain": "corp.", "project": "my-project", "network": "training"}
ALL = {
    "persistent_resource": "mine",
    "tensorboard": BOARD,
    "base_output_directory": "gs://bucket/logs",
    "web_access": True,
    "dashboard_access": True,
    "private_service_connect": {
        "network_attachment": ATTACHMENT,
        "dns_peering": [PEERING, PEERING | {"domain": "lab."}],
    },
    "reserved_ip_ranges": ["range", "other"],
    "nfs": [{"server": "10.0.0.1", "path": "/data", "mount": name} for name in ("data", "more")],
    "lustre": [
        {"instance_ip": "10.0.0.2", "volume_handle": "v", "filesystem": "f", "mount": name} for name in ("l", "m")
    ],
    "restart_job_on_worker_restart": True,
    "protected_artifact_location_id": "europe-west4",
}


def published(message, way=()):
    """The way to every field of a message that is no message of Google's itself."""
    for field in message.fields:
        inner = field.message_type
        if inner is not None and inner.full_name.startswith("google.cloud.aiplatform"):
            yield from published(inner, (*way, field.name))
        else:
            yield ".".join((*way, field.name))


def leaves(value, way=()):
    if isinstance(value, dict):
        for key, inner in value.items():
            yield from leaves(inner, (*way, key))
    elif isinstance(value, list) and value and isinstance(value[0], dict):
        for inner in value:
            yield from leaves(inner, way)
    else:
        yield ".".join(way)


def test_every_published_field_has_a_key_or_a_reason_and_every_key_is_there():
    assert list(published(CustomJobSpec.pb().DESCRIPTOR)) == list(FIELDS)
    keys = {key for known in FIELDS.values() for key in known.keys}
    assert keys <= set(Request.model_fields)
    assert set(JobOptions.model_fields) <= keys
    for known in FIELDS.values():
        assert sum(map(bool, (known.keys, known.by_itself, known.refused))) == 1


def test_what_is_set_is_in_the_fields_that_the_table_names():
    step = {"machine": "g2-standard-24", "nodes": 2, "env": {"A": "1"}, "reservation": "any"}
    without = {key: value for key, value in ALL.items() if key != "persistent_resource"}
    flexible = {"machine": "g2-standard-24", "strategy": "flex_start", "max_wait": "1h", "disable_retries": True}
    got: set[str] = set()
    for asked in ({**step, **without}, {"persistent_resource": "mine"}, flexible):
        placement = place(Request(**asked))
        pools = placement.worker_pool_specs("image", ["python"], ["train.py"])
        got |= set(leaves({"worker_pool_specs": pools, **placement.job_fields()}))
        for way in leaves({"worker_pool_specs": pools, **placement.job_fields()}):
            assert FIELDS[way].keys, way
    reservation = "worker_pool_specs.machine_spec.reservation_affinity"
    named = {f"{reservation}.key", f"{reservation}.values"}  # of one reservation, not of any
    assert got | named == {way for way, known in FIELDS.items() if known.keys}


def test_a_job_that_asks_for_nothing_has_scheduling_alone():
    assert place(Request()).job_fields() == {"scheduling": {"strategy": "STANDARD", "timeout": "86400s"}}


def test_values_are_in_their_fields_as_they_were_given():
    share = {"server": "s", "path": "/data", "mount": "data"}
    files = {"instance_ip": "i", "volume_handle": "v", "filesystem": "f", "mount": "l"}
    placement = place(
        Request(
            base_output_directory="gs://bucket/logs/", private_service_connect={"network_attachment": ATTACHMENT},
            disable_retries=True, nfs=[share], lustre=[files],
        )
    )  # fmt: skip
    assert placement.job_fields() == {
        "scheduling": {"strategy": "STANDARD", "timeout": "86400s", "disable_retries": True},
        "base_output_directory": {"output_uri_prefix": "gs://bucket/logs"},
        "psc_interface_config": {"network_attachment": ATTACHMENT},
    }
    (pool,) = placement.worker_pool_specs("image", ["python"], ["train.py"])
    assert pool["nfs_mounts"] == [{"server": "s", "path": "/data", "mount_point": "data"}]
    assert pool["lustre_mounts"] == [{"instance_ip": "i", "volume_handle": "v", "filesystem": "f", "mount_point": "l"}]


def test_an_empty_text_takes_away_what_a_weaker_place_set():
    texts = ("persistent_resource", "tensorboard", "base_output_directory", "protected_artifact_location_id")
    assert place(Request(**dict.fromkeys(texts, ""))).job_fields() == place(Request()).job_fields()


def test_curves_go_into_a_folder_of_each_run_unless_one_is_named():
    directory = place(Request(tensorboard=BOARD)).job_fields()["base_output_directory"]["output_uri_prefix"]
    assert directory == "{{$.pipeline_root}}/tensorboard/{{$.pipeline_job_name}}"


@pytest.mark.parametrize(
    ("asked", "words"),
    [
        ({"restart_job_on_worker_restart": True, "disable_retries": True}, "restart_job_on_worker_restart and disable"),
        ({"tensorboard": "board"}, "tensorboards/NUMBER"),
        ({"persistent_resource": "Mine"}, "not an id of a persistent resource"),
        ({"private_service_connect": {"network_attachment": "training"}}, "networkAttachments/NAME"),
        ({"base_output_directory": "/tmp/logs"}, "gs://BUCKET"),
        ({"nfs": [{"server": "a", "path": "data", "mount": "x"}]}, "starts with /"),
        ({"nfs": [{"server": "a", "path": "/data", "mount": "../x"}]}, "not a mount folder"),
        ({"nfs": [{"server": "a", "path": "/data", "mount": "/mnt/x"}]}, "not a mount folder"),
        (
            {
                "private_service_connect": {
                    "network_attachment": ATTACHMENT,
                    "dns_peering": [PEERING | {"domain": "corp"}],
                }
            },
            "no domain that can be peered",
        ),
        (
            {
                "private_service_connect": {
                    "network_attachment": ATTACHMENT,
                    "dns_peering": [PEERING | {"network": "N"}],
                }
            },
            "'N' is not a valid name",
        ),
        ({"reserved_ip_ranges": ["a b"]}, "'a b' is not a valid name"),
        ({"protected_artifact_location_id": "EU"}, "is not a region"),
    ],
)
def test_a_value_that_cannot_be_is_refused_with_the_rule(asked, words):
    with pytest.raises(ValidationError, match=words):
        Request(**asked)


@pytest.mark.parametrize(
    ("asked", "words"),
    [
        (
            {"tensorboard": BOARD, "region": "europe-west4"},
            "tensorboard is in us-central1, but the job is in europe-west4",
        ),
        (
            {"private_service_connect": {"network_attachment": ATTACHMENT}, "region": "europe-west4"},
            "is in us-central1",
        ),
        ({"persistent_resource": "mine", "strategy": "spot"}, "persistent_resource and strategy exclude each other"),
        ({"persistent_resource": "mine", "reservation": "any"}, "persistent_resource and reservation exclude"),
        ({"protected_artifact_location_id": "us-central1"}, "another region than the job's"),
    ],
)
def test_what_the_job_next_to_it_forbids_is_refused_with_both_names(asked, words):
    with pytest.raises(PlacementError, match=words):
        place(Request(machine="g2-standard-4", **asked))


def test_a_plain_step_takes_none_of_them():
    with pytest.raises(PlacementError, match="web_access is not possible for a plain step"):
        place(Request(web_access=True), kind="step")
    assert place(Request(web_access=True, boot_disk_gb=200), kind="step").options.web_access


def test_googles_names_get_our_names_or_a_reason():
    assert "web_access" in explain_field("enableWebAccess")
    assert "listed twice" in explain_field("experiment_run")
    assert explain_field("service_account").startswith("service_account cannot be set for a step: jobs of a run have")
    assert explain_field("wab_access") == ""
