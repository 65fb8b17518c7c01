"""TPUs in jobs, plain steps and deployments: Google's tables hold, and facts outside of them are no errors."""

import json

import pytest

from vgp.base.documents.document import parse
from vgp.check.checker import check
from vgp.machines.catalog import skus, tpu_machines

IMAGE = {"imageUri": "us-docker.pkg.dev/p/r/i:1"}
#: The table of custom training: machine type, topology, number of machines.
TABLE = [
    (machine, topology, chips // per_machine)
    for machine, per_machine, rows in (
        ("ct5lp-hightpu-1t", 1, {"1x1": 1}),
        ("ct5lp-hightpu-4t", 4, {"2x2": 4, "2x4": 8, "4x4": 16, "4x8": 32, "8x8": 64, "8x16": 128, "16x16": 256}),
        ("ct5lp-hightpu-8t", 8, {"2x4": 8}),
        ("ct6e-standard-1t", 1, {"1x1": 1}),
        ("ct6e-standard-4t", 4, {"2x2": 4, "2x4": 8, "4x4": 16, "4x8": 32, "8x8": 64, "8x16": 128, "16x16": 256}),
        ("ct6e-standard-8t", 8, {"2x4": 8}),
        ("tpu7x-standard-4t", 4, {"2x2x1": 4, "2x2x4": 16, "4x4x8": 128, "8x8x16": 1024}),
    )
    for topology, chips in rows.items()
]


def job(machine="ct5lp-hightpu-4t", topology=None, accelerator=None, count=None, **more):
    spec = {"machineType": machine, "tpuTopology": topology, "acceleratorType": accelerator, "acceleratorCount": count}
    return {"machineSpec": {key: value for key, value in spec.items() if value is not None},
            "replicaCount": 1, "containerSpec": IMAGE, **more}  # fmt: skip


def judged(*pools, regions=(), **scheduling):
    spec = {"workerPoolSpecs": list(pools), "scheduling": {"timeout": "3600s", **scheduling}}
    return check(parse("job.json", json.dumps(spec)), regions=list(regions))


def find(report, severity="error"):
    return [(finding.rule, finding.message) for finding in report.findings if finding.severity == severity]


@pytest.mark.parametrize(("machine", "topology", "vms"), TABLE)
def test_every_row_of_the_table_passes_and_is_so_many_machines(machine, topology, vms):
    assert tpu_machines.machines()[machine].vms(topology) == vms
    assert not find(judged(job(machine, topology))) + find(judged(job(machine, topology)), "warning")


@pytest.mark.parametrize("count", [8, 32, 64, 512])
def test_boards_and_pods_of_the_second_generation_pass(count):
    assert not find(judged(job("cloud-tpu", None, "TPU_V2", count)))


@pytest.mark.parametrize(
    ("pool", "rule", "text"),
    [
        (job("cloud-tpu", None, "TPU_V2", 999), "GPU003", "up to 512, not 999"),
        (job("cloud-tpu", None, "TPU_V3", 4), "GPU003", "8 cores"),
        (job("cloud-tpu", None, "TPU_V3"), "GPU005", "acceleratorCount is missing or 0"),
        (job("cloud-tpu"), "GPU006", "needs acceleratorType"),
        (job("cloud-tpu", None, "NVIDIA_L4", 1), "GPU004", "does not take NVIDIA_L4"),
        (job(topology="17x3"), "GPU032", "no topology 17x3"),
        (job("ct6e-standard-1t", "2x2"), "GPU032", "no topology 2x2"),
        (job(topology="4x4", accelerator="NVIDIA_L4", count=1), "GPU004", "4 TPU v5e chips built in"),
        (job("ct6e-standard-4t", "4x4", "TPU_V2", 8), "GPU004", "does not take TPU_V2"),
        (job("ct5p-hightpu-4t", "2x2x1"), "GPU001", "TPU v5p machine of GKE"),
        (job(topology="4x4", accelerator="TPU_V9", count=1), "GPU002", "TPU_V9"),
    ],
)  # fmt: skip
def test_what_no_table_allows_is_an_error(pool, rule, text):
    [(found, message)] = find(judged(pool))
    assert found == rule and text in message


@pytest.mark.parametrize(
    ("pool", "text"),
    [
        (job("ct9z-hightpu-4t", "4x4"), "does not know"),
        (job("ct6e", "4x4"), "does not know"),
        (job(), "without tpuTopology"),
        (job(topology="4x4", accelerator="TPU_V5_LITEPOD", count=16), "4 chips built in"),
        (job("cloud-tpu", "2x2", "TPU_V2", 8), "not by a topology"),
    ],
)
def test_what_is_not_known_is_a_warning(pool, text):
    report = judged(pool)
    assert not find(report) and any(text in message for _, message in find(report, "warning"))


def test_a_slice_is_one_pool_with_one_replica():
    assert [rule for rule, _ in find(judged(job(topology="4x4") | {"replicaCount": 4}))] == ["GPU007"]
    assert "one worker pool" in find(judged(job(topology="4x4"), job(topology="4x4")))[0][1]


def test_a_pod_is_not_offered_on_spot_and_one_machine_is():
    assert [rule for rule, _ in find(judged(job(topology="4x4"), strategy="SPOT"))] == ["GPU009"]
    assert [rule for rule, _ in find(judged(job("cloud-tpu", None, "TPU_V3", 32), strategy="SPOT"))] == ["GPU009"]
    assert not find(judged(job(topology="2x2"), strategy="SPOT"))


@pytest.mark.parametrize(
    ("pool", "region", "sound"),
    [
        (job(topology="4x4"), "us-west4", True),
        (job(topology="4x4"), "europe-west4", False),
        (job("ct6e-standard-4t", "4x4"), "europe-west4", True),
        (job("tpu7x-standard-4t", "2x2x1"), "us-east5", False),
        (job("cloud-tpu", None, "TPU_V3", 8), "us-central1", True),
        (job("cloud-tpu", None, "TPU_V3", 32), "us-central1", False),
    ],
)
def test_a_region_has_the_generation_or_not(pool, region, sound):
    assert [rule for rule, _ in find(judged(pool, regions=[region]))] == ([] if sound else ["GPU010"])


def test_a_deployed_model_needs_the_machine_type_alone():
    def deployed(**spec):
        body = {"deployedModel": {"dedicatedResources": {"machineSpec": spec, "minReplicaCount": 1}}}
        return find(check(parse("deploy.json", json.dumps(body)), regions=["us-west1"]))

    assert not deployed(machineType="ct5lp-hightpu-4t")
    assert not deployed(machineType="ct5lp-hightpu-4t", tpuTopology="4x4")
    assert deployed(machineType="cloud-tpu", acceleratorType="TPU_V2", acceleratorCount=8)[0][0] == "GPU001"
    assert deployed(machineType="tpu7x-standard-4t")[0][0] == "GPU010"


@pytest.mark.parametrize(
    ("pool", "region", "strategy", "usd", "sku"),
    [
        # Vertex AI's SKUs of a chip: 1.38, 3.105 and 13.80; of a core 0.646875, in a Pod 0.8625.
        (job("ct5lp-hightpu-4t", "4x4"), "us-central1", "STANDARD", 16 * 1.38, "112B-51F1-4257"),
        (job("ct5lp-hightpu-1t"), "us-west4", "STANDARD", 1.38, "38C4-2600-0FE3"),
        (job("ct6e-standard-8t", "2x4"), "us-south1", "STANDARD", 8 * 3.105, "85DB-0FA9-0D08"),
        (job("tpu7x-standard-4t", "2x2x1"), "us-central1", "STANDARD", 4 * 13.8, "F799-C34F-272D"),
        (job("cloud-tpu", None, "TPU_V2", 8), "us-central1", "STANDARD", 5.175, "045F-D5A4-3CD1"),
        (job("cloud-tpu", None, "TPU_V2", 32), "us-central1", "STANDARD", 27.6, "A24C-C7AA-28A9"),
        (job("cloud-tpu", None, "TPU_V3", 8), "europe-west4", "STANDARD", 10.12, "2D73-FD36-8461"),
        # Without a SKU of Vertex AI's own: Compute Engine's and the fee. Spot and reservations always.
        (job("ct6e-standard-1t"), "us-central1", "STANDARD", 2.7 + 0.405, "446F-AA1E-245D"),
        (job("ct5lp-hightpu-8t"), "us-west1", "SPOT", 8 * (0.244926 + 0.18), "A9FF-6143-F24B"),
    ],
)  # fmt: skip
def test_a_slice_costs_what_its_chips_or_cores_cost(pool, region, strategy, usd, sku):
    (row,) = judged(pool, regions=[region], strategy=strategy).steps
    assert row.usd_per_hour == row.max_usd == pytest.approx(usd)
    assert (row.region, row.price_date, row.as_json()["price_skus"][0]) == (region, "2026-04-30", sku)


@pytest.mark.parametrize(
    ("pool", "region", "strategy"),
    [
        (job("ct5lp-hightpu-4t"), "us-central1", "STANDARD"),  # as many chips as its topology, which is missing
        (job("ct5lp-hightpu-1t"), "us-east1", "STANDARD"),  # Vertex AI has no SKU there
        (job("ct6e-standard-1t"), "us-central1", "FLEX_START"),
        (job("cloud-tpu", None, "TPU_V2", 16), "us-central1", "STANDARD"),
        (job("cloud-tpu", None, "TPU_V2", 8), "us-central1", "SPOT"),
    ],
)  # fmt: skip
def test_a_slice_without_a_sku_has_no_price(pool, region, strategy):
    (row,) = judged(pool, regions=[region], strategy=strategy).steps
    assert row.usd_per_hour is None and row.max_usd is None and row.unknown_reason


def test_without_a_region_a_slice_has_the_price_of_the_default_one():
    (row,) = judged(job("ct5lp-hightpu-1t")).steps
    assert (row.usd_per_hour, row.region) == (pytest.approx(1.38), "us-central1")


@pytest.mark.parametrize(
    ("description", "sold"),
    [
        ("Vertex AI: Training/Pipelines on Tpu-v5e Accelerator in Las Vegas", ("TpuV5e", "Training")),
        ("Vertex AI: Training/Pipelines Management fee on Tpu V6e in ${region_display_name}", ("TpuV6e", "Fee")),
        ("Vertex AI: Training/Pipelines on Tpu-7x Accelerator in Iowa", ("TPU7x", "Training")),
        ("Vertex AI: Training/Pipelines on Tpu-v2 Pod Accelerator USA", ("Tpu-v2 Pod Accelerator", "Training")),
        ("Vertex AI: Ray on Vertex/Pipelines on Tpu-v5e Accelerator in Las Vegas", None),
        ("Vertex AI: Online/Batch Prediction TPU-v5e (Viperlitepod) TPU running in Iowa", None),
    ],
)
def test_a_refresh_knows_skus_of_tpus_by_their_words(description, sold):
    assert skus.vertex_ai_part(description) == sold
