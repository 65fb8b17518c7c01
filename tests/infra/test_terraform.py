"""infra/: nothing undeclared, nothing unused, least rights, and every API that the commands call."""

import re
from pathlib import Path
from typing import Any

import pytest

from tests.infra.terraform import FILES, FOLDER, TEXT, blocks, custom_roles, locals_, resources, roles_on_project
from vgp.settings.value_rules import APIS
from vgp.vertex import permissions

VERTEX = FOLDER.parent / "vgp/vertex"


def test_every_variable_that_is_used_is_declared_and_the_other_way_round() -> None:
    declared = {name for block in blocks("variable") for name in block}
    assert set(re.findall(r"\bvar\.(\w+)", _without_variables())) == declared


def test_every_local_that_is_used_is_declared_and_the_other_way_round() -> None:
    assert set(re.findall(r"\blocal\.(\w+)", TEXT)) == set(locals_())


def test_every_resource_that_is_named_is_there() -> None:
    there = {f"{type_}.{name}" for type_, name, _ in resources()}
    there |= {f"{type_}.{name}" for block in blocks("data") for type_, named in block.items() for name in named}
    assert set(re.findall(r"\b(google_\w+\.\w+)", TEXT)) <= there


def test_every_variable_has_a_description_and_every_text_and_number_is_checked() -> None:
    for block in blocks("variable"):
        for name, body in block.items():
            assert body["description"].endswith("."), name
            assert body["type"] == "bool" or body["validation"], name


def test_the_example_sets_what_has_no_default() -> None:
    needed = {name for block in blocks("variable") for name, body in block.items() if "default" not in body}
    example = (FOLDER / "terraform.tfvars.example").read_text()
    assert needed == {"project", "region"}
    for name in needed:
        assert re.search(rf"(?m)^{name} +=", example), name
    known = {name for block in blocks("variable") for name in block}
    assert set(re.findall(r"(?m)^(?:# )?(\w+) +=", example)) <= known


def test_providers_are_bounded_on_both_sides() -> None:
    (terraform,) = blocks("terraform")
    versions = [terraform["required_version"]]
    versions += [provider["version"] for provider in terraform["required_providers"][0].values()]
    for version in versions:
        assert re.fullmatch(r">= [\d.]+, < [\d.]+", version), version


def test_no_account_gets_a_basic_or_an_administrator_role() -> None:
    granted = set(re.findall(r"roles/[a-zA-Z.]+", TEXT))
    assert {"roles/aiplatform.user", "roles/storage.objectUser"} <= granted
    narrow = ("roles/cloudbuild.builds.editor", "roles/bigquery.dataEditor")  # the latter of single datasets
    assert not [role for role in granted if re.search(r"(?i)admin|owner|editor$", role) and role not in narrow]


def test_no_outside_account_is_let_in() -> None:
    members = re.findall(r'member\s+=\s+"([^"]+)"', TEXT)
    assert members
    assert "allUsers" not in TEXT
    assert "allAuthenticatedUsers" not in TEXT
    assert {member for member in members if not member.startswith("principalSet://")} == {
        "group:cloud-storage-analytics@google.com"
    }


def test_what_has_a_narrower_place_is_not_granted_on_the_project() -> None:
    assert roles_on_project() == {
        "roles/aiplatform.user",
        "roles/bigquery.user",
        "roles/cloudbuild.builds.editor",
        "roles/cloudquotas.viewer",
        "roles/compute.viewer",
        "roles/dataflow.developer",
        "roles/dataflow.worker",
        "roles/logging.logWriter",
        "roles/logging.viewer",
    }


def test_the_runner_may_act_as_itself_and_reaches_one_bucket() -> None:
    runner = [(type_, body) for type_, _, body in resources() if body.get("member", "").find("account.runner.") > 0]
    assert {(type_.removeprefix("google_"), body["role"]) for type_, body in runner} == {
        ("project_iam_member", "${each.value}"),
        ("project_iam_member", "roles/bigquery.user"),
        ("project_iam_member", "roles/dataflow.developer"),
        ("project_iam_member", "roles/dataflow.worker"),
        ("bigquery_dataset_iam_member", "roles/bigquery.dataViewer"),
        ("bigquery_dataset_iam_member", "roles/bigquery.dataEditor"),
        ("storage_bucket_iam_member", "roles/storage.objectUser"),
        ("storage_bucket_iam_member", "roles/storage.objectViewer"),
        ("storage_bucket_iam_member", "roles/storage.bucketViewer"),
        ("artifact_registry_repository_iam_member", "roles/artifactregistry.reader"),
        ("secret_manager_secret_iam_member", "roles/secretmanager.secretAccessor"),
        ("service_account_iam_member", "roles/iam.serviceAccountUser"),
    }
    assert locals_()["runner_roles"] == ["roles/aiplatform.user", "roles/logging.logWriter", "roles/logging.viewer"]


def test_the_custom_role_of_preflight_only_looks() -> None:
    assert {permission.rsplit(".", 1)[1] for permission in custom_roles()["preflight"]} == {
        "get", "getIamPolicy", "list", "use",
    }  # fmt: skip
    assert [name for name in custom_roles()["preflight"] if name.endswith(".use")] == ["serviceusage.services.use"]
    assert custom_roles()["untag"] == {"artifactregistry.tags.delete"}


#: Where Terraform grants something -> what the table of permissions calls it.
PLACES = {
    "google_storage_bucket_iam_member": "bucket",
    "google_bigquery_dataset_iam_member": "tables",
    "google_artifact_registry_repository_iam_member.images": "images",
    "google_artifact_registry_repository_iam_member.templates": "templates",
    "google_service_account_iam_member.runner": "runner",
    "google_service_account_iam_member.builder": "builder",
    "google_secret_manager_secret_iam_member": "secret",
    "google_kms_crypto_key_iam_member": "key",
}


#: The holder of a grant, by the `member` of the resource: for_each goes over the submitters.
CALLERS = {"${each.value}", "${each.value.member}", "${google_service_account.submitter.member}"}


def granted(by: str) -> dict[str, set[str]]:
    """Thing of the table of permissions -> what Terraform lets an account do with it."""
    found: dict[str, set[str]] = {
        thing: set() for thing in (*PLACES.values(), "project", "builds", "data", "made", "ladder")
    }
    for type_, _, body in resources():
        if by == _holder(type_, body.get("member", "")):
            found[_thing(type_, body)] |= _permissions(body["role"], by)
    return found


def _holder(type_: str, member: str) -> str:
    if type_ == "google_kms_crypto_key_iam_member":
        return "aiplatform"
    named = re.search(r"service_account\.(runner|builder)\.member", member)
    return named[1] if named else "caller" if member in CALLERS else ""


def _thing(type_: str, body: dict[str, Any]) -> str:
    if type_ == "google_project_iam_member":
        return "project"
    if type_ == "google_storage_bucket_iam_member" and "this" not in body["bucket"]:
        return "data"
    if "condition" in body:
        return "builds"
    on = body.get("repository", "") + body.get("service_account_id", "")
    noun = next((noun for noun in ("images", "templates", "runner", "builder") if f".{noun}." in on), "")
    return PLACES[".".join(filter(None, [type_, noun]))]


def _permissions(role: str, by: str) -> set[str]:
    """What a role, or the roles of a list, let do: by Google's pages, or as Terraform itself makes the role."""
    if role in ("${each.value}", "${each.value.role}"):
        listed = locals_()["runner_roles" if by == "runner" else "submitter_roles"]
        named = list(listed.values() if isinstance(listed, dict) else listed)
        return {permission for one in named for permission in _permissions(one, by)}
    own = re.search(r"custom_role\.(\w+)\.name", role)
    return custom_roles()[own[1]] if own else set(permissions.roles()[role])


#: Calls whose answer improves a choice and is not needed. No custom role was seen to take their permission.
OPTIONAL = "compute.advice."


@pytest.mark.parametrize("by", ["caller", "runner", "worker", "builder", "aiplatform"])
def test_each_may_do_what_its_calls_take_and_nothing_is_asked_of_the_owner(by: str) -> None:
    may = granted("runner" if by == "worker" else by)  # who is both
    for call in permissions.calls():
        if call.by == by and (by, call.on) != ("aiplatform", "images") and not call.method.startswith(OPTIONAL):
            here = may["project"] | may[call.on]
            assert set(call.permissions) <= here, f"{call.method} on {call.on}: {set(call.permissions) - here}"


def test_the_custom_role_of_preflight_holds_nothing_that_no_call_takes() -> None:
    taken = {name for call in permissions.calls() if "preflight" in call.when for name in call.permissions}
    assert custom_roles()["preflight"] <= taken | {"serviceusage.services.list"}


def test_a_mail_is_sent_only_where_an_address_is_given() -> None:
    kinds = ("google_monitoring_notification_channel", "google_monitoring_alert_policy", "google_logging_metric")
    alerts = {name: body for kind in kinds for _, name, body in resources(kind)}
    assert {name: body["for_each"] for name, body in alerts.items()} == {
        "email": "${local.alerts}", "failed": "${local.alerts}", "succeeded": "${local.alerts}",
        "missed": "${local.missed}",
    }  # fmt: skip
    assert all("var.alert_email == null ? {}" in locals_()[name] for name in ("alerts", "missed"))


def test_a_missed_night_is_no_condition_that_google_ends_after_a_day() -> None:
    """A metric may be absent for 23.5 hours at most, less than from night to night."""
    (missed,) = [body for _, name, body in resources("google_monitoring_alert_policy") if name == "missed"]
    (condition,) = missed["conditions"]
    assert "condition_absent" not in condition
    (promql,) = condition["condition_prometheus_query_language"]
    assert re.findall(r"[a-z_]+(?=\()", promql["query"]) == ["absent_over_time", "sum", "increase"]
    assert "[${hours}h]" in str(locals_()["succeeded"])


def test_no_data_is_public_or_lost_at_once() -> None:
    buckets = {name: body for _, name, body in resources("google_storage_bucket") if "versioning" in body}
    assert set(buckets) == {"this", "logs"}
    for bucket in buckets.values():
        assert bucket["public_access_prevention"] == "enforced"
        assert bucket["uniform_bucket_level_access"] is True
        assert bucket["versioning"] == [{"enabled": True}]
        assert bucket["force_destroy"] is False
    assert buckets["this"]["logging"] == [{"log_bucket": "${google_storage_bucket.logs.name}"}]


def test_every_store_has_the_key() -> None:
    kinds = ("google_storage_bucket", "google_artifact_registry_repository")
    stores = [body for type_, _, body in resources() if type_ in kinds]
    assert len(stores) == 4
    for store in stores:
        assert store.get("kms_key_name") == "${local.key}" or "local.key" in str(store["dynamic"])


def test_key_and_ring_are_kept() -> None:
    for _, name, body in resources("google_kms_key_ring"):
        assert body["lifecycle"] == [{"prevent_destroy": True}], name
    (key,) = [body for type_, _, body in resources("google_kms_crypto_key") if type_ == "google_kms_crypto_key"]
    assert key["lifecycle"] == [{"prevent_destroy": True}]
    assert key["rotation_period"] == f"{90 * 24 * 3600}s"


def test_github_is_believed_by_numbers_and_environment() -> None:
    (provider,) = [body for _, _, body in resources("google_iam_workload_identity_pool_provider")]
    for claim in ("repository_owner_id ==", "repository_id ==", "environment in"):
        assert f"assertion.{claim}" in provider["attribute_condition"]
    assert provider["oidc"] == [{"issuer_uri": "https://token.actions.githubusercontent.com"}]


def test_the_apis_that_the_commands_call_are_enabled() -> None:
    code = "\n".join(path.read_text() for path in VERTEX.rglob("*.py"))
    by_rest = set(re.findall(r'rest\.\w+\(\s*settings, "(\w+)"', code))
    assert by_rest >= {"compute", "iam"}
    called = (set(APIS) | by_rest) - {"kfp_registry"}
    enabled = {name.removesuffix(".googleapis.com") for name in re.findall(r"[a-z]+\.googleapis\.com", _apis())}
    assert called <= enabled
    assert {"cloudbuild", "iamcredentials", "sts", "billingbudgets"} <= enabled


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.name)
def test_files_are_formatted(path: Path) -> None:
    """What `terraform fmt` would change: tabs, odd indents, spaces at the end, `=` not in one column."""
    text = path.read_text()
    assert text.endswith("}\n")
    column: tuple[int, int] | None = None
    for number, line in enumerate(text.splitlines(), start=1):
        where = f"{path.name}:{number}"
        assert line == line.rstrip() and "\t" not in line, where
        indent = len(line) - len(line.lstrip())
        assert indent % 2 == 0, where
        pair = re.match(r"(\s*[\w\".-]+\s+)=\s", line)
        opens = line.rstrip().endswith(("{", "[", "("))
        if pair and not opens:
            assert column is None or column[0] != indent or column[1] == len(pair[1]), where
            column = (indent, len(pair[1]))
        else:
            column = None


def _without_variables() -> str:
    """All files but the declarations, in which a variable also checks itself."""
    return re.sub(r'(?ms)^variable "\w+" \{.*?^\}', "", TEXT)


def _apis() -> str:
    return str(locals_()["apis"])
