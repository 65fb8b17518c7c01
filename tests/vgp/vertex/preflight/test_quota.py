"""Quota against the request, through the Cloud Quotas API."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from vgp.check.check_finding import RungRow
from vgp.vertex.preflight.quota import limit

from .conftest import CPUS, L4, STEPS, chain


def test_a_step_that_needs_more_than_the_limit_cannot_start(world):
    world.quota(L4, 1, region="us-central1")
    found = world.only("quota.limit", "error")
    assert found.subject == f"{L4} in us-central1"
    assert found.seen == "train needs 2 GPUs; the limit is 1: train cannot start"
    assert "https://console.cloud.google.com/iam-admin/quotas?project=test-project" in found.hint
    assert (
        "gcloud beta quotas preferences create --service=aiplatform.googleapis.com --project=test-project "
        "--quota-id=CustomModelTrainingL4GPUsPerProjectPerRegion --preferred-value=2 --dimensions=region=us-central1"
    ) in found.hint


def test_a_ladder_can_start_as_long_as_one_of_its_rungs_can(world):
    spot = replace(STEPS[1], strategy="SPOT")
    rungs = (RungRow("1 (spot, us-central1)", (spot,), 3600), RungRow("2 (standard, us-central1)", (STEPS[1],), 3600))
    world.steps = [replace(STEPS[0], step="train", rungs=rungs)]
    world.quota("custom_model_training_preemptible_nvidia_l4_gpus", 1, region="us-central1")
    found = world.only("quota.limit", "warning")
    assert found.seen == (
        "train needs 2 GPUs; the limit is 1: train cannot start on rung 1 (spot, us-central1), but on another"
    )
    world.quota(L4, 1, region="us-central1")
    assert [(each.check, each.level) for each in world.found()] == [("quota.limit", "error")] * 2
    world.quota(L4, 8, region="us-central1")
    world.quota(CPUS, 1, region="us-central1")
    assert {each.level for each in world.found()} == {"error"}


def test_steps_that_may_overlap_are_added_up(world):
    world.steps = [replace(STEPS[1], step=name) for name in ("one", "two", "three")]
    world.spec = chain("one", "two", "three")
    world.quota(L4, 3, region="us-central1")
    assert world.found() == []
    world.spec["root"]["dag"]["tasks"]["three"]["dependentTasks"] = ["one"]
    found = world.only("quota.limit", "warning")
    assert found.seen == "three and two together need 4 GPUs; the limit is 3: one will wait for the other"
    assert "--preferred-value=4" in found.hint


def test_spot_machines_draw_on_a_quota_of_their_own(world):
    world.steps = [replace(row, strategy="SPOT") if row.step == "train" else row for row in STEPS]
    found = world.only("quota.limit", "unknown")
    assert found.subject == "custom_model_training_preemptible_nvidia_l4_gpus in us-central1"
    world.quota("custom_model_training_preemptible_nvidia_l4_gpus", 2, region="us-central1")
    assert world.found() == []


def test_a_limit_in_another_region_does_not_help(world):
    world.steps = [replace(row, region="europe-west4") if row.step == "train" else row for row in STEPS]
    assert [each.level for each in world.found() if each.check == "quota.limit"] == ["unknown"]


def test_a_limit_for_all_regions_gives_way_to_one_for_the_region(world):
    world.quota(L4, 1)
    assert world.found() == []
    world.quota(L4, -1)
    world.quota(L4, 0, region="us-central1")
    world.only("quota.limit", "error")


def test_an_unlimited_quota_is_enough(world):
    world.quota(L4, -1, region="us-central1")
    assert world.found() == []


def test_without_the_permission_quota_is_unknown(world):
    world.forbid("cloudquotas.*.list", "cloudquotas.quotas.get")
    assert "roles/cloudquotas.viewer" in world.only("quota.limit", "unknown").hint


def test_every_page_of_quotas_is_read(world):
    for number in range(150):
        world.cloud.quotas.set(f"A{number}", 0, metric=f"aiplatform.googleapis.com/a{number}", region="us-central1")
    assert world.found() == []
    calls = [call for call in world.cloud.requests if call.method.endswith("quotaInfos.list")]
    assert len(calls) > 1 and all("services/aiplatform.googleapis.com" in call.path for call in calls)


@pytest.mark.parametrize("region", ["us-central1", "europe-west4"])
@given(
    exact=st.dictionaries(st.sampled_from(["us-central1", "europe-west4"]), st.integers(-1, 99)),
    rest=st.integers(-1, 99),
)
def test_the_limit_of_a_region_is_its_own_else_that_of_all(region, exact, rest):
    from google.cloud.cloudquotas_v1 import DimensionsInfo, QuotaInfo

    infos = [DimensionsInfo(dimensions={"region": where}, details={"value": value}) for where, value in exact.items()]
    everywhere = DimensionsInfo(details={"value": rest}, applicable_locations=["us-central1", "europe-west4"])
    assert limit(QuotaInfo(dimensions_infos=[everywhere, *infos]), region) == exact.get(region, rest)
    assert limit(QuotaInfo(dimensions_infos=infos), region) == exact.get(region)
