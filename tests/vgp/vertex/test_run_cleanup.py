"""The files that runs left behind: files in use stay, and only files that were examined are removed."""

import json
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from tools.emulator.cloud import Cloud, status
from vgp.__main__ import main
from vgp.base.errors import RequestError, WorkFailed
from vgp.protocol.moment import EPOCH_DAYS
from vgp.settings import Settings, load
from vgp.train.checkpoint.lease_holder import parse_holder
from vgp.vertex import cleaning_view, clients, resource_names
from vgp.vertex import run_cleanup as plans
from vgp.vertex.leftovers import Item, NeededGroups, Root, group_of, list_groups
from vgp.vertex.run_cleanup import remove

MONTHS = timedelta(days=60)
LATER = timedelta(days=100)
DELETE = "storage.objects.delete"
SPEC = json.loads((Path(__file__).parents[2] / "golden/training.json").read_text())
OLD, YOUNG = "ab" * 32, "cd" * 32

pytestmark = pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")


@pytest.fixture
def put(cloud: Cloud, settings: Settings) -> Callable[..., None]:
    bucket = clients.storage(settings).bucket("test-bucket")

    def upload(name: str, text: str = "x") -> None:
        bucket.blob(name.replace("NUMBER", cloud.project_number)).upload_from_string(text)

    return lambda *names, text="x": [upload(name, text) for name in names]


def left(settings: Settings, cloud: Cloud) -> set[str]:
    blobs = clients.storage(settings).list_blobs("test-bucket")
    return {blob.name.replace(cloud.project_number, "NUMBER") for blob in blobs}


def reasons(planned: plans.Plan, cloud: Cloud) -> dict[str, str]:
    """What stays, with why; of what goes, an empty text."""
    return {
        decision.group.folder.replace(cloud.project_number, "NUMBER"): "" if decision.goes else decision.why
        for decision in planned.decisions
    }


def test_what_a_champion_an_open_run_or_another_project_needs_stays_and_the_rest_goes(
    cloud: Cloud, settings: Settings, put: Any, start: Any, tmp_path: Path
) -> None:
    champion = f"gs://test-bucket/runs/{cloud.project_number}/champion-1/train_77/model"
    base = f"/gcs/test-bucket/runs/{cloud.project_number}/base-1"
    put("runs/NUMBER/champion-1/train_77/model/model.json", "runs/NUMBER/named-1/train_5/model/model.json")
    put("runs/NUMBER/done-1/train_1/model/model.json", "runs/NUMBER/done-1/prepare_2/dataset/manifest.json")
    put("runs/999999999999/theirs-1/train_1/model", "runs/notes.txt", "raw/a.csv", "runs2/a", "templates/t.json")
    put("runs/checkpoints/train-1/run000-step000000009.json", "runs/checkpoints/train-2/lease.json")
    put("runs/NUMBER/base-1/train_9/model/model.json")
    put(f"runs/pins/{OLD}.json", text=json.dumps({"folder": "gs://test-bucket/runs/x"}))
    open_run = start(values={"champion": champion}).rsplit("/", 1)[-1]
    put(f"runs/NUMBER/{open_run}/prepare_3/dataset/manifest.json", f"runs/capacity/{open_run}/train-1/ladder.json")
    put("runs/capacity/done-1/train-1/ladder.json", "runs/capacity/done-1/train-1/heartbeat.json")
    schedule = {
        "display_name": "nightly", "cron": "0 2 * * *", "max_concurrent_run_count": 1,
        "create_pipeline_job_request": {"parent": resource_names.location(settings), "pipeline_job": {
            "pipeline_spec": SPEC,
            "runtime_config": {"gcs_output_directory": "gs://test-bucket/runs",
                               "parameter_values": {"champion": base}},
        }},
    }  # fmt: skip
    clients.schedule_service(settings).create_schedule(parent=resource_names.location(settings), schedule=schedule)
    (tmp_path / "pipelines").mkdir()
    (tmp_path / "pipelines" / "p.py").write_text("def build(target): ...\n")
    (file := tmp_path / "pipelines.toml").write_text(
        '[environments.prod.schedules.n]\npipeline = "p"\ncron = "0 2 * * *"\ntime_zone = "UTC"\n'
        f'parameters = {{champion = "gs://test-bucket/runs/{cloud.project_number}/named-1/train_5/model"}}\n'
    )
    planned = plans.make_plan(load(file), MONTHS, later=LATER)
    assert reasons(planned, cloud) == {
        "NUMBER/champion-1": f"the open run {open_run} needs it",
        f"NUMBER/{open_run}": "the run is open",
        f"capacity/{open_run}": "the run is open",
        "capacity/done-1": "",
        "NUMBER/named-1": "named in pipelines.toml",
        "NUMBER/base-1": "named by the schedule nightly",
        "NUMBER/done-1": "",
        "999999999999/theirs-1": "of another project, number 999999999999",
        "notes.txt": "not written by a run of this product",
        "checkpoints/train-1": "", "checkpoints/train-2": "", f"pins/{OLD}.json": "",
    }  # fmt: skip
    before = left(settings, cloud)
    removed = remove(planned)
    gone = {"runs/NUMBER/done-1/train_1/model/model.json", "runs/NUMBER/done-1/prepare_2/dataset/manifest.json",
            "runs/checkpoints/train-1/run000-step000000009.json", "runs/checkpoints/train-2/lease.json",
            "runs/capacity/done-1/train-1/ladder.json", "runs/capacity/done-1/train-1/heartbeat.json",
            f"runs/pins/{OLD}.json"}  # fmt: skip
    assert "1 folder of capacity" in cleaning_view.summarize(planned) and before - left(settings, cloud) == gone
    assert removed.objects == 6 and removed.changed == 0  # without the leases, one of them its own
    assert plans.make_plan(load(file), MONTHS, later=LATER).going == []


def test_what_is_young_stays_with_what_its_pins_name(cloud: Cloud, settings: Settings, put: Any) -> None:
    put("runs/NUMBER/champion-1/train_7/model/model.json")
    put(
        f"runs/pins/{YOUNG}.json",
        text=json.dumps({"folder": f"gs://test-bucket/runs/{cloud.project_number}/champion-1"}),
    )
    young = plans.make_plan(settings, MONTHS)
    assert set(reasons(young, cloud).values()) == {"younger than 60 days", "named by the pins of a run"}
    assert not young.going and "Nothing goes." in cleaning_view.summarize(young)


def test_a_lease_is_respected_and_one_is_taken_while_checkpoints_go(cloud: Cloud, settings: Settings, put: Any) -> None:
    put(*[f"runs/checkpoints/train-{n}/run000-step000000009.json" for n in (1, 2)])
    put("runs/checkpoints/train-2/run000-step000000009-ab-00000.safetensors")
    planned = plans.make_plan(settings, MONTHS, later=LATER)
    assert len(planned.going) == 2
    put("runs/checkpoints/train-1/lease.json")  # a run began after the plan was shown
    leases: list[Any] = []

    def note(call: Any) -> None:
        blob = clients.storage(settings).bucket("test-bucket").blob("runs/checkpoints/train-2/lease.json")
        leases.append(parse_holder(blob.download_as_bytes()) if blob.exists() else None)

    cloud.on(DELETE, note, before=True)
    removed = remove(planned)
    assert left(settings, cloud) == {
        "runs/checkpoints/train-1/lease.json", "runs/checkpoints/train-1/run000-step000000009.json"
    }  # fmt: skip
    assert (removed.objects, removed.changed) == (2, 1)
    assert leases[0] and leases[0].length_s == 600


def test_what_is_written_anew_meanwhile_stays(cloud: Cloud, settings: Settings, put: Any) -> None:
    put("runs/NUMBER/done-1/a", "runs/NUMBER/done-1/b", "runs/checkpoints/train-1/run000.json")
    planned = plans.make_plan(settings, MONTHS, later=LATER)
    put("runs/NUMBER/done-1/a", "runs/checkpoints/train-1/run001.json")
    assert remove(planned).changed == 2
    assert left(settings, cloud) == {
        "runs/NUMBER/done-1/a", "runs/checkpoints/train-1/run000.json", "runs/checkpoints/train-1/run001.json"
    }  # fmt: skip


def test_a_deletion_that_was_broken_off_is_finished_by_the_next(cloud: Cloud, settings: Settings, put: Any) -> None:
    put(*[f"runs/NUMBER/done-1/{n}" for n in range(5)], *[f"runs/checkpoints/train-1/run00{n}.json" for n in range(3)])
    cloud.fail(DELETE, status(403))
    with pytest.raises(WorkFailed, match="delete from gs://test-bucket/runs"):
        remove(plans.make_plan(settings, MONTHS, later=LATER))
    assert "runs/checkpoints/train-1/lease.json" in left(settings, cloud)  # a half-deleted checkpoint is never read
    assert "a run holds its lease" in reasons(plans.make_plan(settings, MONTHS), cloud).values()
    remove(plans.make_plan(settings, MONTHS, later=LATER))
    assert left(settings, cloud) == set()


def test_only_what_lies_below_runs_can_be_deleted(settings: Settings, cloud: Cloud) -> None:
    root = Root.of(settings)
    assert root.uri == "gs://test-bucket/runs" and root.prefix == "runs/"
    with pytest.raises(WorkFailed, match="left unchanged"):
        root.path("raw/a.csv")
    now = datetime.now(UTC)
    outside = plans.Group("run", "1/a", [Item("raw/a.csv", 1, 1, now)])
    with pytest.raises(WorkFailed, match="left unchanged"):
        remove(plans.Plan(root, now, MONTHS, [plans.Decision(outside, True, "")]))


@pytest.mark.parametrize(
    ("text", "stays"),
    [
        ("gs://test-bucket/runs/1/a", {"1/a"}),
        ("gs://test-bucket/runs/1/a/", {"1/a"}),
        ('"gs://test-bucket/runs/1/a/x#17", ', {"1/a"}),
        ("gs://test-bucket/runs/1/a*/x", {"1/a", "1/ab"}),
        ("gs://test-bucket/*/1/a/x", {"1/a", "1/ab", "2/a"}),
        ("gs://test-bucket/runs/1", {"1/a", "1/ab"}),
        ("gs://test-bucket/runs", set()),
        ("gs://test-bucket-2/runs/1/a", set()),
    ],
)
def test_an_address_keeps_what_it_stands_for(text: str, stays: set[str], settings: Settings) -> None:
    needed = NeededGroups(Root.of(settings))
    needed.add(text, "so")
    groups = [plans.Group("run", folder) for folder in ("1/a", "1/ab", "2/a")]
    assert {group.folder for group in groups if needed.reason(group)} == stays


@pytest.mark.parametrize("text", ["27d", "3w", "0d", "sixty", "60", "-60d"])
def test_an_age_that_the_cache_still_needs_is_refused(text: str) -> None:
    with pytest.raises(RequestError, match="--older-than"):
        plans.parse_age(text)
    assert plans.parse_age("4w") == timedelta(days=2 * EPOCH_DAYS)


def test_on_the_command_line_it_is_shown_first_and_asked(
    cloud: Cloud, settings: Settings, put: Any, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str],
    tmp_path: Path,
) -> None:  # fmt: skip
    put("runs/NUMBER/done-1/a", "runs/NUMBER/done-1/b")
    monkeypatch.setattr(plans, "list_groups", lambda root: (list_groups(root)[0], list_groups(root)[1] + LATER))
    monkeypatch.chdir(tmp_path)

    def clean(*words: str) -> tuple[int, str, str]:
        with pytest.raises(SystemExit) as ended:
            main(["clean", *words])
        return int(ended.value.code or 0), *capsys.readouterr()

    code, out, err = clean()
    assert code == 2 and "repeat with --yes" in err
    assert "goes" in out and "done-1" in out and "done-1" in out and "Goes: 1 run; 2 objects, 2 B." in out
    code, out, _ = clean("--dry-run", "--json")
    assert code == 0 and json.loads(out)["goes"] == {"groups": 1, "objects": 2, "bytes": 2}
    assert json.loads(out)["deleted"] is None and len(left(settings, cloud)) == 2
    code, out, err = clean("--yes", "--json")
    assert code == 0 and json.loads(out)["deleted"] == {"objects": 2, "bytes": 2, "changed": 0}
    assert left(settings, cloud) == set()
    code, out, _ = clean()
    assert code == 0 and "There is nothing in gs://test-bucket/runs." in out


def test_groups_are_recognized_by_their_names() -> None:
    assert group_of("123/run-1/train_1/model/model.json") == ("run", "123/run-1")
    assert group_of("checkpoints/train-ab/lease.json") == ("checkpoints", "checkpoints/train-ab")
    assert group_of(f"pins/{OLD}.json") == ("pins", f"pins/{OLD}.json")
    for odd in ("pins/notes.json", "a/b", "123/file", "checkpoints/file", ""):
        assert group_of(odd)[0] == "other"
