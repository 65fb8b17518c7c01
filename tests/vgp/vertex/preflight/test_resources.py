"""What training jobs name besides their machines is there, in the region of each rung."""

import json
import warnings

import pytest

from components import step
from vgp.base.errors import WorkFailed
from vgp.check.check_finding import StepRow
from vgp.machines.placement.step_request import Request
from vgp.settings import Settings
from vgp.vertex.preflight import require_basics, require_persistent_resource
from vgp.workflow.compiling.vertex import Vertex

from .conftest import STEPS

BOARD = "projects/test-project/locations/us-central1/tensorboards/12"
ATTACHMENT = "projects/test-project/regions/us-central1/networkAttachments/lab"
CONNECT = {"private_service_connect": {"network_attachment": ATTACHMENT}}
LADDER = {"capacity": [{}, {"persistent_resource": "lab", "regions": ["europe-west4"]}]}


@step
def train(x: int):
    print(x)


@pytest.fixture
def asks(world, tmp_path):
    """Gives the project a pipeline whose training step asks for that."""
    from kfp import compiler, dsl

    def compiled(**asked):
        request = Request(machine="g2-standard-4", timeout="6h", **asked)
        given = {"image": "us-docker.pkg.dev/p/r/training:1", "service_account": "a@b.iam.gserviceaccount.com"}
        ready = Vertex(Settings(**given, steps={"train": request})).job(train)

        @dsl.pipeline(name="one")
        def one(x: int = 1):
            ready(x=x)

        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            compiler.Compiler().compile(one, str(tmp_path / "p.json"))
        world.spec, world.steps = json.loads((tmp_path / "p.json").read_text()), []
        return world

    return compiled


@pytest.mark.parametrize("ladder", [{}, {"capacity": [{}]}])
def test_what_a_job_names_and_is_not_there_is_an_error(asks, ladder):
    board = asks(tensorboard=BOARD, **ladder).only("tensorboard.exists", "error")
    assert (board.subject, board.seen) == (BOARD, "is not there")
    assert board.hint == "Those there: gcloud ai tensorboards list --project=test-project --region=us-central1"
    attachment = asks(**CONNECT, **ladder).only("attachment.exists", "error")
    assert (attachment.subject, attachment.seen) == (ATTACHMENT, "is not there")
    assert attachment.hint == "Those there: gcloud compute network-attachments list --project=test-project"


def test_a_persistent_resource_is_looked_for_in_the_region_of_its_rung(asks):
    world = asks(**LADDER)
    found = world.only("persistent.running", "error")
    assert found.subject == "projects/test-project/locations/europe-west4/persistentResources/lab"
    assert found.hint.startswith("Those there: gcloud ai persistent-resources list --project=test-project --region=eu")
    world.cloud.persistent_resources.add("lab", "europe-west4", state=3)  # RUNNING
    assert world.found() == []
    world.cloud.persistent_resources.add("lab", "europe-west4", state=5)  # ERROR
    assert world.only("persistent.running", "error").seen == "is error: no job starts on it"
    world = asks(persistent_resource="own")
    subject = "projects/test-project/locations/us-central1/persistentResources/own"
    assert world.only("persistent.running", "error").subject == subject


@pytest.mark.parametrize("ladder", [{}, {"capacity": [{}, {"strategy": "spot"}]}])
def test_what_is_there_is_fine_and_asked_for_once(asks, ladder):
    world = asks(tensorboard=BOARD, **CONNECT, **ladder)
    world.cloud.tensorboards.add("12")
    world.cloud.zones.attachments.add(("us-central1", "lab"))
    assert world.found() == []
    assert sum("tensorboards" in call or "networkAttachments" in call for call in world.calls()) == 2


def test_what_may_not_be_seen_is_unknown_with_the_role(asks):
    world = asks(tensorboard=BOARD)
    world.forbid("aiplatform.projects.locations.tensorboards.get", "aiplatform.tensorboards.get")
    assert "roles/aiplatform.user" in world.only("tensorboard.exists", "unknown").hint


def test_a_pipeline_that_names_none_asks_for_none(asks):
    world = asks()
    assert world.found() == []
    assert not any("persistent" in call or "tensorboards" in call for call in world.calls())


def machines(kind, gpu=None, count=0, replicas=1, **more):
    spec = {"machineType": kind, **({"acceleratorType": gpu, "acceleratorCount": count} if gpu else {})}
    return {"machineSpec": spec, "replicaCount": replicas, **more}


@pytest.fixture
def box(world):
    """A project whose runs use the persistent resource dev-box; returns a function that gives it pools."""
    world.own["persistent_resource"] = "dev-box"
    job = StepRow("train", "g2-standard-24", "NVIDIA_L4", 2, 2, "STANDARD", 2.3, "us-central1",
                  launcher_region="us-central1")  # fmt: skip
    world.steps = (STEPS[0], job)
    runtime = {"serviceAccountSpec": {"enableCustomServiceAccount": True}}

    def fill(*pools, state=3, **fields):
        given = {"resourceRuntimeSpec": runtime, **fields}
        world.cloud.persistent_resources.add("dev-box", state=state, resourcePools=pools, **given)
        return world

    return fill


BOX = "projects/test-project/locations/us-central1/persistentResources/dev-box"
L4S = ("g2-standard-24", "NVIDIA_L4", 2)


def test_a_resource_with_the_machines_of_the_steps_is_fine(box):
    assert box(machines(*L4S, replicas=2)).found() == []
    scaling = {"autoscalingSpec": {"minReplicaCount": 1, "maxReplicaCount": 2}}
    assert box(machines(*L4S, **scaling)).found() == []


@pytest.mark.parametrize(
    ("pool", "has"),
    [
        (machines(*L4S), "1 x g2-standard-24 (2 x NVIDIA_L4)"),
        (machines("g2-standard-48", "NVIDIA_L4", 4, 2), "2 x g2-standard-48 (4 x NVIDIA_L4)"),
        (machines("a2-highgpu-1g", "NVIDIA_TESLA_A100", 1, 2), "2 x a2-highgpu-1g (1 x NVIDIA_TESLA_A100)"),
    ],
)
def test_a_training_job_needs_a_pool_with_its_machine_and_as_many(box, pool, has):
    wrong = box(pool).only("persistent.machines", "error")
    assert (wrong.subject, wrong.seen) == ("train", f"needs 2 x g2-standard-24 (2 x NVIDIA_L4); dev-box has {has}")


@pytest.mark.parametrize(
    ("step", "pool", "fits"),
    [
        (STEPS[0], machines("n1-highcpu-16"), False),  # 14.4 of 16 GB
        (STEPS[0], machines("n1-standard-8", "NVIDIA_TESLA_T4", 1), True),
        (STEPS[2], machines("n1-standard-8"), False),
        (STEPS[2], machines("n1-standard-16", "NVIDIA_TESLA_T4", 2), True),
    ],
)
def test_a_step_without_room_only_waits(box, step, pool, fits):
    world = box(pool)
    world.steps = [step]
    if fits:
        assert world.found() == []
    else:
        wrong = world.only("persistent.machines", "warning")
        assert wrong.subject == step.step and wrong.seen.endswith(
            f"dev-box has 1 x {pool['machineSpec']['machineType']}"
        )


def test_a_resource_that_refuses_the_account_of_a_run_is_an_error(box):
    wrong = box(machines(*L4S, replicas=2), resourceRuntimeSpec={}).only("persistent.account", "error")
    assert wrong.subject == BOX and "--enable-custom-service-account" in wrong.hint


@pytest.mark.parametrize("state", [None, 1, 5])
def test_nothing_is_submitted_to_a_resource_that_is_gone_or_does_not_run(box, world, state):
    if state:
        box(machines(*L4S, replicas=2), state=state)
    seen = {None: "is not there", 1: "is provisioning", 5: "is error"}[state]
    for refuse in (require_basics, require_persistent_resource):
        with pytest.raises(WorkFailed, match=f"{BOX} {seen}"):
            refuse(world.settings())
    box(machines(*L4S, replicas=2))
    require_basics(world.settings())
