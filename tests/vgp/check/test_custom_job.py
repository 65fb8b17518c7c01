"""What is said of the pools of a custom job together, to the edge of each condition."""

import json
from datetime import date

import pytest
import yaml

from vgp.base.documents.document import parse
from vgp.check.checker import check
from vgp.machines.placement import plain

DAY = date(2026, 11, 20)
PLACEHOLDER = "{{$.inputs.parameters['machine']}}"


def pool(machine="n1-standard-8", accelerator=None, count=1, replicas=1, **more):
    gpus = {"acceleratorType": accelerator, "acceleratorCount": count} if accelerator else {}
    given = {} if replicas is None else {"replicaCount": replicas}
    image = {"imageUri": "us-docker.pkg.dev/p/r/i:1"}
    return {"machineSpec": {"machineType": machine, **gpus}, **given, "containerSpec": image, **more}


def judged(spec, **options):
    return check(parse("job.yaml", yaml.safe_dump(spec)), as_of=DAY, **options)


def job(*pools, **more):
    return {"workerPoolSpecs": list(pools), "scheduling": {"timeout": "3600s", **more.pop("scheduling", {})}, **more}


def pipeline(spec):
    """A compiled pipeline whose only step is that custom job."""
    resolved = {"runtimeValue": {"constant": json.dumps({"display_name": "j", "job_spec": spec})}}
    container = {"image": "gcr.io/ml-pipeline/google-cloud-pipeline-components:2.18.0",
                 "args": ["--type", "CustomJob", "--payload", resolved["runtimeValue"]["constant"]],
                 "command": ["python3", "-m",
                             "google_cloud_pipeline_components.container.v1.custom_job.launcher"]}  # fmt: skip
    return {
        "pipelineInfo": {"name": "p"}, "schemaVersion": "2.1.0",
        "deploymentSpec": {"executors": {"exec-j": {"container": container}}},
        "components": {"comp-j": {"executorLabel": "exec-j"}},
        "root": {"dag": {"tasks": {"j": {"componentRef": {"name": "comp-j"}, "taskInfo": {"name": "j"}}}}},
    }  # fmt: skip


def messages(spec, rule, **options):
    return [finding.message for finding in judged(spec, **options).findings if finding.rule == rule]


def test_flex_start_needs_one_machine_everywhere_and_judges_only_what_is_known():
    def flex(*machines):
        pools = [pool(name, "NVIDIA_L4") if name else pool(PLACEHOLDER, "NVIDIA_L4") for name in machines]
        return [text for text in messages(job(*pools, scheduling={"strategy": "FLEX_START"}), "GPU008")
                if "same machine in every pool" in text]  # fmt: skip

    assert len(flex("g2-standard-8", "g2-standard-12")) == 1
    assert not flex("g2-standard-8", "g2-standard-8")
    assert not flex(None, "g2-standard-12") and not flex("g2-standard-8", None)


@pytest.mark.parametrize("named", [True, False])
def test_a_job_without_pools_is_one_only_where_a_persistent_resource_has_them(named):
    resource = {"persistentResourceId": "r"} if named else {"persistentResourceId": ""}
    report = judged({"displayName": "j", "jobSpec": {**resource, "workerPoolSpecs": None}})
    assert [finding.rule for finding in report.findings if finding.severity == "error"] == ([] if named else ["GPU025"])
    wrong = judged({"displayName": "j", "jobSpec": {**resource, "workerPoolSpecs": "text"}})
    assert "GPU025" in {finding.rule for finding in wrong.findings}


@pytest.mark.parametrize(("count", "words"), [(4, None), (5, ""), (100, ""), (101, "The first 100 are judged.")])
def test_more_pools_than_a_job_has_are_one_error_and_of_many_a_hundred_are_looked_at(count, words):
    report = judged(job(*[pool() for _ in range(count)]))
    found = [finding.message for finding in report.findings if finding.rule == "GPU007"]
    many = [text for text in found if "at most 4 worker pools" in text]
    assert len(many) == (count > 4) and all(text.endswith(words or ".") for text in many)
    assert ("are judged" in " ".join(many)) == (count > 100)
    assert report.steps[0].replicas == min(count, 100)


def test_a_first_pool_that_is_empty_is_named_and_the_others_are_judged():
    assert messages(job({}, pool()), "GPU007") == ["Pool 0 is empty; it holds the chief, which every job needs."]
    assert not messages(job(pool(), {}, pool()), "GPU007")


def test_a_mapping_in_place_of_the_pools_is_an_error_only_where_the_client_refuses_it():
    body = {"workerPoolSpecs": pool()}
    severities = {
        name: [finding.severity for finding in judged(spec).findings if finding.rule == "GPU026"]
        for name, spec in (("config", body), ("step", pipeline(body)))
    }
    assert severities == {"config": ["warning"], "step": ["error"]}


def test_gpus_without_a_common_zone_are_reported_for_the_default_region():
    first, other = pool("a2-ultragpu-1g", "NVIDIA_A100_80GB"), pool("a3-ultragpu-8g", "NVIDIA_H200_141GB", 8)

    def find(spec):
        return [each for each in judged(spec).findings if "The job mixes" in each.message]

    [mixed] = find(job(first, other))
    assert "us-central1" in mixed.message and mixed.path[:2] == ("workerPoolSpecs", 1)
    [behind] = find(job(first, pool("e2-standard-4"), other))
    assert behind.path[:2] == ("workerPoolSpecs", 2)
    assert not find(job(first, first)) and not find({**job(first, other), "persistentResourceId": "r"})


def test_a_quota_counts_all_pools_and_is_reported_once():
    l4 = job(pool("g2-standard-8", "NVIDIA_L4"), pool("g2-standard-8", "NVIDIA_L4", replicas=3))
    assert [text for text in messages(l4, "GPU017", regions=["us-central1"]) if "needs 4" in text]
    assert len(messages(l4, "GPU017", regions=["us-central1"])) == 1
    assert not messages({**l4, "persistentResourceId": "r"}, "GPU017", regions=["us-central1"])
    affinity = {"reservationAffinityType": "ANY_RESERVATION"}
    reserved = job(pool("g2-standard-8", "NVIDIA_L4"))
    reserved["workerPoolSpecs"][0]["machineSpec"]["reservationAffinity"] = affinity
    assert not messages(reserved, "GPU017", regions=["us-central1"])


def test_the_persistent_resource_that_a_run_may_name_is_none_of_the_job_s():
    """The default of Google's component: such a job is on machines of its own unless the run names a resource."""
    asked = job(pool("g2-standard-24", "NVIDIA_L4", 2))
    may = pipeline({**asked, "persistentResourceId": "{{$.pipeline_persistent_resource_id}}"})
    for region, rule in (("europe-north1", "GPU010"), ("us-central1", "GPU017")):
        found, alone = (judged(spec, regions=[region]).findings for spec in (may, pipeline(asked)))
        assert [each.rule for each in found] == [each.rule for each in alone] and rule in {each.rule for each in found}
    given = pipeline({**asked, "persistentResourceId": "{{$.inputs.parameters['resource']}}"})
    assert not {"GPU010", "GPU017"} & {each.rule for each in judged(given, regions=["europe-north1"]).findings}


def on_resource(spec, name="projects/my-project/locations/us-central1/persistentResources/r", **more):
    """The PipelineJob of a compiled pipeline whose steps run on a persistent resource."""
    detail = {"persistentResourceName": name, **more}
    return {"pipelineSpec": spec, "runtimeConfig": {"defaultRuntime": {"persistentResourceRuntimeDetail": detail}}}


def test_a_run_on_a_persistent_resource_asks_for_no_machine_unless_it_may_fall_back_to_its_own():
    of_run = {"persistentResourceId": "{{$.pipeline_persistent_resource_id}}"}
    asked = job(pool("g2-standard-24", "NVIDIA_L4", 2))
    plain_step = pipeline(asked)
    resources = {"accelerator": {"type": "NVIDIA_L4", "count": "2"}, "cpuLimit": 24.0, "memoryLimit": 96.0}
    plain_step["deploymentSpec"]["executors"]["exec-j"]["container"] = {"image": "a.b/c:1", "resources": resources}
    for spec in (pipeline({**asked, **of_run}), plain_step):
        there = judged(on_resource(spec), regions=["us-central1"])
        assert not {"GPU017", "GPU025", "GPU035"} & {each.rule for each in there.findings}
        assert [each.is_persistent for each in there.steps] == [True]
        back = on_resource(spec, taskResourceUnavailableTimeoutBehavior="FALL_BACK_TO_ON_DEMAND")
        for own in (back, spec):
            report = judged(own, regions=["us-central1"])
            assert "GPU017" in {each.rule for each in report.findings} and not report.steps[0].is_persistent
    assert "GPU017" in {each.rule for each in judged(on_resource(pipeline(asked)), regions=["us-central1"]).findings}


RESOURCES = [({"name": "r"}, "GPU035", "is not a persistent resource"), ({"name": None}, "GPU025", "must be given"),
     ({"name": "projects/my-project/locations/us-central1/persistentResources/R"}, "GPU035", "not an id of"),
     ({"name": "projects/my-project/locations/asia-east1/persistentResources/r"}, "GPU035", "in asia-east1, the run"),
     ({"taskResourceUnavailableTimeoutBehavior": "WAIT"}, "GPU025", "FAIL or FALL_BACK"),
     ({"taskResourceUnavailableWaitTimeMs": -1}, "GPU025", "0 or more")]  # fmt: skip


@pytest.mark.parametrize("changed", [changed for changed, _, _ in RESOURCES])
def test_a_run_s_persistent_resource_is_judged_without_a_fault(changed):
    assert not messages(on_resource(pipeline(job(pool())), **changed), "GPU031", regions=["us-central1"])


@pytest.mark.parametrize(("number", "stays"), [(0, True), (1, True), (2, False), (3, None)])
def test_what_a_run_does_without_room_may_be_given_by_its_number(number, stays):
    found = judged(on_resource(pipeline(job(pool())), taskResourceUnavailableTimeoutBehavior=number))
    wrong = [each.message for each in found.findings if each.rule == "GPU025"]
    assert len(wrong) == (stays is None) and all(
        "taskResourceUnavailableTimeoutBehavior must be" in one for one in wrong
    )


@pytest.mark.parametrize(("changed", "rule", "words"), RESOURCES)
def test_a_run_s_persistent_resource_is_named_whole_and_in_its_region(changed, rule, words):
    [text] = messages(on_resource(pipeline(job(pool())), **changed), rule, regions=["us-central1"])
    assert words in text


def test_pools_of_equal_machines_are_one_row_whose_number_is_known_or_not():
    assert [row.replicas for row in judged(job(pool(), pool(replicas=3))).steps] == [4]
    unknown = judged(job(pool(replicas=PLACEHOLDER), pool(replicas=3), pool("e2-standard-4"))).steps
    assert [row.replicas for row in unknown] == [None, 1]


def test_the_services_of_a_step_are_those_of_its_chief():
    asks = {"env": [{"name": plain.ENGINES_VARIABLE, "value": json.dumps({"bigquery": {"max_gb": 1024}})}]}

    def services(which):
        pools = [pool(), pool("e2-standard-4")]
        pools[which]["containerSpec"] = {**pools[which]["containerSpec"], **asks}
        return [[service.name for service in row.services] for row in judged(job(*pools)).steps]

    assert services(0) == [["BigQuery"], []] and services(1) == [[], []]
    assert judged(job({}, {})).steps == []


@pytest.mark.parametrize(("pools", "rules", "steps"), [(PLACEHOLDER, ["GPU015"], 1), ([], ["GPU025"], 0)])
def test_pools_that_are_not_known_are_a_row_without_a_machine_and_an_empty_list_is_none(pools, rules, steps):
    report = judged({"workerPoolSpecs": pools})
    assert [finding.rule for finding in report.of_severity("error")] == rules and len(report.steps) == steps
    assert all(row.machine_type is None for row in report.steps)


OF = {"key": "compute.googleapis.com/reservation-name", "values": ["projects/p/zones/us-central1-a/reservations/r"]}


def reserving(affinity, machine="a3-megagpu-8g", accelerator="NVIDIA_H100_MEGA_80GB", **scheduling):
    request = pool(machine, accelerator, 8)
    request["machineSpec"]["reservationAffinity"] = affinity
    return [(finding.rule, finding.message) for finding in judged(job(request, scheduling=scheduling)).findings
            if finding.severity == "error" and finding.rule != "GPU015"]  # fmt: skip


@pytest.mark.parametrize(
    ("number", "words"),
    [(-1, "called '-1'"), (0, "belong to SPECIFIC"), (1, "not to NO_RESERVATION"), (2, "not to ANY_R"), (3, None),
     (4, "called '4'"), (5, "called '5'"), (True, "must be"), (None, "not to TYPE_UNSPECIFIED")],
)  # fmt: skip
def test_an_affinity_is_named_or_a_number_of_the_enum(number, words):
    found = reserving({"reservationAffinityType": number, **OF})
    assert [words in text for _, text in found][:1] == [True] * bool(words)


@pytest.mark.parametrize(
    "affinity",
    [
        {"reservationAffinityType": PLACEHOLDER, "key": "x"},
        {"reservationAffinityType": "SPECIFIC_RESERVATION", **OF, "key": PLACEHOLDER},
        {"reservationAffinityType": "SPECIFIC_RESERVATION", **OF, "values": [PLACEHOLDER]},
        {"reservationAffinityType": "SPECIFIC_RESERVATION", **OF, "values": PLACEHOLDER},
        PLACEHOLDER,
    ],
)
def test_a_reservation_that_only_the_run_knows_has_no_finding(affinity):
    assert reserving(affinity) == []
    assert reserving(affinity, "a4-highgpu-8g", "NVIDIA_B200") == []
    assert reserving({"reservationAffinityType": "NO_RESERVATION"}, "a4-highgpu-8g", "NVIDIA_B200")[0][0] == "GPU009"


def test_a_value_of_a_reservation_that_is_no_text_is_not_left_out():
    values = [*OF["values"], 7]
    found = reserving({"reservationAffinityType": "SPECIFIC_RESERVATION", **OF, "values": values})
    assert not any("exactly one value; 1" in text for _, text in found) and not any("are given" in t for _, t in found)


def test_a_tpu_or_gpu_on_a_strategy_that_only_the_run_knows_is_not_judged_by_it():
    assert not messages(job(pool("a4-highgpu-8g", "NVIDIA_B200", 8), scheduling={"strategy": PLACEHOLDER}), "GPU009")
    slice_ = {"machineType": "ct5lp-hightpu-4t", "tpuTopology": "4x4"}
    assert not messages(job(pool() | {"machineSpec": slice_}, scheduling={"strategy": PLACEHOLDER}), "GPU009")
    assert messages(job(pool() | {"machineSpec": slice_}, scheduling={"strategy": "SPOT"}), "GPU009")


def find(spec):
    report = judged(spec)
    return [(finding.rule, finding.message) for finding in report.findings], [row.replicas for row in report.steps]


def test_a_missing_or_malformed_machine_is_reported_once():
    for wrong, words in ((None, "is missing"), ("x", "it is 'x'"), ([], "it is ")):
        pool_ = pool() | ({} if wrong is None else {"machineSpec": wrong})
        if wrong is None:
            del pool_["machineSpec"]
        found, _ = find(job(pool_))
        assert [rule for rule, _ in found] == ["GPU025"] and words in found[0][1]


def test_replicas_that_are_missing_are_one_and_those_that_are_no_number_are_not_known():
    (missing,), rows = find(job(pool(replicas=None)))
    assert "has no replicaCount" in missing[1] and rows == [1]
    (wrong,), rows = find(job(pool(replicas="x")))
    assert wrong[0] == "GPU025" and rows == [None]


def test_a_pool_without_replicas_is_named_by_its_role():
    for index, role in ((1, "the workers"), (2, "parameter or reduction servers"), (3, "the evaluators")):
        found, _ = find(job(*[pool()] * index, pool(replicas=0)))
        assert [text for _, text in found if "0 replicas" in text] == [f"Pool {index} ({role}) has 0 replicas."]
    found, _ = find(job(*[pool()] * 4, pool(replicas=0)))
    assert not any(rule == "GPU031" for rule, _ in found)


def test_a_strategy_is_reported_at_its_field_or_at_the_machine():
    machine = pool("a4-highgpu-8g", "NVIDIA_B200", 8)
    (at_machine,) = (finding for finding in judged(job(machine)).findings if finding.rule == "GPU009")
    asked = judged(job(machine, scheduling={"strategy": "STANDARD"}))
    (at_strategy,) = (finding for finding in asked.findings if finding.rule == "GPU009")
    assert (at_machine.path[-1], at_strategy.path[-1]) == ("machineType", "strategy")


def test_a_region_is_reported_at_its_field():
    request = {"parent": "projects/my-project/locations/me-west1", "customJob": {"displayName": "j", "jobSpec": job(
        pool("a3-highgpu-8g", "NVIDIA_H100_80GB", 8))}}  # fmt: skip
    (found,) = (finding for finding in judged(request).findings if finding.rule == "GPU010")
    assert found.path == ("parent",)


def test_a_disk_of_no_size_is_one_of_the_default_size():
    assert find(job(pool(diskSpec={"bootDiskType": "pd-ssd", "bootDiskSizeGb": 0})))[0] == []


@pytest.mark.parametrize(
    ("strategy", "message", "quota"),
    [("LOW_COST", "LOW_COST is deprecated.", "preemptible"),
     ("ON_DEMAND", "ON_DEMAND is deprecated.", "training_nvidia"),
     ("SPOT", None, "preemptible"), ("FLEX_START", None, "preemptible"), ("STANDARD", None, "training_nvidia"),
     ("PREEMPTIBLE", "No scheduling strategy is called 'PREEMPTIBLE'.", "training_nvidia")],
)  # fmt: skip
def test_a_strategy_is_known_by_its_name_and_has_its_own_quota(strategy, message, quota):
    asked = job(pool("g2-standard-24", "NVIDIA_L4", 2), scheduling={"strategy": strategy})
    found = judged(asked, regions=["us-central1"]).findings
    assert [each.message for each in found if each.rule == "GPU009"] == ([message] if message else [])
    [fix] = [each.suggestion for each in found if each.rule == "GPU017"]
    assert quota in fix


@pytest.mark.parametrize(
    ("timeout", "words"),
    [(None, "No timeout is set"), ("", "No timeout is set"), ("604799s", None), ("604800s", "is 7 days or more"),
     ("691200s", "is 7 days or more"), ("1h", None), (PLACEHOLDER, None)],
)  # fmt: skip
def test_a_timeout_of_a_week_is_reported_for_jobs_with_accelerators_only(timeout, words):
    """Reports a malformed duration as malformed, not as too long."""
    scheduling = {} if timeout is None else {"timeout": timeout}
    tpu = pool() | {"machineSpec": {"machineType": "ct5lp-hightpu-4t", "tpuTopology": "2x2"}}
    own = pool("a2-highgpu-1g") | {"containerSpec": {"imageUri": "a.b/c:1"}}
    own["machineSpec"] |= {"acceleratorType": PLACEHOLDER, "acceleratorCount": PLACEHOLDER}
    for asked in (pool("g2-standard-24", "NVIDIA_L4", 2), pool("g2-standard-24", "NVIDIA_L4", 3), tpu, own):
        found = messages({"workerPoolSpecs": [asked], "scheduling": scheduling}, "GPU021")
        assert [words in text for text in found] == [True] * bool(words)
    assert not messages({"workerPoolSpecs": [pool()], "scheduling": scheduling}, "GPU021")
    wrong = messages({"workerPoolSpecs": [pool()], "scheduling": scheduling}, "GPU025")
    assert bool(wrong) == (timeout == "1h")


def test_a_timeout_and_a_waiting_time_are_reported_at_their_fields_or_at_the_job():
    gpu = pool("a3-highgpu-8g", "NVIDIA_H100_80GB", 8)

    def places(rule, **scheduling):
        spec = {"workerPoolSpecs": [gpu], "scheduling": scheduling}
        return [each.path for each in judged(spec).findings if each.rule == rule]

    assert places("GPU028", timeout="0s") == [("scheduling", "timeout")]
    assert places("GPU028", timeout="3600s", maxWaitDuration="60s") == [("scheduling", "maxWaitDuration")]
    assert places("GPU021") == [()] and places("GPU021", timeout="604800s") == [("scheduling", "timeout")]


@pytest.mark.parametrize("strategy", [True, [], 1.5])
def test_a_strategy_that_is_no_name_is_malformed(strategy):
    assert messages(job(pool(), scheduling={"strategy": strategy}), "GPU025")


@pytest.mark.parametrize("image", [{}, {"imageUri": ""}, {"imageUri": None, "command": ["python"]}])
def test_a_pool_without_an_image_has_nothing_to_run(image):
    found = [text for text in messages(job(pool(containerSpec=image)), "GPU007")]
    assert found == ["The pool has no imageUri: it has nothing to run."]
    package = {**pool(pythonPackageSpec={"pythonModule": "task", **image})}
    del package["containerSpec"]
    assert messages(job(package), "GPU007") == ["The pool has no executorImageUri: it has nothing to run."]
    package["pythonPackageSpec"]["executorImageUri"] = "a.b/c:1"
    assert not messages(job(package, pool(containerSpec={"imageUri": PLACEHOLDER})), "GPU007")


def test_a_strategy_beside_the_pools_or_the_job_is_reported_as_ignored():
    def find(spec):
        return [(each.severity, each.message.split(" ")[0]) for each in judged(spec).findings if each.rule == "GPU025"]

    spec, terms = job(pool()), {"scheduling": {"strategy": "SPOT"}, "timeout": "3600s"}
    assert find({**spec, "strategy": "SPOT"}) == [("warning", "strategy")] and not find(spec)
    assert find({"displayName": "j", "jobSpec": spec, **terms}) == [("warning", "scheduling"), ("warning", "timeout")]
    assert find({"trialJobSpec": spec, "maxWaitDuration": "60s"}) == [("warning", "maxWaitDuration")]
    # So Google's component takes its arguments, which are no CustomJobSpec.
    assert not find({"worker_pool_specs": [pool()], "strategy": "SPOT", "timeout": "3600s"})


def test_a_second_pool_of_a_tpu_job_is_reported_at_that_pool():
    slice_ = pool() | {"machineSpec": {"machineType": "ct5lp-hightpu-4t", "tpuTopology": "2x2"}}
    for pools, other in (([slice_, pool()], 1), ([pool(), slice_], 0)):
        [finding] = [each for each in judged(job(*pools)).findings if "has one worker pool" in each.message]
        assert finding.path[:2] == ("workerPoolSpecs", other)


def test_a_quota_of_vcpu_counts_machines_and_trials():
    def needs(spec):
        return [text.split("needs ")[1] for text in messages(spec, "GPU017", regions=["us-central1"])]

    def trials(pools, count):
        return {"trialJobSpec": job(*pools), "maxTrialCount": count, "parallelTrialCount": count}

    many = pool("e2-standard-4"), pool("n1-standard-96", replicas=25)
    assert needs(trials(many, 2)) == ["4808."] and needs(trials(many, 1)) == ["2404."], "of all pools"
    unknown = pool("e2-standard-4"), pool("n1-standard-96", replicas=PLACEHOLDER)
    assert needs(trials(unknown, 50)) == ["5000."], "at least one machine"


def test_only_a_job_on_a_persistent_resource_that_is_named_costs_nothing_of_its_own():
    asked = job(pool("g2-standard-24", "NVIDIA_L4", 2))
    unknown = pipeline({**asked, "persistentResourceId": "{{$.inputs.parameters['resource']}}"})
    own = on_resource(pipeline(asked))
    assert [judged(spec).steps[0].is_persistent for spec in (unknown, own)] == [False, False]
    assert judged({**asked, "persistentResourceId": "r"}).steps[0].is_persistent
