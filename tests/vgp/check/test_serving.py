"""What is said of the machines of predictions, to the edge of each condition."""

import pytest

from tests.vgp.check.test_check_requests import deployed, machine
from vgp.base.documents.document import Document
from vgp.base.documents.node import Computed
from vgp.check.checker import check

RUN = Computed("the program computes it")
H100 = machine("a3-highgpu-1g", "NVIDIA_H100_80GB")


def judged(body, **options):
    return check([Document("model.py", body, "")], **options)


def find(body, **options):
    return [(each.rule, each.message) for each in judged(body, **options).findings]


@pytest.mark.parametrize(
    ("counts", "most"),
    [({}, 1), ({"minReplicaCount": 3}, 3), ({"startingReplicaCount": 2}, 2), ({"maxReplicaCount": 4}, 4),
     ({"minReplicaCount": 4, "maxReplicaCount": 4}, 4), ({"minReplicaCount": 0, "maxReplicaCount": 0}, 1),
     ({"maxReplicaCount": RUN}, None), ({"minReplicaCount": RUN, "maxReplicaCount": 4}, None)],
)  # fmt: skip
def test_the_most_replicas_are_counted_and_unset_ones_are_one(counts, most):
    report = judged(deployed(**counts))
    assert [row.replicas for row in report.steps] == [most] and not report.of_severity("error")


@pytest.mark.parametrize("first", ["minReplicaCount", "startingReplicaCount"])
def test_fewer_replicas_at_most_than_at_first_are_refused(first):
    report = judged(deployed(**{first: 5, "maxReplicaCount": 4}))
    [found] = report.findings
    assert found.rule == "GPU007" and "maxReplicaCount is 4, below the 5" in found.message
    assert found.path[-1] == "maxReplicaCount" and [row.replicas for row in report.steps] == [5]


@pytest.mark.parametrize(
    "resources", [{"spot": RUN}, {"flexStart": RUN}, {"machineSpec": {**H100, "reservationAffinity": RUN}},
                  {"machineSpec": {**H100, "reservationAffinity": {"reservationAffinityType": RUN}}}],
)  # fmt: skip
def test_a_machine_is_not_refused_on_demand_where_only_the_run_knows_how_it_is_got(resources):
    body = {"deployedModel": {"dedicatedResources": {"machineSpec": H100, **resources}}}
    report = judged(body)
    assert not {"GPU009", "GPU025"} & {each.rule for each in report.findings}
    assert [row.strategy for row in report.steps] == ["STANDARD"]
    assert ("GPU009", "a3-highgpu-1g is not offered on demand.") in find(deployed(H100))


def test_a_machine_offered_as_spot_only_proposes_spot():
    [spot] = [each for each in judged(deployed(H100)).findings if each.rule == "GPU009"]
    assert "Set spot in dedicatedResources, or choose another size." in str(spot)
    assert spot.severity == "warning" and spot.path[-1] == "machineType"


@pytest.mark.parametrize("there", [{"location": "europe-north1"}, {"parent": "projects/p/locations/europe-north1"}])
def test_predictions_are_judged_in_their_region_which_is_reported_at_its_field(there):
    body = {**deployed(), **there}
    [found] = [each for each in judged(body, regions=["us-central1"]).findings if each.rule == "GPU010"]
    assert found.path == tuple(there) and judged(body).steps[0].region == "europe-north1"
    [found] = [each for each in judged(deployed(), regions=["europe-north1"]).findings if each.rule == "GPU010"]
    assert found.path[-1] == "machineType" and judged(deployed(), regions=["us-east4"]).steps[0].region == "us-east4"


@pytest.mark.parametrize(("zone", "wrong"), [("us-central1-a", False), ("us-east4-a", True)])
@pytest.mark.parametrize("there", [{"location": "us-central1"}, {}])
def test_a_reservation_of_predictions_is_in_their_region(zone, wrong, there):
    affinity = {
        "reservationAffinityType": "SPECIFIC_RESERVATION", "key": "compute.googleapis.com/reservation-name",
        "values": [f"projects/p/zones/{zone}/reservations/r"],
    }  # fmt: skip
    body = {**deployed({**machine(), "reservationAffinity": affinity}), **there}
    found = find(body, regions=["us-east4" if there else "us-central1"])
    assert [rule for rule, _ in found] == ["GPU013"] * wrong


@pytest.mark.parametrize("spec", [{}, {"machineType": ""}, {"machineType": None, "acceleratorCount": 0}, None])
def test_a_machine_of_which_nothing_is_named_is_google_s_choice(spec):
    report = judged({"deployedModel": {"dedicatedResources": {"machineSpec": spec}}})
    assert not report.findings and not report.steps


@pytest.mark.parametrize("spec", [{"machineType": RUN}, {"acceleratorType": RUN}, {"acceleratorCount": 1}])
def test_a_machine_of_which_a_part_is_named_is_judged(spec):
    assert judged({"deployedModel": {"dedicatedResources": {"machineSpec": spec}}}).findings


def test_unknown_keys_of_a_machine_for_predictions_are_reported():
    [(rule, text)] = find(deployed({**machine(), "gpus": 1}))
    assert rule == "GPU025" and "'gpus'" in text


@pytest.mark.parametrize("resources", [{"machineType": "n1-standard-4", "minReplicaCount": 1}, {"minReplicaCount": 1}])
def test_resources_without_a_machine_spec_are_named(resources):
    for body in ({"dedicatedResources": resources}, {"deployedModel": {"dedicatedResources": resources}}):
        assert "GPU025" in {each.rule for each in judged(body).of_severity("error")}
    assert not judged({"deployedModel": {"dedicatedResources": {}}}).findings
