"""infra/: nothing undeclared, nothing unused, least rights, and every API that the commands call."""

import re
from pathlib import Path

import pytest

from tests.infra.terraform import FILES, FOLDER, TEXT, blocks, locals_, resources, roles_on_project
from vgp.settings.rules import APIS

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


def test_every_variable_says_what_it_is_and_every_text_and_number_is_checked() -> None:
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


def test_nobody_gets_a_basic_or_an_administrator_role() -> None:
    granted = set(re.findall(r"roles/[a-zA-Z.]+", TEXT))
    assert {"roles/aiplatform.user", "roles/storage.objectUser"} <= granted
    assert not [role for role in granted if re.search(r"(?i)admin|owner|editor$", role) and "builds.editor" not in role]


def test_nobody_outside_is_let_in() -> None:
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
        "roles/cloudbuild.builds.editor",
        "roles/cloudquotas.viewer",
        "roles/logging.logWriter",
        "roles/logging.viewer",
    }


def test_the_runner_may_act_as_itself_and_reaches_one_bucket() -> None:
    runner = [(type_, body) for type_, _, body in resources() if body.get("member", "").find("account.runner.") > 0]
    assert {(type_.removeprefix("google_"), body["role"]) for type_, body in runner} == {
        ("project_iam_member", "${each.value}"),
        ("storage_bucket_iam_member", "roles/storage.objectUser"),
        ("storage_bucket_iam_member", "roles/storage.objectViewer"),
        ("artifact_registry_repository_iam_member", "roles/artifactregistry.reader"),
        ("service_account_iam_member", "roles/iam.serviceAccountUser"),
    }
    assert locals_()["runner_roles"] == ["roles/aiplatform.user", "roles/logging.logWriter"]


def test_the_custom_role_only_looks() -> None:
    (role,) = [body for _, _, body in resources("google_project_iam_custom_role")]
    verbs = {permission.rsplit(".", 1)[1] for permission in role["permissions"]}
    assert verbs == {"get", "getIamPolicy", "list", "use"}
    assert [each for each in role["permissions"] if each.endswith(".use")] == ["serviceusage.services.use"]


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
