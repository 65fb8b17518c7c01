"""A request judged twice, where it is placed and in what Google's wrappers compile of it: both results agree.

Each wrong request goes every way on which a custom job reaches a compiled pipeline: constants, defaults of a component
and of the pipeline, a list of pools, a pipeline within. What a way loses is a rule that is silent there.
"""

import json
import random
import warnings
from datetime import date

import pytest

from vgp.base.documents.document import Document
from vgp.base.documents.node import Computed, Node
from vgp.check import custom_job
from vgp.check.checker import check
from vgp.check.judgement import Judgement
from vgp.machines.catalog import catalog
from vgp.machines.placement.job_fields import RESERVATION_KEY
from vgp.machines.placement.machine_rules import PlacementError
from vgp.machines.placement.placing import place
from vgp.machines.placement.step_request import Request

DAY, IMAGE, COUNT = date(2026, 11, 20), "us-docker.pkg.dev/p/r/i:1", 12345
WORKING = {"machine": "g2-standard-24", "accelerator": "NVIDIA_L4", "count": 2, "strategy": "standard"}
WRONG = {
    "region without the GPU": ({"machine": "a3-ultragpu-8g", "accelerator": "NVIDIA_H200_141GB", "count": 8,
                                "strategy": "spot"}, "africa-south1"),
    "no such region": ({}, "us-central9"),
    "count": ({"count": 3}, "us-central1"),
    "another GPU": ({"accelerator": "NVIDIA_TESLA_T4"}, "us-central1"),
    "no such machine": ({"machine": "g2-standard-25"}, "us-central1"),
    "no such GPU": ({"accelerator": "NVIDIA_L5"}, "us-central1"),
    "strategy": ({"machine": "n1-standard-8", "accelerator": "NVIDIA_TESLA_T4", "count": 1,
                  "strategy": "flex_start"}, "us-central1"),
    "spot on a reservation": ({"strategy": "spot", "reservation": "projects/p/zones/us-central1-a/reservations/r"},
                              "us-central1"),
    "reservation elsewhere": ({"reservation": "projects/p/zones/us-east1-b/reservations/r"}, "us-central1"),
    "disk": ({"machine": "n1-standard-8", "accelerator": "NVIDIA_TESLA_T4", "count": 1,
              "boot_disk_type": "hyperdisk-balanced"}, "us-central1"),
    "retired": ({"machine": "n1-standard-8", "accelerator": "NVIDIA_TESLA_K80", "count": 1}, "us-central1"),
}  # fmt: skip
WAYS = {"wrapped", "constants", "pool-list", "parameters", "inner/within", "condition"}


def pools(machine="MACHINE", accelerator="ACCELERATOR", count=COUNT):
    affinity = {"reservation_affinity_type": "SPECIFIC_RESERVATION", "key": RESERVATION_KEY, "values": ["NAME"]}
    spec = {
        "machine_type": machine, "accelerator_type": accelerator, "accelerator_count": count,
        "reservation_affinity": affinity,
    }  # fmt: skip
    container, disk = {"image_uri": IMAGE}, {"boot_disk_type": "DISK"}
    return [{"machine_spec": spec, "replica_count": 1, "container_spec": container, "disk_spec": disk}]


@pytest.fixture(scope="module")
def compiled(tmp_path_factory):
    """A pipeline with words in the places of a request, as kfp and GCPC write it."""
    from google_cloud_pipeline_components.v1.custom_job import (
        CustomTrainingJobOp,
        create_custom_training_job_from_component,
    )
    from kfp import compiler, dsl

    @dsl.component(base_image=IMAGE)
    def train(x: int) -> int:
        return x

    wrapped = create_custom_training_job_from_component(
        train, machine_type="MACHINE", accelerator_type="ACCELERATOR", accelerator_count=COUNT, strategy="STRATEGY",
        boot_disk_type="DISK", reservation_affinity_type="SPECIFIC_RESERVATION",
        reservation_affinity_key=RESERVATION_KEY, reservation_affinity_values=["NAME"], timeout="3600s",
    )  # fmt: skip

    def job(name, asked, strategy):
        return CustomTrainingJobOp(display_name=name, worker_pool_specs=asked, strategy=strategy)

    @dsl.pipeline
    def inner(accelerator: str, machine: str, strategy: str):
        job("a", pools(machine, accelerator), strategy).set_display_name("within")

    @dsl.pipeline(name="ways")
    def ways(
        accelerator: str = "ACCELERATOR", machine: str = "MACHINE", count: int = COUNT, strategy: str = "STRATEGY",
        many: list = pools(),  # noqa: B008
    ):  # fmt: skip
        wrapped(x=1)
        job("b", pools(), "STRATEGY")
        job("c", many, strategy)
        job("d", pools(machine, accelerator, count), strategy)
        inner(accelerator=accelerator, machine=machine, strategy=strategy)
        with dsl.If(machine != "none"):
            job("e", pools(machine, accelerator, count), strategy)

    file = tmp_path_factory.mktemp("ways") / "ways.json"
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        compiler.Compiler().compile(ways, str(file))
    return file.read_text()


def filled(text, words):
    for word, value in words.items():
        text = text.replace(word, value)
    return text


def judged(text, request, region):
    """The errors of each step of the pipeline with this request, as `check` finds them."""
    reservation = request.get("reservation", "")
    words = {
        "ACCELERATOR": request["accelerator"], "MACHINE": request["machine"], str(COUNT): str(request["count"]),
        "STRATEGY": request["strategy"].upper(), "DISK": request.get("boot_disk_type", "pd-ssd"), "NAME": reservation,
    }  # fmt: skip
    text = filled(text, words)
    dropped = "" if reservation else "reservation_affinity"
    spec = json.loads(text, object_hook=lambda items: {key: items[key] for key in items if key != dropped})
    report = check([Document("ways.json", spec, text)], regions=[region], as_of=DAY)
    errors = {row.step: set() for row in report.steps}
    for finding in report.findings:
        if finding.severity == "error":
            errors[finding.step].add(finding.rule)
    return errors


def placed(request, region):
    """The rule that refuses the request where it is placed, or none."""
    try:
        place(Request(**request), region=region, as_of=DAY)
    except PlacementError as error:
        return error.problem.rule
    return None


def assert_same(text, request, region):
    rule, errors = placed(request, region), judged(text, request, region)
    assert len(errors) == len(WAYS), errors
    for step, rules in errors.items():
        assert (rule in rules) if rule else not rules, f"{request} in {region}: placed {rule}, {step} {rules}"
    return rule


def test_a_working_request_is_right_on_both_roads(compiled):
    assert assert_same(compiled, WORKING, "us-central1") is None


@pytest.mark.parametrize("what", WRONG)
def test_a_wrong_request_is_refused_on_both_roads(compiled, what):
    change, region = WRONG[what]
    assert assert_same(compiled, {**WORKING, **change}, region) is not None


def test_both_roads_judge_any_request_alike(compiled):
    chance = random.Random(17)
    machines, regions = list(catalog.machines().values()), sorted(catalog.regions())
    gpus = [name for name, row in catalog.accelerators().items() if row.kind == "gpu"]
    rules = set()
    for _ in range(60):
        machine = chance.choice([machine for machine in machines if machine.gpus or machine.choices])
        own = [machine.accelerator] if machine.accelerator else list(machine.choices)
        accelerator = chance.choice(own if chance.random() < 0.8 else gpus)
        counts = machine.counts(accelerator) or (1, 2, 3, 8)
        request = {
            "machine": machine.name, "accelerator": accelerator, "count": chance.choice(counts),
            "strategy": chance.choice(["standard", "spot", "flex_start"]),
            "boot_disk_type": chance.choice([machine.default_boot_disk, "pd-standard"]),
        }  # fmt: skip
        rules.add(assert_same(compiled, request, chance.choice(regions)))
    assert {None, "GPU009", "GPU010"} <= rules


@pytest.mark.parametrize("unknown", ["count", "machine", "strategy"])
def test_what_only_the_run_knows_hides_no_region_without_the_gpu(compiled, unknown):
    words = {"ACCELERATOR": "NVIDIA_H200_141GB", "MACHINE": "a3-ultragpu-8g", str(COUNT): "8", "STRATEGY": "SPOT"}
    spec = json.loads(filled(compiled, words))
    del spec["root"]["inputDefinitions"]["parameters"][unknown]["defaultValue"]
    report = check([Document("ways.json", spec, "")], regions=["africa-south1"], as_of=DAY)
    found = {finding.step for finding in report.findings if finding.rule == "GPU010"}
    asked = {finding.step for finding in report.findings if finding.rule == "GPU024" and finding.step}
    assert asked and asked <= found


@pytest.mark.parametrize("field", ["accelerator_count", "accelerator_type"])
def test_a_job_of_a_machine_with_a_part_that_only_the_run_knows_is_judged_by_region(field):
    spec = {"machine_type": "a3-ultragpu-8g", "accelerator_type": "NVIDIA_H200_141GB", "accelerator_count": 8}
    job = {"job_spec": {"worker_pool_specs": [{"machine_spec": {**spec, field: Computed("it is computed")}}]}}
    node = Node(job).get("jobSpec")
    judgement = Judgement(Document("job.py", job, ""), DAY, ["africa-south1"])
    custom_job.judge(judgement, "train", node)
    assert "GPU010" in {finding.rule for finding in judgement.findings}


def test_a_reservation_whose_name_only_the_run_knows_is_none_for_spot(compiled):
    words = {"ACCELERATOR": "NVIDIA_L4", "MACHINE": "g2-standard-24", str(COUNT): "2", "STRATEGY": "SPOT"}
    text = filled(compiled, words).replace("NAME", "{{$.pipeline_job_name}}")
    report = check([Document("ways.json", json.loads(text), text)], regions=["us-central1"], as_of=DAY)
    wrong = [(finding.step, finding.message) for finding in report.findings if finding.rule == "GPU013"]
    assert len(wrong) == len(WAYS) and all("Spot machines" in message for _, message in wrong), wrong


def test_an_unknown_field_of_a_pool_is_reported(compiled):
    report = check(
        [Document("ways.json", json.loads(compiled.replace("replica_count", "replicas_count")), "")], as_of=DAY
    )
    steps = {finding.step for finding in report.findings if "'replicas_count'" in finding.message}
    assert len(steps) == len(WAYS)
