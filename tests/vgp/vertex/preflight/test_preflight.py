"""The checks before every submission, and the verb `preflight`."""

import json

import pytest

from vgp.__main__ import main
from vgp.base.errors import WorkFailed
from vgp.vertex.preflight import check_basics, require_basics

from .conftest import L4, RUNNER

ACT_AS = (
    f"gcloud iam service-accounts add-iam-policy-binding {RUNNER} --project test-project "
    "--member serviceAccount:tester@test-project.iam.gserviceaccount.com --role roles/iam.serviceAccountUser"
)


def test_the_cheap_part_is_three_calls(world):
    found = check_basics(world.settings())
    assert {each.level for each in found} == {"ok"}
    assert sorted(world.calls()) == [
        "cloudresourcemanager.projects.get", "iam.projects.serviceAccounts.testIamPermissions", "storage.buckets.get",
    ]  # fmt: skip


def test_what_is_fine_is_not_refused(world):
    assert require_basics(world.settings()) == check_basics(world.settings())


def test_every_error_of_the_cheap_part_is_in_one_message(world):
    world.cloud.policies.missing.add("iam.serviceAccounts.actAs")
    world.cloud.storage.buckets["test-bucket"]["projectNumber"] = "666"
    with pytest.raises(WorkFailed) as refused:
        require_basics(world.settings())
    assert str(refused.value).splitlines() == [
        "preflight: nothing was started.",
        "  gs://test-bucket belongs to another project (number 666, not 123456789012)  [bucket.owner]",
        "    Name a bucket of your own project, or change project: vgp config",
        f"  {RUNNER} does not let you act as it: you can start nothing that runs as it  [identity.act_as]",
        f"    {ACT_AS}",
        "  List all checks: vgp preflight NAME. Skip the checks: --no-preflight.",
    ]


def test_what_may_not_be_seen_is_not_refused(world):
    world.forbid("cloudresourcemanager.projects.get", "resourcemanager.projects.get")
    world.forbid("storage.buckets.get", "storage.buckets.get")
    assert "unknown" in {each.level for each in require_basics(world.settings())}


@pytest.fixture
def verb(world, monkeypatch, repository, capsys):
    """Runs the verb in a repository that names only a machine; returns exit code, stdout, stderr."""
    (repository / "pipelines.toml").write_text('[steps.train]\nmachine = "g2-standard-24"\n')
    monkeypatch.chdir(repository)
    for key, value in world.own.items():
        monkeypatch.setenv(f"PIPELINES_{key.upper()}", str(value))

    def run(*arguments):
        with pytest.raises(SystemExit) as ended:
            main(["preflight", "training", *arguments])
        return ended.value.code, *capsys.readouterr()

    return run


def test_the_verb_ends_well_when_everything_is_fine(verb):
    code, out, _ = verb()
    assert code == 0
    assert "✓ quota.limit" in out and "train needs 2 GPUs; the limit is 8" in out
    assert out.rstrip().endswith("ok.")


def test_the_verb_ends_with_1_when_there_are_errors(verb, world):
    world.quota(L4, 0, region="us-central1")
    code, out, _ = verb()
    assert code == 1
    assert "✗ quota.limit" in out and "gcloud beta quotas preferences create" in out
    assert "1 error" in out


def test_warnings_do_not_fail_the_verb(verb, world):
    world.grant("projects/test-project", "roles/editor", f"serviceAccount:{RUNNER}")
    code, out, _ = verb()
    assert code == 0 and "1 warning" in out


def test_the_verb_as_json(verb, world):
    world.cloud.billing.enabled = False
    code, out, _ = verb("--json")
    printed = json.loads(out)
    assert code == 1 and printed["counts"]["error"] == 1
    (error,) = [each for each in printed["findings"] if each["level"] == "error"]
    assert set(error) == {"check", "subject", "level", "seen", "hint"} and error["check"] == "account.billing"
