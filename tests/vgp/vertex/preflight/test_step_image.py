"""The image: there, by digest, near, and readable by those who pull it."""

import pytest

from vgp.vertex.preflight.step_image import parse_image

from .conftest import AGENT, DIGEST, IMAGE, IMAGES, RUNNER


def test_an_image_that_is_not_there_is_an_error(world):
    world.own["image"] = f"{IMAGE}@sha256:{'f' * 64}"
    assert world.only("image.exists", "error").hint == "Build it: vgp image build"


def test_a_light_image_that_is_not_there_is_an_error(world):
    world.own["light_image"] = f"{IMAGE}@sha256:{'f' * 64}"
    assert world.only("image.exists", "error").hint == "Build it: vgp image build"


def test_a_tag_is_a_warning_with_the_digest_to_write(world):
    world.own["image"] = f"{IMAGE}:v1"
    found = world.only("image.digest", "warning")
    assert found.hint == f'In pipelines.toml: image = "{IMAGE}@{DIGEST}"'


def test_a_tag_that_is_not_there_is_an_error(world):
    world.own["image"] = f"{IMAGE}:v2"
    world.only("image.exists", "error")


def test_an_image_elsewhere_was_not_looked_at(world):
    world.own["image"] = "docker.io/pytorch/pytorch:2.9.0"
    assert "not looked at" in world.only("image.exists", "unknown").seen


@pytest.mark.parametrize(("location", "fine"), [("us", True), ("europe", False), ("europe-west4", False)])
def test_an_image_far_away_is_a_warning(world, location, fine):
    world.own["image"] = f"{location}-docker.pkg.dev/test-project/images/training@{DIGEST}"
    parent = f"projects/test-project/locations/{location}/repositories/images"
    world.cloud.artifacts.add_repository(parent, "DOCKER")
    world.cloud.artifacts.add_image(world.own["image"])
    world.grant(parent, "roles/artifactregistry.reader", f"serviceAccount:{RUNNER}")
    if fine:
        assert world.found() == []
    else:
        assert "us-central1-docker.pkg.dev" in world.only("image.region", "warning").hint


def test_a_runner_that_may_not_read_the_image_is_an_error(world):
    world.cloud.policies.bindings[IMAGES] = {}
    assert world.only("image.reader", "error").hint == (
        "gcloud artifacts repositories add-iam-policy-binding images --project test-project --location us-central1 "
        f"--member serviceAccount:{RUNNER} --role roles/artifactregistry.reader"
    )


def test_an_image_that_may_not_be_seen_is_unknown(world):
    world.forbid("artifactregistry.*.dockerImages.get", "artifactregistry.dockerimages.get")
    assert "roles/artifactregistry.reader" in world.only("image.exists", "unknown").hint


def test_in_another_project_the_agents_of_vertex_ai_are_asked_about_too(world):
    from vgp.vertex.preflight import step_image
    from vgp.vertex.preflight.access import Policies
    from vgp.vertex.preflight.account import Project
    from vgp.vertex.preflight.preflight_questions import answer_questions

    # The loopback cloud has one project: seen from another one, its repository is a stranger's.
    settings = world.settings()
    known = Project("other-project", "42")
    questions = [
        each for each in step_image.list_questions(settings, known, Policies(settings)) if each.check == "image.reader"
    ]
    found = answer_questions(settings, questions)
    assert [(each.level, each.hint.partition("--member ")[2].partition(" ")[0]) for each in found] == [
        ("ok", ""),
        ("error", f"serviceAccount:{AGENT.replace('123456789012', '42')}"),
        ("error", f"serviceAccount:{AGENT.replace('123456789012', '42').replace('aiplatform.', 'aiplatform-cc.')}"),
    ]


def test_names_of_artifact_registry_are_taken_apart():
    found = parse_image(f"europe-west4-docker.pkg.dev/p-1/repo/team/train:v1@{DIGEST}")
    assert (found.location, found.project, found.repository, found.path) == (
        "europe-west4",
        "p-1",
        "repo",
        "team/train",
    )
    assert (found.tag, found.digest) == ("v1", DIGEST)
    assert parse_image("gcr.io/p/train:v1") is None


def test_the_image_of_a_single_step_is_looked_at_too(world, monkeypatch):
    from vgp.vertex.preflight import step_image
    from vgp.vertex.preflight.access import Policies
    from vgp.vertex.preflight.account import Project

    own = "us-central1-docker.pkg.dev/other-project/images/mine:1"
    monkeypatch.setenv("PIPELINES_STEPS__TRAIN__IMAGE", own)
    settings, known = world.settings(), Project("test-project", "123456789012")
    subjects = [question.subject for question in step_image.list_questions(settings, known, Policies(settings))]
    assert subjects == [settings.image] * 3 + [own] * 3
