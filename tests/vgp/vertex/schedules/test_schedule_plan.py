"""The plan lists the changes of apply, their schedules and reasons; it changes nothing."""

from typing import Any

import pytest

from tools.emulator.cloud import Cloud, status
from vgp.base.errors import WorkFailed
from vgp.settings import Schedule, Settings
from vgp.vertex.schedules import schedule_list
from vgp.vertex.schedules.declared_schedule import Declaration
from vgp.vertex.schedules.reconcile import apply, prune
from vgp.vertex.schedules.schedule_plan import Action, plan

from .conftest import NIGHTLY, SMALL, foreign, make


def planned(settings: Settings, *wanted: Declaration, **options: Any) -> dict[str, Action]:
    """The plan by name, in settings that declare what is wanted."""
    declared = {each.name: each.declared for each in wanted}
    here = settings.model_copy(update={"schedules": declared})
    return {each.name: each for each in plan(here, wanted, **options)}


def test_each_kind_of_action(cloud: Cloud, settings: Settings) -> None:
    for name in ("same", "changed", "ended", "gone"):
        apply(settings, make(settings, name, end="2040-01-01" if name == "ended" else None))
    foreign(cloud, settings)
    found = planned(
        settings, make(settings, "new"), make(settings, "same"), make(settings, "changed", cron="1 1 * * *"),
        make(settings, "ended"),
    )  # fmt: skip
    assert {name: action.kind for name, action in found.items()} == {
        "new": "create", "same": "nothing", "changed": "update", "ended": "replace", "gone": "undeclared",
        "made in the console": "other",
    }  # fmt: skip
    assert [name for name, action in found.items() if action.pending] == ["new", "changed", "ended"]
    (change,) = found["changed"].changes
    assert (change.before, change.after) == ("CRON_TZ=Europe/Berlin 30 3 * * *", "CRON_TZ=Europe/Berlin 1 1 * * *")
    assert "cannot empty end" in found["ended"].notes[0]


def test_a_plan_changes_nothing(cloud: Cloud, settings: Settings) -> None:
    apply(settings, make(settings))
    cloud.requests.clear()
    planned(settings, make(settings, cron="1 1 * * *"), make(settings, "new"), prune=True)
    assert {call.http_method for call in cloud.requests} == {"GET"}


def test_prune_takes_only_what_is_ours_and_declared_no_longer(cloud: Cloud, settings: Settings) -> None:
    prod = settings.model_copy(update={"environment": "prod"})
    apply(settings, make(settings, "gone"))
    apply(settings, make(settings, "kept"))
    apply(prod, make(prod, "gone"))
    other = foreign(cloud, settings, "gone")
    found = [each for each in plan(_declaring(settings, "kept"), [make(settings, "kept")], prune=True) if each.pending]
    assert [(each.kind, each.name) for each in found] == [("prune", "gone")]
    prune(settings, "gone", [found[0].resource or ""])
    names = sorted(each.display_name for each in cloud.schedules.values())
    assert names == ["gone", "gone (prod)", "kept"]
    assert other.name in cloud.schedules


def _declaring(settings: Settings, name: str) -> Settings:
    return settings.model_copy(update={"schedules": {name: Schedule.model_validate(NIGHTLY)}})


def test_names_narrow_the_plan(cloud: Cloud, settings: Settings) -> None:
    apply(settings, make(settings, "gone"))
    foreign(cloud, settings)
    assert list(planned(settings, make(settings, "new"), only=["new"], prune=True)) == ["new"]
    assert list(planned(settings, make(settings, "new"), only=["new", "gone"], prune=True)) == ["new", "gone"]


def test_the_pipeline_that_runs_is_compared_with_the_one_compiled_now(cloud: Cloud, settings: Settings) -> None:
    apply(settings, make(settings))
    container = {**SMALL["deploymentSpec"]["executors"]["exec-prepare"]["container"], "image": "elsewhere/x:2"}
    spec = {**SMALL, "deploymentSpec": {"executors": {"exec-prepare": {"container": container}}}}
    action = planned(settings, make(settings, spec=spec))["nightly"]
    assert [each.field for each in action.template] == ["prepare: image"]
    assert action.template[0].after == "elsewhere/x:2"
    assert action.specs and action.specs[0] != action.specs[1]
    apply(settings, make(settings, spec=spec))
    assert planned(settings, make(settings, spec=spec))["nightly"].template == ()


def test_a_duplicate_is_in_the_plan(cloud: Cloud, settings: Settings) -> None:
    from vgp.vertex import clients, resource_names

    client = clients.schedule_service(settings)
    for _ in range(2):
        client.create_schedule(parent=resource_names.location(settings), schedule=make(settings).message)
    action = planned(settings, make(settings))["nightly"]
    assert action.pending
    assert len(action.surplus) == 1


def test_a_completed_schedule_is_reported(cloud: Cloud, settings: Settings) -> None:
    apply(settings, make(settings, max_runs=1))
    cloud.clock.advance(2 * 86400)
    same, other = (planned(settings, make(settings, max_runs=runs))["nightly"] for runs in (1, 2))
    assert (same.kind, other.kind) == ("nothing", "replace")
    assert same.notes == ["completed after 1 runs"]


def test_the_json_holds_no_message_of_google(cloud: Cloud, settings: Settings) -> None:
    apply(settings, make(settings))
    row = planned(settings, make(settings, parameters={"epochs": 2.0}))["nightly"].as_json()
    assert row["changes"][0] == {"field": "parameters.epochs", "before": None, "after": 2}
    assert row["schedule"] == schedule_list.existing_schedules(settings)[0].name


def test_a_refusal_is_explained(cloud: Cloud, settings: Settings) -> None:
    cloud.fail("*.schedules.list", status(403, "Permission 'aiplatform.schedules.list' denied"))
    with pytest.raises(WorkFailed, match="read the schedules: not allowed"):
        planned(settings)
