"""`vgp check --fix`: the nearest that works, in the files themselves; all that is not wrong stays as it is."""

import difflib
import json
import random
import re

import pytest
import yaml

from tests.vgp.check.test_check_jobs import DAY, IMAGE, job, pool
from vgp.__main__ import main
from vgp.base.documents.document import Document
from vgp.base.errors import RequestError
from vgp.check import fix as fixing
from vgp.check.checker import check
from vgp.check.fix import Options, fixes
from vgp.machines.catalog import catalog, tpu_machines

OPTIONS = Options(as_of=DAY)


def fixed(path, text, **options):
    """The text of the file as it would become, and what is left."""
    path.write_bytes(text.encode() if isinstance(text, str) else text)
    found = list(fixes([str(path)], Options(as_of=DAY, **options)))
    if not found:
        return None, []
    [fix] = found
    fix.write()
    return path.read_bytes().decode(), fix.left


def changed_lines(before, after):
    lines = difflib.ndiff(before.splitlines(), after.splitlines())
    return [line for line in lines if line[:1] in "+-"]


POOL = """# of ours
workerPoolSpecs:
- machineSpec:
    machineType: {machine}   # why
{more}  replicaCount: 1
  containerSpec: {{imageUri: us-docker.pkg.dev/p/r/i:1}}
scheduling: {{timeout: 3600s}}
"""
CASES = [
    ("n1-standrd-8", "", ["    machineType: n1-standard-8   # why"]),
    ("n1-standard-8", "    acceleratorType: T4\n    acceleratorCount: 1\n", ["    acceleratorType: NVIDIA_TESLA_T4"]),
    (
        "n1-standard-8", "    acceleratorType: 'T4'\n    acceleratorCount: 1\n",
        ["    acceleratorType: 'NVIDIA_TESLA_T4'"],
    ),
    (
        "n1-standard-8", "    acceleratorType: NVIDIA_TESLA_T4\n    acceleratorCount: 3 # odd\n",
        ["    acceleratorCount: 4 # odd"],
    ),
    (
        "n1-standard-8", '    acceleratorType: NVIDIA_TESLA_T4\n    acceleratorCount: "3"\n',
        ['    acceleratorCount: "4"'],
    ),
    ("n1-standard-8", "    acceleratorType: NVIDIA_TESLA_T4\n", ["    acceleratorCount: 1"]),
    ("n1-standard-8", "    acceleratorType: NVIDIA_TESLA_T4\n    acceleratorCount:\n", ["    acceleratorCount: 1"]),
    (
        "a2-highgpu-2g", "", ["    acceleratorType: NVIDIA_TESLA_A100", "    acceleratorCount: 2"],
    ),
    ("ct5lp-hightpu-4t", "    tpuTopology: 4x3\n", ["    tpuTopology: 2x4"]),
    ("cloud-tpu", "    acceleratorType: TPU_V3\n    acceleratorCount: 9\n", ["    acceleratorCount: 8"]),
]  # fmt: skip


@pytest.mark.parametrize(("machine", "more", "new"), CASES)
def test_only_the_lines_of_the_finding_change(tmp_path, machine, more, new):
    before = POOL.format(machine=machine, more=more)
    after, left = fixed(tmp_path / "job.yaml", before)
    assert [line[2:] for line in changed_lines(before, after) if line[0] == "+"] == new and not left
    report = check([tmp_path / "job.yaml"], as_of=DAY)
    assert not report.errors, report.findings
    assert fixed(tmp_path / "job.yaml", after) == (None, []), "a second time there is nothing left"


def test_json_keeps_its_layout_and_snake_case_its_names(tmp_path):
    spec = {"worker_pool_specs": [{"machine_spec": {"machine_type": "a2-highgpu-2g"}, "replica_count": 1}]}
    spec["worker_pool_specs"][0]["container_spec"] = {"image_uri": IMAGE["imageUri"]}
    for layout in ({"indent": 2}, {"indent": "\t"}, {}, {"separators": (",", ":")}):
        before = json.dumps(spec, **layout)
        after, _ = fixed(tmp_path / "job.json", before)
        machine = json.loads(after)["worker_pool_specs"][0]["machine_spec"]
        assert machine["accelerator_type"] == "NVIDIA_TESLA_A100" and machine["accelerator_count"] == 2
        assert after == json.dumps(json.loads(after), **layout)


def test_line_endings_the_mark_of_utf_8_and_other_documents_stay(tmp_path):
    wrong = POOL.format(machine="n1-standrd-8", more="")
    before = b"\xef\xbb\xbf" + f"a: 1\n---\n{wrong}---\nb: é\n".replace("\n", "\r\n").encode()
    after, left = fixed(tmp_path / "job.yaml", before)
    assert after.encode() == before.replace(b"standrd", b"standard") and not left
    mixed = wrong.replace("\n", "\r\n", 2)
    assert fixed(tmp_path / "job.yaml", mixed) == (mixed, [f"{tmp_path}/job.yaml: its lines end in different ways"])


def test_a_region_is_put_right_where_the_file_names_it(tmp_path):
    spec = {"location": "us-centrall1", "jobSpec": job(pool())}
    after, _ = fixed(tmp_path / "job.yaml", yaml.safe_dump(spec))
    assert yaml.safe_load(after) == {**spec, "location": "us-central1"}
    asked = yaml.safe_dump(job(pool()))
    assert fixed(tmp_path / "job.yaml", asked, regions=["us-centrall1"]) == (None, []), "the file names no region"


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("pool: &p {machineType: &m n1-standrd-8}\nworkerPoolSpecs: [{machineSpec: *p, replicaCount: 1}]", "alias"),
        ("workerPoolSpecs: [{machineSpec: {machineType: !!str n1-standrd-8}, replicaCount: 1}]", "an anchor or a tag"),
        ("workerPoolSpecs: [{machineSpec: {machineType: |-\n  n1-standrd-8\n  }, replicaCount: 1}]", None),
        ('workerPoolSpecs: \'[{"machineSpec": {"machineType": "n1-standrd-8"}, "replicaCount": 1}]\'', "in this form"),
        ("trainingInput: {scaleTier: BASIC_GPU}", "in this form"),
    ],
)
def test_a_value_that_cannot_be_changed_in_place_stays_and_is_reported(tmp_path, text, why):
    after, left = fixed(tmp_path / "job.yaml", text)
    if why is None:
        assert after is None, "invalid YAML"
    else:
        assert after == text and why in left[0] and f"{tmp_path}/job.yaml:1" in left[0]


def test_an_anchor_that_two_pools_share_is_changed_once(tmp_path):
    text = "workerPoolSpecs:\n- &p\n  machineSpec: {machineType: n1-standrd-8}\n  replicaCount: 1\n"
    text += "  containerSpec: {imageUri: a.b/c/d:1}\n- *p\n"
    after, left = fixed(tmp_path / "job.yaml", text)
    assert after == text.replace("standrd", "standard") and not left


def test_a_program_is_left_alone(tmp_path):
    program = (
        f"specs = {[pool(count=3)]!r}\njob = aiplatform.CustomJob(worker_pool_specs=specs, staging_bucket='gs://b')\n"
    )
    after, left = fixed(tmp_path / "job.py", program)
    assert after == program and "programs" in left[0]


def test_a_default_of_a_parameter_is_left_to_its_author(every_kind, tmp_path):
    text = every_kind[1].read_text().replace("defaultValue: NVIDIA_L4", "defaultValue: NVIDIA_L44")
    after, left = fixed(tmp_path / "p.yaml", text)
    assert "defaultValue: NVIDIA_L44" in after and any("default of the parameter 'gpu'" in line for line in left)
    # Constants of the pipeline are changed where they stand: 3 x V100, 8 x T4.
    changed = [line.split()[-1] for line in changed_lines(text, after)]
    assert sorted(changed) == ["3.0", "4", "4", "8.0"]


def test_a_nearest_that_has_errors_of_its_own_is_not_written(tmp_path, monkeypatch):
    text = POOL.format(machine="n1-standrd-8", more="")
    monkeypatch.setattr(fixing, "_edit_document", lambda document, *_: ("workerPoolSpecs: 3", []))
    after, left = fixed(tmp_path / "job.yaml", text)
    assert after == text and "errors too (GPU025)" in left[0]


def test_a_file_that_changes_meanwhile_is_not_overwritten(tmp_path):
    path = tmp_path / "job.yaml"
    path.write_text(POOL.format(machine="n1-standrd-8", more=""))
    [fix] = fixes([str(path)], OPTIONS)
    path.write_text("new: 1")
    with pytest.raises(RequestError, match="changed meanwhile"):
        fix.write()
    assert path.read_text() == "new: 1" and [file.name for file in tmp_path.iterdir()] == ["job.yaml"]


def test_whatever_is_asked_for_a_fix_ends_in_a_file_without_such_errors(tmp_path):
    random.seed(7)
    names = [
        "n1-standard-8",
        "n1-standard-96",
        "a2-highgpu-2g",
        "g2-standard-9",
        "a100-8g",
        "cloud-tpu",
        "e2-standard-4",
    ]
    gpus = [None, "T4", "NVIDIA_TESLA_K80", "NVIDIA_L4", "NVIDIA_H100_80GB", "TPU_V2", "RTX4090"]
    for number in range(40):
        spec = job(pool(random.choice(names), random.choice(gpus), random.choice([None, 0, 1, 3, 8, 999])))
        text = yaml.safe_dump(spec, default_flow_style=random.choice([True, False, None]))
        path = tmp_path / f"{number}.yaml"
        after, left = fixed(path, text)
        assert after is None or (after != text) != bool(left), (text, left)
        if after != text and after is not None:
            rest = [finding for finding in check([path], as_of=DAY).findings if finding.changes]
            assert not [finding for finding in rest if finding.severity == "error"], (text, after)
            assert yaml.safe_load(after)["scheduling"] == spec["scheduling"]


def misspelled(chance, word):
    at = chance.randrange(len(word))
    return word[:at] + chance.choice("abc0189-_") + word[at + 1 :] if chance.random() < 0.3 else word


def wrong_request(chance):
    """A job, a prediction or a persistent resource with whatever machine, GPU, count, region and strategy."""
    tpu = chance.random() < 0.15
    kinds = [*tpu_machines.machines(), tpu_machines.board_machine()] if tpu else [*catalog.machines()]
    spec = {"machineType": misspelled(chance, chance.choice(kinds)) if not tpu else chance.choice(kinds)}
    if chance.random() < 0.8:
        spec["acceleratorType"] = misspelled(chance, chance.choice([*catalog.accelerators()]))
    if chance.random() < 0.8:
        spec["acceleratorCount"] = chance.choice([0, 1, 2, 3, 4, 5, 8, 9, 64])
    if tpu:
        spec["tpuTopology"] = chance.choice(["2x2", "2x4", "9x9", "2x2x1", "4x4x4"])
    request = {"machineSpec": spec, "replicaCount": 1, "containerSpec": IMAGE}
    if chance.random() < 0.4:
        kind = chance.choice(["pd-ssd", "pd-sdd", "hyperdisk-balanced"])
        request["diskSpec"] = {"bootDiskType": kind, "bootDiskSizeGb": chance.choice([50, 200])}
    strategy = chance.choice(["STANDARD", "SPOT", "FLEX_START"])
    data = chance.choice([
        {"jobSpec": {"workerPoolSpecs": [request], "scheduling": {"timeout": "3600s", "strategy": strategy}}},
        {"resourcePools": [{key: value for key, value in request.items() if key != "containerSpec"}]},
        {"dedicatedResources": {"machineSpec": spec, "minReplicaCount": 1}},
    ])  # fmt: skip
    return data | (
        {"location": misspelled(chance, chance.choice(sorted(catalog.regions())))} if chance.random() < 0.6 else {}
    )


@pytest.mark.parametrize("seed", range(2))
def test_what_findings_propose_passes_the_check_and_is_what_fix_writes(tmp_path, seed):
    chance = random.Random(seed)
    proposals = 0
    for _ in range(100):
        data, regions = wrong_request(chance), chance.sample(sorted(catalog.regions()), chance.randrange(2))
        path = tmp_path / "job.json"
        path.write_text(json.dumps(data, indent=1))
        wrong = [each for each in check([path], regions=regions, as_of=DAY).of_severity("error") if each.changes]
        after, left = fixed(path, path.read_text(), regions=regions)
        assert not left, (data, regions, left, [(each.message, each.suggestion) for each in wrong])
        rest = check([path], regions=regions, as_of=DAY).of_severity("error")
        kinds = {each.rule for each in rest} & {each.rule for each in wrong}
        assert not [each for each in rest if each.changes] and not kinds, (data, after, rest)
        proposals += bool(wrong)
    assert proposals > 40


def test_what_a_plain_step_is_proposed_it_can_have():
    chance = random.Random(3)
    proposals = 0
    for _ in range(300):
        kind, count = chance.choice([*catalog.accelerators()]), chance.choice([0, 1, 2, 3, 5, 8, 16])
        limits = {"resourceCpuLimit": str(chance.choice([2, 16, 40, 90]))}
        regions = chance.sample(sorted(catalog.regions()), chance.randrange(2))

        def wrong(kind, count, limits=limits, regions=regions):
            accelerator = {"resourceType": kind, "resourceCount": str(count)}
            data = {"container": {"image": "a.b/c:1", "resources": {**limits, "accelerator": accelerator}}}
            return check([Document("p.py", data, "", places={})], regions=regions, as_of=DAY).of_severity("error")

        for finding in wrong(kind, count):
            if match := re.search(r"works: (\d+) x (\w+) on", finding.suggestion):
                proposals += 1
                assert not wrong(match.group(2), match.group(1)), (kind, count, limits, regions, finding.suggestion)
    assert proposals > 30


def verb(*words):
    with pytest.raises(SystemExit) as end:
        main(["check", *map(str, words), "--as-of", str(DAY)])
    return end.value.code


def test_the_verb_shows_a_diff_and_writes_it_with_an_option(tmp_path, capsys):
    path = tmp_path / "job.yaml"
    before = POOL.format(machine="n1-standrd-8", more="")
    path.write_text(before)
    assert verb(tmp_path, "--fix") == 1 and path.read_text() == before
    out, err = capsys.readouterr()
    assert out.splitlines()[:2] == [f"--- {path}", f"+++ {path}"] and "--write" in err
    assert "-    machineType: n1-standrd-8   # why\n+    machineType: n1-standard-8   # why\n" in out
    assert verb(path, "--fix", "--write") == 0 and path.read_text() == before.replace("standrd", "standard")
    assert "1 file written" in capsys.readouterr().err
    assert verb(path, "--fix", "--write") == 0 and capsys.readouterr()[0] == ""
    assert verb(path, "--write") == 2 and verb(path, "--fix", "--format", "json") == 2 and verb("-", "--fix") == 2
