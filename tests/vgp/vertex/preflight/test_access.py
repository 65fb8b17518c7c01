"""Whether an account may do what a run needs, by a thing's policy and by that of the project around it. Permissions
read from policies: a direct grant counts, a possible grant is reported."""

import pytest
from google.iam.v1.policy_pb2 import Policy as Message
from hypothesis import given
from hypothesis import strategies as st

from vgp.base.errors import WorkFailed
from vgp.vertex.permissions import ACT_AS, role_for
from vgp.vertex.preflight import access as rules
from vgp.vertex.preflight.access import (
    JOBS,
    Policies,
    Policy,
    Resource,
    find_runner,
    list_granting,
    list_missing,
    list_possible_grants,
    list_service_agents,
)
from vgp.vertex.preflight.account import Project

from .conftest import AGENT, IMAGES, RUNNER

ME = "serviceAccount:me@p.iam.gserviceaccount.com"
PERMISSIONS = [*JOBS, *rules.LOGS, *rules.OBJECTS, *rules.IMAGES, *rules.KEYS, ACT_AS]


def policy(*bindings):
    return Policy.from_json(
        {"bindings": [dict(zip(("role", "members", "condition"), each, strict=False)) for each in bindings]}
    )


@given(st.sets(st.sampled_from(PERMISSIONS), min_size=1))
def test_the_roles_that_are_asked_for_hold_what_is_lacking(permissions):
    asked: set[str] = set()
    while lacks := list_missing(permissions, asked):
        asked.add(str(role_for(lacks[0])))
    assert set(list_granting(permissions, asked)) == asked
    assert not asked & {"roles/owner", "roles/editor", "roles/viewer"}


@pytest.mark.parametrize(
    ("members", "holds"),
    [
        ([ME], True),
        (["user:me@example.com", ME], True),
        (["serviceAccount:other@p.iam.gserviceaccount.com"], False),
        ([f"deleted:{ME}?uid=1"], False),
        ([ME.replace("serviceAccount", "user")], False),
        ([], False),
    ],
)
def test_only_the_account_itself_has_a_role(members, holds):
    assert policy(("roles/aiplatform.user", members)).roles({ME}) == ({"roles/aiplatform.user"} if holds else set())


def test_a_role_under_a_condition_is_a_doubt_and_no_role():
    made = policy(("roles/aiplatform.user", [ME], {"expression": "request.time < timestamp('2027-01-01T00:00:00Z')"}))
    assert made.roles({ME}) == set()
    assert list(list_possible_grants(made, {ME}, JOBS)) == ["roles/aiplatform.user under a condition"]


def test_sets_of_members_are_doubts_where_the_role_matters():
    made = policy(
        ("roles/aiplatform.user", ["group:a@example.com", "principalSet://iam.googleapis.com/x"]),
        ("roles/logging.viewer", ["group:b@example.com"]),
        ("projects/p/roles/mine", ["domain:example.com"]),
    )
    assert set(list_possible_grants(made, {ME}, JOBS)) == {
        "roles/aiplatform.user of group:a@example.com",
        "roles/aiplatform.user of principalSet://iam.googleapis.com/x",
        "projects/p/roles/mine of domain:example.com",
    }


def test_both_forms_of_a_policy_read_alike():
    message = Message()
    message.bindings.add(role="roles/logging.logWriter", members=[ME])
    message.bindings.add(role="roles/editor", members=[ME]).condition.expression = "true"
    json = policy(("roles/logging.logWriter", [ME]), ("roles/editor", [ME], {"expression": "true"}))
    assert Policy.from_message(message) == json


def test_holders_of_basic_roles_are_known_by_the_names_that_buckets_give_them(world):
    from .conftest import RUNNER

    world.cloud.storage.bindings["test-bucket"] = {
        "roles/storage.legacyBucketOwner": ["projectEditor:test-project"],
        "roles/storage.legacyObjectOwner": ["projectEditor:test-project"],
    }
    world.only("bucket.writer", "error")
    world.grant("projects/test-project", "roles/editor", f"serviceAccount:{RUNNER}")
    world.only("identity.least", "warning")


def thing(project="test-project"):
    return Resource("check", "it", project, Policy(), "gcloud grant")


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
            policies.check(RUNNER, JOBS, thing())
    assert world.calls().count("cloudresourcemanager.projects.getIamPolicy") == 1


def test_what_is_in_another_project_is_ruled_by_that_projects_policy(world):
    with pytest.raises(WorkFailed, match="the policy of other-project is not seen"):
        Policies(world.settings()).check(RUNNER, JOBS, thing("other-project"))


def test_the_default_account_of_a_project_without_a_number_is_unknown(world):
    world.own["service_account"] = None
    assert find_runner(world.settings(), Project("test-project")) is None
    assert Policies(world.settings()).check(None, JOBS, thing()).level == "unknown"


def test_the_agents_of_vertex_ai_are_named_by_the_projects_number():
    assert list_service_agents(Project("test-project", "123456789012"))[0] == AGENT
    assert list_service_agents(Project("test-project")) == []
