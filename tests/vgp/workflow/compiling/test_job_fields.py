"""The options of a job are in what Google's launcher sends, whether its wrapper has an argument for them or not."""

import json
import re

import pytest
from google.cloud.aiplatform_v1.types import CustomJob
from google.protobuf import json_format

from tests.vgp.workflow.compiling.test_vertex import IMAGE, compiled
from vgp.machines.placement.machine_rules import PlacementError
from vgp.machines.placement.step_request import Request
from vgp.settings import Settings
from vgp.workflow.compiling.vertex import Vertex

ACCOUNT = "runner@my-project.iam.gserviceaccount.com"
BOARD = "projects/my-project/locations/us-central1/tensorboards/123"
CONNECT = {"network_attachment": "projects/my-project/regions/us-central1/networkAttachments/training"}


def sent(asked, folder):
    """The CustomJob that the launcher sends, read as strictly as Google does; texts of the run stay as they are."""
    spec = compiled(asked, "job", folder)
    inputs = spec["components"]["comp-work"]["inputDefinitions"]["parameters"]
    args = spec["deploymentSpec"]["executors"]["exec-work"]["container"]["args"]

    def value(match):
        declared = inputs[match[2]]
        kinds = {"STRUCT": {}, "LIST": []}
        given = declared.get("defaultValue", kinds.get(declared["parameterType"], ""))
        return match[1] + given + '"' if match[1] else json.dumps(given)

    payload = re.sub(r"(\")?\{\{\$\.inputs\.parameters\['(\w+)'\]\}\}(?(1)\")", value, args[3])
    job = json.loads(payload)
    del job["job_spec"]["scheduling"]["max_wait_duration"]  # as the launcher does without Flex-start
    message = CustomJob()
    json_format.ParseDict(job, CustomJob.pb(message))
    return message.job_spec


def test_a_job_has_what_the_wrapper_has_no_argument_for(tmp_path):
    asked = {"dashboard_access": True, "disable_retries": True, "protected_artifact_location_id": "europe-west4"}
    spec = sent(asked, tmp_path)
    assert spec.enable_dashboard_access and spec.scheduling.disable_retries
    assert spec.protected_artifact_location_id == "europe-west4" and spec.worker_pool_specs[0].replica_count == 1


def test_a_job_has_what_the_wrapper_takes(tmp_path):
    share = {"server": "10.0.0.1", "path": "/data", "mount": "data"}
    asked = {
        "persistent_resource": "mine", "web_access": True, "private_service_connect": CONNECT, "nfs": [share],
        "restart_job_on_worker_restart": True, "base_output_directory": "gs://bucket/out/", "timeout": "2h",
    }  # fmt: skip
    spec = sent(asked, tmp_path)
    assert spec.persistent_resource_id == "mine" and spec.enable_web_access
    assert spec.scheduling.restart_job_on_worker_restart and spec.scheduling.timeout.total_seconds() == 7200
    assert spec.psc_interface_config.network_attachment == CONNECT["network_attachment"]
    assert spec.network == ""  # else the run's would be there, and Google takes one of the two
    assert spec.base_output_directory.output_uri_prefix == "gs://bucket/out"
    assert spec.worker_pool_specs[0].nfs_mounts[0].mount_point == "data"


@pytest.mark.parametrize(
    ("asked", "given", "words"),
    [
        ({"tensorboard": BOARD}, {}, "tensorboard needs service_account"),
        ({"private_service_connect": CONNECT}, {"network": "projects/1/global/networks/n"}, "and network exclude"),
        ({"reserved_ip_ranges": ["r"]}, {}, "reserved_ip_ranges needs network"),
        ({"nfs": [{"server": "s", "path": "/d", "mount": "d"}]}, {}, "nfs needs network or private_service_connect"),
    ],
)
def test_what_the_settings_of_the_run_forbid_is_refused_with_both_names(asked, given, words):
    target = Vertex(Settings(image=IMAGE, steps={"work": Request(**asked)}, **given))
    with pytest.raises(PlacementError, match=words):
        target._place("work", kind="custom_job")


NETWORK = {"network": "projects/1/global/networks/n"}
NFS = {"nfs": [{"server": "s", "path": "/d", "mount": "d"}]}


@pytest.mark.parametrize(
    ("asked", "given"),
    [
        ({"web_access": True}, NETWORK),
        ({"private_service_connect": CONNECT}, {}),
        ({"reserved_ip_ranges": ["r"]}, NETWORK),
        (NFS, NETWORK),
        (NFS | {"private_service_connect": CONNECT}, {}),
    ],
)
def test_what_the_settings_of_the_run_allow_is_taken(asked, given):
    target = Vertex(Settings(image=IMAGE, steps={"work": Request(**asked)}, **given))
    assert set(target._place("work", kind="custom_job").options.list_set_keys()) == set(asked)


def test_a_tensorboard_is_taken_with_the_account_of_the_run():
    settings = Settings(image=IMAGE, service_account=ACCOUNT, steps={"work": Request(tensorboard=BOARD)})
    assert Vertex(settings)._place("work", kind="custom_job").options.tensorboard == BOARD
