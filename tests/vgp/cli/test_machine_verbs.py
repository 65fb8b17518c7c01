"""`vgp check`, `machines` and `convert` as a user meets them."""

import io
import json
import subprocess
import sys
import tomllib
from datetime import date

import pytest
from rich.console import Console

from vgp.__main__ import main
from vgp.base.errors import RequestError
from vgp.cli import machine_card, machine_list
from vgp.machines.catalog import catalog, fresh_figures, skus
from vgp.machines.catalog.prices import source
from vgp.machines.placement.combination import combinations, without_gpus
from vgp.machines.placement.placed_ladder import ladder
from vgp.machines.placement.placing import place
from vgp.machines.placement.search import Offer, search
from vgp.machines.placement.step_request import Request

TODAY = date(2026, 11, 20)
JOB = """\
workerPoolSpecs:
- machineSpec: {machineType: n1-standard-8, acceleratorType: NVIDIA_TESLA_T4, acceleratorCount: %d}
  replicaCount: 1
  containerSpec: {imageUri: "r/i:1"}
"""


def run(capsys, *arguments):
    with pytest.raises(SystemExit) as stop:
        main(arguments)
    printed = capsys.readouterr()
    return stop.value.code or 0, printed.out, printed.err


@pytest.fixture(autouse=True)
def elsewhere(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "right.yaml").write_text(JOB % 1)
    (tmp_path / "wrong.yaml").write_text(JOB % 3)
    (tmp_path / "text.yaml").write_text("hello")


@pytest.mark.parametrize(
    ("files", "code"), [(["right.yaml"], 0), (["wrong.yaml"], 1), (["wrong.yaml", "text.yaml"], 2)]
)
def test_the_exit_code_is_the_outcome(capsys, files, code):
    assert run(capsys, "check", *files)[0] == code


def test_json_is_alone_on_stdout(capsys):
    code, out, err = run(capsys, "check", "wrong.yaml", "text.yaml", "--format", "json")
    assert code == 2 and json.loads(out)["errors"] == 1
    assert "text.yaml" in err


def test_the_region_of_the_settings_counts_unless_one_is_given(capsys, tmp_path):
    (tmp_path / "pipelines.toml").write_text('region = "africa-south1"\n')
    assert "africa-south1 has no NVIDIA_TESLA_T4" in run(capsys, "check", "right.yaml")[1]
    assert run(capsys, "check", "right.yaml", "--region", "us-central1")[0] == 0
    (tmp_path / "pipelines.toml").write_text("region = [")
    assert run(capsys, "check", "right.yaml")[0] == 0


@pytest.mark.parametrize(
    ("options", "message"),
    [(["--format", "xml"], "sarif"), (["--ignore", "GPU9"], "GPU001"), (["--strategy", "cheap"], "SPOT"),
     (["--strategy", "preemptible"], "Did you mean SPOT?"),
     (["--as-of", "soon"], "2026-08-20")],
)  # fmt: skip
def test_a_wrong_option_names_the_choices(capsys, options, message):
    code, _, err = run(capsys, "check", "right.yaml", *options)
    assert code == 2 and message in err


def test_standard_input_is_read(capsys, monkeypatch):
    monkeypatch.setattr(sys, "stdin", io.StringIO(JOB % 8))
    code, out, _ = run(capsys, "check", "-")
    assert code == 1 and "<stdin>:2" in out


def test_checking_imports_neither_kfp_nor_torch_nor_google():
    code = (
        "import sys; from vgp.check.checker import check; check(['right.yaml']);"
        "print(sorted(set(sys.modules) & {'kfp', 'torch', 'google.protobuf', 'pydantic', 'training'}))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-1] == "[]"


def offers(accelerator=None, region=None, provisioning=None, as_of=TODAY, **sizes) -> list[Offer]:
    return search(machine_list.build_need(accelerator, region, provisioning, as_of, **sizes))


def test_machines_are_sorted_by_price_and_filtered():
    rows = offers("L4", "europe-west4", "spot", max_usd_per_hour=3)
    prices = [row.price.usd_per_hour for row in rows]
    assert prices == sorted(prices) and max(prices) <= 3 and rows
    assert {row.combination.accelerator_type for row in rows} == {"NVIDIA_L4"}
    assert {row.combination.count for row in offers(count=8)} == {8}
    assert all(row.combination.memory_gb >= 500 for row in offers(min_memory_gb=500))
    assert offers("L4", "europe-west1") == []
    assert not any(row.combination.accelerator for row in offers("none"))


def test_the_list_has_every_living_machine_once_for_each_count():
    rows = [machine_list.as_json(offer) for offer in offers()]
    names = {row["machine_type"] for row in rows}
    assert {"a4-highgpu-8g", "a4x-highgpu-4g", "a3-highgpu-1g", "n1-standard-4"} <= names
    assert next(row for row in rows if row["machine_type"] == "a4x-highgpu-4g")["provisioning"] == "reservation"
    assert "NVIDIA_TESLA_P100" not in {row["accelerator_type"] for row in rows}


@pytest.mark.parametrize("day", [date(2026, 8, 1), date(2026, 11, 20)])
@pytest.mark.parametrize("way", ["standard", "spot", "flex_start", "reservation"])
@pytest.mark.parametrize("region", ["us-central1", "europe-west4", "asia-northeast1"])
def test_the_list_has_what_compile_accepts_and_nothing_else(day, way, region):
    listed = {offer.combination for gpus in (None, "none") for offer in offers(gpus, region, way, day)}
    for combination in (*combinations(), *without_gpus()):
        names = {"machine": combination.machine_type, "accelerator": combination.accelerator_type}
        got_by = {"reservation": "any"} if way == "reservation" else {"strategy": way}
        try:
            place(Request(**names, count=combination.count or None, **got_by), region=region, as_of=day)
        except RequestError:
            assert combination not in listed
        else:
            assert (combination in listed) == (way in combination.machine.provisioning)


NOTHING = [
    (["--accelerator", "P100"], 2, "NVIDIA_TESLA_P100 is retired since 2026-09-15", "Nearest that works: 1 x "),
    (["--accelerator", "P100", "--count", "2"], 2, "retired since", "Nearest that works: 2 x "),
    (["--accelerator", "K80"], 2, "NVIDIA_TESLA_K80 is retired", "Nearest that works: 1 x "),
    (["--accelerator", "T4", "--count", "3"], 2, "the counts are 1, 2 or 4", "4 x NVIDIA_TESLA_T4 on n1-"),
    (["--count", "3"], 2, "No machine has 3 GPUs; the counts are 1, 2, 4, 8 or 16", "--count 4"),
    (["--accelerator", "none", "--count", "2"], 2, "needs a machine with GPUs", "Remove --count"),
    (["--accelerator", "TPU_V3"], 2, "The catalog has no machine with TPU_V3", "vgp machines cloud-tpu"),
    (["--accelerator", "TPU"], 2, "request TPUs by machine type", "ct5lp-hightpu-4t"),
    (["--accelerator", "cloud tpu v5e"], 2, "request TPUs by machine type", "ct5lp-hightpu-4t"),
    (["--accelerator", "L4", "--region", "europe"], 2, "no region 'europe'", "There are europe-central2, "),
    (["--provisioning", "preemptible"], 2, "there is no provisioning 'preemptible'", "Did you mean SPOT?"),
    (["--provisioning", "cheap"], 2, "there is no provisioning 'cheap'. Choices: standard, ", "reservation."),
    (["--accelerator", "L4", "--region", "europe-west1"], 2, "europe-west1 has no NVIDIA_L4", "us-central1"),
    (["--accelerator", "GB200", "--provisioning", "spot"], 2, "not offered with SPOT", "reservation"),
    (["--accelerator", "none", "--provisioning", "flex_start"], 2, "FLEX_START is for", "standard"),
    (["--accelerator", "H100", "--max-usd-per-hour", "2"], 1, "Without --max-usd-per-hour 2.0 there are", "a3-highgpu"),
    (["--min-gpu-memory-gb", "9999"], 1, "no machine meets all of these conditions", "Without --min-gpu-memory-gb"),
]


@pytest.mark.parametrize("form", [[], ["--json"]])
@pytest.mark.parametrize(("filters", "code", "why", "instead"), NOTHING)
def test_an_empty_list_gives_the_reason_and_a_filter_that_works(capsys, filters, code, why, instead, form):
    ended, out, err = run(capsys, "machines", *filters, "--as-of", "2026-11-20", *form)
    assert ended == code and why in err and instead in err
    assert out == ("[]\n" if form and code == 1 else "")


@pytest.mark.parametrize(
    ("accelerator", "region"),
    [(None, None), ("H100", None), ("T4", "northamerica-northeast1"), ("none", "northamerica-northeast1")],
)
def test_a_terminal_of_80_columns_cuts_nothing_but_the_gpus(accelerator, region):
    rows = offers(accelerator, region)
    terminal = Console(width=80, file=io.StringIO())
    terminal.print(machine_list.as_table(rows, TODAY))
    lines = terminal.file.getvalue().splitlines()
    assert rows and max(map(len, lines)) <= 80
    shown = [line.split() for line in lines]
    for row in rows:
        machine, usd = row.combination.machine_type, f"{row.price.usd_per_hour:,.2f}" if row.price else "price"
        cells = {machine, row.region or "-", row.provisioning, usd}
        assert any(words[:1] == [machine] and cells <= {*words} for words in shown), cells


def test_what_is_about_to_retire_is_listed_with_its_day(capsys):
    before = _shown(capsys, "machines", "--accelerator", "P100", "--as-of", "2026-08-01")
    assert "NVIDIA_TESLA_P100 reaches its end of support on 2026-09-15" in before
    rows = json.loads(_shown(capsys, "machines", "--accelerator", "P100", "--as-of", "2026-08-01", "--json"))
    assert {row["end_of_support"] for row in rows} == {"2026-09-15"}


def test_a_tpu_machine_shows_its_slices_and_what_they_cost_where(capsys):
    card = _shown(capsys, "machines", "ct5lp-hightpu-4t")
    assert "4 x TPU v5e" in card and "4x4 (4)" in card and "us-south1" in card
    detail = json.loads(_shown(capsys, "machines", "ct5lp-hightpu-4t", "--json"))
    (price,) = [row for row in detail["prices"] if (row["slice"], row["region"]) == ("4x4", "us-west1")
                and row["provisioning"] == "standard"]  # fmt: skip
    assert price["usd_per_hour"] == 22.08 and all(price["skus"]) and detail["topologies"]["4x4"] == 4
    spot = {row["slice"] for row in detail["prices"] if row["provisioning"] == "spot"}
    assert spot == {"2x2"}  # a slice of several machines is a Pod, which compile refuses as Spot
    boards = json.loads(_shown(capsys, "machines", "cloud-tpu", "--json"))
    assert [board["name"] for board in boards["accelerators"]] == ["TPU_V2", "TPU_V3"]
    assert "could not be opened" in boards["price_note"] and "reckoned as one core" in _shown(
        capsys, "machines", "cloud-tpu"
    )
    assert {row["slice"] for row in boards["prices"]} >= {"TPU_V3 x 8", "TPU_V3 x 32"}
    assert all(price["sources"] and price["region"] for price in boards["prices"]) and len(boards["sources"]) == 4


@pytest.mark.parametrize(("name", "ask"), [("L4", "--accelerator L4"), ("nvidia-h100", "--accelerator nvidia-h100"),
                                           ("TPU_V3", "cloud-tpu"), ("1 x L4", "--accelerator NVIDIA_L4 --count 1"),
                                           ("8xH100", "--accelerator NVIDIA_H100_80GB --count 8")])  # fmt: skip
def test_an_accelerator_is_no_machine_and_the_error_names_the_right_option(name, ask):
    with pytest.raises(RequestError, match=f"is a GPU, not a machine. .*: vgp machines {ask}$"):
        machine_card.find_machine(name)


def test_an_unknown_tpu_machine_is_reported_with_the_known_ones():
    with pytest.raises(RequestError, match=r"ct5lp-hightpu-3t looks like a TPU machine(.|\n)*ct5lp-hightpu-4t"):
        machine_card.find_machine("ct5lp-hightpu-3t")


def test_a_machine_shows_no_price_and_no_quota_of_what_is_retired(capsys):
    card = _shown(capsys, "machines", "n1-standard-8", "--as-of", "2026-11-20")
    assert "retired since 2026-09-15: compile refuses it. Instead: NVIDIA_TESLA_T4 or NVIDIA_L4" in card
    assert "quota to ask for: NVIDIA_TESLA_P100" not in card
    detail = machine_card.as_json(machine_card.find_machine("n1-standard-8"), TODAY)
    assert {row["name"] for row in detail["accelerators"] if row["retired"]} == {"NVIDIA_TESLA_P100"}
    assert "NVIDIA_TESLA_P100" not in {row["accelerator_type"] for row in detail["prices"]}
    living = machine_card.as_json(machine_card.find_machine("n1-standard-8"), date(2026, 8, 1))
    assert "NVIDIA_TESLA_P100" in {row["accelerator_type"] for row in living["prices"]}


@pytest.mark.parametrize(
    "wrong",
    [
        {"accelerator": "L9"},
        {"region": "us-east"},
        {"accelerator": "none", "region": "us-east"},
        {"provisioning": "cheap"},
    ],
)
def test_a_wrong_filter_is_refused_before_anything_is_listed(wrong):
    with pytest.raises(RequestError):
        offers(**wrong)


def test_one_machine_shows_everything_and_the_quota_to_ask_for(capsys):
    main_output = _shown(capsys, "machines", "g2-standard-24")
    metrics = ["custom_model_training_nvidia_l4_gpus", "custom_model_training_preemptible_nvidia_l4_gpus"]
    for text in [
        "2 x NVIDIA_L4",
        *metrics,
        "europe-west2",
        "pd-ssd",
        _sources("g2-standard-24")[0]["date"],
        "configure-compute",
    ]:
        assert text in main_output
    detail = json.loads(_shown(capsys, "machines", "n1-standard-8", "--json"))
    assert [gpu["counts"] for gpu in detail["accelerators"] if gpu["name"] == "NVIDIA_TESLA_V100"] == [[1, 2, 4, 8]]
    assert detail["quotas"][-1]["metric"] == "aiplatform.googleapis.com/custom_model_training_cpus"


def test_a_price_shows_its_source_and_whether_its_skus_are_known(capsys):
    both = _sources("n1-standard-8", "NVIDIA_TESLA_T4")
    detail = json.loads(_shown(capsys, "machines", "n1-standard-8", "--json"))
    prices = {
        (row["accelerator_type"], row["accelerator_count"], row["region"], row["provisioning"]): row
        for row in detail["prices"]
    }
    t4 = prices["NVIDIA_TESLA_T4", 1, "us-central1", "standard"]
    parts = "N1 Predefined Instance Core", "N1 Predefined Instance Ram", "Nvidia Tesla T4 GPU"
    table = fresh_figures.sku_rows()
    own = [table.get((part, "us-central1", "Training")) for part in parts]
    assert t4["skus"] == [table[part, "us-central1", "Training" if all(own) else "OnDemand"]["sku"] for part in parts]
    named = [detail["price_sources"][key] for key in t4["sources"]]
    assert named == [each for at, each in enumerate(both) if each not in both[:at]]
    bare = [row for row in prices.values() if row["accelerator_type"] is None and row["provisioning"] == "standard"]
    known = {row["region"]: all((part, row["region"], "OnDemand") in table for part in parts[:2]) for row in bare}
    assert {row["region"]: row["skus"] is not None for row in bare} == known
    unknown = sum(row["skus"] is None for row in detail["prices"])
    text = _shown(capsys, "machines", "n1-standard-8")
    count = f"without a known SKU id: {unknown} of {len(detail['prices'])} (--json has the ids)"
    assert (count in text) == bool(unknown)
    assert all(f"prices of {each['date']}: {each['page']}" in text for each in both)


def _sources(*names):
    """What the prices of these in us-central1 are from."""
    reading, rows = catalog.document("prices.json")["reading"], fresh_figures.price_rows()
    return [source(rows[name, "us-central1"]["source"] or reading) for name in names]


def test_a_list_counts_its_prices_without_a_known_sku(capsys, monkeypatch):
    known = {key: row for key, row in fresh_figures.sku_rows().items() if key[1] == "us-central1"}
    monkeypatch.setattr(skus, "_read_table", lambda: known)
    here, there = (["machines", "--accelerator", "L4", "--provisioning", "standard", "--region", region]
                   for region in ("us-central1", "europe-west4"))  # fmt: skip
    assert "SKU" not in _shown(capsys, *here)
    rows = json.loads(_shown(capsys, *there, "--json"))
    assert all(row["price_skus"] is None for row in rows)
    assert f"without a known SKU id: {len(rows)} of {len(rows)}" in _shown(capsys, *there)
    assert all(len(row["price_skus"]) == 3 for row in json.loads(_shown(capsys, *here, "--json")))


def test_an_unknown_machine_gets_the_nearest(capsys):
    code, _, err = run(capsys, "machines", "g2-standard-25")
    assert code == 2 and "g2-standard-24" in err


def test_a_step_of_the_settings_is_printed_as_a_job(capsys, tmp_path):
    (tmp_path / "pipelines.toml").write_text('image = "r/i:1"\n[steps.train]\naccelerator = "L4"\ncount = 2\n')
    code, out, _ = run(capsys, "convert", "--step", "train", "--args", "data --model m")
    assert code == 0 and "g2-standard-24" in out and "- data" in out
    assert run(capsys, "convert", "--step", "trian")[0] == 2
    assert run(capsys, "convert")[0] == 2
    code, _, err = run(capsys, "convert", "--step", "train", "--args", "it's")
    assert code == 2 and "--args cannot be split into words" in err


def _shown(capsys, *arguments):
    try:
        main(arguments)
    except SystemExit as stop:
        assert not stop.code
    return capsys.readouterr().out


def test_a_proposed_ladder_is_pasted_and_compiles(capsys, b200_without_price):
    asked = "machines", "--ladder", "--accelerator", "L4", "--gpus", "8", "--region", "us-central1"
    code, out, _ = run(capsys, *asked, "--deadline", "12h")
    assert code == 0 and 'deadline = "12h"' in out
    step = tomllib.loads(out)["steps"]["train"]
    placed = ladder(Request.model_validate(step), region="us-central1", name="train", as_of=TODAY)
    assert [rung.provisioning for rung in placed.rungs] == ["spot", "spot", "spot", "flex_start", "standard"]
    assert 'max_wait = "2h"' in out
    code, out, _ = run(
        capsys, "machines", "--ladder", "--accelerator", "B200", "--gpus", "8", "--region", "us-central1"
    )
    assert code == 0 and out.startswith("# no maximum cost")
    code, out, _ = run(capsys, *asked, "--max-usd", "50", "--json")
    value = json.loads(out)
    assert code == 0 and value["max_usd"] <= 50 and value["rungs"][0]["strategy"] == "spot" and value["toml"]


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (("--gpus", "8"), "need --ladder"),
        (("--ladder", "--accelerator", "none"), "--ladder needs GPUs"),
        (("--ladder", "--accelerator", "L4", "--provisioning", "spot"), "omit --provisioning"),
        (("--ladder", "--accelerator", "L4", "--deadline", "1x"), "'1x' is not a duration"),
        (("--ladder", "--accelerator", "L4", "--deadline", "5m"), "No rung can meet a deadline of 5m"),
    ],
)
def test_a_machine_without_a_possible_ladder_is_reported(capsys, options, words):
    code, _, err = run(capsys, "machines", *options)
    assert code == 2 and words in err


def test_a_ladder_with_a_project_has_compute_engines_advice_or_one_line_why_not(capsys, cloud):
    asked = "machines", "--ladder", "--accelerator", "L4", "--gpus", "2", "--region", "us-central1"
    _, without, _ = run(capsys, *asked)
    code, out, _ = run(capsys, *asked, "--project", "test-project")
    assert code == 0 and out.startswith(without.rstrip()) and "Compute Engine has no advice" in out
    cloud.zones.advice = {("us-central1", "g2-standard-24"): (0.75, 3600)}
    assert "(us-central1: obtainability 0.75 of 1" in run(capsys, *asked, "--project", "test-project")[1]
