"""Permissions read from policies: what is granted directly counts, what only might be is told."""

import pytest
from google.iam.v1.policy_pb2 import Policy as Message
from hypothesis import given
from hypothesis import strategies as st

from vgp.vertex.permissions import ACT_AS, role_for
from vgp.vertex.preflight import access as rules
from vgp.vertex.preflight.access import JOBS, Policy, doubts, lacking, used

ME = "serviceAccount:me@p.iam.gserviceaccount.com"
PERMISSIONS = [*JOBS, *rules.LOGS, *rules.OBJECTS, *rules.IMAGES, *rules.KEYS, ACT_AS]


def policy(*bindings):
    return Policy.of_json(
        {"bindings": [dict(zip(("role", "members", "condition"), each, strict=False)) for each in bindings]}
    )


@given(st.sets(st.sampled_from(PERMISSIONS), min_size=1))
def test_the_roles_that_are_asked_for_hold_what_is_lacking(permissions):
    asked: set[str] = set()
    while lacks := lacking(permissions, asked):
        asked.add(str(role_for(lacks[0])))
    assert set(used(permissions, asked)) == asked
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
    assert list(doubts(made, {ME}, JOBS)) == ["roles/aiplatform.user under a condition"]


def test_sets_of_members_are_doubts_where_the_role_matters():
    made = policy(
        ("roles/aiplatform.user", ["group:a@example.com", "principalSet://iam.googleapis.com/x"]),
        ("roles/logging.viewer", ["group:b@example.com"]),
        ("projects/p/roles/mine", ["domain:example.com"]),
    )
    assert set(doubts(made, {ME}, JOBS)) == {
        "roles/aiplatform.user of group:a@example.com",
        "roles/aiplatform.user of principalSet://iam.googleapis.com/x",
        "projects/p/roles/mine of domain:example.com",
    }


def test_both_forms_of_a_policy_read_alike():
    message = Message()
    message.bindings.add(role="roles/logging.logWriter", members=[ME])
    message.bindings.add(role="roles/editor", members=[ME]).condition.expression = "true"
    json = policy(("roles/logging.logWriter", [ME]), ("roles/editor", [ME], {"expression": "true"}))
    assert Policy.of_message(message) == json


def test_holders_of_basic_roles_are_known_by_the_names_that_buckets_give_them(world):
    from .conftest import RUNNER

    world.cloud.storage.bindings["test-bucket"] = {
        "roles/storage.legacyBucketOwner": ["projectEditor:test-project"],
        "roles/storage.legacyObjectOwner": ["projectEditor:test-project"],
    }
    world.only("bucket.writer", "error")
    world.grant("projects/test-project", "roles/editor", f"serviceAccount:{RUNNER}")
    world.only("identity.least", "warning")
