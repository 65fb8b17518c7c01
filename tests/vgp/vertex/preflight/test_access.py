"""Whether an account may do what a run needs, by a thing's policy and by that of the project around it."""

import pytest

from vgp.base.errors import WorkFailed
from vgp.vertex.preflight.access import JOBS, Policies, Policy, Thing, agents, runner
from vgp.vertex.preflight.account import Project

from .conftest import AGENT, IMAGES, RUNNER


def thing(project="test-project"):
    return Thing("check", "it", project, Policy(), "gcloud grant")


def test_the_projects_policy_is_read_once_however_many_ask(world):
    world.cloud.storage.bindings["test-bucket"] = {}
    world.cloud.policies.bindings[IMAGES] = {}
    assert {each.check for each in world.found()} == {"bucket.writer", "image.reader"}
    assert world.calls().count("cloudresourcemanager.projects.getIamPolicy") == 1


def test_a_policy_that_cannot_be_read_is_not_asked_for_again(world):
    world.forbid("cloudresourcemanager.projects.getIamPolicy", "resourcemanager.projects.getIamPolicy")
    policies = Policies(world.settings())
    for _ in range(2):
        with pytest.raises(WorkFailed, match="the policy of test-project is not seen"):
            policies.may(RUNNER, JOBS, thing())
    assert world.calls().count("cloudresourcemanager.projects.getIamPolicy") == 1


def test_what_is_in_another_project_is_ruled_by_that_projects_policy(world):
    with pytest.raises(WorkFailed, match="the policy of other-project is not seen"):
        Policies(world.settings()).may(RUNNER, JOBS, thing("other-project"))


def test_nobody_knows_the_default_account_of_a_project_without_a_number(world):
    world.own["service_account"] = None
    assert runner(world.settings(), Project("test-project")) is None
    assert Policies(world.settings()).may(None, JOBS, thing()).level == "unknown"


def test_the_agents_of_vertex_ai_are_named_by_the_projects_number():
    assert agents(Project("test-project", "123456789012"))[0] == AGENT
    assert agents(Project("test-project")) == []
