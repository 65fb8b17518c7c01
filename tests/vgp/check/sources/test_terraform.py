"""Terraform: resources of Vertex AI with machines, right and wrong, with variables, instances and mistakes."""

import json

import pytest

from vgp.check.checker import check
from vgp.check.document_kinds import parse
from vgp.check.fix import Options, fixes

MACHINE = """
      machine_spec {{
        machine_type      = {machine}
        accelerator_type  = {kind}
        accelerator_count = {count}
      }}"""
RESOURCES = {
    "pool": """resource "google_vertex_ai_deployment_resource_pool" "it" {{
  region = "us-central1"
  name   = "pool"
  {meta}
  dedicated_resources {{{spec}
    min_replica_count = 1
  }}
}}""",
    "garden": """resource "google_vertex_ai_endpoint_with_model_garden_deployment" "it" {{
  location             = "us-central1"
  publisher_model_name = "publishers/google/models/gemma3@gemma-3-1b-it"
  {meta}
  deploy_config {{
    dedicated_resources {{{spec}
      min_replica_count = 1
      spot              = false
    }}
  }}
}}""",
    "model": """resource "google_vertex_ai_endpoint_deployed_model" "it" {{
  region = "us-central1"
  {meta}
  dedicated_resources {{{spec}
    min_replica_count = 1
    autoscaling_metric_specs {{
      metric_name = "aiplatform.googleapis.com/prediction/online/cpu/utilization"
    }}
  }}
}}""",
    "persistent": """resource "google_vertex_ai_persistent_resource" "it" {{
  location = "us-central1"
  {meta}
  resource_pools {{{spec}
    replica_count = "1"
    disk_spec {{
      boot_disk_type    = "pd-ssd"
      boot_disk_size_gb = 100
    }}
  }}
}}""",
    "job": """resource "google_vertex_ai_custom_job" "it" {{
  location = "us-central1"
  {meta}
  job_spec {{
    scheduling {{
      timeout = "3600s"
    }}
    worker_pool_specs {{{spec}
      replica_count = 1
      container_spec {{
        image_uri = "a.b/c:1"
        env {{
          name  = "A"
          value = "b"
        }}
      }}
    }}
  }}
}}""",
    "notebook": """resource "google_vertex_ai_schedule" "it" {{
  region = "us-central1"
  {meta}
  create_notebook_execution_job_request {{
    notebook_execution_job {{
      custom_environment_spec {{{spec}
      }}
    }}
  }}
}}""",
}


def sample(kind="pool", machine='"n1-standard-8"', gpu='"NVIDIA_TESLA_T4"', count="2", meta=""):
    spec = MACHINE.format(machine=machine, kind=gpu, count=count)
    return RESOURCES[kind].format(spec=spec, meta=meta) + "\n"


def judged(text, folder=None, name="main.tf"):
    return check(parse(name, text, folder))


def rules(text, severity="error", **named):
    return [each.rule for each in judged(text, **named).of_severity(severity)]


@pytest.mark.parametrize("kind", RESOURCES)
def test_the_machine_of_every_resource_is_judged_on_its_line(kind):
    assert not rules(sample(kind)) and not rules(sample(kind), "warning")
    assert len(judged(sample(kind)).steps) == 1
    (finding,) = judged(sample(kind, count="3")).of_severity("error")
    line = sample(kind, count="3").split("\n").index("        accelerator_count = 3") + 1
    assert (finding.rule, finding.line) == ("GPU003", line)
    assert finding.step.startswith("google_vertex_ai_") and finding.step.endswith(".it")
    assert finding.field.endswith("machine_spec.accelerator_count")
    assert rules(sample(kind, gpu='"NVIDIA_T4"')) == ["GPU002"]


def test_a_deployed_index_and_a_resource_without_a_region_of_its_own():
    text = (
        'resource "google_vertex_ai_index_endpoint_deployed_index" "i" {\n  dedicated_resources {\n    machine_spec {\n'
    )
    text += (
        '      machine_type = "e2-standard-16"\n    }\n    min_replica_count = 2\n    max_replica_count = 1\n  }\n}\n'
    )
    assert rules(text) == ["GPU007"]
    nowhere = sample(machine='"a2-highgpu-1g"', gpu='"NVIDIA_TESLA_A100"', count="1").replace("region", "# region")
    assert not rules(nowhere)
    assert rules(nowhere + 'provider "google" {\n  region = "us-west9"\n}\n') == ["GPU030"]


def test_variables_are_their_defaults_or_what_tfvars_gives_them_from_every_file_of_the_folder(tmp_path):
    text = sample(gpu="var.gpu", count="local.count")
    assert rules(text) == [] and rules(text, "note") == ["GPU024", "GPU024"]
    (tmp_path / "variables.tf").write_text(
        'variable "gpu" {\n  default = "NVIDIA_TESLA_T4"\n}\nlocals {\n  count = var.two + 1\n}\n'
        'variable "two" {\n  type = number\n  default = 2\n}\n'
    )
    assert rules(text, folder=tmp_path) == ["GPU003"]
    (tmp_path / "terraform.tfvars").write_text('two = 1\ngpu = "NVIDIA_TESLA_K80"\n')
    assert rules(text, folder=tmp_path) == ["GPU011"]
    (tmp_path / "z.auto.tfvars.json").write_text('{"gpu": "NVIDIA_TESLA_T4"}')
    assert not rules(text, folder=tmp_path)
    (tmp_path / "variables.tf").write_text("variable {")  # what cannot be read there is not known here
    assert rules(text, "note", folder=tmp_path) == ["GPU024"]


@pytest.mark.parametrize(
    ("machine", "found"),
    [
        ('"n1-standard-${2 * 4}"', []),
        ('"n1-standard-${var.nowhere}"', []),
        ('var.big ? "g2-standard-4" : "n1-standard-8"', ["GPU004"]),
        ('lookup({ small = "n1-standard-8" }, "small", "x")', []),
        ('try(local.sizes.huge, local.sizes["small"], "n1")', ["GPU001"]),
        ('coalesce(null, "", "g2-standard-8")', ["GPU004"]),
        ('lower("N1-STANDARD-8")', []),
        ("data.google_x.y.machine", []),
        ("[for each in local.sizes : each][0]", []),
    ],
)
def test_expressions_are_computed_where_everything_in_them_is_known(machine, found):
    text = 'variable "big" {\n  default = true\n}\nlocals {\n  sizes = { small = "m1-large" }\n}\n'
    report = judged(text + sample(machine=machine))
    assert [each.rule for each in report.of_severity("error")] == found
    is_known = not ("nowhere" in machine or "data." in machine or "[for" in machine)
    assert bool(report.of_severity("note")) != is_known and len(report.steps) == 1


def test_each_of_several_resources_is_judged():
    assert rules(sample(meta="count = 3", count="count.index + 1")) == ["GPU003"]
    text = sample(meta="for_each = { a = 2, b = 3 }", count="each.value")
    (finding,) = judged(text).of_severity("error")
    assert finding.step == 'google_vertex_ai_deployment_resource_pool.it["b"]'
    assert len(judged(sample(meta='for_each = toset(["x", "y", "x"])')).steps) == 2
    assert not judged(sample(meta="count = 0", count="3")).findings
    assert rules(sample(meta="count = 101", count="3")) == ["GPU003"] * 100
    assert "101" in judged(sample(meta="count = 101")).of_severity("note")[0].message


@pytest.mark.parametrize("meta", ["count = var.n", "for_each = var.n", "count = var.on ? 1 : 0", "for_each = var.none"])
def test_a_resource_that_may_be_made_is_judged_once_with_a_note(meta):
    text = 'variable "on" {\n  default = false\n}\nvariable "none" {\n  default = {}\n}\n'
    report = judged(text + sample(meta=meta, count="3"))
    assert [each.rule for each in report.findings] == ["GPU024", "GPU003"] and len(report.steps) == 1
    assert (
        report.findings[0].message.startswith(meta.split(" ")[0])
        and "as if there were one" in report.findings[0].message
    )


def test_dynamic_blocks_are_their_content_for_each_item():
    static = sample("persistent", count="resource_pools.value")
    text = static.replace("  resource_pools {", '  dynamic "resource_pools" {\n    for_each = [2, 3]\n    content {')
    text = text.rstrip().removesuffix("}") + "  }\n}\n"
    (finding,) = judged(text).of_severity("error")
    assert (finding.rule, finding.field[:17]) == ("GPU003", "resource_pools[1]") and len(judged(text).steps) == 2
    unknown = judged(text.replace("[2, 3]", "var.pools"))
    assert len(unknown.steps) == 1 and "var.pools" in unknown.of_severity("note")[0].message
    named = text.replace("for_each =", "iterator = it\n    for_each =").replace("resource_pools.value", "it.value")
    assert rules(named) == ["GPU003"]


def test_a_pipeline_in_the_file_is_judged_and_one_elsewhere_is_not_checkable():
    task = {"componentRef": {"name": "a"}}
    resources = {"accelerator": {"type": "NVIDIA_TESLA_T4", "count": "3"}}
    spec = {
        "root": {"dag": {"tasks": {"step": task}}}, "components": {"a": {"executorLabel": "a"}},
        "deploymentSpec": {"executors": {"a": {"container": {"image": "a.b/c:1", "resources": resources}}}},
    }  # fmt: skip
    around = 'resource "google_vertex_ai_pipeline_job" "p" {{\n  pipeline_spec = {}\n}}\n'
    assert rules(around.format(f"jsonencode({json.dumps(spec)})")) == ["GPU003"]
    assert rules(around.format(f"<<EOT\n{json.dumps(spec)}\nEOT\n")) == ["GPU003"]
    report = judged(around.format('file("${path.module}/pipeline.json")'))
    assert "file(" in report.of_severity("note")[0].message and len(report.steps) == 1


def test_terraforms_json_is_read_too(tmp_path):
    machine = {"machine_type": "n1-standard-8", "accelerator_type": "${var.gpu}", "accelerator_count": "${1 + 2}"}
    body = {"region": "us-central1", "dedicated_resources": {"machine_spec": machine, "min_replica_count": 1}}
    data = {"variable": {"gpu": {"default": "NVIDIA_TESLA_T4"}}}
    data["resource"] = {"google_vertex_ai_deployment_resource_pool": {"it": body}}
    (tmp_path / "main.tf.json").write_text(json.dumps(data, indent=1))
    (finding,) = check([tmp_path]).of_severity("error")
    assert (finding.rule, finding.line) == ("GPU003", 11)
    body["dedicated_resources"] = [{"machine_spec": [machine], "min_replica_count": 1}]
    data["resource"]["google_vertex_ai_deployment_resource_pool"]["it"] = [body]
    assert rules(json.dumps(data), name="x.tf.json") == ["GPU003"]
    assert judged(json.dumps(data)[:-5], name="x.tf.json").exit_code == 2


def test_a_faulty_file_that_asks_for_machines_is_a_finding_and_a_foreign_one_is_skipped(tmp_path):
    (tmp_path / "main.tf").write_text(sample() + "resource {{\n")
    for report in (check([tmp_path]), check([tmp_path / "main.tf"]), check([tmp_path / "main.tf"], skip_others=True)):
        (finding,) = report.of_severity("error")
        assert report.exit_code == 2 and finding.rule == "GPU031" and "no Terraform: line 14" in finding.message
    for foreign in ('resource "google_storage_bucket" "b" {{\n', 'resource "google_vertex_ai_dataset" "d" {\n}\n'):
        (tmp_path / "main.tf").write_text(foreign)
        assert check([tmp_path]).exit_code == check([tmp_path / "main.tf"]).exit_code == 0
    (tmp_path / "main.tf").write_text(sample() + "# " + "x" * 300_000)
    assert check([tmp_path]).exit_code == 2


def test_terraform_is_not_changed_by_fix(tmp_path):
    (tmp_path / "main.tf").write_text(sample(count="3"))
    (fix,) = fixes([str(tmp_path)], Options())
    assert not fix.changes and "yourself" in fix.left[0]


@pytest.mark.parametrize(
    "deep", ["[" * 5000 + "]" * 5000, "-" * 300, "(" * 3000 + "1" + ")" * 3000, "1 + " * 5000 + "1"]
)
def test_what_is_nested_deeply_ends_with_a_finding(deep):
    report = judged(sample(count=deep))
    assert report.findings or report.unreadable


def test_local_values_that_refer_to_themselves_are_not_known():
    assert rules(sample(count="local.a") + "locals {\n  a = local.b\n  b = local.a\n}\n", "note") == ["GPU024"]
