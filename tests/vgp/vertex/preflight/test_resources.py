"""What training jobs name besides their machines is there, in the region of each rung."""

import json
import warnings

import pytest

from components import step
from vgp.machines.placement.step_request import Request
from vgp.settings import Settings
from vgp.workflow.compiling.vertex import Vertex

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
